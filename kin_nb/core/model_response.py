"""ModelResponse: join the chunks of a reply to one message, and yield its text in small batches meanwhile."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Container
from contextlib import aclosing
from functools import cached_property

from kin_nb.core.events import AssistantEvent, BaseEvent, ReasoningEvent, RetryEvent, WarningEvent
from kin_nb.core.llm.response_builder import ResponseBuilder
from kin_nb.core.messages import BackendNotice, LLMChunk, LLMMessage, LLMUsage, ToolCall
from kin_nb.core.records import RecordedCall, RecordedStep

BATCH_SIZE = 5
"""Most chunks in one event (seed 000). A change between reasoning and text ends a batch early."""
BATCH_SECONDS = 0.05
"""A piece that arrives this long after the last event is yielded at once, and so is the first: slow streams do not wait."""


class ModelResponse:
    """Consumes one stream of LLMChunk. `message` and `step` are complete only when `stream` has ended normally.

    `known_ids`: the tool-call ids in the history. An id of the reply that is among them is replaced.
    """

    def __init__(self, fingerprint: str, known_ids: Container[str] = frozenset()) -> None:
        self._fingerprint = fingerprint
        self._builder = ResponseBuilder(known_ids)
        self._milliseconds = 0

    async def stream(self, chunks: AsyncGenerator[LLMChunk, None]) -> AsyncGenerator[BaseEvent, None]:
        started = time.monotonic()
        batch: list[str] = []
        last = 0.0
        kind: type[AssistantEvent | ReasoningEvent] = AssistantEvent
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk.notice is not None:
                    yield notice_event(chunk.notice)
                self._builder.add(chunk)
                message = chunk.message
                for new_kind, text in ((ReasoningEvent, message.reasoning_content), (AssistantEvent, message.content)):
                    if not text:
                        continue
                    if batch and new_kind is not kind:
                        yield kind(content="".join(batch))
                        batch.clear()
                    kind = new_kind
                    batch.append(text)
                    if len(batch) >= BATCH_SIZE or time.monotonic() - last >= BATCH_SECONDS:
                        yield kind(content="".join(batch))
                        batch.clear()
                        last = time.monotonic()
        self._milliseconds = round((time.monotonic() - started) * 1000)
        if batch:
            yield kind(content="".join(batch))

    @cached_property
    def message(self) -> LLMMessage:
        """The message for the history. To be read after the stream has ended."""
        message = self._builder.message
        return message.model_copy(update={"content": message.content or None})

    @property
    def calls(self) -> list[ToolCall]:
        return self.message.tool_calls or []

    @property
    def says_nothing(self) -> bool:
        """Whether the reply has no text, reasoning or calls. Many servers refuse such a message; spaces do not count as text."""
        return self.answers_nothing and not (self.message.reasoning_content or "").strip()

    @property
    def answers_nothing(self) -> bool:
        """Whether the reply has no text and no calls, but possibly reasoning."""
        return not ((self.message.content or "").strip() or self.calls)

    @property
    def finish_reason(self) -> str:
        return self._builder.finish_reason or ""

    @property
    def is_cut_off(self) -> bool:
        """Whether the text of the reply reached the limit of output tokens."""
        return self._builder.finish_reason == "length" and not self.calls

    @property
    def step(self) -> RecordedStep:
        usage = self._builder.usage or LLMUsage()
        return RecordedStep(
            fingerprint=self._fingerprint,
            content=self.message.content or "",
            reasoning=self.message.reasoning_content or "",
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            milliseconds=self._milliseconds,
            calls=tuple(_recorded(call) for call in self.calls),
            provider_data=self.message.origin.to_text() if self.message.origin is not None else "",
        )

    def cut(self) -> bool:
        """Keep the text of a broken stream, without the calls. False when no text had arrived."""
        message = self._builder.message.model_copy(update={"tool_calls": None, "origin": None})
        self.__dict__["message"] = message  # replaces the cached value of the property
        return bool(message.content or message.reasoning_content)


def _recorded(call: ToolCall) -> RecordedCall:
    return RecordedCall(
        id=call.id or "",
        name=call.function.name or "",
        arguments=call.function.arguments or "",
        provider_data=call.origin.to_text() if call.origin is not None else "",
    )


def notice_event(notice: BackendNotice) -> BaseEvent:
    if not notice.attempt:
        return WarningEvent(message=notice.message)
    return RetryEvent(**notice.model_dump())
