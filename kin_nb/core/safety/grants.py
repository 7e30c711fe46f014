"""Grants for the session, the scopes that a request offers, and the rules that "always" saves."""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.safety.decision import ApprovalDecision, Grant, ToolRequest
from kin_nb.core.safety.shell.command_prefix import command_prefix
from kin_nb.core.workspace import Workspace

EDITS = "edits"
"""The tool name in grants for edits: they cover every tool that edits the file."""

ANY_FILE = "workspace"
BASH = "bash"
PREFIX, EXACT, FILE, SITE, TOOL = "prefix:", "exact:", "file:", "site:", "*"
"""Prefixes of a grant's pattern. After the prefix: words of a command, a whole command, a path, a site, the fingerprint of
a definition."""
FETCH = "web_fetch"

_WRITERS = ("write_file", "edit_file")
_LONGEST = 200
"""Most characters of a command in a list of grants."""


@dataclass
class Grants:
    """The session's grants. They end with the kernel; a new conversation keeps them."""

    granted: list[Grant] = field(default_factory=list)

    def add(self, grant: Grant) -> None:
        if grant not in self.granted:
            self.granted.append(grant)

    def covering(self, call: ToolRequest, workspace: Workspace | None = None) -> Grant | None:
        """Return the grant that covers this call: one of those that the call would offer."""
        offered = scopes(call, workspace)
        return next((grant for grant in self.granted if grant in offered), None)

    def describe(self) -> list[str]:
        """One line for each grant, in the order of approval."""
        return [_described(grant) for grant in self.granted]

    def forget(self, index: int | None = None) -> list[str]:
        """Remove the grant at `index` of `describe`, or all; return their descriptions. Raises IndexError."""
        if index is not None and not 0 <= index < len(self.granted):
            raise IndexError(index)
        gone = self.granted[:] if index is None else [self.granted[index]]
        self.granted = [grant for grant in self.granted if grant not in gone]
        return [_described(grant) for grant in gone]


def scopes(call: ToolRequest, workspace: Workspace | None = None) -> tuple[Grant, ...]:
    """Return the grants that a call offers, first the one for "for this session".

    Labels show paths relative to `workspace`; links in a command are followed from there. A command that is not plain words (pipes,
    substitutions) offers only itself, verbatim: a prefix would cover commands that the user has not read. A web request offers its
    site only, because an address can carry data to any other site.
    """
    if call.command is not None and (call.accesses.everything or not call.accesses.writes):
        return _of_a_command(call.tool_name, call.command, workspace, read_only=call.accesses.only_reads)
    if call.accesses.writes and not (call.accesses.everything or call.accesses.network):
        return (*_of_a_file(call, workspace), Grant(EDITS, ANY_FILE, "edits of files in the workspace"))
    if call.accesses.network and call.accesses.site:
        return (_of_a_site(call),)
    # a rule of the configuration names a server's tool, and would also allow a changed definition
    lasts = not call.fingerprint and not call.accesses.in_process
    label = f"every call of {call.tool_name}"
    return (Grant(call.tool_name, f"{TOOL}{call.fingerprint}", label, may_last=lasts),)


def remember(
    answer: ApprovalDecision, offered: tuple[Grant, ...], grants: Grants, save: Callable[[Grant], None]
) -> str:
    """Store an approval "for this session" in `grants`, and one for "always" through `save` as well.

    `save`: writes a rule (`save_rule`), raises ConfigError. `offered`: the scopes of the request; empty when a sensitive path or
    one outside the workspace asks. Edited arguments are approved once. Only the user's own answer can be kept for "always".
    Returns a warning when something could not be stored, else "". The call runs in both cases.
    """
    if not answer.approved or answer.scope == "once" or answer.edited_args is not None or not offered:
        return ""
    if not 0 <= answer.grant < len(offered):
        return f"Approved once only: the request has no scope number {answer.grant}."
    grant = offered[answer.grant]
    grants.add(grant)
    if answer.scope == "session" or answer.by != "person":
        return ""
    if not grant.may_last:
        return f"Approved for this session only: no rule of config.toml can express {grant.label}."
    try:
        save(grant)
    except ConfigError as error:
        return f"Approved for this session only: {error}"
    return ""


def _described(grant: Grant) -> str:
    if not grant.pattern.startswith(EXACT):
        return grant.label
    command = " ".join(grant.pattern.removeprefix(EXACT)[:_LONGEST].split())
    return f"exactly the command `{''.join(c for c in command if c.isprintable())}`"


def _of_a_command(tool_name: str, command: str, workspace: Workspace | None, *, read_only: bool) -> tuple[Grant, ...]:
    exact = Grant(tool_name, f"{EXACT}{command}", "exactly this command")
    prefix = command_prefix(command, read_only=read_only, root=workspace.root if workspace else None)
    if not prefix:
        return (exact,)
    lasts = tool_name == BASH  # rules of other tools do not match commands
    return (Grant(tool_name, f"{PREFIX}{prefix}", f"commands that start with `{prefix}`", may_last=lasts), exact)


def _of_a_site(call: ToolRequest) -> Grant:
    site = call.accesses.site
    label = f"{call.tool_name} from {site.removeprefix('https://')}"
    return Grant(call.tool_name, f"{SITE}{site}", label, may_last=call.tool_name == FETCH)


def _of_a_file(call: ToolRequest, workspace: Workspace | None) -> tuple[Grant, ...]:
    if len(call.write_paths) != 1:
        return ()
    path = call.write_paths[0]
    shown = workspace.relative(path) if workspace is not None else path.name
    return (Grant(EDITS, f"{FILE}{path}", f"edits of {shown}", may_last=True),)


def save_rule(grant: Grant, tool_name: str) -> None:
    """Add the rule for `grant`, approved for a call of `tool_name`, to config.toml. Comments and other rules stay.

    Raises ConfigError when no rule can express the grant, or the file cannot be changed. May wait seconds for another writer.
    """
    from kin_nb.core.config.kin_config import save_updates  # noqa: PLC0415  (only when something is saved)

    save_updates({"tools": _rule(grant, tool_name)})


def _rule(grant: Grant, tool_name: str) -> dict[str, Any]:
    from kin_nb.core.config.kin_config import Added  # noqa: PLC0415  (as above)

    if grant.pattern.startswith(PREFIX):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(PREFIX)])}}
    if grant.pattern.startswith(FILE):
        # the absolute path, because config.toml applies to every workspace
        path = glob.escape(grant.pattern.removeprefix(FILE))
        return {name: {"allowlist": Added([path])} for name in dict.fromkeys((*_WRITERS, tool_name))}
    if grant.pattern.startswith(SITE):
        return {grant.tool_name: {"allowlist": Added([grant.pattern.removeprefix(SITE)])}}
    if grant.pattern == TOOL:
        return {grant.tool_name: {"permission": "always"}}
    raise ConfigError(f"{grant.label} cannot be a rule of config.toml.")
