"""Run one prompt from a program: `run_programmatic` (seed 003), which `kin-nb run -p` uses too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.events import BaseEvent, ErrorEvent, RetryEvent, SubagentEvent, WarningEvent
from kin_nb.core.host_facts import COMMAND_LINE
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.modes import AgentMode
from kin_nb.core.output_formatters import OutputFormat, create_formatter
from kin_nb.core.records import TurnRecord


async def run_programmatic(
    config: KinConfig,
    prompt: str,
    *,
    mode: AgentMode | CustomMode = AgentMode.DEFAULT,
    output_format: OutputFormat = OutputFormat.TEXT,
    max_turns: int | None = None,
    max_price: float | None = None,
    previous_messages: Iterable[LLMMessage] = (),
    resume: str | None = None,
    flow: str | None = None,
    write: Callable[[str], None] = print,
    warn: Callable[[str], None] = lambda _: None,
    not_stored: Callable[[], None] = lambda: None,
) -> TurnRecord:
    """Run one turn, or the turns of the flow `flow`, and return the record of the last turn, which has the outcome.

    `output_format`: whether the last text is written, all messages as JSON, or each message as a JSON line.

    A call that needs approval is refused, and the model gets the reason. `resume`: id of a stored session to continue, or
    "latest" of this workspace. `previous_messages` are added before the prompt. When a flow stops before END, the outcome
    of its last turn becomes an error that says where. `warn` is called at once with each warning, `not_stored` at the end
    if the session's log, full outputs or file history could not be written. Raises ConfigError, SessionError, SkillError.
    """
    config.check_api_key()
    formatter = create_formatter(output_format, write)
    limits: dict[str, Any] = {"max_turns": max_turns, "max_price": max_price}
    unwritten: list[Exception] = []

    def observe(message: LLMMessage) -> None:
        try:
            formatter.on_message(message)
        except Exception as error:  # noqa: BLE001  (an observer's error would be a warning; this one ends the program)
            unwritten.append(error)

    options = {"mode": mode, "message_observer": observe, "host": COMMAND_LINE, **limits}
    agent = Agent(config, **options) if resume is None else Agent.resume(config, resume, **options)
    for message in previous_messages:
        if message.role is not Role.system:  # this session has its own system message
            agent.add_message(message)
    stopped = ""
    try:
        async with aclosing(agent.act(prompt) if flow is None else _flow_events(agent, flow, prompt)) as events:
            async for event in events:
                if unwritten:
                    raise unwritten[0]
                formatter.on_event(event, agent.redact)
                inner = event.event if isinstance(event, SubagentEvent) else event
                if isinstance(inner, WarningEvent | RetryEvent):
                    warn(inner.message)
                stopped = event.message if isinstance(event, ErrorEvent) else ""
        turn = agent.fail_last_turn(stopped) if stopped else agent.turns[-1]
    finally:
        await agent.aclose()
        for text in agent.new_warnings():  # warnings of an interrupted turn, and of closing
            warn(text)
        if agent.journal.storage.failed:
            not_stored()
    formatter.finish(turn)
    return turn


def _flow_events(agent: Agent, flow: str, request: str) -> AsyncGenerator[BaseEvent, None]:
    """Run the flow `flow`, and yield its events. Raises SkillError."""
    from kin_nb.core.skills.flows import FlowRunner  # noqa: PLC0415  (only flows need it)

    return FlowRunner(agent.toolset.skills.flow(flow), agent.act).run(request)
