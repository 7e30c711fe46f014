"""Asking the model for the summary that a compaction needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kin_nb.core.context.compaction import shortened, summary_of, summary_request
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.types import LLMChunk, LLMMessage, LLMUsage


async def summarise(
    ask: Callable[[list[LLMMessage]], Awaitable[LLMChunk]], messages: list[LLMMessage]
) -> tuple[str, LLMUsage]:
    """(summary, what it took). A conversation that does not even fit for this is sent with its tool results cut.

    Raises CompactionError when the answer is no summary, BackendError when there is none.
    """
    try:
        reply = await ask(summary_request(messages))
    except ContextTooLongError:
        reply = await ask(summary_request(shortened(messages)))
    return summary_of(reply), reply.usage or LLMUsage()
