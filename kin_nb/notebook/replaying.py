"""A notebook that replays: playback of the recording, or the recorded model with real tools (KIN_REPLAY=tools)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.context.history import images_of
from kin_nb.core.session.records import TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.live import Attached, add_live_tools
from kin_nb.notebook.own_file import surroundings
from kin_nb.notebook.rerun_view import RerunView
from kin_nb.render import render_turn
from kin_nb.replay.errors import NotRecorded, ReplayEndedError, ReplayError
from kin_nb.replay.finding import embedded_recording, find_recording
from kin_nb.replay.going_on import go_on
from kin_nb.replay.matching import Undoing
from kin_nb.replay.playback import Player, passed_over, playback_notice, undo_card
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun import DMAIL, Rerun, SoFar
from kin_nb.replay.undo_again import undo_again

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession


class Replaying:
    """What a session does with its cells once `%kin replay` has run.

    `environ` is how `kin-nb replay --tools` speaks to its kernel: KIN_REPLAY, KIN_REPLAY_APPROVE, KIN_REPLAY_WORKSPACE.
    """

    def __init__(self, recording: Recording, environ: Mapping[str, str]) -> None:
        self.recording = recording
        self._player = Player(recording)
        self._tools = environ.get("KIN_REPLAY") == "tools"
        self._approve = environ.get("KIN_REPLAY_APPROVE") == "recorded"
        self._workspace = environ.get("KIN_REPLAY_WORKSPACE")
        self._agent: Agent | None = None
        self._so_far = SoFar()

    @classmethod
    def start(cls, session: KinSession, name: str, source: Path | None) -> Replaying:
        """Find the recording and say what this notebook does now. Raises ReplayError naming what is wrong."""
        session_id, _, digest = name.partition("@")
        found = find_recording(session_id, digest, surroundings=surroundings(session.shell), from_path=source)
        session.show(playback_notice(found.recording))
        return cls(found.recording, os.environ)

    @classmethod
    def embedded(cls, session: KinSession, name: str, body: str) -> Replaying:
        """The recording is in the cell itself. Raises ReplayError naming what is wrong."""
        recording = embedded_recording(name, body)
        session.show(playback_notice(recording))
        return cls(recording, os.environ)

    def run_cell(self, session: KinSession, key: str, io: CellOutput) -> TurnRecord | None:
        """Play the cell; the last of its turns. None for a new one after the last turn when a person is there: it goes on live."""
        try:
            turn, not_run = self._player.turn(key, io.cell_id)
        except NotRecorded as error:
            if error.after_last and not self._tools and (io.cell_id or io.allow_stdin):
                session.go_live()
                return None
            raise
        for output in passed_over(turn, not_run):
            io.display(output.data, output.metadata)
        for each in self._player.run_of(turn):
            if self._tools:
                self._run_tools(session, each, io)
                continue
            for output in render_turn(each):
                io.display(output.data, output.metadata)
        return each

    def undo(self, session: KinSession, asked: Undoing, io: CellOutput) -> None:
        """A cell that undoes or redoes. Raises NotRecorded."""
        number, undo = self._player.undo(asked, io.cell_id)
        if not self._tools:
            card = undo_card(undo)
            io.display(card.data, card.metadata)
            return
        agent = self._tools_agent(session)
        shown, drift = session.on_agent_thread(lambda: undo_again(agent, undo, self._so_far))
        card = undo_card(shown)
        told = {"undo": number, "drift": {"kind": drift.kind, "detail": drift.detail}}
        io.display(card.data, {**card.metadata, "kin": {**card.metadata["kin"], **told}})

    def go_on(self, agent: Agent) -> None:
        """`agent`, new, stands where the recording ends: also where that is before turns that were undone. Raises KinError."""
        try:
            go_on(agent, self.recording)
        except ReplayError as error:
            raise KinError(str(error)) from None

    def _run_tools(self, session: KinSession, turn: TurnRecord, io: CellOutput) -> None:
        agent = self._tools_agent(session)
        rerun = Rerun(
            turn,
            agent.workspace.root,
            approve_recorded=self._approve,
            known_ids=agent.history.call_ids,
            so_far=self._so_far,
        )
        rerun.prepare(agent)
        how: dict[str, Any] = {"view": RerunView(io, rerun), "through": rerun.asking, "answering": rerun.answering}
        how["attached"] = Attached(labels=turn.attached, images=tuple(images_of(turn.images)))
        try:
            session.run_turn(agent, rerun.prompt, turn.key, io, **how)
        except ReplayEndedError:
            if turn.outcome == "done":
                raise

    def _tools_agent(self, session: KinSession) -> Agent:
        """Its settings are not the user's: a shared notebook runs under the same rules everywhere."""
        if not self._workspace:
            raise KinError(
                "KIN_REPLAY=tools needs a copy of the workspace to work in: kin-nb replay --tools makes one."
            )
        if self._agent is None:
            # what a loop or a D-Mail led to is in the recording
            mails = any(call.name == DMAIL for turn in self.recording.turns for call in turn.calls)
            self._agent = Agent(KinConfig(workdir=Path(self._workspace), loop_detection=False, dmail=mails))
            add_live_tools(self._agent, session.shell)
        return self._agent
