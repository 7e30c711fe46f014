"""Repair: a history that somebody else put together, made valid for a strict server."""

from __future__ import annotations

from collections.abc import Iterable

from kin_nb.core.messages import LLMMessage, Role

UNANSWERED = "No result: this call was interrupted or never run."


def repaired(messages: Iterable[LLMMessage]) -> list[LLMMessage]:
    """Each tool call answered exactly once, right after it; no answer without a call; no reply that says nothing.

    What is in order stays the same object, so its bytes need not be encoded again.
    """
    messages = list(messages)
    answers: dict[str, LLMMessage] = {}
    for message in messages:
        if message.role is Role.tool and message.tool_call_id is not None:
            answers.setdefault(message.tool_call_id, message)
    kept: list[LLMMessage] = []
    for message in messages:
        if message.role is Role.tool or _says_nothing(message):
            continue
        kept.append(message)
        for call in message.tool_calls or ():
            answer = answers.pop(call.id or "", None)
            kept.append(
                answer
                or LLMMessage(role=Role.tool, content=UNANSWERED, name=call.function.name, tool_call_id=call.id or "")
            )
    return kept


def _says_nothing(message: LLMMessage) -> bool:
    said = (message.content, message.reasoning_content, message.tool_calls, message.images, message.reasoning_blocks)
    return message.role is Role.assistant and not any(said)
