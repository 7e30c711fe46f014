"""From a call as the model wrote it to a call that can be decided and run (seed 003: resolve_tool_calls)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kin_nb.core.bounded_json import read_json
from kin_nb.core.callback_errors import describe_error, error_text
from kin_nb.core.config import KinConfig, ProviderConfig
from kin_nb.core.messages import AvailableTool, LLMMessage, Role, StrToolChoice, ToolCall
from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.arguments import raw_arguments
from kin_nb.core.tools.base import AnyTool, BaseTool
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.workspace import Workspace


@dataclass(frozen=True)
class ParsedToolCall:
    """A call with parsed arguments. `error`: why parsing failed; then `raw_args` is empty and the call must not run."""

    tool_name: str
    raw_args: dict[str, Any] = field(default_factory=dict)
    call_id: str = ""
    error: str | None = None


@dataclass(frozen=True)
class ResolvedToolCall:
    """A call that can be decided and run. `edited`: the first line of its result if the user has edited it."""

    tool_name: str
    call_id: str
    tool: AnyTool
    args: BaseModel
    request: ToolRequest
    edited: str = ""

    @property
    def tool_class(self) -> type[AnyTool]:
        return type(self.tool)

    @property
    def validated_args(self) -> BaseModel:
        """Seed 003's name for `args`."""
        return self.args

    async def run(self) -> BaseModel:
        """Run the tool with `args`: by `invoke` if its class overrides that, otherwise by `run`, without a second validation."""
        result: BaseModel
        if getattr(self.tool.invoke, "__func__", None) is BaseTool.invoke:
            result = await self.tool.run(self.args)
        else:
            result = await self.tool.invoke(**raw_arguments(self.args))
        return result


@dataclass(frozen=True)
class FailedToolCall:
    tool_name: str
    call_id: str
    error: str


def parse(call: ToolCall) -> ParsedToolCall:
    name, call_id = call.function.name or "", call.id or ""
    try:
        return ParsedToolCall(name, _arguments(call.function.arguments), call_id)
    except ToolError as error:
        return ParsedToolCall(name, {}, call_id, str(error))


def resolve(
    call: ToolCall | ParsedToolCall, manager: ToolManager, workspace: Workspace
) -> ResolvedToolCall | FailedToolCall:
    """Resolve a call. An unknown tool, invalid arguments and invalid paths give a FailedToolCall with a message."""
    parsed = call if isinstance(call, ParsedToolCall) else parse(call)
    if parsed.error is not None:
        return FailedToolCall(parsed.tool_name, parsed.call_id, parsed.error)
    try:
        name = manager.known_name(parsed.tool_name)
        return resolve_args(name, parsed.call_id, manager.get(name), parsed.raw_args, workspace)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (a custom tool may raise anything)
        return FailedToolCall(parsed.tool_name, parsed.call_id, failure_message(parsed.tool_name, error))


def failure_message(name: str, error: BaseException) -> str:
    """The message for the model. The text of a ToolError is used as it is."""
    return (error_text(error) if isinstance(error, ToolError) else "") or f"{name} failed: {describe_error(error)}"


def resolve_args(name: str, call_id: str, tool: AnyTool, raw: dict[str, Any], workspace: Workspace) -> ResolvedToolCall:
    """Validate the arguments and resolve the call's paths. Raises ToolError for invalid arguments."""
    args = tool.parse_args(raw)
    return ResolvedToolCall(name, call_id, tool, args, _request(name, call_id, tool, args, workspace))


def re_resolve(call: ResolvedToolCall, workspace: Workspace) -> ResolvedToolCall:
    """Resolve the call again: earlier calls may have changed links, or the files that a command would run."""
    return replace(call, request=_request(call.tool_name, call.call_id, call.tool, call.args, workspace))


