"""One life of one server's connection, in one task of its own: cancel scopes are bound to the task that enters them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.mcp.answers import ServerFailed

if TYPE_CHECKING:
    from kin_nb.core.tools.mcp.http import HttpLink
    from kin_nb.core.tools.mcp.proxy import Progress
    from kin_nb.core.tools.mcp.session import ToolSession
    from kin_nb.core.tools.mcp.stdio import StdioLink

CLOSE_LIMIT = 2.0
"""Seconds for a server to end when it is asked to."""
CANCEL_LIMIT = 0.5
"""Seconds to send a cancellation to the server, and to notice its end."""
PING_LIMIT = 5.0
LIST_SHARE = 0.9
"""Share of the time for a start or a listing after which no more pages are read; the pages read so far are kept."""

T = TypeVar("T")
Listed = tuple[list[Any], list[str]]
"""Definitions of tools as they came, and a line for each problem with the list."""


class Connection:
    """Belongs to the event loop that it was made on, and is opened once."""

    def __init__(self, link: StdioLink | HttpLink) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._opened: asyncio.Future[Listed] = self._loop.create_future()
        self._life: asyncio.Task[None] = self._loop.create_task(self._live())
        self._session: ToolSession | None = None
        self._why: Exception | None = None
        self._listed_by = math.inf
        """When the first list of tools is cut, in the loop's time."""
        self._silent = False
        """The last call got no answer: check that the server is alive before the next call."""

    @property
    def list_changed(self) -> bool:
        return self._session is not None and self._session.list_changed

    async def open(self, seconds: float) -> Listed:
        """Start the server, negotiate, list the tools. Raises ServerFailed, and leaves nothing running then."""
        self._listed_by = self._list_deadline(seconds)
        try:
            either: set[asyncio.Future[Any]] = {self._opened, self._life}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not self._opened.done():
                await self._kill()
        if self._opened.done():
            return self._opened.result()
        why = self._link.explain(self._why)
        if self._why is None:
            why = "; ".join(filter(None, (f"it was not ready within {seconds:g} s (startup_timeout_sec)", why)))
        raise ServerFailed(why)

    async def list_tools(self, seconds: float) -> Listed:
        """Raises ServerFailed."""
        try:
            return await self._within(seconds, self._agreed().list_tools(self._list_deadline(seconds)))
        except TimeoutError:
            raise ServerFailed(f"it did not list its tools within {seconds:g} s (startup_timeout_sec)") from None
        except ServerFailed:
            raise
        except Exception as error:
            raise ServerFailed(self._link.explain(error)) from error

    async def call(
        self, name: str, arguments: dict[str, Any], progress: Progress | None, seconds: float
    ) -> dict[str, Any]:
        """Return the unparsed answer. Raises ToolError for an error answer or a timeout, ServerFailed when the connection ends.

        A cancellation is sent to the server, and leaves the connection open.
        """
        try:
            return await self._within(seconds, self._agreed().call(name, arguments, progress))
        except TimeoutError:
            self._silent = True
            words = self._link.explain(None)
            late = f"no answer within {seconds:g} s (tool_timeout_sec)"
            raise ToolError("; ".join(filter(None, (late, words)))) from None
        except ServerFailed as error:
            await asyncio.wait({self._life}, timeout=CANCEL_LIMIT)
            if self._life.done():
                raise self._end() from error
            raise ToolError(str(error)) from error  # only this answer was lost
        except Exception as error:
            if self._link.lost:
                await self.close()
                raise ServerFailed("it does not know this session any more") from error
            raise ToolError(self._link.said(error)) from error

    async def answers(self) -> bool:
        """Whether the server is alive; it is pinged only after a call that got no answer."""
        if self._silent and not self._life.done():
            try:
                await self._within(PING_LIMIT, self._agreed().ping())
            except TimeoutError:
                await self._kill()
            except Exception:  # noqa: BLE001  (an error is an answer, too)
                self._silent = False
            else:
                self._silent = False
        return not self._life.done()

    async def close(self) -> None:
        """Let the server end by itself; make it end if it does not."""
        self._stop.set()
        try:
            await asyncio.wait({self._life}, timeout=CLOSE_LIMIT)
        finally:
            await self._kill()

    def abandon(self) -> None:
        """End it from another loop. A loop that is closed has ended it already."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._life.cancel)

    async def _live(self) -> None:
        from kin_nb.core.tools.mcp.session import tool_session  # noqa: PLC0415  (mcp costs a second)

        try:
            async with tool_session(self._link.transport()) as session:
                self._session = session
                listed = await session.list_tools(self._listed_by)
                if not self._opened.done():
                    self._opened.set_result(listed)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001  (stored, and raised at each use)
            self._why = _first(error)

    async def _within(self, seconds: float, request: Coroutine[Any, Any, T]) -> T:
        """Raises TimeoutError, ServerFailed when the connection ends first, and whatever the request raises."""
        work = self._loop.create_task(request)
        work.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may end unobserved
        try:
            await asyncio.wait({work, self._life}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=CANCEL_LIMIT)
        if self._life.done():
            raise self._end()
        raise TimeoutError

    def _list_deadline(self, seconds: float) -> float:
        return self._loop.time() + LIST_SHARE * seconds

    def _end(self) -> ServerFailed:
        return ServerFailed(self._link.explain(self._why) or "it was stopped")

    def _agreed(self) -> ToolSession:
        if self._session is None:
            raise ServerFailed("it is not connected")
        return self._session

    async def _kill(self) -> None:
        """Cancel twice: the final request to an HTTP server may block too."""
        for _ in range(2):
            if not self._life.done():
                self._life.cancel()
                await asyncio.wait({self._life}, timeout=CANCEL_LIMIT)


def _first(error: Exception) -> Exception:
    """Return the first exception of a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
