"""A conversation near the end of its window: pruned, compacted, or refused in a sentence (seed 004's thresholds)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kin_nb.core.context.compaction import Compacted
from kin_nb.core.context.context_window import (
    AIM,
    LARGER_WINDOW,
    about_tokens,
    fewest_tokens,
    prunable,
    share_of_each,
    size_of,
    tokens_of,
)
from kin_nb.core.context.history import user_message
from kin_nb.core.events import BaseEvent, CompactEndEvent, CompactStartEvent, PruneEvent
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.llm.model_client import NOTICES
from kin_nb.core.messages import BackendNotice, LLMChunk, LLMMessage, LLMUsage, Role
from kin_nb.core.middleware import ConversationContext
from kin_nb.core.records import CompactRecord, RecordedCompaction
from kin_nb.core.reply import notice_event
from kin_nb.core.tools.ending import end
from kin_nb.core.usage import cost_of, total_usage

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.session.recorder import TurnRecorder

_TRIES = 2
"""Times that the strategy is asked at most: again when what it leaves the first time is still too much."""

Prunes = Callable[[ConversationContext], tuple[str, ...]]
"""The calls whose results should give way to stubs now. Set as `agent.prunes`."""


def prune_when_full(context: ConversationContext) -> tuple[str, ...]:
    """Nothing below `prune_at` per cent of the window."""
    room = context.config.room_of(context.config.get_active_model())
    at = context.config.prune_at
    if not at or context.tokens * 100 <= at * room:
        return ()
    return prunable(context.messages, context.tokens, min(AIM, at) * room // 100)


def prune(agent: Agent) -> PruneEvent | None:
    """Old tool results give way to stubs when `agent.prunes` says so. No request is made: the sizes are estimates."""
    context = agent.context()
    calls = agent.prunes(context)
    if not calls:
        return None
    old, before = context.tokens, sum(map(size_of, agent.messages))
    share = share_of_each(agent.messages, old)
    pruned = agent.history.prune(calls, agent.here)
    if not pruned:
        return None
    agent.stats.context_tokens = old - round((before - sum(map(size_of, agent.messages))) * share)
    agent.history.measured()
    agent.loop_guard.forget_results(pruned)
    return PruneEvent(old_context_tokens=old, new_context_tokens=agent.stats.context_tokens, calls=pruned)


async def compacting(agent: Agent, threshold: int, recorder: TurnRecorder) -> AsyncGenerator[BaseEvent, None]:
    """A compaction inside a turn, with what is reported of its requests while they are made. Raises what `compact` raises."""
    old = agent.stats.context_tokens
    yield CompactStartEvent(current_context_tokens=old, threshold=threshold)
    notices: asyncio.Queue[BackendNotice | None] = asyncio.Queue()
    listening = NOTICES.set(notices.put_nowait)
    work = asyncio.create_task(
        compact(agent, recorder.compacted)
    )  # it has a copy of this context: another compaction has its own listener
    NOTICES.reset(listening)
    work.add_done_callback(lambda _: notices.put_nowait(None))
    try:
        while (notice := await notices.get()) is not None:
            yield notice_event(notice)
        summary = await work
    finally:
        await end([work])
    yield CompactEndEvent(
        old_context_tokens=old,
        new_context_tokens=agent.stats.context_tokens,
        summary_length=len(summary),
        compaction=recorder.record.compaction if summary else None,
    )


async def compact_between_turns(agent: Agent, key: str, cell_id: str | None) -> str:
    """What `Agent.compact` promises."""

    def keep(new: RecordedCompaction) -> None:
        lineage, model = agent.conversation.lineage, agent.config.get_active_model().alias
        record = CompactRecord(**lineage.next(), compaction=new, key=key, cell_id=cell_id, model=model)
        record = record.model_copy(update={"cost": cost_of(agent.stats, record)})
        agent.transcript.add(record)
        lineage.take(record)
        agent.journal.between_turns(record)
        agent.observers.compacted(record)

    return await compact(agent, keep)


async def compact(agent: Agent, keep: Callable[[RecordedCompaction], None]) -> str:
    """The summary; "" where there is nothing to compact. `keep` takes the record of it, in the same moment.

    Nothing else may write into the conversation until it has ended.
    """
    if len(agent.messages) <= 1:
        return ""
    agent.history.repair()
    old = agent.stats.context_tokens
    done, left, tokens = await _summed_up(agent)
    # From here on nothing waits: the conversation is either as it was, or compacted with a record of it.
    kept = len(left) - 2
    new = RecordedCompaction(
        summary=agent.redact(done.summary),
        kept=kept,
        summarised=len(agent.messages) - 1 - kept,
        words=done.words,
        old_tokens=old,
        new_tokens=tokens,
        prompt_tokens=done.usage.prompt_tokens,
        completion_tokens=done.usage.completion_tokens,
    )
    agent.conversation.compact(done, tokens, agent.here)
    agent.journal.rename("compact")
    keep(new)
    return done.summary


async def _summed_up(agent: Agent) -> tuple[Compacted, list[LLMMessage], int]:
    """How the conversation gives way, what that leaves, and its tokens: fewer than the threshold, where that can be.

    What a try does not keep is in its summary, and that one in the next try's: nothing goes unseen.
    """
    config, ask = agent.config, _Asking(agent)
    threshold = config.compact_at(config.get_active_model())
    window = config.room_of(config.get_active_model())
    left, used = list(agent.messages), LLMUsage()
    for _ in range(_TRIES):
        done = await agent.compaction_strategy.compact(left, ask=ask, window=window)
        used = total_usage(used, done.usage)
        done, left, tokens = await _with_fewer_words(agent, replace(done, usage=used), threshold)
        if tokens < threshold or done.kept <= 0:
            break
        window //= 2
    return done, left, tokens


async def _with_fewer_words(agent: Agent, done: Compacted, threshold: int) -> tuple[Compacted, list[LLMMessage], int]:
    left, tokens = await _left(agent, done)
    standing = min(done.words, size_of(left[1]))
    for words in (standing // 2, standing // 4, 0):
        if tokens < threshold or not done.words:
            break
        done = replace(done, words=words)
        left, tokens = await _left(agent, done)
    return done, left, tokens


async def _left(agent: Agent, done: Compacted) -> tuple[list[LLMMessage], int]:
    """What it leaves, and its tokens."""
    left = agent.history.compacted(done.summary, done.kept, done.words, agent.here)
    tools = agent.tool_manager.schemas()
    return left, await agent.link.count_tokens(agent.config, _to_count(left), tools, agent.session_id)


def _to_count(messages: list[LLMMessage]) -> list[LLMMessage]:
    """`messages` as a server takes them that is only to count: with something to answer, and without signed thinking.

    That is bound to what stood before it; where it is to be answered, the request says that it may be dropped.
    """
    counted = [message.changed(reasoning_blocks=None) if message.reasoning_blocks else message for message in messages]
    return [*counted, user_message("Go on.")] if counted[-1].role is Role.assistant else counted


class _Asking:
    """What a compaction asks with. The tools go along with the conversation's own prefix only, which caches know."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._tools = agent, agent.tool_manager.schemas()
        self.tools = tokens_of("".join(tool.model_dump_json() for tool in self._tools))
        self._size, self._measured = sum(map(size_of, agent.messages)), agent.context().tokens

    async def __call__(self, messages: list[LLMMessage]) -> LLMChunk:
        config = self._agent.config
        model, goes_on = config.get_active_model(), messages[0] is self._agent.messages[0]
        tokens = fewest_tokens(messages)
        if goes_on:
            conversation = self._measured * sum(map(size_of, messages[:-1])) // max(1, self._size)
            tokens = max(tokens, conversation + about_tokens(messages[-1:]))
        if tokens > model.context_window:  # some servers cut such a request, and say nothing
            raise ContextTooLongError(
                f"A summary takes a request of about {tokens:,} tokens, more than {model.alias}'s window.",
                LARGER_WINDOW,
                model=model.name,
            )
        return await self._agent.link.text(config, messages, self._tools if goes_on else [], self._agent.session_id)
