"""A notebook that replays: playback of the recording, or the recorded model with real tools (`kin-nb replay --tools`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.notebook.answered import undo_from
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import InPlaybackError, KinError
from kin_nb.notebook.in_log import InLog
from kin_nb.notebook.options import CellOptions
from kin_nb.notebook.passed_by import PassedBy
from kin_nb.notebook.rerun_agent import rerun_agent, rerun_turn, rerun_undo
from kin_nb.notebook.streaming.display import Display
from kin_nb.render import render_notice, render_turn
from kin_nb.replay.cells.matching import Undoing
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import NotRecorded, ReplayError
from kin_nb.replay.format.gone_on import GoneOn
from kin_nb.replay.playback.beyond import Beyond
from kin_nb.replay.playback.going_on import go_on
from kin_nb.replay.playback.player import Player, passed_over, undo_card
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.turns import SoFar
from kin_nb.replay.runner.scratch import Scratch

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession


_NOBODY = (
    "`%%kin --retry` asks a model, and nobody is here to see what it does: open the notebook in JupyterLab for that."
)
_QUEUED = (
    "This prompt has no recorded answer, and it ran together with cells above it (Run All, %run), so no model was asked. "
    "To ask: run this cell by itself, or `%kin live` first."
)


class Replaying:
    """What a session does with its cells once `%kin replay` has run.

    `environment`: how `kin-nb replay` wants it, None in plain playback and where a user plays it.
    """

    _name = ""
    """What the session is called, where it is not the notebook's own."""
    _begins_empty = False
    """Whether what the log has may be this notebook's, though no recorded turn says so."""

    def __init__(
        self,
        recording: Recording,
        environment: ReplayEnvironment | None,
        scratch: Scratch | None = None,
        nb: Any = None,
    ) -> None:
        self._scratch = scratch or Scratch.given(environment)
        self._environment = environment if environment is not None and environment.mode == "tools" else None
        self.nb = nb
        self._beyond = Beyond(recording, None if self.tools else nb)
        self._player = Player(
            self._beyond.known.recording, [each["id"] for each in nb["cells"] if each.get("id")] if nb else []
        )
        self._player.know(self._beyond.known.recording, self._beyond.shown, self._beyond.replaced)
        self.last: TurnRecord | None = None
        """The turn that was played last."""
        self._agent: Agent | None = None
        """That runs the tools."""
        self._live: Agent | None = None
        """That goes on where the recording ends, or from where a turn of it stood."""
        self._so_far = SoFar()
        self._log = InLog()
        self._passed_by = PassedBy(nb)

    @property
    def tools(self) -> bool:
        """Whether the recorded calls run again."""
        return self._environment is not None

    @property
    def recording(self) -> Recording:
        return self._player.recording

    def recorded_beside(self, name: str) -> Recording:
        """Where the session of that name begins."""
        return self._beyond.beside(name)

    @property
    def scratch(self) -> Scratch | None:
        return self._scratch

    @property
    def went_on(self) -> bool:
        """Whether turns are played that only a front end saved."""
        return bool(self._beyond)

    def close(self) -> None:
        """A scratch copy that was made here is gone, and the kernel is where it was."""
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.close()

    def run_cell(
        self, session: KinSession, key: str, io: CellOutput, body: str, options: CellOptions, *, beside: bool = False
    ) -> TurnRecord | None:
        """Play the cell; the last of its turns. None when it goes live, which takes a person to see it: the cell is a new one
        after the last turn, or (`--retry`) is asked anew from where its turn stood, or speaks to a session `beside` this one.

        Raises NotRecorded, AmbiguousTurn, and KinError when it cannot go live; then it plays on.
        """
        try:
            turn, not_run = self._turn(session, key, io, body, options, beside=beside)
        except NotRecorded as error:
            queued = session.settings.queued.behind
            self._check_asked(key, io, error, retry=options.retry, beside=beside, queued=queued)
            if not beside:
                self._go_live(session, io, error, retry=options.retry)
            return None
        if self._beyond.metadata(turn, turn.turn) and not self._somebody(io):
            self._beyond.check_not_answered(key, io.cell_id)  # a runner plays what was saved: its outputs are compared
        self._passed_by.plays(turn, self.last)
        notices = passed_over(turn, not_run, self._beyond.known.lost.get(turn.turn, ()))
        if self._somebody(io):
            notices += self._player.how_to_ask(turn, io.cell_id, self._name)
        for notice in notices:
            io.display(notice.data, notice.metadata)
        for each in self._player.run_of(turn):
            if self._environment is not None:
                rerun_turn(
                    session, self._tools_agent(session, self._environment), each, io, self._so_far, self._environment
                )
            else:
                self._show(each, io)
        self.last = each
        return each

    def _turn(
        self, session: KinSession, key: str, io: CellOutput, body: str, options: CellOptions, *, beside: bool
    ) -> tuple[TurnRecord, tuple[int, ...]]:
        """What the cell plays, and which turns are passed over to get there. Raises as Player.turn; then nothing has moved."""
        self._settle(session, in_log=self._somebody(io))
        known = self._player.knows(key, io.cell_id)
        shown = known is not None and self._beyond.shown.get(io.cell_id or "") == known.turn
        later = known is not None and self._beyond.shows_later(known, io.cell_id)
        if not (beside or shown) and (known is None or later or self._log.doubts(known)):  # else it is looked for there
            found = self._lost(session, key, io)
            if found is not None:
                return found
        if later:
            self._beyond.check_not_answered(key, io.cell_id)
        elif known is None and not beside and key not in self.recording.asked_by:
            self._lost(session, key, io, edited=options.text)
        return self._player.turn(key, io.cell_id, body)

    def _lost(
        self, session: KinSession, key: str, io: CellOutput, *, edited: str | None = None
    ) -> tuple[TurnRecord, tuple[int, ...]] | None:
        """What the cell plays where the notebook's file lost its answer: a model is not asked again unasked.

        With `edited`, the cell's options, nothing is played; what its text was is known then.
        """
        if not (self._somebody(io) and io.cell_id and (self.recording.turns or self._begins_empty)):
            return None
        shown = self._beyond.shows(key, io.cell_id)
        with self._outside():
            found = self._log.answer(session, self.recording, key, io.cell_id, shown=shown, edited=edited)
        if found is None:
            return None
        self._passed_by.found_in_log()
        self._know(found)
        return self._player.last(key, io.cell_id) if edited is None else None

    def _settle(self, session: KinSession, *, in_log: bool = True) -> None:
        """Where the outputs have more, but not all: the log may have the rest; else what they have is known now."""
        shown = self._beyond.later
        if shown is None:
            return
        with self._outside():
            found = self._log.all_shown(session, self.recording, shown) if in_log else None
        self._know(found or shown)

    def _know(self, found: GoneOn) -> None:
        self._beyond.take(found)
        self._player.know(found.recording, self._beyond.shown, self._beyond.replaced)

    def _somebody(self, io: CellOutput) -> bool:
        """Whether a person may see what a model does."""
        return not self.tools and bool(io.cell_id or io.allow_stdin)

    def _show(self, turn: TurnRecord, io: CellOutput) -> None:
        outputs = render_turn(turn)
        for undo, metadata in self._beyond.cards(turn):
            self._show_undo(undo, metadata, io)
        outputs[-1].metadata.update(self._beyond.metadata(turn, turn.turn))
        for output in outputs + (self.scratch.play(turn) if self.scratch else []):
            io.display(output.data, output.metadata)

    def _check_asked(
        self, key: str, io: CellOutput, error: NotRecorded, *, retry: bool, beside: bool, queued: bool
    ) -> None:
        """Whether a cell that plays nothing may ask a model. Raises `error`, or why it may not."""
        if not beside:
            self._beyond.check_not_answered(key, io.cell_id, retry=retry)
        if not self._somebody(io) or not (retry or beside or error.after_last):
            raise (NotRecorded(f"{_NOBODY} {error}") if retry else error) from None
        if not (retry or beside):
            self.check_nothing_passed_by()
            self._beyond.check_known(f"session {self._name}" if self._name else "this notebook")
        if queued and not beside:
            raise NotRecorded(_QUEUED) from None

    def _go_live(self, session: KinSession, io: CellOutput, error: NotRecorded, *, retry: bool) -> None:
        """Leave playback with a cell that it does not have."""
        if retry and error.turn is not None:
            self._retry(session, error.turn, io)
        else:
            session.go_live("This cell goes on where the recording ends.")

    def undo(self, session: KinSession, asked: Undoing, io: CellOutput) -> None:
        """A cell that undoes or redoes. Raises NotRecorded."""
        self._settle(session, in_log=self._somebody(io))
        card = self._beyond.undone_by(io.cell_id, asked) if self._somebody(io) else None
        if card is not None:
            self._player.undid(card[0], io.cell_id)
            self._show_undo(*card, io)
            return
        try:
            number, undo = self._player.undo(asked, io.cell_id)
        except NotRecorded:
            if not self._somebody(io):
                raise
            self._know_more_undone(session, asked)
            number, undo = self._player.undo(asked, io.cell_id)
        if self._environment is not None:
            rerun_undo(session, self._tools_agent(session, self._environment), number, undo, io, self._so_far)
        else:
            self._show_undo(undo, self._beyond.metadata(undo, number), io)

    def _know_more_undone(self, session: KinSession, asked: Undoing) -> None:
        """What the log has, if that is asked for."""
        with self._outside():
            found = self._log.undo(session, self.recording, asked, went_on=self.went_on)
        if found is not None:
            self._know(found)

    def _show_undo(self, undo: UndoRecord, metadata: Mapping[str, Any], io: CellOutput) -> None:
        card = undo_card(undo, self._name)
        card.metadata.update(metadata)
        for output in [card, *(self.scratch.play(undo) if self.scratch else [])]:
            io.display(output.data, output.metadata)

    def pass_by(self, session: KinSession, command: str, error: InPlaybackError | NotRecorded, io: CellOutput) -> None:
        """Show why `command` does nothing here. Raises `error` where nobody is there to read it."""
        if not self._somebody(io):
            raise error
        failed = self._passed_by.add(command, io.cell_id)
        fact, _, advice = str(error).partition(". ")
        session.show(render_notice(fact, [advice], kind="error" if failed else "info"))

    def check_nothing_passed_by(self) -> None:
        """Before a prompt goes live. Raises KinError after a command that would have moved the conversation."""
        self._passed_by.check()

    def end(self, session: KinSession) -> Agent:
        """The live agent. Raises KinError; then this goes on, in its scratch copy where it has one."""
        agent = self._live_agent(session)
        self.close()
        return agent

    def _live_agent(self, session: KinSession) -> Agent:
        """Where the recording ends, also where that is before turns that were undone. Raises KinError."""
        self._settle(session)
        with self._outside():  # its work must not go into a copy that vanishes
            agent = session.agent()
            if agent is self._live or not (self.recording.turns or self._beyond.known.undone):
                return agent
            self._live = agent
            if agent.turns and self._stands_in(agent):
                return agent
            if agent.turns:  # it went on otherwise than the page shows
                session.close()
                self._live = agent = session.agent()
            try:
                known = self._beyond.known
                go_on(agent, self.recording, known.undone, known.after, last=known.last, cleared=known.cleared)
            except ReplayError as error:
                session.close()  # that agent stands nowhere
                raise KinError(str(error)) from None
            return agent

    def _stands_in(self, agent: Agent) -> bool:
        """Whether the conversation of `agent` is the one that is played."""
        shown = [self.recording.turns[n] for n in sorted(self.recording.standing)]
        return [(each.turn, each.key) for each in shown] == [(each.turn, each.key) for each in agent.time.active]

    def _outside(self) -> AbstractContextManager[None]:
        """Meanwhile the kernel is not in the scratch copy, where there is one."""
        return self.scratch.outside() if self.scratch is not None else nullcontext()

    def _retry(self, session: KinSession, turn: TurnRecord, io: CellOutput) -> None:
        """Leave playback from where `turn` stood: it and what came after it is taken back."""
        agent = self._live_agent(session)
        first = next((each for each in agent.time.active if each.turn == turn.turn), None)
        if first is None:
            raise KinError(
                f"Turn {turn.turn} is not in the conversation in which this recording ends: it was taken back later. "
                "`%kin live` to go on from that end."
            )
        undo_from(session, agent, first, Display(io))
        session.go_live(
            f"Turn {turn.turn} is asked anew, from where it stood. What was recorded stays in the session's log."
        )

    def _tools_agent(self, session: KinSession, environment: ReplayEnvironment) -> Agent:
        if self._agent is None:
            self._agent = rerun_agent(session, self.recording, environment)
        return self._agent
