"""The variables that a line runs with which is proven to only read: few, and none that changes what its words mean.

The proof holds for the programs as they are by themselves; so what tells bash, git, grep, Perl or Python to load or run
something else is left out, whoever set it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

HIDING = Path(__file__).with_name("hiding.gitattributes")
"""For git: files that may hold secrets are binary, so that no diff, no log and no search shows what is in them."""

_KEPT = re.compile(
    r"""(?x)
    PATH | HOME | USER | LOGNAME | SHELL | LANG | LANGUAGE | LC_\w+ | TZ | TERM | TMPDIR | COLUMNS | LINES | NO_COLOR
    | PAGER | GIT_PAGER | GIT_TERMINAL_PROMPT | DEBIAN_FRONTEND | PYTHONUNBUFFERED | PYTHONIOENCODING | PYTHONUTF8
    | XDG_(?:CONFIG|CACHE|DATA|STATE)_HOME | VIRTUAL_ENV | CONDA_PREFIX | CONDA_DEFAULT_ENV | JAVA_HOME | NIX_\w+
    | GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)
    """
)
_LOADED = re.compile(
    r"(?:BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|(?:LD|DYLD)_.*|GCONV_PATH|LOCPATH)", re.DOTALL
)
"""What every shell or program runs or loads at its start: no line is proven with it, whoever set it."""
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
_GIT = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "safe.bareRepository": "explicit",
    "diff.autoRefreshIndex": "false",  # `git diff` would write the index, whatever GIT_OPTIONAL_LOCKS says
    "diff.submodule": "short",  # else it runs what a submodule's settings name
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "core.attributesFile": str(HIDING),
}
"""Besides the proof, should it miss a repository's settings."""


def for_readers(environment: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Of `environment` what is kept, with what makes readers only read. `more`: what the person's settings add, all but _LOADED."""
    more = {name: value for name, value in more.items() if not _LOADED.fullmatch(name)}
    kept = {name: value for name, value in environment.items() if _KEPT.fullmatch(name)}
    return _sorting_by_code_point({**kept, **more}) | _SET | _git_settings(environment.get("GIT_CONFIG_COUNT") or "0")


def _sorting_by_code_point(environment: dict[str, str]) -> dict[str, str]:
    """Which file a glob names first is part of the proof, and bash sorts them by the locale."""
    every = environment.pop("LC_ALL", "")
    if every:
        environment["LC_CTYPE"] = every
    return {**environment, "LC_COLLATE": "C"}


def _git_settings(count: str) -> dict[str, str]:
    """Settings of git's, after the `count` that the environment has; none when that is no number, which git refuses."""
    if not count.isascii() or not count.isdigit():
        return {}
    settings: dict[str, str] = {"GIT_CONFIG_COUNT": str(int(count) + len(_GIT))}
    for index, (key, value) in enumerate(_GIT.items(), int(count)):
        settings |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return settings
