"""variables: what is in the notebook's namespace."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.redaction import SECRET, is_secret_name
from kin_nb.core.text import counted
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.notebook.namespace import tables
from kin_nb.notebook.namespace.describe import CODE, format_bytes, memory, schema, size, type_name
from kin_nb.notebook.namespace.short_repr import ROWS, short_repr, without_named_secrets, without_secrets
from kin_nb.notebook.namespace.tables import is_a
from kin_nb.notebook.namespace.time_limit import TimeLimitError, on_main_thread, run_within

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


SECONDS = 2.0
"""For one variable."""
_SCALARS = (str, int, float, bool, type(None), date, datetime, time, timedelta)
_SHORT = 200
"""Characters of a text, and about the digits of a number."""


class VariableRow(BaseModel):
    """`memory`: bytes, None when unknown. `problem`: why the description is incomplete, "" when it is complete."""

    name: str
    type: str
    size: str = ""
    memory: int | None = None
    problem: str = ""


def user_variables(shell: InteractiveShell, *, code: bool = False) -> dict[str, Any]:
    """The person's own, by name, as IPython's `%who` has them; modules, functions and classes only with `code`."""
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in dict(shell.user_ns).items()
        if not name.startswith("_")
        and not (name in hidden and hidden[name] is value)
        and (code or not issubclass(type(value), CODE))  # isinstance would resolve a proxy
    }


def variable_row(name: str, value: object, *, seconds: float = SECONDS) -> VariableRow:
    found = VariableRow(name=name, type=type(value).__name__)

    def look() -> None:
        found.size = size(value)
        found.memory = memory(value)

    found.problem = run_guarded(look, seconds)
    return found


def describe_variable(
    name: str, value: object, *, values: bool = False, rows: int = ROWS, seconds: float = SECONDS
) -> str:
    """Type, size, memory, then the schema; the value, cut short, only with `values`, and never a secret's."""
    lines = [f"{name}: {type_name(value)}"]

    def look() -> None:
        lines[0] += _in_brackets(size(value), memory(value))
        for line in schema(value):
            lines.append(line)  # noqa: PERF402  (what has been said stays said, should the next line fail)
        if values:
            lines.append(f"value:\n{SECRET if is_secret_name(name) else short_repr(value, rows)}")

    if wrong := run_guarded(look, seconds):
        lines.append(f"[{wrong}]")
    return "\n".join(lines)


def short_value(name: str, value: object, redact: Callable[[str], str]) -> str:
    """`city = 'Bern'`; "" for anything but a short scalar, and under a secret's name. `redact`: takes secrets out of a text."""
    found: list[str] = []

    def look() -> None:
        if type(value) in _SCALARS and _is_short(value) and not is_secret_name(name):
            # before it is quoted: a secret with a quote in it would look different
            shown = without_named_secrets(redact(value)) if isinstance(value, str) else value
            found.append(f"{name} = {shown!r}")

    run_guarded(look, SECONDS)  # a time zone's own code
    return "".join(found)


def label(name: str, value: object) -> str:
    """`df (3 columns, 1.2 KB)`: what a card says of it."""
    found: list[str] = []

    def look() -> None:
        if is_a(value, "pandas", "DataFrame"):
            found.append(counted(len(value.columns), "column"))  # type: ignore[attr-defined]
        elif tables.is_lazy(value):
            found.append("lazy")
        elif tables.is_frame(value):
            found.append(counted(len(tables.columns(value)), "column"))
        else:
            found.append(size(value) or type_name(value))
        found.append(format_bytes(memory(value) or 0))

    run_guarded(look, SECONDS)
    return f"{name} ({', '.join(found)})" if found else name


def run_guarded(look: Callable[[], None], seconds: float) -> str:
    """Look, for at most that long; what went wrong in words, "" when nothing did."""
    try:
        run_within(seconds, look)
    except TimeLimitError:
        return f"cut off: looking at it takes longer than {seconds:.3g} s"
    except KeyboardInterrupt:  # the person's, and no object's
        raise
    except BaseException as error:  # noqa: BLE001  (an object's own code)
        return f"its own code raised {type(error).__name__}"
    return ""


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _SHORT and "\x1b" not in value  # colours could hide where a secret begins
    return not isinstance(value, int) or value.bit_length() <= 4 * _SHORT


def _in_brackets(size_of_it: str, taken: int | None) -> str:
    facts = ", ".join(filter(None, (size_of_it, "" if taken is None else format_bytes(taken))))
    return f" ({facts})" if facts else ""


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
    """Read types, sizes and schemas. An object's own code that this calls has a time limit."""

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
            return "No variables yet."
        return "\n".join([*_lines(result.rows), *([f"[… {result.left_out:,} more …]"] if result.left_out else [])])

    def _described(self, args: VariablesArgs) -> list[str]:
        known = dict(self.shell.user_ns)
        missing = {name: _no_such(name, known) for name in args.names if name not in known}
        if len(missing) == len(set(args.names)):
            raise ToolError("\n".join(missing.values()))
        return [
            missing.get(name) or describe_variable(name, known[name], values=args.values)
            for name in dict.fromkeys(args.names)
        ]


def _table(shell: InteractiveShell, *, code: bool) -> VariablesResult:
    """Each gets SECONDS at most; when all together take long, the rest get a moment each."""
    known = user_variables(shell, code=code)
    until = monotonic() + _TABLE_SECONDS
    rows = [
        variable_row(name, known[name], seconds=min(SECONDS, max(until - monotonic(), _MOMENT)))
        for name in sorted(known, key=str.casefold)[:MOST]
    ]
    return VariablesResult(rows=rows, left_out=max(0, len(known) - MOST))


def _lines(rows: list[VariableRow]) -> list[str]:
    table = [("name", "type", "size", "memory")]
    table += [(r.name, r.type, r.size, "" if r.memory is None else format_bytes(r.memory)) for r in rows]
    widths = [max(len(cells[column]) for cells in table) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) for cells in table]
    problems = ["", *(f"  [{r.problem}]" if r.problem else "" for r in rows)]
    return [f"{line.rstrip()}{wrong}" for line, wrong in zip(lines, problems, strict=True)]


def _no_such(name: str, known: dict[str, object]) -> str:
    if not name.isidentifier():
        return (
            f"{name!r} is not the name of a variable. Only whole variables can be described, not attributes or items."
        )
    near = difflib.get_close_matches(name, known, n=1)
    return f"There is no variable {name}.{f' Did you mean {near[0]}?' if near else ''}"
