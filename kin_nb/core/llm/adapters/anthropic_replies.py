"""Reading Anthropic's replies: the events of a stream and the whole message, without keeping anything between them.

Blocks are told apart by their index. Thinking goes to `reasoning_content` for people and, piece by piece, to
`reasoning_blocks`, where text and calls leave a mark of their place (merge.py puts the pieces together).
"""

from __future__ import annotations

import json
from typing import Any

from kin_nb.core.llm.adapters.encoding import as_count, as_dict, as_text, other_fields
from kin_nb.core.messages import FunctionCall, LLMChunk, LLMMessage, LLMUsage, Role, ToolCall
from kin_nb.core.records import CallOrigin

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
            return _whole(data)
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
            call = _call(index, arguments, as_text(block.get("id")), as_text(block.get("name")))
            if fields := other_fields(block, _TOOL_USE):
                call.origin = CallOrigin(fields=fields)
            return {"tool_calls": [call], "reasoning_blocks": [{"index": index, "type": "tool_use"}]}
        case "redacted_thinking":
            return {"reasoning_blocks": [{"index": index, **block}]}
        case "text":
            return _text(block.get("text"), index)
        case "thinking":
            return _thinking(block, index) if block.get("thinking") or block.get("signature") else {}
        case _:
            return {}


def _continued(delta: dict[str, Any], index: Any) -> dict[str, Any]:
    match delta.get("type"):
        case "text_delta":
            return _text(delta.get("text"), index)
        case "input_json_delta":
            return {"tool_calls": [_call(index, as_text(delta.get("partial_json")))]}
        case "thinking_delta" | "signature_delta":
            return _thinking(delta, index)
        case _:
            return {}


def _text(text: Any, index: Any) -> dict[str, Any]:
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


def _call(index: Any, arguments: str | None, identity: str | None = None, name: str | None = None) -> ToolCall:
    return ToolCall.model_construct(
        id=identity,
        index=index if isinstance(index, int) else None,
        function=FunctionCall.model_construct(name=name, arguments=arguments),
        type="function",
        origin=None,
    )


def _whole(data: dict[str, Any]) -> LLMChunk:
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
