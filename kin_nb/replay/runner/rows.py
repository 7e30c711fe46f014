"""What came of each of many notebooks: values, the JSON that says it, the table at the end, and the exit code of all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kin_nb.render import one_line
from kin_nb.render.text import count
from kin_nb.replay.runner.report import ReplayReport

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_SEVERITY = (0, 3, 1)
"""Exit codes, the worst last: an error or a refused call outweighs drift. 130 ends everything at once."""
_WORDS = {0: "same", 3: "drift", 1: "failed"}


@dataclass(frozen=True)
class Row:
    """One notebook as it was named. `error`: why there is no `report`, or "" when there is one."""

    notebook: str
    exit_code: int
    error: str = ""
    report: ReplayReport | None = None

    @classmethod
    def of(cls, notebook: str, report: ReplayReport) -> Row:
        return cls(notebook, report.exit_code, report=report)

    @classmethod
    def failed(cls, notebook: str, error: str) -> Row:
        return cls(notebook, 1, error)

    @property
    def says(self) -> str:
        """What is wrong, in one line; "" when nothing is."""
        if self.report is None:
            return self.error
        report = self.report
        bad = [cell for cell in report.cells if report.verdict(cell) in {"drift", "error"}]
        lines = [f"{result.where}: {result.kind}: {result.detail}" for result in report.drifted]
        lines += [f"cell {cell.cell}: {cell.status}: {cell.detail}" for cell in bad] + list(report.not_applied)
        return report.error or (lines[0] if lines and self.exit_code else "")


@dataclass(frozen=True)
class Document:
    """`kin-nb replay --report json`."""

    exit_code: int
    notebooks: tuple[Row, ...]


def worst(rows: Sequence[Row]) -> int:
    return max((row.exit_code for row in rows), key=_SEVERITY.index, default=0)


def rows_json(rows: Sequence[Row]) -> str:
    """One document: `exit_code`, and `notebooks` in the order in which they were named."""
    return as_json(Document(worst(rows), tuple(rows)), indent=2)


def row_from(text: bytes | str) -> Row:
    """Raises ValueError for what is no row."""
    row = from_json(Row, text)
    if row.exit_code not in _SEVERITY:
        raise ValueError(f"{row.exit_code} is no exit code of a notebook")
    return row


def as_json(value: object, indent: int | None = None) -> str:
    """In ASCII: lone surrogates, in what a cell showed or in a file's name, are escapes like any other."""
    return json.dumps(_adapter(type(value)).dump_python(value, mode="json"), indent=indent)


def from_json(kind: type[T], text: bytes | str) -> T:
    """A value of the dataclass `kind`. Raises ValueError."""
    try:
        made: T = _adapter(kind).validate_python(json.loads(text))
    except RecursionError:
        raise ValueError("nested too deep") from None
    return made


def table(rows: Sequence[Row]) -> str:
    """A line for each notebook, and one that counts them."""
    names = [one_line(row.notebook, 1000) for row in rows]
    width = max(map(len, names))
    lines = [
        f"{_WORDS[row.exit_code]:<6}  {name:<{width}}  {one_line(row.says, 200)}".rstrip()
        for row, name in zip(rows, names, strict=True)
    ]
    numbers = {code: sum(row.exit_code == code for row in rows) for code in _SEVERITY}
    what = ", ".join(f"{number} {_WORDS[code]}" for code, number in numbers.items() if number)
    return "\n".join([*lines, f"{count(len(rows), 'notebook')}: {what}."])


def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415  (first use)

    return TypeAdapter(kind)
