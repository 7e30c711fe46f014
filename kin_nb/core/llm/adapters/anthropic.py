"""Anthropic's Messages API: blocks of content, alternating roles, signed thinking, explicit prompt caching.

A whole message and the events of a stream are read without state between them; blocks are identified by their index. Thinking goes
to `reasoning_content` for the user and, piece by piece, to `reasoning_blocks`, which also mark the positions of text and calls
(core.llm.response_builder joins the pieces).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.llm.adapters.base import BACKEND_ADAPTERS, PreparedRequest, register_adapter
from kin_nb.core.llm.adapters.dialects import Abilities, abilities
from kin_nb.core.llm.adapters.encoding import (
    Destination,
    SentPieces,
    arguments_object,
    as_count,
    as_dict,
    as_text,
    other_fields,
    to_json,
    with_own_ids,
)
from kin_nb.core.llm.adapters.openai import wire_name
from kin_nb.core.messages import (
    AvailableTool,
    FunctionCall,
    ImageContent,
    LLMChunk,
    LLMMessage,
    LLMUsage,
    Role,
    StrToolChoice,
    ToolCall,
)
from kin_nb.core.records import CallOrigin

VERSION = "2023-06-01"
_CACHE_UP_TO_HERE = b',"cache_control":{"type":"ephemeral"}}'
_OPENS = {role: b'{"role":"' + role.encode() + b'","content":[' for role in ("user", "assistant")}
_CONTINUES = _OPENS["user"] + to_json({"type": "text", "text": "(continued)"}) + b"]},"
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_CHOICES = {"auto": "auto", "none": "none", "any": "any", "required": "any"}


@register_adapter(BACKEND_ADAPTERS, "anthropic")
class AnthropicAdapter:
    """Each message is encoded once, as blocks; neighbours of one role are joined into one message of the API.

    A piece of the body is a message's blocks with what separates them from those before. The prompt is cached up to
    three places: the system prompt with the tools, the last message, and the one that was the last a request ago.
    """

    endpoint: ClassVar[str] = "/messages"
    says_when_complete: ClassVar[bool] = True

    def __init__(self) -> None:
        self.model: ModelConfig | None = None
        self._tools: list[AvailableTool] = []
        self._tools_json = b""
        self._sent: SentPieces[bytes] = SentPieces()
        self._roles: list[str] = []  # whose message is open after each piece; "" before the first
        self._system: list[str] = []  # what each message adds to the system prompt; "" for nearly all

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
        able = abilities(model_name)
        limit = max_tokens or able.max_tokens
        thinking = able.thinking(self._level(messages, able), limit)
        options: dict[str, Any] = {"model": model_name, "max_tokens": limit, "stream": enable_streaming, **thinking}
        if able.takes_temperature and "thinking" not in thinking:
            options["temperature"] = min(temperature, 1.0)
        if tools and tool_choice:
            choice = _CHOICES[tool_choice]
            if choice == "any" and (able.thinks_unasked or "thinking" in thinking):
                choice = "auto"  # a model that thinks cannot be made to call a tool
            options["tool_choice"] = {"type": choice}
        return self._request(
            self.endpoint, options, messages, tools, api_key, able, Destination.of(provider, model_name)
        )

    def prepare_count(
        self,
        *,
        model_name: str,
        messages: list[LLMMessage],
        tools: list[AvailableTool] | None,
        provider: ProviderConfig,
        api_key: str | None = None,
    ) -> PreparedRequest:
        able, to = abilities(model_name), Destination.of(provider, model_name)
        return self._request("/messages/count_tokens", {"model": model_name}, messages, tools, api_key, able, to)

    def parse_response(self, data: dict[str, Any], provider: ProviderConfig) -> LLMChunk:
        del provider
        return read_reply(data)

    def parse_count(self, data: dict[str, Any]) -> int | None:
        return as_count(data.get("input_tokens")) or None

    def _request(
        self,
        endpoint: str,
        options: dict[str, Any],
        messages: list[LLMMessage],
        tools: list[AvailableTool] | None,
        api_key: str | None,
        able: Abilities,
        to: Destination,
    ) -> PreparedRequest:
        parts = [to_json(options)[:-1]]
        pieces = self._encoded_messages(messages, to)
        system = "\n\n".join(filter(None, self._system))
        if tools:
            parts += [b',"tools":', self._encoded_tools(tools)]
        if system.strip():
            parts += [b',"system":[', to_json({"type": "text", "text": system})[:-1], _CACHE_UP_TO_HERE, b"]"]
        parts += [b',"messages":[', *pieces, b"]}"]
        headers = {"content-type": "application/json", "anthropic-version": VERSION, **able.headers}
        if api_key:
            headers["x-api-key"] = api_key
        return PreparedRequest(endpoint, headers, b"".join(parts))

    def _level(self, messages: list[LLMMessage], able: Abilities) -> str:
        if self.model is None:
            return "off"
        if able.thinks_manually:
            last = next((m for m in reversed(messages) if m.role is Role.assistant), None)
            if last is not None and last.tool_calls and not last.reasoning_blocks:
                return "off"
        return self.model.thinking

    def _encoded_messages(self, messages: list[LLMMessage], to: Destination) -> list[bytes]:
        """Encode the items of the list of messages; system messages go to `_system`."""
        kept = self._sent.keep(messages, style := f"anthropic:{to}")
        del self._roles[kept:], self._system[kept:]
        for position, message in enumerate(messages[kept:], kept):
            role, before = _role(message), self._roles[-1] if self._roles else ""
            self._system.append("" if role else message.content or "")
            encode = partial(_encode, messages=messages, position=position, to=to)
            blocks = message.encoded(style, encode) if role else b""
            if not blocks:
                self._sent.pieces.append(b"")
                self._roles.append(before)
                continue
            opening = b"," if role == before else (b"]}," if before else b"") + _OPENS[role]
            if not before and role == "assistant":
                opening = _CONTINUES + opening
            self._sent.pieces.append(opening + blocks)
            self._roles.append(role)
        pieces = self._sent.pieces[:]
        for position in self._cached_at(pieces):
            pieces[position] = pieces[position][:-1] + _CACHE_UP_TO_HERE
        return [*pieces, b"]}"] if self._roles and self._roles[-1] else pieces

    def _cached_at(self, pieces: list[bytes]) -> Iterator[int]:
        """The last piece of the last two messages of the user: where this request and the one before it end."""
        found, wanted = 0, True
        for position in range(len(pieces) - 1, -1, -1):
            if not pieces[position]:
                continue
            if self._roles[position] != "user":
                wanted = True
            elif wanted:
                yield position
                found, wanted = found + 1, False
                if found == 2:  # noqa: PLR2004  (the API allows four places; one is the system prompt's)
                    return

    def _encoded_tools(self, tools: list[AvailableTool]) -> bytes:
        same = len(tools) == len(self._tools) and all(a is b for a, b in zip(tools, self._tools, strict=True))
        if not same:
            functions = [tool.function for tool in tools]
            wire = [
                {"name": f.name, "description": f.description, "input_schema": _schema(f.parameters)} for f in functions
            ]
            self._tools, self._tools_json = list(tools), to_json(wire)
        return self._tools_json


def _schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Replace alternatives at the root, for which the API refuses the request, by their properties, all optional.

    The tool still validates against its own schema; this one only describes the arguments to the model.
    """
    if parameters.keys().isdisjoint(_ALTERNATIVES):
        return parameters
    branches = [branch for key in _ALTERNATIVES for branch in parameters.get(key, ()) if isinstance(branch, dict)]
    properties: dict[str, Any] = {}
    for part in (*branches, parameters):
        properties |= part.get("properties", {})
    kept = {key: value for key, value in parameters.items() if key not in _ALTERNATIVES}
    return {**kept, "type": "object", "properties": properties}


