"""Compaction: a conversation that gives way to a summary of itself (seed 000). Pure functions of messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kin_nb.core.types import LLMChunk, LLMMessage, Role

_RESULT_LIMIT = 400
"""Characters that are left of a tool result when the conversation is too long to be summarised whole."""


class CompactionError(Exception):
    """The conversation could not be compacted; it is as it was. Two lines: what happened, what to do."""


def summary_request(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """`messages`, and the request to sum them up. The prefix is the one that was sent before, so caches hit."""
    request = (Path(__file__).parent / "compact.md").read_text(encoding="utf-8").strip()
    return [*messages, LLMMessage(role=Role.user, content=request)]


def shortened(messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The same conversation with long tool results cut: for a summary when not even that fits the window."""
    return [_shortened(message) for message in messages]


def summary_of(reply: LLMChunk) -> str:
    """The summary. Raises CompactionError for a reply that is none: empty, or tool calls."""
    text = (reply.message.content or "").strip()
    if text and not reply.message.tool_calls:
        return text
    what = "tool calls" if reply.message.tool_calls else "nothing"
    raise CompactionError(
        f"The conversation could not be compacted: the model answered with {what} instead of a summary.\n"
        "Try again, choose another model (%kin model NAME, --model NAME), or begin anew."
    )


def compacted(summary: str, last_request: str) -> LLMMessage:
    """The one message that stands for everything before it."""
    parts = ["The conversation so far, summed up by you:", summary]
    if last_request:
        parts += ["The person's last request, in their words:", last_request]
    return LLMMessage(role=Role.user, content="\n\n".join(parts))


def _shortened(message: LLMMessage) -> LLMMessage:
    content = message.content or ""
    if message.role is not Role.tool or len(content) <= _RESULT_LIMIT:
        return message
    half = _RESULT_LIMIT // 2
    return message.changed(content=f"{content[:half]}\n[… left out …]\n{content[-half:]}", images=None)
