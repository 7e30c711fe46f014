"""The undo that takes turns back, made from their records alone: nobody has the files' contents."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from kin_nb.core.session.file_history.names import file_name
from kin_nb.core.session.file_history.patches import patched
from kin_nb.core.session.file_history.plan import wanted
from kin_nb.core.session.records import FileChange, Place, TurnRecord, UndoRecord

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? ")
_MOST_LINES = 262_144
"""A recorded text has at most as many bytes."""
_CONTEXT = 3
_UNKNOWN = "\0"


def take_back(turns: Sequence[TurnRecord], at: int) -> UndoRecord:
    """As `Agent.undo` records it, of the last `turns` of a session that has `at`; every file as it was before them."""
    calls = [call for turn in turns for call in turn.calls]
    return UndoRecord(
        at=at,
        turns=tuple(turn.turn for turn in turns),
        to=Place(turn=turns[0].turn),
        files=tuple(reversed_changes([change for call in calls for change in call.files])),
        uncovered=tuple(dict.fromkeys(call.uncovered for call in calls if call.uncovered)),
    )


def reversed_changes(changes: Sequence[FileChange]) -> Iterator[FileChange]:
    """One for each path that is not what it was: from what all of these left there to what was there before them."""
    of_path: dict[str, list[FileChange]] = {}
    for change in changes:
        of_path.setdefault(file_name(change.path), []).append(change)
    for item in wanted(changes):
        if item.expected == item.target:
            continue
        made = of_path[item.path]
        yield FileChange(
            path=made[0].path,
            before=item.expected.sha,
            after=item.target.sha,
            patch=None if item.broken else reversed_patch(made),
            before_mode=made[-1].after_mode,
            after_mode=made[0].before_mode,
        )


def reversed_patch(made: Sequence[FileChange]) -> str | None:
    """A diff that takes all of these changes of one file back; None when one has no text, or they do not fit together.

    The file's text is not known, but for the lines that the patches show: those are all that the diff needs, since each
    patch shows three lines around what it changes.
    """
    patches = ["" if change.before == change.after else change.patch for change in made]
    texts = [patch for patch in patches if patch is not None]
    size = max((line for patch in texts for line in _last_lines(patch)), default=0) + sum(map(len, texts))
    if len(texts) < len(patches) or size > _MOST_LINES:
        return None
    was = [] if made[0].before is None else [f"{_UNKNOWN}{n}\n" for n in range(size)]
    now, known = was, dict[str, str]()
    for patch in texts:
        beyond = len(now) - _learn(now, patch, known)
        was, now = was[: len(was) - beyond], now[: len(now) - beyond]
        now = _lines(patched("".join(now), patch))
    name = made[0].path
    diff = list(difflib.unified_diff(_told(now, known), _told(was, known), f"a/{name}", f"b/{name}"))
    if any(_UNKNOWN in line for line in diff):
        return None
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff)


def _last_lines(patch: str) -> Iterator[int]:
    for row in patch.split("\n"):
        if hunk := _HUNK.match(row):
            yield int(hunk[1]) + int(hunk[2] or 1)


def _learn(lines: Sequence[str], patch: str, known: dict[str, str]) -> int:
    """What the patch, of a text that begins with these lines, shows of those that nobody knew; how many lines it has.

    A patch shows fewer than three lines after a change only where the text ends.
    """
    at, last, after = 0, "", _CONTEXT
    for row in patch.split("\n")[2:-1]:
        mark = row[:1]
        if hunk := _HUNK.match(row):
            at, last = int(hunk[1]) - (hunk[2] != "0"), ""
        elif mark == "\\" and last in known:
            known[last] = known[last].removesuffix("\n")
        elif mark in {" ", "-"} and at < len(lines):
            last = lines[at]
            known.setdefault(last, f"{row[1:]}\n")
            at += 1
        after = after + 1 if mark == " " else after if mark == "\\" else 0
        last = last if mark in {" ", "-"} else ""
    return min(at, len(lines)) if after < _CONTEXT else len(lines)


def _told(lines: Sequence[str], known: dict[str, str]) -> list[str]:
    """The lines, those that are known by their text, up to the last of them."""
    told = [known.get(line, line) for line in lines]
    while told and told[-1].startswith(_UNKNOWN):
        told.pop()
    return told


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)
