"""The workspace's files as a short indented list: folders with `/` first, then files, then how many more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kin_nb.core.autocompletion.file_indexer.ignore_rules import Entry, IgnoreRules, list_folder
from kin_nb.core.config import ProjectContextConfig
from kin_nb.core.system_prompt.one_line import one_line

EMPTY = "Files: none."
NOT_LISTED = "Files: not listed here; use list_dir."
_NAME = 60


def file_tree(root: Path, limits: ProjectContextConfig, room: int) -> str:
    """At most `room` characters and `limits.max_files` lines. Upper levels are filled first; what git ignores is left out.

    NOT_LISTED, and nothing of the tree, without room and after `limits.timeout_seconds`: half a tree would be another one
    each time.
    """
    deadline = time.monotonic() + limits.timeout_seconds
    tree = _Tree(limits.max_dirs_per_level)
    rules = IgnoreRules(root)
    title = "Files (ignored ones are left out):"

    def fits(cap: int) -> bool:
        lines = list(tree.lines(extra_cap=cap))
        return len(lines) <= limits.max_files and sum(len(line) + 1 for line in lines) <= room - len(title)

    for _ in range(limits.max_depth):
        for folder in tree.unopened():
            if time.monotonic() >= deadline:
                return NOT_LISTED
            tree.open(folder, list_folder(root, folder, rules))
        tree.caps.append(_largest(fits, limits.max_files))
    lines = list(tree.lines())
    if lines:
        return "\n".join([title, *lines])
    return NOT_LISTED if tree.folders.get("", True) else EMPTY


@dataclass
class _Tree:
    """`folders`: what is in each opened folder, by its path; "" is the root. `caps`: most entries in one folder, by level."""

    most_folders: int
    folders: dict[str, list[Entry]] = field(default_factory=dict)
    caps: list[int] = field(default_factory=list)

    def open(self, folder: str, entries: list[Entry]) -> None:
        self.folders[folder] = sorted(entries, key=lambda entry: (not entry.is_dir, entry.path))

    def unopened(self) -> list[str]:
        """The folders that are shown and may be looked into next; first of all the root."""
        if not self.folders:
            return [""]
        shown = [entry for folder in self.folders for entry in self._shown(folder, self._cap(folder, 0))]
        return [entry.path for entry in shown if entry.is_dir and entry.path not in self.folders]

    def lines(self, folder: str = "", depth: int = 0, *, extra_cap: int = 0) -> Iterator[str]:
        """`extra_cap` holds for the level that has no cap yet."""
        cap = self._cap(folder, extra_cap)
        if folder not in self.folders or cap == 0:
            return
        indent = "  " * depth
        shown = self._shown(folder, cap)
        for entry in shown:
            name = one_line(entry.path.rpartition("/")[2], _NAME)
            yield f"{indent}{name}{'/' if entry.is_dir else ''}"
            if entry.is_dir:
                yield from self.lines(entry.path, depth + 1, extra_cap=extra_cap)
        if len(shown) < len(self.folders[folder]):
            yield f"{indent}… {len(self.folders[folder]) - len(shown)} more"

    def _shown(self, folder: str, cap: int) -> list[Entry]:
        entries = self.folders[folder]
        folders = [entry for entry in entries if entry.is_dir][: self.most_folders]
        return [*folders, *(entry for entry in entries if not entry.is_dir)][:cap]

    def _cap(self, folder: str, otherwise: int) -> int:
        level = folder.count("/") + 1 if folder else 0
        return self.caps[level] if level < len(self.caps) else otherwise


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits, by halving; 0 when none does."""
    fitting, too_many = 0, max(0, most) + 1
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(middle):
            fitting = middle
        else:
            too_many = middle
    return fitting
