"""variables: what is in the notebook's namespace."""

from __future__ import annotations

import difflib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.notebook.live.describing import in_bytes
from kin_nb.notebook.live.looking import SECONDS, VariableRow, row, summary, user_variables
from kin_nb.notebook.live.own_secrets import without_secrets
from kin_nb.notebook.live.time_limit import on_main_thread

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MOST = 200
"""Variables in one table."""
MOST_NAMES = 20
_TABLE_SECONDS = 10.0
_MOMENT = 0.05
"""Seconds for each variable of a table that has taken its time."""


class VariablesArgs(BaseModel):
    names: list[str] = Field(default_factory=list, max_length=MOST_NAMES, description="Describe these; none: list all")
    values: bool = Field(default=False, description="With names: also the first rows, or the value cut short")
    all: bool = Field(default=False, description="List modules, functions and classes too")


class VariablesResult(BaseModel):
    """`rows`: the table, when no names were given. `described`: a text for each name. `left_out`: rows, beyond MOST."""

    rows: list[VariableRow] = Field(default_factory=list)
    described: list[str] = Field(default_factory=list)
    left_out: int = 0


class VariablesConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class Variables(BaseTool[VariablesArgs, VariablesResult, VariablesConfig, BaseToolState]):
    """Only reads: it looks at types, sizes and schemas. What an object's own code does when looked at is cut short."""

    description: ClassVar[str] = "List or describe the variables of the notebook that you are in"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    shell: ClassVar[InteractiveShell]

    def accesses(self, args: VariablesArgs) -> Accesses:  # noqa: ARG002
        return Accesses()

    def preview(self, args: VariablesArgs) -> Preview:
        what = f"look at {', '.join(args.names)}" if args.names else "list the variables"
        return Preview(summary=what, body=args.model_dump_json(indent=2))

    async def run(self, args: VariablesArgs) -> VariablesResult:
        """Raises ToolError when none of the names is a variable's, or no cell waits."""
        if args.names:
            described = await on_main_thread(partial(self._described, args))
            return VariablesResult(described=[without_secrets(text) for text in described])
        return await on_main_thread(partial(_table, self.shell, code=args.all))

    def to_model(self, result: VariablesResult) -> str:
        if result.described:
            return "\n\n".join(result.described)
        if not result.rows:
            return "There are no variables yet."
        return "\n".join([*_lines(result.rows), *([f"[… {result.left_out:,} more …]"] if result.left_out else [])])

    def _described(self, args: VariablesArgs) -> list[str]:
        known = dict(self.shell.user_ns)
        missing = {name: _no_such(name, known) for name in args.names if name not in known}
        if len(missing) == len(set(args.names)):
            raise ToolError("\n".join(missing.values()))
        return [
            missing.get(name) or summary(name, known[name], values=args.values) for name in dict.fromkeys(args.names)
        ]


def _table(shell: InteractiveShell, *, code: bool) -> VariablesResult:
    """Each gets SECONDS at most; when all together take long, the rest get a moment each."""
    known = user_variables(shell, code=code)
    until = time.monotonic() + _TABLE_SECONDS
    rows = [
        row(name, known[name], seconds=min(SECONDS, max(until - time.monotonic(), _MOMENT)))
        for name in sorted(known, key=str.casefold)[:MOST]
    ]
    return VariablesResult(rows=rows, left_out=max(0, len(known) - MOST))


def _lines(rows: list[VariableRow]) -> list[str]:
    table = [("name", "type", "size", "memory")]
    table += [(r.name, r.type, r.size, "" if r.memory is None else in_bytes(r.memory)) for r in rows]
    widths = [max(len(cells[column]) for cells in table) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table]
    problems = ["", *(f"  [{r.problem}]" if r.problem else "" for r in rows)]
    return [f"{line.rstrip()}{problem}" for line, problem in zip(lines, problems, strict=True)]


def _no_such(name: str, known: dict[str, object]) -> str:
    if not name.isidentifier():
        return f"{name!r} is no variable's name. Only whole variables can be described, no attributes and no items."
    near = difflib.get_close_matches(name, known, n=1)
    return f"There is no variable {name}.{f' Did you mean {near[0]}?' if near else ''}"
