"""OpenAI's chat completions as servers really speak them: strict when we write, tolerant when we read.

Mistral's own API has the same format, but refuses unknown fields (422) and histories out of order (400).
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, ClassVar

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS, PreparedRequest, register_adapter
from kin_nb.core.llm.adapters.dialects import MISTRAL, Dialect, dialect_of, thinking_fields
from kin_nb.core.llm.adapters.encoding import (
    Destination,
    SentPieces,
    answered_together,
    arguments_object,
    as_count,
    as_dict,
    as_text,
    data_url,
    listed,
    other_fields,
    to_json,
    with_own_ids,
)
from kin_nb.core.llm.response_builder import DETAILS
from kin_nb.core.messages import (
    AvailableTool,
    FunctionCall,
    LLMChunk,
    LLMMessage,
    LLMUsage,
    Role,
    StrToolChoice,
    ToolCall,
)
from kin_nb.core.records import CallOrigin

STAND_IN = "Noted."
"""What the assistant says where a template wants it to have said something."""
_STAND_IN = to_json({"role": "assistant", "content": STAND_IN})
_MISTRALS = re.compile(r"(mistral|mixtral|devstral|magistral|ministral|codestral|pixtral)", re.IGNORECASE)
_CALL, _FUNCTION = frozenset({"id", "index", "type", "function"}), frozenset({"name", "arguments"})
_OF_A_REPLY = (DETAILS, "extra_content")
"""What servers (OpenRouter, Gemini) send with a whole reply and want back. Others refuse fields that they have sent themselves."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


