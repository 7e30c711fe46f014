"""A mode: what runs a cell; what it shows of a recorded turn; and the mode in which nothing runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from kin_nb.core.commands import TypedCommand
from kin_nb.core.questions import Question
from kin_nb.core.session.records import SessionRecord, TurnRecord, UndoRecord
from kin_nb.notebook.approval import CardPlace, choose_question_channel, somebody_answers
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.options import CellOptions, KinError
from kin_nb.notebook.pump import AgentThread, SubmitMain, run_on_agent_thread
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import hearing
from kin_nb.render import Output, render_notice, render_record
from kin_nb.replay.book import Book
from kin_nb.replay.environment import RECORD_VARIABLE
from kin_nb.replay.format.carrying import KEY

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.replay.runner.place import Scratch


class RecordMode(StrEnum):
    """What happens to a cell without a recorded answer, as vcrpy names it: an error, a question to the model, always that."""

    NONE = "none"
    NEW = "new"
    ALL = "all"


def record_mode(environ: Mapping[str, str] = os.environ) -> RecordMode | None:
    """What KIN_RECORD says, None where it is not set. Raises KinError for what is no such mode."""
    text = environ.get(RECORD_VARIABLE)
    if text is None:
        return None
    try:
        return RecordMode(text)
    except ValueError:
        raise KinError(f"{RECORD_VARIABLE} is {text!r}: it takes {', '.join(RecordMode)}.") from None


@dataclass(frozen=True)
class Cell:
    """A cell that asks. `key`: of its text; `prompt`: what it says; `typed`: the command that this is, which asks too."""

    io: CellOutput
    key: str
    body: str
    prompt: str
    options: CellOptions
    typed: TypedCommand | None = None


@dataclass(frozen=True)
class Leave:
    """The session goes live, and the cell is asked there. `why`: what the notice says of it; "" for no notice."""

    why: str


class CellMode(Protocol):
    """A session has one at a time."""

    @property
    def name(self) -> str:
        """What `%kin status` says."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether there is a conversation that commands can change."""
        ...

    def run(self, cell: Cell) -> TurnRecord | Leave:
        """Show the cell's answer: its last turn. Raises KinError, ReplayError."""
        ...

    def move(self, command: str, io: CellOutput) -> SessionRecord:
        """What a command does that moves the conversation, `undo 2`. Raises KinError, ReplayError."""
        ...

    @property
    def last(self) -> TurnRecord | None:
        """The turn that was shown last, where that is not the agent's."""
        ...

    def close(self) -> None: ...


_ASK, _LEAVE = "Ask the model", "Leave it"


def show_records(
    records: Sequence[SessionRecord], book: Book, io: CellOutput, session: str, scratch: Scratch | None = None
) -> None:
    """As they were shown live, to the byte; the outputs carry what only outputs hold."""
    if len(records) > 1 and not isinstance(records[0], TurnRecord):
        show_records(records[:1], book, io, session)  # it made room for a new answer: what it took back is not played
        records = records[1:]
    for record in records:
        outputs = render_record(record, session)
        carried = book.carried.get(record.id)
        if carried is not None:
            outputs[-1].metadata[KEY] = carried.raw
        for output in outputs + _in_scratch(record, scratch):
            io.display(output.data, output.metadata)


def _in_scratch(record: SessionRecord, scratch: Scratch | None) -> list[Output]:
    """Its files change in the scratch copy, where there is one."""
    return scratch.play(record) if scratch is not None and isinstance(record, TurnRecord | UndoRecord) else []


def is_watched(io: CellOutput) -> bool:
    """Whether a person may see what a model does."""
    return bool(io.cell_id or io.allow_stdin)


def asks_the_model(shell: InteractiveShell, thread: AgentThread, io: CellOutput) -> bool | None:
    """Whether the person wants the model to be asked; None where nobody can answer."""
    display = Display(io)
    with hearing(shell, io.parent) as run:
        if not somebody_answers(io, run):
            return None

        async def ask(submit_main: SubmitMain) -> str:
            def place(_: object) -> CardPlace:
                display.shown = True  # the buttons will be there
                card = render_notice("No recorded answer. Ask the model?", [_ASK, _LEAVE])
                return CardPlace(display.display_id, card.data, update=False)

            channel = choose_question_channel(io, run=run, submit_main=submit_main, place=place)
            return await channel(Question("No recorded answer. Ask the model?", (_ASK, _LEAVE), own_words=False))

        chosen = run_on_agent_thread(ask, thread, on_tick=run.on_tick)
    display.draw(render_notice(f"No recorded answer: {chosen[0].lower()}{chosen[1:]}", []), settled=True)
    return chosen == _ASK


class BlockedMode:
    """`why`: the beginning of a sentence."""

    is_live = False
    last = None
    name = "nothing plays, and no model is asked"

    def __init__(self, why: str) -> None:
        self._why = why

    def run(self, cell: Cell) -> Leave:
        if cell.options.live:
            return Leave("")
        raise KinError(f"{self._why}, so this cell plays nothing and calls no model. `%kin live` to ask.")

    def move(self, command: str, io: CellOutput) -> SessionRecord:  # noqa: ARG002
        raise KinError(f"{self._why}, so {command} does nothing here. `%kin live` to ask a model.")

    def close(self) -> None:
        """Nothing is open."""
