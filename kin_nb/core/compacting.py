"""A conversation near the end of its window: pruned, compacted, or refused in a sentence (seed 004's thresholds)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kin_nb.core.accounting import count_summary, recorded_compaction
from kin_nb.core.context.compaction import Ask
from kin_nb.core.context.history import user_message
from kin_nb.core.context.pruning import prunable
from kin_nb.core.context.room import LARGER_WINDOW
from kin_nb.core.context.size import about_tokens, fewest_tokens, share_of_each, size_of
from kin_nb.core.events import PruneEvent
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.middleware import ConversationContext, ResetReason
from kin_nb.core.session.records import RecordedCompaction
from kin_nb.core.types import LLMChunk, LLMMessage, Role

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.llm.asking import ModelLink

PRUNE_TO = 60
"""Per cent of the window: well below `prune_at`, since every pruning is a prompt that no cache knows."""

Prunes = Callable[[ConversationContext], tuple[str, ...]]
"""The calls whose results should give way to stubs now. Set as `agent.prunes`."""


def prune_when_full(context: ConversationContext) -> tuple[str, ...]:
    """Nothing below `prune_at` per cent of the window."""
    room = context.config.room_of(context.config.get_active_model())
    at = context.config.prune_at
    if not at or context.tokens * 100 <= at * room:
        return ()
    return prunable(context.messages, context.tokens, min(PRUNE_TO, at) * room // 100)


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
    return PruneEvent(old_context_tokens=old, new_context_tokens=agent.stats.context_tokens, calls=pruned)


async def compact(agent: Agent, link: ModelLink) -> str:
    """What `Agent.compact` promises."""
    if len(agent.messages) <= 1:
        return ""
    agent.history.repair()
    config, old = agent.config, agent.stats.context_tokens
    window = config.room_of(config.get_active_model())
    done = await agent.compaction_strategy.compact(list(agent.messages), ask=_asking(agent, link), window=window)
    how = (done.summary, done.kept, done.words, agent.here)
    left = agent.history.compacted(*how)
    tokens = await link.count_tokens(config, _to_count(left), agent.tool_manager.schemas(), agent.session_id)
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
    agent.history.compact(*how)
    count_summary(agent.stats, done.usage, tokens)
    agent.compaction = recorded_compaction(agent.compaction, new)
    agent.journal.rename("compact", compaction=agent.compaction.model_dump())
    agent.middleware_pipeline.reset(ResetReason.COMPACT)
    return done.summary


def _to_count(messages: list[LLMMessage]) -> list[LLMMessage]:
    """`messages` as a server takes them that is only to count: with something to answer, and without signed thinking.

    That is bound to what stood before it; where it is to be answered, the request says that it may be dropped.
    """
    counted = [message.changed(reasoning_blocks=None) if message.reasoning_blocks else message for message in messages]
    return [*counted, user_message("Go on.")] if counted[-1].role is Role.assistant else counted


def _asking(agent: Agent, link: ModelLink) -> Ask:
    """What a compaction asks with. The tools go along with the conversation's own prefix only, which caches know."""
    config, tools = agent.config, agent.tool_manager.schemas()
    model, system = config.get_active_model(), agent.messages[0]
    size, measured = sum(map(size_of, agent.messages)), agent.context().tokens

    async def ask(messages: list[LLMMessage]) -> LLMChunk:
        goes_on = messages[0] is system
        offered = tools if goes_on else []
        tokens = fewest_tokens(messages)
        if goes_on:
            conversation = measured * sum(map(size_of, messages[:-1])) // max(1, size)
            tokens = max(tokens, conversation + about_tokens(messages[-1:]))
        if tokens > model.context_window:  # some servers cut such a request, and say nothing
            raise ContextTooLongError(
                f"A summary takes a request of about {tokens:,} tokens, more than {model.alias}'s window.",
                LARGER_WINDOW,
                model=model.name,
            )
        return await link.text(config, messages, offered, agent.session_id)

    return ask