def _role(message: LLMMessage) -> str:
    if message.role is Role.system:
        return ""
    return "assistant" if message.role is Role.assistant else "user"


def _encode(message: LLMMessage, messages: list[LLMMessage], position: int, to: Destination) -> bytes:
    """The message's blocks, without the brackets around them; b"" when it has none that the API takes."""
    message = with_own_ids(message, messages[:position], to)
    if message.role is Role.assistant:
        blocks = list(_reply_blocks(message))
        while blocks and blocks[-1]["type"] in {"thinking", "redacted_thinking"}:
            blocks.pop()  # a message may not end with thinking, as a reply that was cut may
    elif message.role is Role.tool:
        blocks = [_result_block(message)]
    else:
        blocks = _image_blocks(message) + (
            _text_blocks(message.content) or ([] if message.images else _text_blocks("(nothing)"))
        )
    return to_json(blocks)[1:-1]


def _reply_blocks(message: LLMMessage) -> Iterator[dict[str, Any]]:
    """A reply as it came: thinking, text and calls in their order where that is known."""
    calls = iter(message.tool_calls or ())
    blocks = message.reasoning_blocks or []
    in_place = (message.content or "") == "".join(b.get("text") or "" for b in blocks)  # not changed since
    for block in blocks:
        if block.get("signature") or block.get("data"):
            yield block
        elif in_place and block.get("type") == "text":
            yield from _text_blocks(block.get("text"))
        elif in_place and block.get("type") == "tool_use" and (call := next(calls, None)):
            yield _call_block(call)
    if not in_place:
        yield from _text_blocks(message.content)
    yield from (_call_block(call) for call in calls)


def _call_block(call: ToolCall) -> dict[str, Any]:
    arguments = arguments_object(call.function.arguments) or {}
    fields = call.origin.fields if call.origin is not None else {}
    known = {"type": "tool_use", "id": call.id or "", "name": wire_name(call.function.name), "input": arguments}
    return {**fields, **known}


def _result_block(message: LLMMessage) -> dict[str, Any]:
    content = _text_blocks(message.content) + _image_blocks(message)
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id or ""}
    return {**result, "content": content} if content else result


