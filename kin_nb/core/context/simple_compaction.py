"""SimpleCompaction: a summary of what is old, by the model itself; the last messages stay (seeds 001, 004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kin_nb.core.context.compaction import Ask, Compacted, first_kept, last_request
from kin_nb.core.context.room import AIM
from kin_nb.core.context.size import about_tokens, characters, tokens_of
from kin_nb.core.context.summary import summary_of_parts, whole_summary
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.messages import LLMMessage, Role

_SUMMARY = 1_000
"""Tokens that are left for the summary, in a small window a quarter of what there is."""


@dataclass(frozen=True)
class SimpleCompaction:
    """One request that goes on from the conversation itself, so that caches hit. Does it not fit: one for each part.

    `keep`: messages that stay, none of a conversation that has no more; what stays begins with no answer without its
    call. `part_tokens`: about the size of a part, less in a small window. Where all that stays would fill more than AIM
    per cent of the window, fewer messages stay, and fewer of the person's words; neither pushes the other out: half of the
    room is for each where both want it, and the oldest words go first.
    """

    keep: int = 10
    part_tokens: int = 10_000

    async def compact(self, messages: list[LLMMessage], *, ask: Ask, window: int) -> Compacted:
        most = _most(messages, ask, window)
        cut = self._cut(messages, most)
        try:
            summary, usage = await whole_summary(messages[:cut], ask)
        except ContextTooLongError:
            window = min(window, about_tokens(messages) + ask.tools)  # the server's may be smaller than ours says
            most = _most(messages, ask, window)
            cut = self._cut(messages, most)
            part = characters(max(1, min(self.part_tokens, window // 3)))
            summary, usage = await summary_of_parts(messages[1:cut], ask, part)
        left = characters(most - _tail(messages, cut)) - len(summary)
        return Compacted(summary, len(messages) - cut, usage, words=max(0, left))

    def _cut(self, messages: Sequence[LLMMessage], most: int) -> int:
        """Where what stays begins. The person's words before it may need up to half of `most`."""
        if len(messages) - 1 <= self.keep:
            return len(messages)
        cut = first_kept(messages, self.keep)
        said = about_tokens(message for message in messages if message.role is Role.user)
        free = most - min(_SUMMARY, most // 4)
        free -= min(said, free // 2)
        while cut < len(messages) and _tail(messages, cut) > free:
            cut = next((i for i in range(cut + 1, len(messages)) if messages[i].role is not Role.tool), len(messages))
        return cut


def _most(messages: Sequence[LLMMessage], ask: Ask, window: int) -> int:
    """Tokens for the summary, the messages that stay and the person's words, beside what always stays."""
    return window * AIM // 100 - ask.tools - about_tokens(messages[:1]) - tokens_of(last_request(messages))


def _tail(messages: Sequence[LLMMessage], cut: int) -> int:
    """Tokens of the messages from `cut` on, without the last request."""
    tail = messages[cut:]
    asked = any(message.role is Role.user for message in tail)
    return about_tokens(tail) - (tokens_of(last_request(messages)) if asked else 0)
