"""Classes of tools that are made while a session runs, as those of a notebook or an MCP server are: they go with it."""

from __future__ import annotations

import gc
import weakref

from pydantic import BaseModel

from kin_nb.core.tool_types import BaseToolConfig, BaseToolState
from kin_nb.core.tools.base import BaseTool


def made_and_used() -> list[weakref.ref]:
    class Args(BaseModel):
        path: str

    class Result(BaseModel):
        text: str

    class Look(BaseTool[Args, Result, BaseToolConfig, BaseToolState]):
        description = "Look at a file"

        async def run(self, args: Args) -> Result:
            return Result(text=args.path)

    class Bound(Look):
        shell = object()

    assert Bound.get_parameters() is Bound.get_parameters(), "built once"
    assert Bound.from_config(BaseToolConfig()).get_name() == "bound"
    return [weakref.ref(Bound), weakref.ref(Look)]


def test_a_class_that_nothing_uses_any_more_is_released():
    found = made_and_used()
    gc.collect()
    assert [ref() for ref in found] == [None, None]
