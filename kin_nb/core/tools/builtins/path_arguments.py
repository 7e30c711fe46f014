"""Path arguments of tools: resolve them, and suggest similar names for a path that does not exist."""

from __future__ import annotations

import difflib
import os
from pathlib import Path, PurePath
from typing import Annotated, TypeAlias

from pydantic import AliasChoices, Field

from kin_nb.core.text import listed
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace, error_text

FilePath: TypeAlias = Annotated[
    str,
    Field(validation_alias=AliasChoices("path", "file_path"), description="File, relative to the workspace"),
]
"""The argument of every tool for one file. It also accepts `file_path`, its name in other agents."""
_SUGGESTIONS = 8
_MIN_SIMILARITY = 0.5
_COMPARED = 2_000
"""Names of a folder that are compared."""


def resolve_existing(workspace: Workspace, path: str) -> tuple[Path, str]:
    """The resolved path and its display name. Raises ToolError, with similar names, if it does not exist."""
    resolved = workspace.resolve_for_use(path)
    name = workspace.relative(resolved)
    if not os.path.lexists(resolved):
        missing = f"{name}: {error_text(FileNotFoundError())}."
        raise ToolError("\n".join(filter(None, (missing, _suggestions(workspace, resolved)))))
    return resolved, name


def printable(name: str) -> str:
    """A name on one line: control characters and bytes that are not UTF-8 are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in name)


def _suggestions(workspace: Workspace, path: Path) -> str:
    """The names in the nearest existing folder, the most similar ones if there are any.

    "" outside the workspace and in sensitive folders: an approval for one path there does not cover a listing.
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
    names = sorted(name for name in found if wanted.startswith(".") or not name.startswith("."))[:_COMPARED]
    if not names:
        return ""
    similar = _most_similar(wanted, names)
    shown = [*similar, *(name for name in names if name not in similar)]
    where = "the workspace" if folder == workspace.root else workspace.relative(folder)
    return f"In {where}: {listed([found[name] for name in shown], len(similar) or _SUGGESTIONS)}."


def _most_similar(wanted: str, names: list[str]) -> list[str]:
    """Compare without file extensions, which make all files of one kind similar."""
    by_stem: dict[str, list[str]] = {}
    for name in names:
        by_stem.setdefault(PurePath(name).stem.casefold(), []).append(name)
    stems = difflib.get_close_matches(PurePath(wanted).stem.casefold(), by_stem, n=_SUGGESTIONS, cutoff=_MIN_SIMILARITY)
    return [name for stem in stems for name in by_stem[stem]][:_SUGGESTIONS]