def _request(name: str, call_id: str, tool: AnyTool, args: BaseModel, workspace: Workspace) -> ToolRequest:
    accesses = tool.accesses(args)
    return ToolRequest(
        tool_name=name,
        args=args,
        tool_call_id=call_id,
        accesses=accesses,
        read_paths=tuple(workspace.resolve(path) for path in accesses.reads),
        fingerprint=getattr(type(tool), "fingerprint", ""),
        write_paths=tuple(workspace.resolve(path) for path in accesses.writes),
    )


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        raw = read_json(text or "{}")
    except ValueError as error:
        raise ToolError(f"Not run: the arguments are not valid JSON: {error}.\nSend the call again.") from error
    if not isinstance(raw, dict):
        raise ToolError("Not run: the arguments must be a JSON object.\nSend the call again.")
    return raw


@dataclass(frozen=True)
class ParsedMessage:
    tool_calls: list[ParsedToolCall] = field(default_factory=list)


@dataclass(frozen=True)
class ResolvedMessage:
    """Every call of the message, in one list or the other, each in the order of the message."""

    tool_calls: list[ResolvedToolCall] = field(default_factory=list)
    failed_calls: list[FailedToolCall] = field(default_factory=list)


class APIToolFormatHandler:
    """Tool calls between messages of an API and tools (seed 003).

    The agent offers tools, and reads and resolves a reply's calls, with the one that is assigned to `Agent.format_handler`.
    The messages with results are for programs that run calls themselves: an agent's have the text that is recorded, word for word.
    """

    def get_available_tools(self, tool_manager: ToolManager, config: KinConfig) -> list[AvailableTool]:  # noqa: ARG002
        return tool_manager.schemas()

    def get_tool_choice(self) -> StrToolChoice | AvailableTool | None:
        return "auto"

    def process_api_response_message(self, message: LLMMessage | Mapping[str, Any]) -> LLMMessage:
        """Convert a reply to a message for the history. Unknown fields are left out, malformed ones are empty."""
        if isinstance(message, LLMMessage):
            return message
        from kin_nb.core.llm.adapters.openai import OpenAIAdapter  # noqa: PLC0415  (only here, and few programs call it)

        reply = {"choices": [{"message": dict(message)}]}
        return OpenAIAdapter().parse_response(reply, ProviderConfig(name="any", api_base="http://localhost")).message

    def parse_message(self, message: LLMMessage) -> ParsedMessage:
        """Arguments that are not JSON stay with their call, as its `error`."""
        return ParsedMessage([parse(call) for call in message.tool_calls or ()])

    def resolve_tool_calls(
        self, parsed: ParsedMessage, tool_manager: ToolManager, config: KinConfig
    ) -> ResolvedMessage:
        workspace = Workspace(config.workdir or Path.cwd())
        resolved = [resolve(call, tool_manager, workspace) for call in parsed.tool_calls]
        return ResolvedMessage(
            [call for call in resolved if isinstance(call, ResolvedToolCall)],
            [call for call in resolved if isinstance(call, FailedToolCall)],
        )

    def create_tool_response_message(self, tool_call: ResolvedToolCall, result: str) -> dict[str, Any]:
        return _response(tool_call.call_id, tool_call.tool_name, result)

    def create_failed_tool_response_message(self, failed: FailedToolCall, error: str) -> dict[str, Any]:
        return _response(failed.call_id, failed.tool_name, error)


def resolve_calls(
    handler: APIToolFormatHandler, calls: Sequence[ToolCall], tool_manager: ToolManager, config: KinConfig
) -> list[ResolvedToolCall | FailedToolCall]:
    """Resolve the calls of a reply, each in its place. One that the handler leaves out has failed."""
    message = LLMMessage(role=Role.assistant, tool_calls=list(calls))
    resolved = handler.resolve_tool_calls(handler.parse_message(message), tool_manager, config)
    found: dict[str, ResolvedToolCall | FailedToolCall] = {call.call_id: call for call in resolved.failed_calls}
    found |= {call.call_id: call for call in resolved.tool_calls}
    return [
        found.get(call.id or "")
        or FailedToolCall(call.function.name or "", call.id or "", "The call was not resolved. Nothing was run.")
        for call in calls
    ]


def _response(call_id: str, name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}
