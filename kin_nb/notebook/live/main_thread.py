"""The thread of the notebook's namespace, for the tools of the turn that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from kin_nb.core.callback_errors import must_propagate
from kin_nb.core.tools.base import ToolError
from kin_nb.notebook.pump import SubmitMain

T = TypeVar("T")

main_thread: ContextVar[SubmitMain | None] = ContextVar("main_thread", default=None)
"""Set for each turn, and inherited by the tasks of its calls."""
for_a_tool: ContextVar[bool] = ContextVar("for_a_tool", default=False)
"""Set on that thread while it works for a call, and inherited by what such work leaves for the notebook's event loop."""


async def on_main_thread(work: Callable[[], T]) -> T:
    """`work()`, on that thread. Raises what it raises; ToolError when no cell waits, or the person stopped it."""
    submit = main_thread.get()
    if submit is None:
        raise ToolError("The notebook's namespace is out of reach: no cell waits for this turn.")
    try:
        return await submit(partial(_for_a_tool, work))
    except asyncio.CancelledError as error:
        if must_propagate(error):
            raise
        raise ToolError("It was interrupted.") from None  # the cell waits no more


def _for_a_tool(work: Callable[[], T]) -> T:
    token = for_a_tool.set(True)
    try:
        return work()
    finally:
        for_a_tool.reset(token)
