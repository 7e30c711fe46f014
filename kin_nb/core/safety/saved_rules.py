"""What a person approved "always": the rule of the user's config.toml that says the same."""

from __future__ import annotations

import glob
from typing import Any

from kin_nb.core.safety.decision import Grant
from kin_nb.core.safety.grants import FILE, PREFIX, SITE, TOOL

_WRITERS = ("write_file", "edit_file")


def save_rule(grant: Grant, tool_name: str) -> None:
    """Add the rule for `grant`, which a call of `tool_name` was approved with. The file keeps its comments and rules.

    Raises ConfigError: no rule says this grant, or the file cannot be changed. May wait some seconds for another writer.
    """
    from kin_nb.core.config.kin_config import save_updates  # noqa: PLC0415  (only when something is saved)

    save_updates({"tools": _rule(grant, tool_name)})


def _rule(grant: Grant, tool_name: str) -> dict[str, Any]:
    from kin_nb.core.config.errors import ConfigError  # noqa: PLC0415  (as above)
    from kin_nb.core.config.kin_config import Added  # noqa: PLC0415

    if grant.pattern.startswith(PREFIX):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(PREFIX)])}}
    if grant.pattern.startswith(FILE):
        # the whole path: config.toml holds for every workspace
        path = glob.escape(grant.pattern.removeprefix(FILE))
        return {name: {"allowlist": Added([path])} for name in dict.fromkeys((*_WRITERS, tool_name))}
    if grant.pattern.startswith(SITE):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(SITE)])}}
    if grant.pattern == TOOL:
        return {grant.tool_name: {"permission": "always"}}
    raise ConfigError(f"no rule of config.toml says {grant.label}.")
