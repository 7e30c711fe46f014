"""Plan an undo: the state that each path gets, and whether its current state may be replaced."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kin_nb.core.file_history.file_state import (
    FILE,
    FOLDER,
    NOTHING,
    ObservedFile,
    State,
    Unknown,
    file_name,
    is_file_name,
)
from kin_nb.core.records import FileChange

CHANGED_SINCE = "you changed it since"
_UNKNOWN = {
    Unknown.LARGE: "what is there now is too large to be kept",
    Unknown.SPECIAL: "what is there now is not a regular file",
    Unknown.UNREADABLE: "what is there now cannot be read",
}


@dataclass(frozen=True)
class Wanted:
    """The plan for one file name `path`. `expected`: the state that the calls left; `target`: the state to restore."""

    path: str
    expected: State
    target: State
    broken: bool = False
    """Whether the file was also changed between two of the calls. `target` is then the state after that change."""


def states(change: FileChange) -> tuple[State, State]:
    """Return the states before and after a change. Old records had no modes: they mean a regular file."""
    before_mode = change.before_mode or (FILE if change.before else "")
    after_mode = change.after_mode or (FILE if change.after else "")
    return State(before_mode, change.before), State(after_mode, change.after)


def inverted(changes: Sequence[FileChange]) -> list[FileChange]:
    """Return the changes that revert these, oldest first."""
    return [
        change.model_copy(
            update={
                "before": change.after,
                "after": change.before,
                "before_mode": change.after_mode,
                "after_mode": change.before_mode,
            }
        )
        for change in reversed(changes)
    ]


def wanted(changes: Iterable[FileChange]) -> list[Wanted]:
    """Return one plan for each path: follow its changes back as long as each began with the state that the previous left.

    A repeated change is accepted, because two parallel calls may both have seen it. A folder and nothing count as equal,
    because the files in a folder have their own changes.
    """
    chains: dict[str, list[tuple[State, State]]] = {}
    for change in changes:
        chains.setdefault(file_name(change.path), []).append(states(change))
    found = []
    for path, chain in sorted(chains.items()):
        target, expected = chain[-1]
        broken = False
        for before, after in reversed(chain[:-1]):
            broken = target not in {after, before} and not {after, target} <= {FOLDER, NOTHING}
            if broken:
                break
            target = before
        found.append(Wanted(path, expected, target, broken))
    return found


def unknown_file(name: str) -> str:
    """Return an impossible name in place of `name`, so that undo leaves the file alone and says why."""
    return f"{name}/"


def why_forbidden(path: str) -> str:
    """Return why undo never writes to `path`, or "" if it may."""
    if path.endswith("/"):
        return "its name is not whole in the record, and which file it was is not known here"
    parts = path.split("/")
    if not path or not is_file_name(path) or ".." in parts or "." in parts or "" in parts[1:]:
        return "that is not the path of a file in the workspace"
    if any(_folded(part) == ".git" for part in parts):
        return "git's own files are left alone"
    return ""


def same_on_some_disks(items: Iterable[Wanted]) -> set[str]:
    """Return the paths that some file systems treat as equal: they differ only in case or in the encoding of accents."""
    names = [item.path for item in items]
    counts = Counter(_folded(name) for name in names)
    return {name for name in names if counts[_folded(name)] > 1}


def why_kept(item: Wanted, now: ObservedFile) -> str | None:
    """Return why the path is left as it is, "" if it already has its target state, or None if it may be changed.

    An existing folder is accepted as the expected state, because only empty folders are removed. When nothing exists
    there, a folder may always be created: an interrupted undo may have removed it.
    """
    if now.state is None:
        return _UNKNOWN.get(now.unknown or Unknown.UNREADABLE, CHANGED_SINCE)
    if now.state == FOLDER:
        return None if item.target == FOLDER or item.expected in {FOLDER, NOTHING} else CHANGED_SINCE
    if now.state == item.target:
        return ""
    if now.state == item.expected or (now.state == NOTHING and FOLDER in {item.expected, item.target}):
        return None
    return "you deleted it since" if now.state == NOTHING else CHANGED_SINCE


def _folded(name: str) -> str:
    """Normalize a name: without case, encoding of accents, and the invisible characters that HFS+ ignores."""
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", visible).casefold()
