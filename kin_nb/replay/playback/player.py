"""Playback: which records a cell shows, and a new agent that resumes the conversation behind them. Three rules, and no other:

1. A cell that the notebook has, by its id, shows its own records, if they were made with the text that it has now.
2. Without ids (runners that send none, files that have none), the next cell with this text shows its own.
3. A cell that the notebook does not have (pasted or new) shows what the only cell with this text shows.

Everything else is not recorded. Nothing is played for another cell because of its position.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.commands import escaped
from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.records import END, SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.text import counted
from kin_nb.core.undo import UndoError
from kin_nb.render import Output, render_notice
from kin_nb.render.text import reveal_hidden
from kin_nb.replay.book import Book, CellEntry, RecordedConversation, sort_records
from kin_nb.replay.cell_keys import command_key, last_run, normalize_prompt
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded, ReplayError
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.recording import Recording

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


_WIDTH = 100
_MOST_LINES = 12
_MOST_COMPARED = 1000
"""Lines: what takes longer to compare is not a prompt that anyone reads."""


def describe_edited_prompt(turn: TurnRecord, body: str) -> str:
    """Describe how the prompt of a cell, `body`, differs from the one that was answered by `turn`."""
    recorded, now = escaped(turn.prompt), normalize_prompt(body).strip("\n")
    what = "another prompt:" if recorded != now else "other options on the %%kin line."
    return "\n".join(
        [
            f"The saved answer of this cell (turn {turn.turn}) is for {what}",
            *prompt_diff(recorded, now),
            f"Restore the text to show that answer, or use `%%kin --retry` to ask again from where turn {turn.turn} was asked.",
        ]
    )


def prompt_diff(recorded: str, now: str) -> list[str]:
    """Return the lines that differ, `-` recorded and `+` now, with one line of context; empty if none differ."""
    before, after = (reveal_hidden(text).split("\n")[:_MOST_COMPARED] for text in (recorded, now))
    found: list[str] = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1):
        for tag, a, a_end, b, b_end in group:
            old, new = before[a:a_end], after[b:b_end]
            if tag == "equal":
                found += [f"    {_cut(line, 0)}" for line in old]
                continue
            place = _first_difference(old[0], new[0]) if old and new else 0
            found += [f"  - {_cut(line, place)}" for line in old] + [f"  + {_cut(line, place)}" for line in new]
    more = len(found) - _MOST_LINES
    return found[:_MOST_LINES] + ([f"  ... {more} more"] if more > 0 else [])


def _first_difference(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _cut(line: str, place: int) -> str:
    """Cut a long line to the part around `place`."""
    start = max(0, place - _WIDTH // 2) if len(line) > _WIDTH else 0
    end = start + _WIDTH
    return f"{'…' if start else ''}{line[start:end]}{'…' if line[end:] else ''}"


def playback_notice(recording: Recording) -> Output:
    """Return the output of `%kin replay` in playback. A save writes the same bytes."""
    model, version = recording.meta.model, recording.meta.kin_nb
    lines = [
        f"{counted(_records_saved(recording), 'record')}"
        + (f", made with {model}" if model else "")
        + (f" by kin_nb {version}." if version else "."),
        "This notebook is in playback: no model is called, no tool runs, no file is written.",
        "To run the tools for real, in a copy of the workspace: kin-nb replay --tools. To ask a model again: %kin live",
    ]
    if recording.unknown_types:
        lines.append(f"Written by a later kin_nb, kept but not played: {', '.join(recording.unknown_types)}.")
    return render_notice(f"Session {recording.session}", lines)


def _records_saved(recording: Recording) -> int:
    """Count the records as the save did: cells deleted or pasted since must not change what a replay compares."""
    return len(recording.shas if recording.saved_shas is None else recording.saved_shas)


class Playback:
    """One conversation of a notebook, played: `session` is its name, "" for the notebook's own."""

    def __init__(self, book: Book, session: str = "") -> None:
        self._book = book
        self._cells = [cell for cell in book.cells if cell.session == session]
        self._ids = {cell.cell_id for cell in book.cells if cell.cell_id}
        self._next = 0
        """The first cell below the last one that was played."""

    def play(self, key: str, cell_id: str | None) -> tuple[tuple[SessionRecord, ...], bool]:
        """Return the records that a cell with the text `key` shows, oldest first, and whether another cell made them (rule 3).

        Raises NotRecorded; AmbiguousTurn where several cells have the text and nothing says which of them is meant.
        """
        cell_id = cell_id if self._ids else None
        own = self.cell(cell_id)
        shown = last_run(own.records, key) if own is not None else ()
        if cell_id in self._ids and not shown:  # it may have been in another conversation
            raise NotRecorded("This cell has no recorded answer to its text.")
        if own is not None:
            self._next = self._cells.index(own) + 1
            return shown, False
        position = self._position(key, cell_id)
        self._next = position + 1
        return self._cells[position].shown, bool(cell_id)

    def cell(self, cell_id: str | None) -> CellEntry | None:
        """Return the notebook's cell with that id."""
        return next((cell for cell in self._cells if cell_id and cell.cell_id == cell_id), None)

    def has_nothing_to(self, command: str, cell_id: str | None) -> bool:
        """Whether a command such as `undo 2` has nothing to act on, according to the records of the cells above its own.

        False for a cell that the notebook does not have: what is above it is not known. Without ids the next cell with this
        command counts.
        """
        own = self.cell(cell_id)
        if own is None and not (cell_id and self._ids):
            own = next((cell for cell in self._cells[self._next :] if cell.key == command_key(command)), None)
        if own is None:
            return False
        above = self._cells[: self._cells.index(own)]
        records = sort_records(record for cell in above for record in cell.records)
        match command.split(maxsplit=1)[0]:
            case "undo":
                return sum(map(_turns_added, records)) <= 0
            case "redo":
                return _redoable(records) <= 0
            case "compact":
                return not (records and self._book.conversation(records[-1]).sent)
        return False

    def _position(self, key: str, cell_id: str | None) -> int:
        same = [n for n, cell in enumerate(self._cells) if cell.key == key and cell.shown]
        below = [n for n in same if n >= self._next]
        if not cell_id and below:
            return below[0]
        if len({tuple(record.id for record in self._cells[n].shown) for n in same}) > 1:
            raise AmbiguousTurn(
                f"{len(same)} cells have this text, so it is not known which saved answer belongs here."
            )
        if not same:
            raise NotRecorded("No cell of this notebook has a recorded answer to this text.")
        return same[0]


