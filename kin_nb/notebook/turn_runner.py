"""The turns of one cell on the agent's thread, while the cell waits, hears its buttons and can be interrupted.

One for a prompt, several one after another for a flow. Each is shown and recorded by itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError
from kin_nb.core.config.loading import explain
from kin_nb.core.conversation import TurnRunningError
from kin_nb.core.events import BaseEvent, ErrorEvent, TurnStartEvent
from kin_nb.core.middleware import Limits
from kin_nb.core.questions import AskQuestion, Question
from kin_nb.core.records import TurnRecord
from kin_nb.core.safety.approvals import Ask
from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.core.session.errors import SessionError
from kin_nb.notebook.approval import CardPlace, choose_channel, choose_question_channel, draws_widgets
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.cell_view import CellView
from kin_nb.notebook.main_thread_loop import AgentThread, SubmitMain, run_on_agent_thread
from kin_nb.notebook.namespace import Attachments, main_thread
from kin_nb.notebook.options import CellOptions, KinError, TurnFailedError
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import TapRun, listen
from kin_nb.replay.cell_keys import flow_key

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.skills.flows import Flow


class CellTurns:
    """The turns of one cell. `view` shows the first one. `through` and `answering` answer before the user is asked.

    `display`: where the first output goes, if there is one already. `tools`: whether the model may call any. `carry`: what
    a turn's last output carries in its metadata.
    """

    def __init__(
        self,
        agent: Agent,
        key: str,
        io: CellOutput,
        *,
        view: CellView | None = None,
        display: Display | None = None,
        tools: bool = True,
        carry: Callable[[TurnRecord], dict[str, Any]] = lambda _: {},
        attached: Attachments | None = None,
        through: Callable[[Ask], Ask] = lambda ask: ask,
        answering: Callable[[AskQuestion], AskQuestion] = lambda ask: ask,
    ) -> None:
        self._agent, self._key, self._io = agent, key, io
        self._view = view or CellView(io, figures=self._figures, display=display)
        self._tools, self._attached, self._carry = tools, attached or Attachments(), carry
        self._through, self._answering = through, answering
        self._ran = 0
        self._widgets_run: TapRun | None = None
        self._before = (0, 0.0)
        """Tokens and USD that the session had taken when this turn began."""

    def begin(self, run: TapRun, submit_main: SubmitMain) -> None:
        """Send approvals and questions to this cell from here on."""
        main_thread.set(submit_main)
        self._widgets_run = run if draws_widgets(self._io, run) else None
        ask = choose_channel(self._io, run=run, submit_main=submit_main, place=self._place)
        question = choose_question_channel(self._io, run=run, submit_main=submit_main, place=self._place)
        approvals = self._agent.approvals
        approvals.allows_tools, approvals.ask = self._tools, self._through(ask)
        approvals.ask_question = self._answering(question)

    async def act(self, prompt: str) -> AsyncGenerator[BaseEvent, None]:
        """Run `Agent.act`, and show its events in the cell."""
        agent, stats = self._agent, self._agent.stats
        view = self._view if not self._ran else CellView(self._io, figures=self._figures)
        self._view, view.run = view, self._widgets_run
        self._before = stats.session_total_llm_tokens, stats.session_cost
        key = flow_key(self._key, self._ran) if self._ran else self._key
        self._ran += 1
        found, self._attached = self._attached, Attachments()  # a flow's later prompts are not the person's
        sent = found.sent(prompt)
        try:
            async with aclosing(
                agent.act(
                    prompt, key=key, cell_id=self._io.cell_id, images=found.images, attached=found.labels, sent=sent
                )
            ) as events:
                async for event in events:
                    view.handle(event)
                    if isinstance(event, TurnStartEvent):
                        view.begin(agent.turns[-1])
                    yield event
        finally:
            view.finish(agent.turns[-1], self._carry(agent.turns[-1]))

    def _figures(self) -> str:
        """Return the tokens and the cost of the turn so far, as text."""
        stats, (tokens, cost) = self._agent.stats, self._before
        used, paid = stats.session_total_llm_tokens - tokens, stats.session_cost - cost
        return " · ".join([*([f"{used:,} tokens"] if used else []), *([f"${paid:.4f}"] if paid else [])])

    def _place(self, asks: ApprovalRequest | Question) -> CardPlace:
        call_id = asks.call_id if isinstance(asks, Question) else asks.tool_call_id
        return CardPlace(self._view.display_of(call_id), self._view.waiting_card(call_id).data)


def run_turn(
    shell: InteractiveShell, thread: AgentThread, agent: Agent, turns: CellTurns, io: CellOutput, prompt: str
) -> TurnRecord:
    """Run one turn, and show it in its cell.

    Raises TurnFailedError when the turn ended with an error, TurnInterrupted (main_thread_loop.py) when the person stopped it.
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
    """Run a turn for each node of a flow. Raises TurnFailedError, with the node where it stopped, if END was not reached."""
    from kin_nb.core.skills.flows import FlowRunner  # noqa: PLC0415  (only flows need it)

    stopped = _run(shell, thread, agent, turns, io, lambda: FlowRunner(flow, turns.act).run(request))
    if stopped:
        agent.fail_last_turn(stopped)
        raise TurnFailedError(stopped)


def _run(
    shell: InteractiveShell,
    thread: AgentThread,
    agent: Agent,
    turns: CellTurns,
    io: CellOutput,
    make: Callable[[], AsyncGenerator[BaseEvent, None]],
) -> str:
    """Run all events of `make()`. Return the error after the last turn, if any."""
    if agent.busy:
        raise KinError(str(TurnRunningError()))
    errors: list[str] = []

    async def drain(submit_main: SubmitMain) -> None:
        turns.begin(run, submit_main)
        async with aclosing(make()) as events:
            async for event in events:
                errors[:] = [event.message] if isinstance(event, ErrorEvent) else []

    try:
        with listen(shell, io.parent) as run:
            run_on_agent_thread(drain, thread, on_tick=run.on_tick)
    except ConfigError as error:
        raise KinError(explain(error)) from None
    except SessionError as error:
        raise KinError(str(error)) from None
    if agent.turns[-1].outcome == "error":
        raise TurnFailedError(agent.turns[-1].message)
    return "".join(errors)


@contextmanager
def limits(agent: Agent, options: CellOptions, max_price: float | None, spent_by_others: float) -> Iterator[None]:
    """Apply the limits of one cell, and the notebook's limit in USD, less the cost of its other sessions."""
    stats, cap = agent.stats, (max_price, -spent_by_others)
    prices = [(usd, before) for usd, before in [cap, (options.max_price, stats.total_cost)] if usd is not None]
    price, before = min(prices, key=sum, default=(None, 0.0))  # the one that is reached first
    agent.limit(Limits(options.max_requests, price, stats.total_steps, before))
    try:
        yield
    finally:
        agent.limit(Limits(None, cap[0], 0, cap[1]))
