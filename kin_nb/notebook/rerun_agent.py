"""The agent of `kin-nb replay --tools` in a kernel: real tools, recorded replies."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.context.history import images_of
from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.live import Attached, add_live_tools
from kin_nb.notebook.rerun_view import RerunView
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import ReplayEndedError
from kin_nb.replay.playback.player import undo_card
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.rules_file import load_rules
from kin_nb.replay.rerun.stand_ins import servers
from kin_nb.replay.rerun.turns import DMAIL, Rerun, SoFar
from kin_nb.replay.rerun.undos import undo_again

if TYPE_CHECKING:
    from kin_nb.notebook.session import KinSession


def rerun_agent(session: KinSession, recording: Recording, environment: ReplayEnvironment) -> Agent:
    """Its settings are not the user's, confinement apart: a shared notebook runs under the same rules everywhere."""
    # what a loop or a D-Mail led to is in the recording
    mails = any(call.name == DMAIL for turn in recording.turns for call in turn.calls)
    named = servers(os.environ)
    tools: dict[str, Any] = {"bash": dict(environment.sandbox)} if environment.sandbox else {}
    where = environment.workspace
    agent = Agent(KinConfig(workdir=where, loop_detection=False, dmail=mails, mcp_servers=named, tools=tools))
    atexit.register(lambda: session.on_agent_thread(agent.aclose))  # its servers end too
    add_live_tools(agent, session.shell)
    return agent


def rerun_turn(
    session: KinSession, agent: Agent, turn: TurnRecord, io: CellOutput, so_far: SoFar, environment: ReplayEnvironment
) -> None:
    """Run `turn` again. Raises ReplayEndedError."""
    rerun = Rerun(
        turn,
        agent.workspace.root,
        approve_recorded=environment.approve_recorded,
        known_ids=agent.history.call_ids,
        so_far=so_far,
        rules=load_rules(environment.rules),
    )
    rerun.prepare(agent)
    how: dict[str, Any] = {"view": RerunView(io, rerun), "through": rerun.asking, "answering": rerun.answering}
    how["attached"] = Attached(labels=turn.attached, images=tuple(images_of(turn.images)))
    try:
        session.run_turn(agent, rerun.prompt, turn.key, io, **how)
    except ReplayEndedError:
        if turn.outcome == "done":
            raise


def rerun_undo(session: KinSession, agent: Agent, number: int, undo: UndoRecord, io: CellOutput, so_far: SoFar) -> None:
    """Undo again what `undo`, the recording's of that number from 1, took back; the card says how that came out."""
    shown, drift = session.on_agent_thread(lambda: undo_again(agent, undo, so_far))
    card = undo_card(shown)
    told = {"undo": number, "drift": drift.told}
    io.display(card.data, {**card.metadata, "kin": {**card.metadata["kin"], **told}})
