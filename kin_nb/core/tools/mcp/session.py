"""The protocol, by the `mcp` package. Importing this module takes a second: import it on first use.

The package's typed parsing refuses a whole answer for one unknown part, so answers are passed on unparsed.
Requests from the server (sampling, roots, elicitation) are declined; of its notifications only `list_changed` is used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions, DispatchContext, OnNotify, OnNotifyIntercept, OnRequest, ProgressFnT
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from pydantic import BaseModel, Field

import kin_nb
from kin_nb.core.tools.mcp.answers import ServerFailed
from kin_nb.core.tools.mcp.proxy import Progress

MOST_LISTED = 10_000
"""Tools that are read of a list; how many of them are offered is ManagedServer's business."""
MOST_PAGES = 100
_EMPTY: dict[str, dict[str, Any]] = {  # an answer that the package accepts in every version of the protocol
    "tools/list": {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
    "tools/call": {"content": [], "resultType": "complete"},
}


@asynccontextmanager
async def tool_session(transport: AbstractAsyncContextManager[tuple[Any, Any]]) -> AsyncIterator[ToolSession]:
    """A session that server and client have agreed on. Raises what the transport raises, MCPError, ValidationError."""
    quiet = logging.getLogger("mcp")
    if not quiet.handlers:  # else Python prints what the package warns of into the cell
        quiet.addHandler(logging.NullHandler())
    async with transport as (read, write):
        dispatcher = _Dispatcher(read, write)
        info = types.Implementation(name="kin_nb", version=kin_nb.__version__)
        async with ClientSession(dispatcher=dispatcher, client_info=info) as client:
            await _agree(client)
            yield ToolSession(client, dispatcher)


class ToolSession:
    """Requests to one server, answered as they came. Each raises MCPError for an error answer, ServerFailed for none."""

    def __init__(self, client: ClientSession, dispatcher: _Dispatcher) -> None:
        self._client, self._dispatcher = client, dispatcher

    @property
    def list_changed(self) -> bool:
        """Whether the server has announced, since the last `list_tools`, that its tools changed."""
        return self._dispatcher.list_changed

    async def list_tools(self, deadline: float) -> tuple[list[Any], list[str]]:
        """Definitions as they came, and a line when not every page was read: no page is begun or awaited after `deadline`.

        The first page is awaited as long as the caller likes. Until a listing succeeds the list counts as changed.
        """
        self._dispatcher.list_changed = False
        try:
            return await self._pages(deadline)
        except BaseException:
            self._dispatcher.list_changed = True
            raise

    async def _pages(self, deadline: float) -> tuple[list[Any], list[str]]:
        page = await self._page(None)
        tools: list[Any] = list(page["tools"])
        cursors: list[str] = []
        while isinstance(cursor := page.get("nextCursor"), str) and cursor:
            if cursor in cursors:
                return tools, ["it lists the same page of tools again and again; the rest was left out"]
            if len(tools) >= MOST_LISTED:
                return tools, [f"it lists more than {MOST_LISTED:,} tools; what comes after them was not read"]
            cursors.append(cursor)
            if len(cursors) == MOST_PAGES:
                return tools, [
                    f"its list of tools has more than {MOST_PAGES} pages; what comes after them was not read"
                ]
            try:
                async with asyncio.timeout_at(deadline):
                    page = await self._page(cursor)
            except TimeoutError:
                return tools, [
                    f"it took too long to list its tools (startup_timeout_sec); only {len(tools):,} of them were read"
                ]
            tools += page["tools"]
        return tools, []

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        shown = None if progress is None else _progress_lines(progress)
        return await self._answer(types.CallToolRequest(params=params), shown)

    async def ping(self) -> None:
        await self._client.send_ping()

    async def _page(self, cursor: str | None) -> dict[str, Any]:
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        page = await self._answer(types.ListToolsRequest(params=params))
        if not isinstance(page.get("tools"), list):
            raise MCPError(types.INVALID_REQUEST, "its list of tools is not a list")
        return page

    async def _answer(self, request: types.ClientRequest, shown: ProgressFnT | None = None) -> dict[str, Any]:
        try:
            return (await self._client.send_request(request, _Came, progress_callback=shown)).came
        except MCPError as error:
            if error.error.code == types.CONNECTION_CLOSED:
                raise ServerFailed(error.error.message) from error
            raise


class _Meta(BaseModel):
    came: dict[str, Any] = Field(alias="kin_nb/came")


class _Came(BaseModel):
    """An answer of `_EMPTY`, which carries the one that came."""

    meta: _Meta = Field(alias="_meta")

    @property
    def came(self) -> dict[str, Any]:
        return self.meta.came


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Hands answers about tools on untyped, declines what a server asks for, and hears of changed lists."""

    list_changed = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        came = await super().send_raw_request(method, params, opts, **more)
        return {**_EMPTY[method], "_meta": {"kin_nb/came": came}} if method in _EMPTY else came

    async def run(
        self,
        on_request: OnRequest,  # noqa: ARG002
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,  # noqa: ARG002
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await super().run(_decline, on_notify, self._hear, task_status=task_status)

    def _hear(self, method: str, params: Mapping[str, Any] | None) -> bool:  # noqa: ARG002
        self.list_changed = self.list_changed or method == "notifications/tools/list_changed"
        return True


async def _decline(
    context: DispatchContext[TransportContext],  # noqa: ARG001
    method: str,
    params: Mapping[str, Any] | None,  # noqa: ARG001
) -> dict[str, Any]:
    if method == "ping":
        return {}
    raise MCPError(types.METHOD_NOT_FOUND, f"kin_nb does not support {method}")


async def _agree(client: ClientSession) -> None:
    """The handshake that nearly every server speaks; the newer discovery only where that is refused.

    Discovery first, as the package does by itself, makes some servers exit and costs slow ones the time twice.
    """
    try:
        await client.initialize()
    except RuntimeError as error:
        what, _, version = str(error).partition(": ")
        if not what.startswith("Unsupported protocol version"):
            raise
        raise ServerFailed(
            f"it speaks version {version[:40]} of MCP, which is not supported. Update the server or kin_nb"
        ) from error
    except MCPError as refused:
        if refused.error.code == types.CONNECTION_CLOSED:
            raise
        try:
            await client.discover()
        except MCPError:
            raise refused from None


def _progress_lines(show: Progress) -> ProgressFnT:
    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        count = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        show(f"{count} {message}" if message else count)

    return progressed
