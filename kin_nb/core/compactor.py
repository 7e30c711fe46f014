"""Compactor: shorten or summarize a conversation that nears the end of its window (thresholds of seed 004)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from kin_nb.core.context.compaction import CompactionResult, CompactionStrategy, SimpleCompaction
from kin_nb.core.context.context_window import (
    LARGER_WINDOW,
    TARGET_PERCENT,
    estimate_text_tokens,
    estimate_tokens,
    min_tokens,
    prunable,
    size_of,
    tokens_per_character,
)
from kin_nb.core.context.history import user_message
from kin_nb.core.conversation import Conversation
from kin_nb.core.event_stream import Emit
from kin_nb.core.events import CompactEndEvent, CompactStartEvent, PruneEvent
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.llm.model_client import NOTICES, ModelClient
from kin_nb.core.messages import AvailableTool, BackendNotice, LLMChunk, LLMMessage, LLMUsage, Role
from kin_nb.core.middleware import ConversationContext
from kin_nb.core.model_response import notice_event
from kin_nb.core.records import CompactRecord, RecordedCompaction
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.settings import Settings
from kin_nb.core.tools.cancellation import cancel_and_wait
from kin_nb.core.usage import cost_of, total_usage

_TRIES = 2
"""Most calls of the strategy: it is called again if its first result is still too large."""

PruneSelector = Callable[[ConversationContext], tuple[str, ...]]
"""Returns the ids of the calls whose results are to be replaced by stubs now."""


def prune_when_full(context: ConversationContext) -> tuple[str, ...]:
    """Select results when the context fills `prune_at` percent of the window; none below that."""
    room = context.config.room_of(context.config.get_active_model())
    at = context.config.prune_at
    if not at or context.tokens * 100 <= at * room:
        return ()
    return prunable(context.messages, context.tokens, min(TARGET_PERCENT, at) * room // 100)


class Compactor:
    """Shortens one conversation. `strategy` summarizes it; `prune_selector` selects tool results to remove before each step.

    `schemas`: the tool schemas that are sent with a request for a summary. `forget_results` is called with the calls whose
    results the model no longer sees.
    """

    def __init__(
        self,
        conversation: Conversation,
        model: ModelClient,
        settings: Settings,
        journal: SessionJournal,
        *,
        schemas: Callable[[], list[AvailableTool]],
        forget_results: Callable[[Iterable[str]], None],
        strategy: CompactionStrategy | None = None,
    ) -> None:
        self._conversation, self._model, self._settings, self._journal = conversation, model, settings, journal
        self._schemas, self._forget_results = schemas, forget_results
        self.strategy: CompactionStrategy = strategy or SimpleCompaction()
        self.prune_selector: PruneSelector = prune_when_full

    def prune(self) -> PruneEvent | None:
        """Replace the tool results that `prune_selector` selects by stubs. Sizes are estimates; no request is made."""
        conversation = self._conversation
        history, stats = conversation.history, conversation.usage.stats
        context = conversation.context(self._settings.config)
        calls = self.prune_selector(context)
        if not calls:
            return None
        old, before = context.tokens, sum(map(size_of, history.messages))
        share = tokens_per_character(history.messages, old)
        pruned = history.prune(calls, self._settings.expand_paths)
        if not pruned:
            return None
        stats.context_tokens = old - round((before - sum(map(size_of, history.messages))) * share)
        history.measured()
        self._forget_results(pruned)
        return PruneEvent(old_context_tokens=old, new_context_tokens=stats.context_tokens, calls=pruned)

    async def compact_in_turn(self, threshold: int, recorder: TurnRecorder, emit: Emit) -> None:
        """Compact inside a turn, and emit the notices about its requests meanwhile.

        Raises CompactionError, BackendError; nothing is changed in that case.
        """
        usage = self._conversation.usage
        old = usage.stats.context_tokens
        await emit(CompactStartEvent(current_context_tokens=old, threshold=threshold))
        notices: asyncio.Queue[BackendNotice | None] = asyncio.Queue()
        listening = NOTICES.set(notices.put_nowait)
        # the task has a copy of this context: another compaction has its own listener
        work = asyncio.create_task(self._compact(recorder.compaction))
        NOTICES.reset(listening)
        work.add_done_callback(lambda _: notices.put_nowait(None))
        try:
            while (notice := await notices.get()) is not None:
                await emit(notice_event(notice))
            summary = await work
        finally:
            await cancel_and_wait([work])
        done = CompactEndEvent(
            old_context_tokens=old,
            new_context_tokens=usage.stats.context_tokens,
            summary_length=len(summary),
            compaction=recorder.record.compaction if summary else None,
        )
        await emit(done)

    async def compact_between_turns(
        self, *, key: str, cell_id: str | None, compacted: Callable[[CompactRecord], None]
    ) -> str:
        """Compact now, and return the summary; "" if there is nothing to compact. `compacted` is called with the record.

        Raises CompactionError, BackendError; nothing is changed in that case.
        """
        conversation = self._conversation

        def keep(new: RecordedCompaction) -> None:
            model = self._settings.config.get_active_model().alias
            made = conversation.lineage.next()
            record = CompactRecord(**made, compaction=new, key=key, cell_id=cell_id, model=model)
            record = record.model_copy(update={"cost": cost_of(conversation.usage.stats, record)})
            conversation.take(record)
            self._journal.append_move(record)
            compacted(record)

        return await self._compact(keep)

    async def _compact(self, keep: Callable[[RecordedCompaction], None]) -> str:
        """Return the summary. `keep` takes the record of it, in the same moment.

        Nothing else may write into the conversation until it has ended.
        """
        history, stats = self._conversation.history, self._conversation.usage.stats
        if len(history.messages) <= 1:
            return ""
        history.repair()
        old = stats.context_tokens
        done, left, tokens = await self._summed_up()
        # From here on nothing waits: the conversation is either as it was, or compacted with a record of it.
        kept = len(left) - 2
        new = RecordedCompaction(
            summary=self._journal.redact(done.summary),
            kept=kept,
            summarised=len(history.messages) - 1 - kept,
            words=done.words,
            old_tokens=old,
            new_tokens=tokens,
            prompt_tokens=done.usage.prompt_tokens,
            completion_tokens=done.usage.completion_tokens,
        )
        self._conversation.compact(done, tokens, self._settings.expand_paths)
        self._journal.rename("compact")
        keep(new)
        return done.summary

    async def _summed_up(self) -> tuple[CompactionResult, list[LLMMessage], int]:
        """Return what replaces the conversation, the messages then, and their tokens: below the threshold, where that can be.

        What a try does not keep is in its summary, and that one in the next try's: nothing goes unseen.
        """
        config, ask = self._settings.config, self._asking()
        threshold = config.compact_at(config.get_active_model())
        window = config.room_of(config.get_active_model())
        left, used = list(self._conversation.history.messages), LLMUsage()
        for _ in range(_TRIES):
            done = await self.strategy.compact(left, ask=ask, window=window)
            used = total_usage(used, done.usage)
            done, left, tokens = await self._with_fewer_words(replace(done, usage=used), threshold)
            if tokens < threshold or done.kept <= 0:
                break
            window //= 2
        return done, left, tokens

    async def _with_fewer_words(
        self, done: CompactionResult, threshold: int
    ) -> tuple[CompactionResult, list[LLMMessage], int]:
        left, tokens = await self._left(done)
        standing = min(done.words, size_of(left[1]))
        for words in (standing // 2, standing // 4, 0):
            if tokens < threshold or not done.words:
                break
            done = replace(done, words=words)
            left, tokens = await self._left(done)
        return done, left, tokens

    async def _left(self, done: CompactionResult) -> tuple[list[LLMMessage], int]:
        """Return the messages that stay, and their tokens."""
        history = self._conversation.history
        left = history.compacted(done.summary, done.kept, done.words, self._settings.expand_paths)
        config, session_id = self._settings.config, self._journal.session_id
        return left, await self._model.count_tokens(config, _to_count(left), self._schemas(), session_id)

    def _asking(self) -> _Asking:
        context = self._conversation.context(self._settings.config)
        return _Asking(context, self._model, self._schemas(), self._journal.session_id)


def _to_count(messages: list[LLMMessage]) -> list[LLMMessage]:
    """Return `messages` for a request that only counts tokens: without signed thinking, and with a last user message.

    Signed thinking is valid only after the same messages as before. Other requests tell the server that it may drop it.
    """
    counted = [message.changed(reasoning_blocks=None) if message.reasoning_blocks else message for message in messages]
    return [*counted, user_message("Continue.")] if counted[-1].role is Role.assistant else counted


class _Asking:
    """What a strategy asks the model with. The tools go along with the conversation's own beginning only, which caches know."""

    def __init__(
        self, context: ConversationContext, model: ModelClient, tools: list[AvailableTool], session_id: str
    ) -> None:
        self._context, self._model, self._tools, self._session_id = context, model, tools, session_id
        self.tools = estimate_text_tokens("".join(tool.model_dump_json() for tool in tools))
        self._size, self._measured = sum(map(size_of, context.messages)), context.tokens

    async def __call__(self, messages: list[LLMMessage]) -> LLMChunk:
        config = self._context.config
        model, goes_on = config.get_active_model(), messages[0] is self._context.messages[0]
        tokens = min_tokens(messages)
        if goes_on:
            conversation = self._measured * sum(map(size_of, messages[:-1])) // max(1, self._size)
            tokens = max(tokens, conversation + estimate_tokens(messages[-1:]))
        if tokens > model.context_window:  # some servers cut such a request, and say nothing
            raise ContextTooLongError(
                f"A summary takes a request of about {tokens:,} tokens, more than {model.alias}'s window.",
                LARGER_WINDOW,
                model=model.name,
            )
        return await self._model.text(config, messages, self._tools if goes_on else [], self._session_id)
