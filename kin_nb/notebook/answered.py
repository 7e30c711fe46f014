"""A cell that has an answer already and is run again: show that one, ask again from where it stood, or ask anew."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from kin_nb.core.questions import Question
from kin_nb.core.session.records import TurnRecord
from kin_nb.core.time_travel import UndoError
from kin_nb.notebook.approval import CardPlace, choose_question_channel, somebody_answers
from kin_nb.notebook.carried import carried_by
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.options import CellOptions
from kin_nb.notebook.pump import SubmitMain, run_on_agent_thread
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import hearing
from kin_nb.render import render_notice, render_turn, render_undo
from kin_nb.replay.cells.matching import answer_in, cell_key

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent
    from kin_nb.notebook.agent_thread import AgentThread
    from kin_nb.notebook.session import KinSession


class Rerun(StrEnum):
    """What running an answered cell again means; the values are those of the setting `rerun`."""

    ASK = "ask"
    SHOW = "show"
    RETRY = "retry"
    NEW = "new"


_CHOICES = {
    "Show that answer": Rerun.SHOW,
    "Ask again from where it stood": Rerun.RETRY,
    "Ask as a new turn": Rerun.NEW,
}


def decide(
    shell: InteractiveShell,
    thread: AgentThread,
    io: CellOutput,
    rule: Rerun,
    options: CellOptions,
    answer: Sequence[TurnRecord],
) -> tuple[Rerun, Display]:
    """What to do now, and the display in which the person was asked: whatever comes next takes it over.

    Where nobody can be asked, the recorded answer is shown: no model is called behind anybody's back.
    """
    display = Display(io)
    if options.live or options.retry:
        return (Rerun.RETRY if options.retry else Rerun.NEW), display
    if rule is not Rerun.ASK:
        return rule, display
    with hearing(shell, io.parent) as run:
        if not somebody_answers(io, run):
            return Rerun.SHOW, display

        async def ask(submit_main: SubmitMain) -> str:
            def place(_: object) -> CardPlace:
                place = _place(display, answer)
                display.shown = True  # the buttons will stand there
                return place

            channel = choose_question_channel(io, run=run, submit_main=submit_main, place=place)
            return await channel(Question(_question(answer), tuple(_CHOICES), own_words=False))

        chosen = run_on_agent_thread(ask, thread, on_tick=run.on_tick)
    return _CHOICES[chosen], display


def show(session: KinSession, agent: Agent, answer: Sequence[TurnRecord], display: Display) -> None:
    """As playback shows it, and carried on as it was live; the first output in `display`."""
    outputs = [render_turn(turn) for turn in answer]
    for turn, drawn in zip(answer, outputs, strict=True):
        drawn[-1].metadata.update(carried_by(session.shell, agent, turn))
    first, *rest = [output for drawn in outputs for output in drawn]
    display.draw(first, settled=True)
    for output in rest:
        display.io.display(output.data, output.metadata)


def answer_again(session: KinSession, body: str, options: CellOptions, io: CellOutput) -> TurnRecord:
    """`--cached` outside playback: what this cell was answered before, in this session. Raises KinError."""
    text = " ".join(word for word in options.text.split() if word != "--cached")
    agent = session.begun
    answer = answer_in(agent.time.active, cell_key(body, text), io.cell_id) if agent is not None else ()
    if agent is None or not answer:
        raise KinError("Not recorded: this cell has no answer in this session. Without --cached it asks the model.")
    show(session, agent, answer, Display(io))
    return answer[-1]


def undo_from(session: KinSession, agent: Agent, first: TurnRecord, display: Display) -> None:
    """Take back `first` and what came after it, files too; the card stands where the person was asked. Raises KinError."""
    active = agent.time.active
    try:
        undone = session.on_agent_thread(lambda: agent.undo(len(active) - active.index(first)))
    except UndoError as error:
        raise KinError(str(error)) from None
    card = render_undo(undone, session.name)
    card.metadata.update(carried_by(session.shell, agent, undone))
    display.draw(card, settled=True)


def _question(answer: Sequence[TurnRecord]) -> str:
    return f"This cell has an answer already, turn {answer[0].turn}. What now?"


def _place(display: Display, answer: Sequence[TurnRecord]) -> CardPlace:
    card = render_notice(_question(answer), [*_CHOICES])
    return CardPlace(display.display_id, card.data, update=False)
