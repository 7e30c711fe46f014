"""A cell's key: what of its text counts when it is asked whether a record is its own (docs/playback.md)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from kin_nb.core.session.records import SessionRecord, TurnRecord, UndoRecord, sha256

_NBVAL = re.compile(r"[ \t]*#+[ \t]*NBVAL_")


def normal_body(body: str) -> str:
    """The prompt as it counts: NFC, LF, no blanks at line ends, no `# NBVAL_` lines, no blank lines at the end."""
    text = unicodedata.normalize("NFC", body).replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n") if not _NBVAL.match(line)]
    return "\n".join(lines).rstrip("\n")


def cell_key(body: str, options: str) -> str:
    """sha256 hex of a cell's body and the options on its `%%kin` line (neither blanks between them nor `--cached` count)."""
    return sha256([normal_body(body), " ".join(word for word in options.split() if word != "--cached")])


def following_key(key: str, number: int) -> str:
    """The key of the turn that came `number` turns after the first one of a cell whose first has `key` (a flow)."""
    return sha256([key, number])


def command_key(command: str) -> str:
    """The key of a cell that gives a command which moves the conversation: `undo 2`, `redo`, `clear`, `compact`."""
    return sha256(["command", command])


def runs(records: Sequence[SessionRecord]) -> Iterator[tuple[SessionRecord, ...]]:
    """`records`, in the order of their `seq`, by the runs of cells that made them.

    A run is a turn, with the undo that made room for it and the turns that followed it (a flow); or what a command did.
    """
    run: list[SessionRecord] = []
    for record in records:
        if run and not _is_of(run, record):
            yield tuple(run)
            run = []
        run.append(record)
    if run:
        yield tuple(run)


def last_run(records: Sequence[SessionRecord], key: str) -> tuple[SessionRecord, ...]:
    """Of a cell's `records` those that its last run with the text `key` made; empty where there are none."""
    found = [run for run in runs(records) if key and run[0].key == key]
    return found[-1] if found else ()


def _is_of(run: Sequence[SessionRecord], record: SessionRecord) -> bool:
    if not isinstance(record, TurnRecord):
        return False
    first = run[0]
    if isinstance(first, UndoRecord) and len(run) == 1:
        return bool(first.key) and first.key == record.key and first.head == record.parent
    turns = [each for each in run if isinstance(each, TurnRecord)]
    return bool(turns) and record.key == following_key(turns[0].key, len(turns))


def turns_of_cell(turns: Sequence[TurnRecord], position: int) -> Sequence[TurnRecord]:
    """The turn at `position`, and those after it that the same run of its cell made."""
    key, end = turns[position].key, position + 1
    while end < len(turns) and turns[end].key == following_key(key, end - position):
        end += 1
    return turns[position:end]


def answer_in(
    standing: Sequence[TurnRecord], key: str, cell_id: str | None, *, edited: bool = False
) -> Sequence[TurnRecord]:
    """The turns that a cell made when it ran last, of a conversation as it stands; empty when there are none.

    A cell is known by its id and its text; with `edited`, by its id whatever its text is now. Without an id nothing is
    known: two cells may say the same. A turn that failed or was interrupted is no answer: run again, it is asked again.
    """
    keys = [turn.key for turn in standing]
    found = [n for n, each in enumerate(standing) if cell_id and each.cell_id == cell_id and (edited or keys[n] == key)]
    begun = [n for n in found if not any(keys[n] == following_key(keys[m], n - m) for m in range(n))]
    if not begun:
        return ()
    answer = turns_of_cell(standing, begun[-1])
    return answer if edited or is_answer(answer[-1]) else ()


def is_answer(turn: TurnRecord) -> bool:
    """Whether it came to its end: one that failed or was interrupted is asked again when its cell is run again."""
    return turn.outcome in {"done", "stopped"}
