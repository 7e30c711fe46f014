"""The path that a tool is given: where it leads, and which names may be meant when it leads nowhere."""

from __future__ import annotations

import difflib
import os
from pathlib import Path, PurePath
from typing import Annotated, TypeAlias

from pydantic import AliasChoices, Field

from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace, error_text

FilePath: TypeAlias = Annotated[
    str,
    Field(validation_alias=AliasChoices("path", "file_path"), description="File, relative to the workspace"),
]
"""The argument of every tool for one file: told as `path`, taken as `file_path` too, as other agents call it."""
_SHOWN = 8
_ALIKE = 0.5
_MOST = 2_000
"""Names of a folder that are compared."""


def resolve_existing(workspace: Workspace, path: str) -> tuple[Path, str]:
    """Where `path` leads, and its name for display. Raises ToolError, with the nearest names, when nothing is there."""
    resolved = workspace.resolve_for_use(path)
    name = workspace.relative(resolved)
    if not os.path.lexists(resolved):
        missing = f"{name}: {error_text(FileNotFoundError())}."
        raise ToolError(" ".join(filter(None, (missing, _near(workspace, resolved)))))
    return resolved, name


def printable(name: str) -> str:
    """A name on one line: control characters and bytes that are no UTF-8 as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in name)


def _near(workspace: Workspace, path: Path) -> str:
    """What is in the nearest folder that exists, the likest names first; "" outside the workspace and where secrets are:
    whoever allowed one path there has not allowed a look around.
    """
    wanted, folder = path.name, path.parent
    while not folder.is_dir() and workspace.contains(folder.parent):
        wanted, folder = folder.name, folder.parent
    if not workspace.contains(folder) or workspace.is_sensitive(folder):
        return ""
    try:
        with os.scandir(folder) as scan:
            found = {entry.name: printable(entry.name) + "/" * entry.is_dir() for entry in scan}
    except OSError:
        return ""
    names = sorted(name for name in found if wanted.startswith(".") or not name.startswith("."))[:_MOST]
    listed = [found[name] for name in _likest(wanted, names) or names[:_SHOWN]]
    if not listed:
        return ""
    rest = len(names) - len(listed)
    where = "the workspace" if folder == workspace.root else workspace.relative(folder)
    return f"In {where}: {', '.join(listed)}{f', … {rest:,} more' if rest else ''}."


def _likest(wanted: str, names: list[str]) -> list[str]:
    """Without their endings, which make all files of one kind alike."""
    by_stem: dict[str, list[str]] = {}
    for name in names:
        by_stem.setdefault(PurePath(name).stem.casefold(), []).append(name)
    stems = difflib.get_close_matches(PurePath(wanted).stem.casefold(), by_stem, n=_SHOWN, cutoff=_ALIKE)
    return [name for stem in stems for name in by_stem[stem]][:_SHOWN]
