"""UsageTracker: count the tokens, the time and the cost of requests, in AgentStats and in the record of a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kin_nb.core.messages import LLMUsage
from kin_nb.core.records import (
    ClearRecord,
    CompactRecord,
    RecordedCall,
    RecordedCompaction,
    RecordedStep,
    RecordedSubagent,
    Sent,
    SessionRecord,
    TurnRecord,
)
from kin_nb.core.usage_stats import AgentStats


class UsageTracker:
    """Owns a session's AgentStats. `prices`: USD per million tokens of input and output of the active model.

    `cleared`: the conversation was cleared, and no turn has begun since.
    """

    def __init__(self, prices: Callable[[], tuple[float, float]]) -> None:
        self.stats = AgentStats()
        self.cleared = False
        self._prices = prices
        self.set_prices()

    def set_prices(self) -> None:
        """Count later tokens at the prices of the active model."""
        self.stats.set_prices(*self._prices())

    def set_cleared(self, *, cleared: bool) -> None:
        """Restart the counts of the conversation after a clear; add them to the earlier ones when the clear is undone."""
        if self.cleared:
            self.stats = self.stats.rejoined()
        if cleared:
            self.stats = self.stats.for_new_conversation()
        self.cleared = cleared
        self.set_prices()

    def begin_turn(self) -> None:
        """Keep the counts of a new conversation separate: from its first turn on, undo cannot revert only the clear."""
        self.cleared = False

    def count_summary(self, usage: LLMUsage, context_tokens: int) -> None:
        count_summary(self.stats, usage, context_tokens)

    def count_compaction(self, compaction: RecordedCompaction) -> None:
        count_compaction(self.stats, compaction)

    def replay(self, records: Iterable[SessionRecord], prices_of: Callable[[str], tuple[float, float]]) -> None:
        """Add the usage of recorded turns, and of compactions between them, as it was counted live."""
        undone: list[bool] = []
        for record in records:
            if isinstance(record, Sent):
                self.stats.set_prices(*prices_of(record.model))
            if isinstance(record, TurnRecord):
                count_turn(self.stats, record)
                self.begin_turn()
                undone.clear()
            elif isinstance(record, CompactRecord):
                self.count_compaction(record.compaction)
            elif isinstance(record, ClearRecord):
                self.set_cleared(cleared=True)
            elif record.type == "undo":
                undone.append(self.cleared)
                self.set_cleared(cleared=False)
            else:
                self.set_cleared(cleared=undone.pop() if undone else False)


def count_reply(stats: AgentStats, step: RecordedStep) -> None:
    """Count a reply: it updates the "last turn" of AgentStats (seed 002) and the size of the context."""
    stats.session_prompt_tokens += step.prompt_tokens
    stats.session_completion_tokens += step.completion_tokens
    stats.last_turn_prompt_tokens, stats.last_turn_completion_tokens = step.prompt_tokens, step.completion_tokens
    if step.prompt_tokens:  # a server that counts nothing leaves the last measure
        stats.context_tokens = step.prompt_tokens + step.completion_tokens
    stats.last_turn_duration = step.milliseconds / 1000
    if step.milliseconds:
        stats.tokens_per_second = step.completion_tokens * 1000 / step.milliseconds


def count_summary(stats: AgentStats, usage: LLMUsage, context_tokens: int) -> None:
    """Count the request of a compaction, and set the size of the context after it."""
    stats.session_prompt_tokens += usage.prompt_tokens
    stats.session_completion_tokens += usage.completion_tokens
    stats.context_tokens = context_tokens


def count_aside(stats: AgentStats, used: RecordedSubagent | RecordedCompaction | LLMUsage) -> None:
    """Count tokens that the session pays for and that are not in its context: of a subagent or of an undone compaction."""
    stats.session_prompt_tokens += used.prompt_tokens
    stats.session_completion_tokens += used.completion_tokens


def total_usage(one: LLMUsage, other: LLMUsage) -> LLMUsage:
    return LLMUsage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
    )


def cost_of(stats: AgentStats, record: Sent) -> str:
    """Return the cost in USD as text; "" when the model has no prices: an unknown cost is not zero."""
    prices = stats.input_price_per_million, stats.output_price_per_million
    if not any(prices):
        return ""
    return f"{(record.prompt_tokens * prices[0] + record.completion_tokens * prices[1]) / 1_000_000:.6f}"


def count_turn(stats: AgentStats, turn: TurnRecord) -> None:
    """Count a complete recorded turn as it was counted while it ran."""
    if turn.parent is None:
        stats.context_tokens = 0
    for step in turn.steps:
        stats.steps += 1
        if step.compaction is not None:
            count_compaction(stats, step.compaction)
        count_reply(stats, step)
    if turn.compaction is not None:
        count_compaction(stats, turn.compaction)
    if turn.no_reply and turn.outcome != "stopped":  # its request was made, or begun; a limit stops before that
        stats.steps += 1
    for subagent in turn.subagents:
        count_aside(stats, subagent)
    calls = [call for step in turn.steps for call in _counted(step)]
    verdicts = [call.decision.verdict for call in calls if call.decision is not None]
    stats.tool_calls_agreed += verdicts.count("allow")
    stats.tool_calls_rejected += verdicts.count("deny")
    statuses = [call.status for call in calls]
    stats.tool_calls_failed += statuses.count("error")
    stats.tool_calls_succeeded += statuses.count("ok")


def _counted(step: RecordedStep) -> Iterator[RecordedCall]:
    """Return the calls without repeated identical ones: they ran once, or were refused once, and count once."""
    seen = set()
    for call in step.calls:
        decided = call.decision
        refused = (call.name, call.arguments, decided) if decided and decided.verdict == "deny" else None
        if refused not in seen and not call.is_repeated:
            yield call
        if refused:
            seen.add(refused)


def count_compaction(stats: AgentStats, compaction: RecordedCompaction) -> None:
    """Count a recorded compaction as it was counted live."""
    usage = LLMUsage(prompt_tokens=compaction.prompt_tokens, completion_tokens=compaction.completion_tokens)
    count_summary(stats, usage, compaction.new_tokens)