@register_adapter(BACKEND_ADAPTERS, "openai")
class OpenAIAdapter:
    """A request body is a join of bytes: each message is encoded once, the tools once per list."""

    endpoint: ClassVar[str] = "/chat/completions"
    says_when_complete: ClassVar[bool] = True

    def __init__(self) -> None:
        self.model: ModelConfig | None = None
        self._tools: list[AvailableTool] = []
        self._tools_json = b""
        self._sent: SentPieces[bytes] = SentPieces()

    def prepare_request(
        self,
        *,
        model_name: str,
        messages: list[LLMMessage],
        temperature: float,
        tools: list[AvailableTool] | None,
        max_tokens: int | None = None,
        tool_choice: StrToolChoice | None,
        enable_streaming: bool,
        provider: ProviderConfig,
        api_key: str | None = None,
    ) -> PreparedRequest:
        dialect = self.dialect(provider)
        options: dict[str, Any] = {"model": model_name, "stream": enable_streaming}
        if dialect.takes_temperature(model_name):
            options["temperature"] = temperature
        if max_tokens is not None:
            options[dialect.max_tokens] = max_tokens
        if enable_streaming and dialect.stream_options:
            options["stream_options"] = {"include_usage": True}
        if tools and tool_choice:
            options["tool_choice"] = dialect.any_tool if tool_choice in {"any", "required"} else tool_choice
        level = self.model.thinking if self.model else "off"
        options |= thinking_fields(provider, dialect, model_name, level, tools=bool(tools))
        parts = [to_json(options)[:-1]]
        if tools:
            parts += [b',"tools":', self._encoded_tools(tools)]
        parts += [b',"messages":[', *listed(self._encoded_messages(messages, model_name, provider)), b"]}"]
        headers = {"content-type": "application/json"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        return PreparedRequest(self.endpoint, headers, b"".join(parts))

    def parse_response(self, data: dict[str, Any], provider: ProviderConfig) -> LLMChunk:
        choices = data.get("choices")
        choice = as_dict(choices[0]) if isinstance(choices, list) and choices else {}
        delta = as_dict(choice.get("delta"))
        message = delta or as_dict(choice.get("message"))
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
                origin=_origin({key: message[key] for key in _OF_A_REPLY if message.get(key)}),
            ),
            usage=_usage(usage) if isinstance(usage, dict) else None,
            finish_reason=_finish(choice.get("finish_reason")),
        )

    def dialect(self, provider: ProviderConfig) -> Dialect:
        return dialect_of(provider)

    def reasoning_style(self, model_name: str, provider: ProviderConfig) -> str:
        """How reasoning goes back, "" for not at all: part of the style that messages are encoded in."""
        del model_name
        return provider.reasoning_field_name if self.dialect(provider).reasoning else ""

    def wants_alternation(self, model_name: str) -> bool:
        """The templates of Mistral's models refuse a user after a tool or a user, wherever the model runs."""
        return _MISTRALS.search(model_name) is not None

    def encode(self, message: LLMMessage, reasoning: str) -> dict[str, Any]:
        """Content is never null: some servers refuse that, none refuses ""."""
        wire: dict[str, Any] = {"role": message.role.value, "content": content_parts(message)}
        if reasoning and message.reasoning_content:
            wire[reasoning] = message.reasoning_content
        if message.origin is not None:
            wire |= message.origin.fields
            if DETAILS in wire:
                wire.pop(reasoning, None)  # the same once more
        if message.tool_calls:
            wire["tool_calls"] = [tool_call(call) for call in message.tool_calls]
        if message.name:
            wire["name"] = wire_name(message.name) if message.role is Role.tool else message.name
        if message.tool_call_id is not None:
            wire["tool_call_id"] = message.tool_call_id
        return wire

    def _encoded_messages(self, messages: list[LLMMessage], model_name: str, provider: ProviderConfig) -> list[bytes]:
        reasoning, alternate = self.reasoning_style(model_name, provider), self.wants_alternation(model_name)
        # Mistral's templates refuse ids of any other form than ours, and its API refuses unknown fields.
        to = None if alternate else Destination.of(provider, model_name)
        style = f"{type(self).__name__}:{reasoning}:{to}"
        pieces = self._sent.pieces
        for position in range(self._sent.keep(messages, f"{style}:{alternate}"), len(messages)):
            message = messages[position]
            before = messages[position - 1].role if position else None
            parts = []
            if message.role is not Role.tool and (shown := _shown(messages, position, to)):
                parts.append(shown)
                before = Role.user
            if alternate and message.role is Role.user and before in {Role.tool, Role.user}:
                parts.append(_STAND_IN)
            encode = partial(self._encoded, reasoning=reasoning, messages=messages, position=position, to=to)
            parts.append(message.encoded(style, encode))
            pieces.append(b",".join(parts))
        shown = _shown(messages, len(messages), to)
        return [*pieces, shown] if shown else pieces

    def _encoded(
        self, message: LLMMessage, *, reasoning: str, messages: list[LLMMessage], position: int, to: Destination | None
    ) -> bytes:
        return to_json(self.encode(with_own_ids(message, messages[:position], to), reasoning))

    def _encoded_tools(self, tools: list[AvailableTool]) -> bytes:
        same = len(tools) == len(self._tools) and all(a is b for a, b in zip(tools, self._tools, strict=True))
        if not same:
            self._tools, self._tools_json = list(tools), to_json([_tool(tool) for tool in tools])
        return self._tools_json


def _tool(tool: AvailableTool) -> dict[str, Any]:
    """OpenAI refuses an object schema without properties, and with it the whole request."""
    wire = tool.model_dump()
    wire["function"]["parameters"].setdefault("properties", {})
    return wire


def content_parts(message: LLMMessage) -> str | list[dict[str, Any]]:
    """Text, or parts when a person's message has images; a tool's follow in a message of their own."""
    text = message.content or ""
    if not message.images or message.role is Role.tool:
        return text
    parts = [{"type": "text", "text": text}] if text else []
    return parts + [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images]


def tool_call(call: ToolCall) -> dict[str, Any]:
    """Arguments stay as the model wrote them when they are a JSON object; the server's own fields go along."""
    written = call.function.arguments
    arguments = "{}" if arguments_object(written) is None else written
    fields = dict(call.origin.fields) if call.origin is not None else {}
    function = {**as_dict(fields.pop("function", None)), "name": wire_name(call.function.name), "arguments": arguments}
    return {**fields, "id": call.id or "", "type": "function", "function": function}


def wire_name(name: str | None) -> str:
    """A tool's name as servers take it: a model may have made one up, and the history would be refused for good."""
    return _NO_NAME.sub("_", name or "")[:64] or "unknown"


