"""One answer of a server, read to its end: only there is it known whether it is a whole reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

from kin_nb.core.llm.adapters.base import APIAdapter
from kin_nb.core.llm.adapters.encoding import Destination
from kin_nb.core.llm.backend.patience import End, Patience
from kin_nb.core.llm.backend.stream import ERROR, payloads
from kin_nb.core.llm.errors import BackendErrorBuilder, Where, idle_error, incomplete_error, no_api_error, refused_error
from kin_nb.core.llm.merge import latest
from kin_nb.core.messages import LLMChunk, LLMMessage, LLMUsage, Role, ToolCall
from kin_nb.core.records import CallOrigin

if TYPE_CHECKING:
    import httpx

REFUSED = "content_filter"  # the finish reason of a reply that the model or its server declined to give
_AFTER_FINISH = 5.0  # seconds that usage may come after the finish reason
_AFTER_USAGE = 0.5  # seconds that anything may come after both


class ReplyReader:
    """Finish reason and usage are held back until the answer has ended. `timeout`: seconds without an event."""

    def __init__(self, adapter: APIAdapter, where: Where, timeout: float) -> None:
        self._adapter, self._where, self._timeout = adapter, where, timeout
        self._origin = CallOrigin(**Destination.of(where["provider"], where["model"])._asdict())
        self._usage: LLMUsage | None = None
        self._finish: str | None = None
        self._said_something = False

    async def chunks(self, response: httpx.Response, *, streaming: bool) -> AsyncGenerator[LLMChunk, None]:
        if "html" in response.headers.get("content-type", ""):
            raise no_api_error(self._where)
        patience = Patience()
        async with aclosing(payloads(response, streaming=streaming)) as events:
            try:
                while not isinstance(data := await patience.next(events, self._seconds), End):
                    if data.get(ERROR) or data.get("object") == ERROR:
                        raise BackendErrorBuilder.build_stream_error(**self._where, error=data.get(ERROR) or data)
                    chunk = self._adapter.parse_response(data, self._where["provider"])
                    self._usage = latest(self._usage, chunk.usage)
                    self._finish = chunk.finish_reason or self._finish
                    message = chunk.message
                    self._sign(message.tool_calls or ())
                    says = (
                        message.content or message.reasoning_content or message.tool_calls or message.reasoning_blocks
                    )
                    self._said_something = self._said_something or bool(says)
                    if message.origin is not None:
                        message = message.changed(
                            origin=self._origin.model_copy(update={"fields": message.origin.fields})
                        )
                        chunk = LLMChunk.model_construct(message=message, usage=None, finish_reason=None)
                    if says or message.origin is not None:
                        if chunk.usage or chunk.finish_reason:
                            chunk = LLMChunk.model_construct(message=message, usage=None, finish_reason=None)
                        yield chunk
            finally:
                patience.close()
        yield self._last(data)

    @property
    def _seconds(self) -> float:
        if self._finish is None:
            return self._timeout
        return min(self._timeout, _AFTER_USAGE if self._usage else _AFTER_FINISH)

    def _sign(self, calls: Iterable[ToolCall]) -> None:
        """Note whose calls these are, with the first delta of each and with those that bring fields."""
        for call in calls:
            if call.origin is not None and call.origin.fields:
                call.origin = self._origin.model_copy(update={"fields": call.origin.fields})
            elif call.id:
                call.origin = self._origin

    def _last(self, end: End) -> LLMChunk:
        """The chunk that says that the reply is complete. Raises when it is not."""
        finish, where = self._finish, self._where
        if finish is None and end is End.CLOSED and self._said_something and not self._says_when_complete:
            finish = "stop"
        if finish is None and end is End.SILENT:
            raise idle_error(where, self._timeout)
        if finish is None or finish == ERROR:
            raise incomplete_error(where, end.value if finish is None else "the server gave up")
        if finish == REFUSED and not self._said_something:
            raise refused_error(where)
        return LLMChunk(message=LLMMessage(role=Role.assistant), usage=self._usage, finish_reason=finish)

    @property
    def _says_when_complete(self) -> bool:
        return getattr(self._adapter, "says_when_complete", False)
