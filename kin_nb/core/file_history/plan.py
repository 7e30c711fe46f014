"""What each path has to become, and whether what is there now may give way to it."""

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
    """`path` as file systems take it. `expected`: what the calls left there; `target`: what it becomes."""

    path: str
    expected: State
    target: State
    broken: bool = False
    """Somebody else changed it between two of the calls: it becomes what it was after that."""


def states(change: FileChange) -> tuple[State, State]:
    """Before and after. Records of before had no modes: a file, then."""
    before_mode = change.before_mode or (FILE if change.before else "")
    after_mode = change.after_mode or (FILE if change.after else "")
    return State(before_mode, change.before), State(after_mode, change.after)


def inverted(changes: Sequence[FileChange]) -> list[FileChange]:
    """The changes that take these back, oldest first."""
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
    """One for each path: back through its changes, newest first, as far as each began where the one before it ended.

    Two calls that ran at once may have seen the same change; and what a folder holds is its files' business.
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
    """A name in place of `name` that no file has: undo leaves it alone, and says why."""
    return f"{name}/"


def why_forbidden(path: str) -> str:
    """Why undo writes nothing there, whatever a record says; "" when it may."""
    if path.endswith("/"):
        return "its name is not whole in the record, and which file it was is not known here"
    parts = path.split("/")
    if not path or not is_file_name(path) or ".." in parts or "." in parts or "" in parts[1:]:
        return "that is not the path of a file in the workspace"
    if any(_folded(part) == ".git" for part in parts):
        return "git's own files are left alone"
    return ""


def same_on_some_disks(items: Iterable[Wanted]) -> set[str]:
    """Paths that differ from others only in case or in how an accent is encoded: for some file systems they are one."""
    names = [item.path for item in items]
    counts = Counter(_folded(name) for name in names)
    return {name for name in names if counts[_folded(name)] > 1}


def why_kept(item: Wanted, now: ObservedFile) -> str | None:
    """Why it stays as it is; "" when there is nothing to do; None when it may be changed.

    A folder that is there counts as whatever was expected of it: only an empty one is ever removed. Where nothing is, an
    empty one may always come back: an undo that was cut off may have made the room.
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
    """Names that a file system may take for one: letters' case, accents, and marks that HFS+ does not see."""
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFC", visible).casefold()
