"""Every program that is known, by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.place import WorkingDir
from kin_nb.core.safety.shell.program import CommandSpec
from kin_nb.core.safety.shell.programs.files import FILES
from kin_nb.core.safety.shell.programs.find import FIND
from kin_nb.core.safety.shell.programs.git import GIT
from kin_nb.core.safety.shell.programs.scripts import SCRIPTS
from kin_nb.core.safety.shell.programs.system import BUILTINS, SYSTEM
from kin_nb.core.safety.shell.programs.text import TEXT
from kin_nb.core.safety.shell.programs.tools import TOOLS
from kin_nb.core.safety.shell.syntax import shown_word

_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_RUN = {"egrep": ("grep",), "fgrep": ("grep",)}
"""Programs that run another one, which the shell finds for them."""
_SHIMS = frozenset(("shims", ".volta"))
"""Folders of version managers: what lies there runs whatever the current folder names."""


def known_program(name: str, place: WorkingDir) -> CommandSpec:
    """Raises UnprovenError when there is none of that name, or when what would run is not the machine's own program."""
    if name in BUILTINS:
        return BUILTINS[name]
    plain = next((name.removeprefix(folder) for folder in _SYSTEM_FOLDERS if name.startswith(folder)), name)
    program = _programs().get(plain)
    if program is None or (plain == "git" != name):  # of that one more is known than its name
        raise UnprovenError(f"{shown_word(name)} is not a command known to be harmless")
    for each in (name, *_RUN.get(plain, ())):
        check_origin(each, place)
    return program


def check_origin(name: str, place: WorkingDir) -> None:
    """Raises UnprovenError when the shell would find the program in the workspace, or a version manager in its stead."""
    found = _found(name, place)
    if found is None:
        return
    if found.is_relative_to(place.root) or found.resolve().is_relative_to(place.root):
        raise UnprovenError(f"{shown_word(name)} would run {found}, a program of the workspace")
    if _SHIMS & set(found.parts):
        raise UnprovenError(f"{shown_word(name)} runs {found}, which runs what the folder's own settings name")


@cache
def _programs() -> Mapping[str, CommandSpec]:
    return FILES | TEXT | SYSTEM | FIND | SCRIPTS | TOOLS | GIT


def _found(name: str, place: WorkingDir) -> Path | None:
    """Where the shell finds the program; None when it is nowhere, and running it would do nothing."""
    for folder in place.environment.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("~"):  # which bash takes for a home folder
            raise UnprovenError(f"PATH names {shown_word(folder)}, where {shown_word(name)} may be another program")
        candidate = place.cwd / folder / name  # an entry that is empty or relative counts from the current folder
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None
