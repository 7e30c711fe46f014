"""Recorded answers in a cell, and the question that comes before a model is asked where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kin_nb.core.questions import Question
from kin_nb.core.records import SessionRecord, TurnRecord, UndoRecord
from kin_nb.notebook.approval import CardPlace, can_answer, choose_question_channel
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.main_thread_loop import AgentThread, SubmitMain, run_on_agent_thread
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import listen
from kin_nb.render import Output, render_notice, render_record
from kin_nb.replay.book import Book
from kin_nb.replay.format.output_records import RECORD_KEY, output_metadata

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.replay.runner.run_environment import ScratchCopy

_ASK, _LEAVE = "Ask the model", "Skip this cell"


def show_records(
    records: Sequence[SessionRecord],
    book: Book,
    io: CellOutput,
    session: str,
    scratch: ScratchCopy | None = None,
    *,
    of_another: bool = False,
    earlier: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Show records with the same bytes as live. The outputs hold the records that no file has; of another cell, all.

    `earlier`: metadata for the last output, as `RecordedAnswers.earlier` gives it.
    """
    if len(records) > 1 and not isinstance(records[0], TurnRecord):
        # an undo before a new answer: what it undid is not played
        show_records(records[:1], book, io, session, of_another=of_another)
        records = records[1:]
    for record in records:
        outputs = render_record(record, session)
        found = book.output_records.get(record.id)
        if found is not None:
            outputs[-1].metadata[RECORD_KEY] = found.raw
        elif of_another:
            outputs[-1].metadata.update(output_metadata(record, book.meta))
        outputs[-1].metadata.update(earlier if record is records[-1] else {})
        for output in outputs + _in_scratch(record, scratch):
            io.display(output.data, output.metadata)


def _in_scratch(record: SessionRecord, scratch: ScratchCopy | None) -> list[Output]:
    """Apply the file changes of a record in the scratch copy, if there is one."""
    return scratch.play(record) if scratch is not None and isinstance(record, TurnRecord | UndoRecord) else []


def confirm_model_request(shell: InteractiveShell, thread: AgentThread, io: CellOutput) -> bool | None:
    """Ask the user whether to ask the model; None where no user can answer."""
    display = Display(io)
    with listen(shell, io.parent) as run:
        if not can_answer(io, run):
            return None

        async def ask(submit_main: SubmitMain) -> str:
            def place(_: object) -> CardPlace:
                display.shown = True  # the buttons will be there
                card = render_notice("No saved answer. Ask the model?", [_ASK, _LEAVE])
                return CardPlace(display.display_id, card.data, update=False)

            channel = choose_question_channel(io, run=run, submit_main=submit_main, place=place)
            return await channel(Question("No saved answer. Ask the model?", (_ASK, _LEAVE), own_words=False))

        chosen = run_on_agent_thread(ask, thread, on_tick=run.on_tick)
    display.draw(render_notice(f"No saved answer: {chosen[0].lower()}{chosen[1:]}", []), settled=True)
    return chosen == _ASK
