"""One cell's turns on the agent's thread, while the cell waits, hears its buttons and can be interrupted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from kin_nb.core.agent import Agent
from kin_nb.core.beginning import failed_after_all
from kin_nb.core.config import ConfigError
from kin_nb.core.events import BaseEvent, ErrorEvent
from kin_nb.core.first_steps import explain
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.records import TurnRecord
from kin_nb.core.time_travel import TurnRunningError
from kin_nb.notebook.agent_thread import AgentThread
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import KinError, TurnFailedError
from kin_nb.notebook.options import CellOptions
from kin_nb.notebook.pump import SubmitMain, run_on_agent_thread
from kin_nb.notebook.tap import hearing
from kin_nb.notebook.turns import CellTurns

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.skills.flows import Flow


def run_turn(
    shell: InteractiveShell, thread: AgentThread, agent: Agent, turns: CellTurns, io: CellOutput, prompt: str
) -> TurnRecord:
    """One turn, shown in its cell.

    Raises TurnFailedError when the turn ended with an error, Interrupted (pump.py) when the person stopped it.
    """
    _run(shell, thread, agent, turns, io, lambda: turns.act(prompt))
    return agent.turns[-1]


def run_flow(
    shell: InteractiveShell,
    thread: AgentThread,
    agent: Agent,
    turns: CellTurns,
    io: CellOutput,
    flow: Flow,
    request: str,
) -> None:
    """A turn for each node. Raises TurnFailedError, saying where it stopped, when END was not reached."""
    from kin_nb.core.skills.flows import FlowRunner  # noqa: PLC0415  (only flows need it)

    stopped = _run(shell, thread, agent, turns, io, lambda: FlowRunner(flow, turns.act).run(request))
    if stopped:
        failed_after_all(agent, stopped)
        raise TurnFailedError(stopped)


def _run(
    shell: InteractiveShell,
    thread: AgentThread,
    agent: Agent,
    turns: CellTurns,
    io: CellOutput,
    make: Callable[[], AsyncGenerator[BaseEvent, None]],
) -> str:
    """All events of `make()`. Returns the error that came after the last turn, if any."""
    if agent.busy:
        raise KinError(str(TurnRunningError()))
    errors: list[str] = []

    async def drain(submit_main: SubmitMain) -> None:
        turns.begin(run, submit_main)
        async with aclosing(make()) as events:
            async for event in events:
                errors[:] = [event.message] if isinstance(event, ErrorEvent) else []

    try:
        with hearing(shell, io.parent) as run:
            run_on_agent_thread(drain, thread, on_tick=run.on_tick)
    except ConfigError as error:
        raise KinError(explain(error)) from None
    except SessionError as error:
        raise KinError(str(error)) from None
    if agent.turns[-1].outcome == "error":
        raise TurnFailedError(agent.turns[-1].message)
    return "".join(errors)


@contextmanager
def limits(agent: Agent, options: CellOptions, max_price: float | None, spent_besides: float) -> Iterator[None]:
    """Those of one cell, and the notebook's own: USD for all its sessions, of which the others have spent so much."""
    stats, cap = agent.stats, (max_price, -spent_besides)
    prices = [(usd, before) for usd, before in [cap, (options.max_price, stats.all_cost)] if usd is not None]
    price, before = min(prices, key=sum, default=(None, 0.0))  # the one that is reached first
    agent.limit(options.max_turns, price, (stats.all_steps, before))
    try:
        yield
    finally:
        agent.limit(None, cap[0], (0, cap[1]))
