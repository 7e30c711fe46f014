"""What of a workspace is not worth listing: what git ignores there, and what no one wants to see.

Only the workspace's own files are read (`.gitignore` in any folder, `.git/info/exclude`), never the person's or the
machine's: what is listed must not depend on the machine.
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
"""Ignored whatever `.gitignore` says: `!*/` means the project's own folders, not these."""
_BY_DEFAULT = "venv\ndist/\nbuild/\n*.egg-info\n*.pyc\n*.pyo\n"
"""Ignored unless a `.gitignore` takes them back (`!build/`): a project may mean its own `build` folder."""
_LARGEST = 100_000
_UNTYPED = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Names with control characters, or that are no text at all: no one can type them, and they could forge a line."""


class Entry(NamedTuple):
    """A file or folder. `path` is relative to the root, with `/`. A symbolic link is a file, wherever it leads."""

    path: str
    is_dir: bool


class IgnoreRules:
    """The rules of one tree. A folder's `.gitignore` is read when something in that folder is first asked about.

    A broken line, and a file that can't be read or is over 100,000 bytes, is passed over.
    """

    def __init__(self, root: Path) -> None:
        self._root = real_path(root)
        self._folders: dict[str, tuple[tuple[int, Patterns], ...] | None] = {}

    def is_ignored(self, relative: str, *, is_dir: bool) -> bool:
        """Whether `relative` (to the root, with `/`) or a folder above it is ignored. The root itself never is."""
        path = relative.strip("/")
        if not path:
            return False
        levels = self._entered(path.rpartition("/")[0])
        return levels is None or _is_ignored(f"{path}/" if is_dir else path, levels)

    def _entered(self, folder: str) -> tuple[tuple[int, Patterns], ...] | None:
        """The rules that hold in a folder, weakest first, each with where its paths start; None in an ignored one."""
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
    """Where the rules for a folder stand (both relative to the root), weakest first."""
    return (f"{folder}/.gitignore",) if folder else (".git/info/exclude", ".gitignore")


def _is_ignored(path: str, levels: tuple[tuple[int, Patterns], ...]) -> bool:
    """Looks at `path` alone; a folder's ends in `/`."""
    if path.rstrip("/").rpartition("/")[2] in _ALWAYS:
        return True
    for start, patterns in reversed(levels):
        verdict = patterns.decide(path, start)
        if verdict is not None:
            return verdict
    return False


def list_folder(root: Path, folder: str, rules: IgnoreRules) -> list[Entry]:
    """What is in a folder (relative to the root, "" for the root) and not ignored, by name. A gone one is empty."""
    prefix = f"{folder}/" if folder else ""
    try:
        with os.scandir(root / folder) as scan:
            items = [(item.name, item.is_dir(follow_symlinks=False)) for item in scan if not _UNTYPED.search(item.name)]
    except OSError:
        return []
    entries = (Entry(prefix + name, is_dir) for name, is_dir in items)
    return sorted(entry for entry in entries if not rules.is_ignored(entry.path, is_dir=entry.is_dir))


def walk(root: Path, rules: IgnoreRules | None = None, *, max_depth: int | None = None) -> Iterator[Entry]:
    """Every entry below `root` that is not ignored: a folder, then at once what is in it; names in order.

    `max_depth` 1 gives the root's own entries. Symbolic links are not followed; what can't be read is passed over.
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
