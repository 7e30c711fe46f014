"""What came of each of many notebooks: values, JSON, the table at the end, JUnit XML, and the exit code of all."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree as ET

from kin_nb.render import one_line
from kin_nb.render.text import count
from kin_nb.replay.runner.report import CallResult, ReplayReport, UndoResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter


T = TypeVar("T")
_SEVERITY = (0, 3, 1)
"""Exit codes, the worst last: an error or a refused call outweighs drift. 130 ends everything at once."""
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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


def junit_xml(rows: Sequence[Row]) -> str:
    """A `testsuite` for each notebook; in it a `testcase` for each cell that was compared, each call and each undo.

    Drift is a `failure` and an error or a refusal an `error`, each with its detail; what this run did not come to is
    `skipped`. Text that differs under `--fail-on effect` passes, and says so in `system-out`.
    """
    suites = ET.Element("testsuites", name="kin-nb replay")
    for row in rows:
        suite = ET.SubElement(suites, "testsuite", name=_text(row.notebook))
        suite.extend(_named_apart(_cases(row)))
    for element in (*suites, suites):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    ET.indent(suites)
    data: bytes = ET.tostring(suites, encoding="us-ascii")  # whatever stdout's encoding is
    return data.decode("ascii")


def _cases(row: Row) -> Iterator[ET.Element]:
    report = row.report
    if report is None or report.error:
        yield _case(row, "the notebook", "error", report.error if report else row.error)
    if report is None:
        return
    for cell in report.cells:
        if cell.status != "not compared":
            yield _case(row, f"cell {cell.cell}", report.verdict(cell), cell.detail, cell.status)
    again: list[CallResult | UndoResult] = [*report.calls, *report.undos]
    for result in again:
        yield _case(row, result.where, report.verdict(result), result.detail, result.kind)
    for line in report.not_applied:
        yield _case(row, f"scratch copy: {line}", "drift", line)
    for turn in report.live.turns if report.live else ():
        side = turn.a or turn.b
        name = f"turn {side.turn if side else 0}{'' if turn.a else ', only now'}"
        differs = "" if turn.same else "its calls, its files or how it ended are not as recorded"
        yield _case(row, name, "drift" if differs else "same", differs, "differs")


def _named_apart(cases: Iterable[ET.Element]) -> Iterator[ET.Element]:
    """Readers take cases of one name for one: a step may have two calls of one tool."""
    seen: Counter[str] = Counter()
    for case in cases:
        name = case.get("name", "")
        seen[name] += 1
        if seen[name] > 1:
            case.set("name", f"{name} ({seen[name]})")
        yield case


def _case(row: Row, name: str, verdict: str, detail: str, kind: str = "") -> ET.Element:
    case = ET.Element("testcase", name=_text(name), classname=_text(row.notebook))
    detail = _text(detail)
    match verdict:
        case "drift" | "error":
            what = ET.SubElement(case, "failure" if verdict == "drift" else "error", type=kind or verdict)
            what.set("message", detail)
            what.text = detail
        case "skipped":
            ET.SubElement(case, "skipped", message=_text(kind))
        case _ if kind in {"text", "differs"} and detail:
            ET.SubElement(case, "system-out").text = f"{kind}: {detail}"
    return case


def _text(text: str) -> str:
    """What XML can hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
