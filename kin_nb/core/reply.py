"""Reply: the chunks of one answer becoming one message, while its text is handed on in small batches."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from kin_nb.core.events import AssistantEvent, BaseEvent, ReasoningEvent
from kin_nb.core.session.records import RecordedCall, RecordedStep
from kin_nb.core.types import FunctionCall, LLMChunk, LLMMessage, LLMUsage, Role, ToolCall

BATCH_SIZE = 5
"""Most chunks in one event (seed 000); a change between reasoning and text flushes early."""
BATCH_SECONDS = 0.05
"""A slow stream is not held back: what arrives this long after the last event goes on at once, the first piece too."""


class Reply:
    """Consumes one stream of LLMChunk. `message`, `calls` and `step` are whole only when `stream` ended normally."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self._text: dict[type[BaseEvent], list[str]] = {AssistantEvent: [], ReasoningEvent: []}
        self._calls: dict[int, tuple[str, str, list[str]]] = {}
        self._usage = LLMUsage()
        self._milliseconds = 0

    async def stream(self, chunks: AsyncGenerator[LLMChunk, None]) -> AsyncGenerator[BaseEvent, None]:
        started = time.monotonic()
        batch: list[str] = []
        last = 0.0
        kind: type[AssistantEvent | ReasoningEvent] = AssistantEvent
        async with aclosing(chunks):
            async for chunk in chunks:
                self._add(chunk)
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

    def _add(self, chunk: LLMChunk) -> None:
        message = chunk.message
        if message.content:
            self._text[AssistantEvent].append(message.content)
        if message.reasoning_content:
            self._text[ReasoningEvent].append(message.reasoning_content)
        if chunk.usage is not None:
            self._usage = chunk.usage
        for call in message.tool_calls or ():
            index = call.index if call.index is not None else len(self._calls)
            id_, name, arguments = self._calls.get(index, ("", "", []))
            if call.function.arguments:
                arguments.append(call.function.arguments)
            self._calls[index] = (id_ or call.id or "", name or call.function.name or "", arguments)

    @property
    def text(self) -> str:
        return "".join(self._text[AssistantEvent])

    @property
    def reasoning(self) -> str:
        return "".join(self._text[ReasoningEvent])

    @property
    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(id=id_, index=index, function=FunctionCall(name=name, arguments="".join(arguments)))
            for index, (id_, name, arguments) in sorted(self._calls.items())
        ]

    @property
    def message(self) -> LLMMessage:
        return LLMMessage(
            role=Role.assistant,
            content=self.text or None,
            reasoning_content=self.reasoning or None,
            tool_calls=self.calls or None,
        )

    @property
    def step(self) -> RecordedStep:
        calls = tuple(
            RecordedCall(id=call.id or "", name=call.function.name or "", arguments=call.function.arguments or "")
            for call in self.calls
        )
        return RecordedStep(
            fingerprint=self._fingerprint,
            content=self.text,
            reasoning=self.reasoning,
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens,
            milliseconds=self._milliseconds,
            calls=calls,
        )

    @property
    def partial(self) -> Reply:
        """What had arrived when the stream broke: the text, none of the calls (tools of an unfinished reply never run)."""
        part = Reply(self._fingerprint)
        part._text = self._text
        part._usage = self._usage
        return part
