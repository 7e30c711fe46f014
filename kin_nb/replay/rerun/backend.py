"""ReplayBackend: a model server that answers from the recording, so that tools can run again with no model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Self

from kin_nb.core.context.compaction import Compacted
from kin_nb.core.session.records import RecordedCompaction, RecordedStep, TurnRecord
from kin_nb.core.types import CallOrigin, FunctionCall, LLMChunk, LLMMessage, LLMUsage, Role, ToolCall
from kin_nb.replay.errors import ReplayEndedError


class ReplayBackend:
    """A BackendLike (core.llm.types) whose n-th reply is the turn's n-th recorded step.

    `matched[step]` says whether the request that got that reply was the recorded one; the agent's caller reports it
    with `check_request`, since only the agent knows what it redacted. Steps count from 1.
    """

    def __init__(self, record: TurnRecord) -> None:
        self.record = record
        self.matched: dict[int, bool] = {}
        self._sent = 0
        self._compacted = -1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Nothing was opened."""

    async def complete(self, **_request: Any) -> LLMChunk:
        """The next recorded reply. Raises ReplayEndedError after the last."""
        return self._next()

    def compacted(self) -> Compacted:
        """What the compaction before the next step left, once. Raises ReplayEndedError when there is none."""
        due = self.compaction_due
        if due is None:
            raise ReplayEndedError(_ended(self.record))
        self._compacted = self._sent
        usage = LLMUsage(prompt_tokens=due.prompt_tokens, completion_tokens=due.completion_tokens)
        return Compacted(due.summary, due.kept, usage, due.words)

    @property
    def compaction_due(self) -> RecordedCompaction | None:
        """What was compacted before the next step and is not yet in this run."""
        steps = self.record.steps
        if self._sent >= len(steps) or self._compacted == self._sent:
            return None
        return steps[self._sent].compaction

    @property
    def pruning_due(self) -> tuple[str, ...]:
        """The calls whose results were stubs from the next step on."""
        return () if self.is_over else self.record.steps[self._sent].pruned

    @property
    def is_over(self) -> bool:
        return self._sent >= len(self.record.steps)

    async def complete_streaming(self, **_request: Any) -> AsyncGenerator[LLMChunk]:
        """The next recorded reply as one chunk, finish reason and all. Raises ReplayEndedError after the last."""
        yield self._next()

    async def count_tokens(self, **_request: Any) -> int:
        """The tokens that the provider counted for the request about to be answered; 0 after the last."""
        steps = self.record.steps
        return steps[self._sent].prompt_tokens if self._sent < len(steps) else 0

    def check_request(self, step: int, fingerprint: str) -> bool:
        """Whether `fingerprint` is that of the request recorded for `step`; noted in `matched`."""
        steps = self.record.steps
        self.matched[step] = 0 < step <= len(steps) and steps[step - 1].fingerprint == fingerprint
        return self.matched[step]

    def _next(self) -> LLMChunk:
        steps = self.record.steps
        if self._sent >= len(steps):
            raise ReplayEndedError(_ended(self.record))
        self._sent += 1
        return _chunk(steps[self._sent - 1])


def _chunk(step: RecordedStep) -> LLMChunk:
    calls = [
        ToolCall(
            id=call.id or None,
            index=n,
            function=FunctionCall(name=call.name, arguments=call.arguments),
            origin=CallOrigin.from_text(call.provider_data),
        )
        for n, call in enumerate(step.calls)
    ]
    message = LLMMessage(
        role=Role.assistant,
        content=step.content,
        reasoning_content=step.reasoning or None,
        tool_calls=calls or None,
        origin=CallOrigin.from_text(step.provider_data),
    )
    usage = LLMUsage(prompt_tokens=step.prompt_tokens, completion_tokens=step.completion_tokens)
    return LLMChunk(message=message, usage=usage, finish_reason="tool_calls" if calls else "stop")


def _ended(record: TurnRecord) -> str:
    count = len(record.steps)
    if record.outcome != "done":
        why = f": {record.message}" if record.message else ""
        return f"turn {record.turn} was recorded up to step {count} and ended there ({record.outcome}{why})"
    return f"turn {record.turn} was recorded with {count} steps and the agent asks for another: its rules have changed"
