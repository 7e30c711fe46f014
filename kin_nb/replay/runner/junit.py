"""`kin-nb replay --report junit`: what CI servers read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree as ET

from kin_nb.replay.runner.report import CallResult, UndoResult
from kin_nb.replay.runner.rows import Row

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
