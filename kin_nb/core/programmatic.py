"""One prompt from a program: `run_programmatic` (seed 003) and `kin-nb run -p`."""

from __future__ import annotations

import json
from collections.abc import Callable

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.records import TurnRecord
from kin_nb.core.types import LLMMessage, OutputFormat


async def run_programmatic(
    config: KinConfig,
    prompt: str,
    *,
    mode: AgentMode = AgentMode.DEFAULT,
    output_format: OutputFormat = OutputFormat.TEXT,
    write: Callable[[str], None] = print,
) -> TurnRecord:
    """Run one turn and write what `output_format` says: the last text, all messages as JSON, or each as a JSON line.

    Nobody can be asked: a call that the mode does not allow is refused and the agent told so. The caller reads the
    outcome from the returned record.
    """
    config.check_api_key()
    streaming = output_format is OutputFormat.STREAMING

    def observe(message: LLMMessage) -> None:
        if streaming:
            write(json.dumps(message.model_dump(mode="json", exclude_none=True)))

    agent = Agent(config, mode, observe)
    try:
        async for event in agent.act(prompt):
            del event
    finally:
        await agent.aclose()
    if output_format is OutputFormat.JSON:
        write(json.dumps([m.model_dump(mode="json", exclude_none=True) for m in agent.messages]))
    elif output_format is OutputFormat.TEXT:
        text = last_text(agent.turns[-1])
        if text:
            write(text)
    return agent.turns[-1]


def last_text(turn: TurnRecord) -> str:
    """The last thing the model said in words, "" when it said nothing."""
    return next((step.content for step in reversed(turn.steps) if step.content), "")
