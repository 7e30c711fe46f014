"""The files and folders of a workspace that are not listed: those that git ignores, and folders such as `node_modules`.

Only the workspace's own rules are read (`.gitignore` in any folder, `.git/info/exclude`). The user's and the machine's
rules are not read, so that the same files are listed on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kin_nb.core.gitignore import Patterns
from kin_nb.core.paths import real_path
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import read_bytes

_ALWAYS = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "__pycache__", ".ipynb_checkpoints", ".DS_Store"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".eggs"),
    )
)
"""Always ignored, also after `!*/` in a `.gitignore`, which means the project's own folders."""
_BY_DEFAULT = "venv\ndist/\nbuild/\n*.egg-info\n*.pyc\n*.pyo\n"
"""Ignored unless a `.gitignore` includes them again (`!build/`), because a project may have its own `build` folder."""
_LARGEST = 100_000
_UNTYPED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Matches names with control characters or invalid text. They cannot be typed, and could fake a line in a listing."""


class Entry(NamedTuple):
    """A file or folder. `path` is relative to the root, with `/`. Symbolic links count as files."""

    path: str
    is_dir: bool


class IgnoreRules:
    """The rules of one tree. The `.gitignore` of a folder is read when a path in that folder is first checked.

    Invalid lines, and files that cannot be read or have over 100,000 bytes, are ignored.
    """

    def __init__(self, root: Path) -> None:
        self._root = real_path(root)
        self._folders: dict[str, tuple[tuple[int, Patterns], ...] | None] = {}

    def is_ignored(self, relative: str, *, is_dir: bool) -> bool:
        """Whether `relative` (a path from the root, with `/`) or a folder above it is ignored. The root never is."""
        path = relative.strip("/")
        if not path:
            return False
        levels = self._entered(path.rpartition("/")[0])
        return levels is None or _is_ignored(f"{path}/" if is_dir else path, levels)

    def _entered(self, folder: str) -> tuple[tuple[int, Patterns], ...] | None:
        """Return the rules of a folder, weakest first, each with the start of its relative paths; None if it is ignored."""
        if not self._folders:
            self._folders[""] = ((0, Patterns(_BY_DEFAULT)), *self._read(""))
        missing = []
        while folder not in self._folders:
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        levels = self._folders[folder]
        for folder in reversed(missing):
            if levels is not None:
                levels = None if _is_ignored(f"{folder}/", levels) else (*levels, *self._read(folder))
            self._folders[folder] = levels
        return levels

    def _read(self, folder: str) -> Iterator[tuple[int, Patterns]]:
        for path in rule_files(folder):
            try:
                content = read_bytes(self._root / path, _LARGEST)
            except ToolError:
                continue
            yield (len(folder) + 1 if folder else 0), Patterns(content.decode("utf-8-sig", errors="replace"))


def rule_files(folder: str) -> tuple[str, ...]:
    """Return the files with the rules of a folder, weakest first. All paths are relative to the root."""
    return (f"{folder}/.gitignore",) if folder else (".git/info/exclude", ".gitignore")


def _is_ignored(path: str, levels: tuple[tuple[int, Patterns], ...]) -> bool:
    """Whether `path` is ignored, without a check of the folders above it. The path of a folder ends in `/`."""
    if path.rstrip("/").rpartition("/")[2] in _ALWAYS:
        return True
    for start, patterns in reversed(levels):
        verdict = patterns.decide(path, start)
        if verdict is not None:
            return verdict
    return False


def list_folder(root: Path, folder: str, rules: IgnoreRules) -> list[Entry]:
    """List what is not ignored in a folder ("" for the root), sorted by name. Empty if the folder does not exist."""
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(root / folder) as scan:
            items = [(item.name, item.is_dir(follow_symlinks=False)) for item in scan if not _UNTYPED.search(item.name)]
    except OSError:
        return []
    entries = (Entry(prefix + name, is_dir) for name, is_dir in items)
    return sorted(entry for entry in entries if not rules.is_ignored(entry.path, is_dir=entry.is_dir))


def walk(root: Path, rules: IgnoreRules | None = None, *, max_depth: int | None = None) -> Iterator[Entry]:
    """Yield every entry below `root` that is not ignored, sorted by name; the contents of a folder follow it directly.

    `max_depth` 1 yields only the root's own entries. Symbolic links are not followed; unreadable folders count as empty.
    """
    rules = rules or IgnoreRules(root)
    levels = [iter(list_folder(root, "", rules))]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            continue
        yield entry
        if entry.is_dir and (max_depth is None or len(levels) < max_depth):
            levels.append(iter(list_folder(root, entry.path, rules)))
