"""SimpleCompaction: a summary of what is old, by the model itself; the last messages stay (seeds 001, 004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kin_nb.core.context.compaction import MOST_WORDS, Ask, Compacted, first_kept
from kin_nb.core.context.size import about_tokens, characters
from kin_nb.core.context.summary import summary_of_parts, whole_summary
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.types import LLMMessage, Role


@dataclass(frozen=True)
class SimpleCompaction:
    """One request that goes on from the conversation itself, so that caches hit. Does it not fit: one for each part.

    `keep`: messages that stay, fewer when they fill more than half the window, none of a conversation that has no
    more; what stays begins with no answer without its call. `part_tokens`: about the size of a part, less in a small
    window.
    """

    keep: int = 10
    part_tokens: int = 10_000

    async def compact(self, messages: list[LLMMessage], *, ask: Ask, window: int) -> Compacted:
        cut = self._cut(messages, window)
        try:
            summary, usage = await whole_summary(messages[:cut], ask)
        except ContextTooLongError:
            window = min(window, about_tokens(messages))  # the server's may be smaller than ours says
            cut = self._cut(messages, window)
            most = characters(max(1, min(self.part_tokens, window // 3)))
            summary, usage = await summary_of_parts(messages[1:cut], ask, most)
        return Compacted(summary, len(messages) - cut, usage, words=min(MOST_WORDS, window))

    def _cut(self, messages: Sequence[LLMMessage], window: int) -> int:
        if len(messages) - 1 <= self.keep:
            return len(messages)
        cut = first_kept(messages, self.keep)
        while about_tokens(messages[cut:]) > window // 2:
            cut = next((i for i in range(cut + 1, len(messages)) if messages[i].role is not Role.tool), len(messages))
        return cut