def _shown(messages: list[LLMMessage], end: int, to: Destination | None) -> bytes:
    """The images of the tool messages before `end` as a user's message: no tool message may hold one."""
    with_images = [message for message in answered_together(messages, end) if message.images]
    if not with_images:
        return b""
    encode = partial(_image_parts, messages=messages[:end], to=to)
    parts = [message.encoded(f"openai:images:{to}", encode) for message in with_images]
    message = b'{"role":"user","content":[' + b",".join(parts) + b"]}"
    return message if to else _STAND_IN + b"," + message


def _image_parts(message: LLMMessage, messages: list[LLMMessage], to: Destination | None) -> bytes:
    call_id = with_own_ids(message, messages, to).tool_call_id
    said = {"type": "text", "text": f"What {message.name or 'the tool'} returned as an image (call {call_id}):"}
    images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images or ()]
    return to_json([said, *images])[1:-1]


def _texts(delta: dict[str, Any], reasoning_field: str) -> tuple[str | None, str | None]:
    """Content and reasoning; Mistral's reasoning models send a list of typed parts as content."""
    reasoning = delta.get(reasoning_field) or delta.get("reasoning_content") or delta.get("reasoning")
    content = delta.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        reasoning = "".join(_part_text(p.get("thinking")) for p in parts) or reasoning
        content = "".join(_part_text(p.get("text")) for p in parts)
    return as_text(content), as_text(reasoning)


def _part_text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(_part_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _calls(raw: list[Any], *, whole: bool) -> list[ToolCall]:
    """Tool-call deltas; in a whole reply the position is the index, whatever the server counted."""
    found = [call for call in raw if isinstance(call, dict)]
    return [_call(call, position if whole else call.get("index")) for position, call in enumerate(found)]


def _call(raw: dict[str, Any], index: Any) -> ToolCall:
    function = as_dict(raw.get("function"))
    arguments, identity = function.get("arguments"), raw.get("id")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)  # some servers send the object itself
    fields = other_fields(raw, _CALL)
    if of_function := other_fields(function, _FUNCTION):
        fields["function"] = of_function
    return ToolCall.model_construct(
        id=str(identity) if identity else None,
        index=index if isinstance(index, int) else None,
        function=FunctionCall.model_construct(name=as_text(function.get("name")), arguments=arguments),
        type="function",
        origin=_origin(fields),
    )


def _origin(fields: dict[str, Any]) -> CallOrigin | None:
    return CallOrigin.model_construct(provider="", address="", model="", id="", fields=fields) if fields else None


def _finish(reason: Any) -> str | None:
    return "length" if reason == "model_length" else str(reason or "") or None  # Mistral: the window is full


def _usage(raw: dict[str, Any]) -> LLMUsage:
    prompt, completion = as_count(raw.get("prompt_tokens")), as_count(raw.get("completion_tokens"))
    return LLMUsage(prompt_tokens=prompt, completion_tokens=completion)


@register_adapter(BACKEND_ADAPTERS, "mistral")
class MistralAdapter(OpenAIAdapter):
    """The rules, as its API and its templates state them: only known fields; a tool message is followed by a tool or an
    assistant message; an assistant message says or calls something; reasoning is a typed part of the content.

    The history itself is never changed, only the request. The server sends usage without being asked.
    """

    def dialect(self, provider: ProviderConfig) -> Dialect:
        del provider
        return MISTRAL

    def reasoning_style(self, model_name: str, provider: ProviderConfig) -> str:
        """Only models that think get reasoning back: the others were not trained on it."""
        del provider
        thinks = "magistral" in model_name or (self.model is not None and self.model.thinking != "off")
        return "thinking" if thinks else ""

    def wants_alternation(self, model_name: str) -> bool:
        del model_name
        return True

    def encode(self, message: LLMMessage, reasoning: str) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message.role.value, "content": content_parts(message)}
        if message.role is Role.tool:
            named = {"name": wire_name(message.name)} if message.name else {}
            return {**wire, "tool_call_id": message.tool_call_id or "", **named}
        if message.role is not Role.assistant:
            return wire
        if reasoning and message.reasoning_content:
            said = [{"type": "text", "text": message.content}] if message.content else []
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": message.reasoning_content}]}
            wire["content"] = [thought, *said]
        if message.tool_calls:
            wire["tool_calls"] = [tool_call(call) for call in message.tool_calls]
        elif not wire["content"]:
            wire["content"] = STAND_IN
        return wire
