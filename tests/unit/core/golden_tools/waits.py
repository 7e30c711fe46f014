"""A tool of the golden session: it ends when the test opens its gate."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState
from kin_nb.core.tools.base import BaseTool
from tests.unit.core.golden import GATES


class WaitsArgs(BaseModel):
    n: int = 0


class WaitsResult(BaseModel):
    n: int


class Waits(BaseTool[WaitsArgs, WaitsResult, BaseToolConfig, BaseToolState]):
    """It reads a file, so that other calls that read run at the same time."""

    description: ClassVar[str] = "Waits for the test"

    def accesses(self, args: WaitsArgs) -> Accesses:
        return Accesses(reads=("a.py",))

    async def run(self, args: WaitsArgs) -> WaitsResult:
        await GATES[self.config.effective_workdir].wait()
        return WaitsResult(n=args.n)
