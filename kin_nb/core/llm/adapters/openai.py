"""OpenAI's chat completions as servers really speak them: strict when we write, tolerant when we read."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from kin_nb.core.config import Backend, ProviderConfig
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS, PreparedRequest, register_adapter
from kin_nb.core.types import (
    AvailableTool,
    FunctionCall,
    LLMChunk,
    LLMMessage,
    LLMUsage,
    Role,
    StrToolChoice,
    ToolCall,
)


@register_adapter(BACKEND_ADAPTERS, "openai")
class OpenAIAdapter:
    """A request body is a join of bytes: each message is encoded once, the tools once per list."""

    endpoint: ClassVar[str] = "/chat/completions"

    def __init__(self) -> None:
        self._tools: list[AvailableTool] = []
        self._tools_json = b""
        self._style = ""
        self._sent: list[LLMMessage] = []
        self._sent_json: list[bytes] = []

    def prepare_request(
        self,
        *,
        model_name: str,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None,
        tool_choice: StrToolChoice | None,
        enable_streaming: bool,
        provider: ProviderConfig,
        api_key: str | None = None,
    ) -> PreparedRequest:
        options: dict[str, Any] = {"model": model_name, "temperature": temperature, "stream": enable_streaming}
        if max_tokens is not None:
            options["max_tokens"] = max_tokens
        if enable_streaming:
            options["stream_options"] = {"include_usage": True}
        if tools and tool_choice:
            options["tool_choice"] = "required" if tool_choice == "any" else tool_choice
        parts = [_json(options)[:-1]]
        if tools:
            parts += [b',"tools":', self._encoded_tools(tools)]
        parts += [b',"messages":[', self._encoded_messages(messages, provider), b"]}"]
        headers = {"content-type": "application/json"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        return PreparedRequest(self.endpoint, headers, b"".join(parts))

    def parse_response(self, data: dict[str, Any], provider: ProviderConfig) -> LLMChunk:
        choices = data.get("choices")
        choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
        delta = _dict(choice.get("delta"))
        message = delta or _dict(choice.get("message"))
        content, reasoning = _texts(message, provider.reasoning_field_name)
        calls = message.get("tool_calls")
        usage = data.get("usage") or choice.get("usage")  # Moonshot puts it into the choice
        # model_construct: once per delta, and every field is checked here.
        return LLMChunk.model_construct(
            message=LLMMessage.model_construct(
                role=Role.assistant,
                content=content,
                reasoning_content=reasoning,
                tool_calls=_calls(calls, whole=not delta) if isinstance(calls, list) and calls else None,
            ),
            usage=_usage(usage) if isinstance(usage, dict) else None,
            finish_reason=str(choice.get("finish_reason") or "") or None,
        )

    def _encoded_messages(self, messages: list[LLMMessage], provider: ProviderConfig) -> bytes:
        # Mistral's own API answers 422 to a field that it does not know; other servers want their reasoning back.
        reasoning = "" if provider.backend is Backend.MISTRAL else provider.reasoning_field_name
        style = f"openai:{reasoning}"
        # Only what is new since the last request is looked at: asking 800 messages for their bytes takes 3 ms.
        pairs = enumerate(zip(messages, self._sent, strict=False))
        same = next((i for i, (now, then) in pairs if now is not then), min(len(messages), len(self._sent)))
        if style != self._style:
            same = 0
        new = [m.encoded(style, lambda m: _encode_message(m, reasoning)) for m in messages[same:]]
        self._style, self._sent, self._sent_json = style, messages[:], self._sent_json[:same] + new
        return b",".join(self._sent_json)

    def _encoded_tools(self, tools: list[AvailableTool]) -> bytes:
        same = len(tools) == len(self._tools) and all(a is b for a, b in zip(tools, self._tools, strict=True))
        if not same:
            self._tools, self._tools_json = list(tools), _json([t.model_dump() for t in tools])
        return self._tools_json


def _json(value: Any) -> bytes:
    # A lone surrogate becomes "?": escaped, it would reach strict servers, which refuse the whole history for good.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _encode_message(message: LLMMessage, reasoning_field: str) -> bytes:
    """Content is always text: some servers refuse null, none refuses ""."""
    wire: dict[str, Any] = {"role": message.role.value, "content": message.content or ""}
    if reasoning_field and message.reasoning_content:
        wire[reasoning_field] = message.reasoning_content
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id or "",
                "type": "function",
                "function": {"name": call.function.name or "", "arguments": _object_json(call.function.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.name:
        wire["name"] = message.name
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return _json(wire)


def _object_json(arguments: str | None) -> str:
    """`arguments` untouched when it is a JSON object, else "{}": strict servers parse what the history holds."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)  # NaN and Infinity are Python's, not JSON's

    try:
        parsed = json.loads(arguments or "", parse_constant=refuse)
    except (ValueError, RecursionError):
        return "{}"
    return arguments or "{}" if isinstance(parsed, dict) else "{}"


def _texts(delta: dict[str, Any], reasoning_field: str) -> tuple[str | None, str | None]:
    """Content and reasoning; Mistral's reasoning models send a list of typed parts as content."""
    reasoning = delta.get(reasoning_field) or delta.get("reasoning_content") or delta.get("reasoning")
    content = delta.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        reasoning = "".join(_part_text(p.get("thinking")) for p in parts) or reasoning
        content = "".join(_part_text(p.get("text")) for p in parts)
    return content if isinstance(content, str) else None, reasoning if isinstance(reasoning, str) else None


def _part_text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(_part_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _calls(raw: list[Any], *, whole: bool) -> list[ToolCall]:
    """Tool-call deltas; in a whole reply the position is the index, whatever the server counted."""
    found = [call for call in raw if isinstance(call, dict)]
    return [_call(call, position if whole else call.get("index")) for position, call in enumerate(found)]


def _call(raw: dict[str, Any], index: Any) -> ToolCall:
    function = _dict(raw.get("function"))
    arguments, name, identity = function.get("arguments"), function.get("name"), raw.get("id")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)  # some servers send the object itself
    return ToolCall.model_construct(
        id=str(identity) if identity else None,
        index=index if isinstance(index, int) else None,
        function=FunctionCall.model_construct(name=name if isinstance(name, str) else None, arguments=arguments),
        type="function",
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _usage(raw: dict[str, Any]) -> LLMUsage:
    prompt, completion = _count(raw.get("prompt_tokens")), _count(raw.get("completion_tokens"))
    return LLMUsage(prompt_tokens=prompt, completion_tokens=completion)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value >= 0 else 0
