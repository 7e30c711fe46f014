"""How a turn's record is closed, and how an agent lets go of what it holds: each part of it, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from kin_nb.core.records import END, Outcome, TurnRecord
from kin_nb.core.stopping import Stop
from kin_nb.core.usage import cost_of

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.llm.model_client import ModelClient
    from kin_nb.core.session.recorder import TurnRecorder


def end_turn(
    agent: Agent, recorder: TurnRecorder, outcome: Outcome, why: Stop, *, first: int, started: float
) -> TurnRecord:
    """`first`: the id of the turn's first checkpoint. `started`: of time.monotonic()."""
    files = [change for call in recorder.record.calls for change in call.files]
    for note in agent.turn_hooks.end(files, agent.redact):
        recorder.warn(note)
    begun = agent.conversation.mark(recorder.record.id, END).id - first - 1  # each step has had a checkpoint
    elapsed = time.monotonic() - started
    cost = cost_of(agent.stats, recorder.record)
    return recorder.end(outcome, why, cost=cost, milliseconds=round(elapsed * 1000), begun=begun)


async def let_go(agent: Agent, link: ModelClient) -> None:
    """What `Agent.aclose` promises, the log last. Raises what one of them raises, when all are closed."""
    async with AsyncExitStack() as stack:
        stack.callback(agent.log.close)
        stack.push_async_callback(_close_observers, agent)
        stack.callback(agent.files.close)
        stack.callback(_forget_calls, agent)
        stack.push_async_callback(agent.toolbox.aclose)
        stack.push_async_callback(link.aclose)


def _forget_calls(agent: Agent) -> None:
    """Not where somebody else may have the session by now: what is kept then is about the calls of theirs."""
    if agent.log.is_ours:
        agent.files.forget()


async def _close_observers(agent: Agent) -> None:
    """Beside the loop, for they may wait for a server. While the program ends no thread begins any more."""
    try:
        await asyncio.to_thread(agent.observers.close)
    except RuntimeError:
        agent.observers.close()