def _turns_added(record: SessionRecord) -> int:
    """Return the number of turns that `record` adds to the conversation; negative for an undo."""
    if isinstance(record, UndoRecord):
        return len(record.turns) if record.type == "redo" else -len(record.turns)
    return 1 if isinstance(record, TurnRecord) else 0


def _redoable(records: Sequence[SessionRecord]) -> int:
    """Count the undos that can be redone after `records`: none once a turn followed."""
    count = 0
    for record in records:
        if isinstance(record, TurnRecord):
            count = 0
        elif isinstance(record, UndoRecord):
            count += 1 if record.type == "undo" else -1
    return count


def resume_from(agent: Agent, book: Book, at: SessionRecord | None) -> RecordedConversation:
    """Let a new `agent` continue after the record `at`, and return the conversation that it has then. Raises ReplayError.

    Commit and branch are the recording's: there the files are what its first turn found. New turns are numbered after all
    that the notebook holds.
    """
    found = book.conversation(at)
    recorded = book.meta.workspace if book.records else None
    header = {"commit": recorded.commit, "branch": recorded.branch} if recorded is not None else {}
    last = max((number for record in book.records.values() for number in _numbers(record)), default=0)
    try:
        agent.continue_from(found.uncut, known=book.records.values(), last=last, header=header)
        place = at.head if at is not None else None
        if place is not None and place.step != END and found.uncut and found.uncut[-1].id == place.id:
            agent.undos.go_back(place)
    except (NoSuchCheckpointError, UndoError) as error:
        raise ReplayError(f"The session cannot continue where this notebook ends: {error}") from None
    return found


def resume_from_file(path: Path) -> Callable[[Agent], None]:
    """Read the notebook at `path`; the result lets a new agent continue from its end. Raises ReplayError."""
    book = Book.collect(load_notebook(path))

    def begin(agent: Agent) -> None:
        resume_from(agent, book, book.head())

    return begin


def _numbers(record: SessionRecord) -> Sequence[int]:
    """Return the numbers of turns that a record is or names: their cells may be gone."""
    if isinstance(record, TurnRecord):
        return (record.turn,)
    return record.turns if isinstance(record, UndoRecord) else ()
