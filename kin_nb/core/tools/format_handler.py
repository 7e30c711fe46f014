"""APIToolFormatHandler: tool calls between messages of the wire and tools (seed 003).

A face over core.tools.resolve, for those who run a reply's calls themselves; the agent uses that module directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kin_nb.core.config import KinConfig, ProviderConfig
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.messages import AvailableTool, LLMMessage, StrToolChoice
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import FailedToolCall, ParsedToolCall, ResolvedToolCall, parse, resolve
from kin_nb.core.workspace import Workspace


@dataclass(frozen=True)
class ParsedMessage:
    tool_calls: list[ParsedToolCall] = field(default_factory=list)


@dataclass(frozen=True)
class ResolvedMessage:
    """Every call of the message, in one list or the other, each in the order of the message."""

    tool_calls: list[ResolvedToolCall] = field(default_factory=list)
    failed_calls: list[FailedToolCall] = field(default_factory=list)


class APIToolFormatHandler:
    """Calls as an API's own `tool_calls`, not as text."""

    def get_available_tools(self, tool_manager: ToolManager, config: KinConfig) -> list[AvailableTool]:  # noqa: ARG002
        return tool_manager.schemas()

    def get_tool_choice(self) -> StrToolChoice | AvailableTool | None:
        return "auto"

    def process_api_response_message(self, message: LLMMessage | Mapping[str, Any]) -> LLMMessage:
        """A reply as a message for the history: what is no part of one is left out, what is malformed is empty."""
        if isinstance(message, LLMMessage):
            return message
        reply = {"choices": [{"message": dict(message)}]}
        return OpenAIAdapter().parse_response(reply, ProviderConfig(name="any", api_base="http://localhost")).message

    def parse_message(self, message: LLMMessage) -> ParsedMessage:
        """Arguments that are not JSON stay with their call, as its `error`."""
        return ParsedMessage([parse(call) for call in message.tool_calls or ()])

    def resolve_tool_calls(
        self, parsed: ParsedMessage, tool_manager: ToolManager, config: KinConfig
    ) -> ResolvedMessage:
        workspace = Workspace(config.effective_workdir)
        resolved = [resolve(call, tool_manager, workspace) for call in parsed.tool_calls]
        return ResolvedMessage(
            [call for call in resolved if isinstance(call, ResolvedToolCall)],
            [call for call in resolved if isinstance(call, FailedToolCall)],
        )

    def create_tool_response_message(self, tool_call: ResolvedToolCall, result: str) -> dict[str, Any]:
        return _answer(tool_call.call_id, tool_call.tool_name, result)

    def create_failed_tool_response_message(self, failed: FailedToolCall, error: str) -> dict[str, Any]:
        return _answer(failed.call_id, failed.tool_name, error)


def _answer(call_id: str, name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}