def _text_blocks(text: Any) -> list[dict[str, Any]]:
    """No block for empty text: the API refuses it."""
    return [{"type": "text", "text": text}] if isinstance(text, str) and text.strip() else []


def _image_blocks(message: LLMMessage) -> list[dict[str, Any]]:
    def source(image: ImageContent) -> dict[str, str]:
        return {"type": "base64", "media_type": image.media_type, "data": image.data}

    return [{"type": "image", "source": source(image)} for image in message.images or ()]


_TOOL_USE = frozenset({"type", "id", "name", "input"})
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def read_reply(data: dict[str, Any]) -> LLMChunk:
    """One event, or the whole message. What is unknown, and a ping, is an empty chunk."""
    index = data.get("index")
    match data.get("type"):
        case "message":
            return _whole_message(data)
        case "message_start":
            return _chunk(usage=_usage(as_dict(data.get("message")).get("usage")))
        case "content_block_start":
            return _chunk(**_started(as_dict(data.get("content_block")), index))
        case "content_block_delta":
            return _chunk(**_continued(as_dict(data.get("delta")), index))
        case "message_delta":
            return _chunk(usage=_usage(data.get("usage")), finish_reason=_finish(as_dict(data.get("delta"))))
        case _:
            return _chunk()


def _chunk(usage: LLMUsage | None = None, finish_reason: str | None = None, **message: Any) -> LLMChunk:
    # model_construct: once per delta, and every field is checked here.
    return LLMChunk.model_construct(
        message=LLMMessage.model_construct(role=Role.assistant, **message), usage=usage, finish_reason=finish_reason
    )


def _started(block: dict[str, Any], index: Any) -> dict[str, Any]:
    match block.get("type"):
        case "tool_use":
            arguments = json.dumps(block["input"]) if block.get("input") else None
            call = _call_delta(index, arguments, as_text(block.get("id")), as_text(block.get("name")))
            if fields := other_fields(block, _TOOL_USE):
                call.origin = CallOrigin(fields=fields)
            return {"tool_calls": [call], "reasoning_blocks": [{"index": index, "type": "tool_use"}]}
        case "redacted_thinking":
            return {"reasoning_blocks": [{"index": index, **block}]}
        case "text":
            return _text_delta(block.get("text"), index)
        case "thinking":
            return _thinking(block, index) if block.get("thinking") or block.get("signature") else {}
        case _:
            return {}


def _continued(delta: dict[str, Any], index: Any) -> dict[str, Any]:
    match delta.get("type"):
        case "text_delta":
            return _text_delta(delta.get("text"), index)
        case "input_json_delta":
            return {"tool_calls": [_call_delta(index, as_text(delta.get("partial_json")))]}
        case "thinking_delta" | "signature_delta":
            return _thinking(delta, index)
        case _:
            return {}


def _text_delta(text: Any, index: Any) -> dict[str, Any]:
    if not isinstance(text, str) or not text:
        return {}
    return {"content": text, "reasoning_blocks": [{"index": index, "type": "text", "text": text}]}


def _thinking(piece: dict[str, Any], index: Any) -> dict[str, Any]:
    """The text may stay empty: some models keep it to themselves and send the signature only."""
    text, signature = as_text(piece.get("thinking")) or "", as_text(piece.get("signature"))
    block = {"index": index, "type": "thinking", "thinking": text}
    return {
        "reasoning_content": text or None,
        "reasoning_blocks": [block | ({"signature": signature} if signature else {})],
    }


def _call_delta(index: Any, arguments: str | None, identity: str | None = None, name: str | None = None) -> ToolCall:
    return ToolCall.model_construct(
        id=identity,
        index=index if isinstance(index, int) else None,
        function=FunctionCall.model_construct(name=name, arguments=arguments),
        type="function",
        origin=None,
    )


def _whole_message(data: dict[str, Any]) -> LLMChunk:
    content = data.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    pieces = [_started(block, index) for index, block in enumerate(blocks)]
    return _chunk(
        usage=_usage(data.get("usage")),
        finish_reason=_finish(data),
        content="".join(piece.get("content", "") for piece in pieces) or None,
        reasoning_content="".join(piece.get("reasoning_content") or "" for piece in pieces) or None,
        tool_calls=[call for piece in pieces for call in piece.get("tool_calls", ())] or None,
        reasoning_blocks=[block for piece in pieces for block in piece.get("reasoning_blocks", ())] or None,
    )


def _finish(data: dict[str, Any]) -> str | None:
    reason = as_text(data.get("stop_reason"))
    return _FINISH.get(reason, reason) if reason else None


def _usage(raw: Any) -> LLMUsage | None:
    """Tokens of the prompt, cached or not; figures grow while the reply comes."""
    if not isinstance(raw, dict):
        return None
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    prompt = sum(as_count(raw.get(kind)) for kind in kinds)
    return LLMUsage(prompt_tokens=prompt, completion_tokens=as_count(raw.get("output_tokens")))
