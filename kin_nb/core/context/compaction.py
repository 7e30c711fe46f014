"""Compaction: a conversation that gives way to a summary of itself, and what is left then (seeds 000, 001, 004).

How the summary is made is a strategy (`Compaction`; the built-in one is simple_compaction.py). What stands in the
summary's place is the same for all, so that records alone are enough to make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role

MOST_WORDS = 20_000
"""Characters of the person's words that stay beside the last request, where the strategy does not say how many."""
_FIRST = 2
"""The first message that may stay: the system message always does, the one after it always gives way."""
_LEAST_PIECE = 200
"""Characters below which a piece of a request says nothing."""
_LAST_REQUEST = "The person's last request, in their words:"


class CompactionError(Exception):
    """The conversation could not be compacted; it is as it was. Two lines: what happened, what to do."""


@dataclass(frozen=True)
class Compacted:
    """`kept`: so many messages at the end stay as they are; `summary` stands for all before them.

    `usage` is what the summary took. `words`: characters, at most, of what the person said before their last request.
    """

    summary: str
    kept: int
    usage: LLMUsage
    words: int = MOST_WORDS


class Ask(Protocol):
    """`tools`: tokens that the tools take in each request of the conversation, beside its messages."""

    tools: int

    async def __call__(self, messages: list[LLMMessage]) -> LLMChunk:
        """One request to the model. Raises ContextTooLongError, asked or not, for messages that do not fit its window."""
        ...


class Compaction(Protocol):
    """Set as `agent.compaction_strategy`."""

    async def compact(self, messages: list[LLMMessage], *, ask: Ask, window: int) -> Compacted:
        """`messages` begins with the system message. `window`: tokens that the conversation fills at most.

        It is called again, with what it left and half the window, when that is still too much.

        Raises CompactionError when there is no summary, BackendError when there is no answer. A tail that would begin
        with the answer to a call is made to begin with the call.
        """
        ...


def first_kept(messages: Sequence[LLMMessage], kept: int) -> int:
    """Where the last `kept` messages begin; earlier, should that be between a call and its answers."""
    place = start = min(max(len(messages) - max(kept, 0), _FIRST), len(messages))
    while _FIRST <= place < len(messages) and messages[place].role is Role.tool:
        place -= 1
    if place >= _FIRST:
        return place
    return next((i for i in range(start, len(messages)) if messages[i].role is not Role.tool), len(messages))


def compacted(summary: str, words: Sequence[str], last_request: str) -> LLMMessage:
    """The one message that stands for everything before it. `last_request`: "" when it stands after it."""
    parts = ["The conversation so far, summed up by you:", summary]
    if words:
        parts += ["The person's words so far, oldest first:", *(f"- {text}" for text in words)]
    if last_request:
        parts += [_LAST_REQUEST, last_request]
    return LLMMessage(role=Role.user, content="\n\n".join(parts))


def last_request(messages: Sequence[LLMMessage]) -> str:
    """What the person asked last, as it stays whatever gives way: of a summary's message (`compacted`), its end alone."""
    said = next((message.content or "" for message in reversed(messages) if message.role is Role.user), "")
    return said.rpartition(_LAST_REQUEST)[2]


def fitting(
    said: Sequence[str], most: int, redact: Callable[[str], str], expand: Callable[[str], str] = str
) -> list[str]:
    """The newest of `said` that take `most` characters together, and a note of what is left out.

    They are measured redacted, and cut so, so that a resume elsewhere cuts at the same place.
    """
    said = [text for text in said if text.strip()]
    fit: list[str] = []
    for number, text in enumerate(reversed(said)):
        plain = redact(text)
        if len(plain) <= most:
            most -= len(plain)
            fit.append(text)
            continue
        left = len(said) - number
        if most >= _LEAST_PIECE:
            fit.append(f"{expand(plain[:most])} [… {len(plain) - most:,} characters left out]")
            left -= 1
        if left and fit:
            fit.append(f"[… {left} earlier request{'s' if left > 1 else ''} left out]")
        break
    return fit[::-1]
