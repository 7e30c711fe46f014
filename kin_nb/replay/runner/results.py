"""The results of re-executing one or many notebooks: values, a text table, JSON, JUnit XML, and the exit codes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from xml.etree import ElementTree as ET

from kin_nb.core.records import UndoRecord
from kin_nb.core.text import counted
from kin_nb.render import one_line
from kin_nb.replay.format.redacted_text import NOTHING_HIDDEN, HiddenText
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.drift import MATCHING, DriftKind
from kin_nb.replay.run_diff import RunDiff
from kin_nb.replay.runner.options import FailOn, ReplayMode

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCRATCH_KIND = "scratch"
"""`metadata.kin.kind` of what a cell in a scratch copy shows in addition to what was recorded: never compared."""
CellStatus = Literal["same", "differs", "error", "not compared", "not run"]
CallKind = DriftKind | Literal["played", "not run"]
Verdict = Literal["same", "drift", "error", "skipped"]
LEGEND: Mapping[CallKind, str] = {
    "same": "as recorded",
    "equivalent": "differs only in times, addresses and the like",
    "unordered": "the same lines in another order",
    "played": "not run, the recorded result was used",
    "text": "the output differs",
    "effect": "files, exit code or status differ",
    "refused": "not approved here",
    "not re-run": "files of a subagent could not be restored",
    "not run": "this run did not reach it",
}
"""What the labels of a report mean."""
_FINE = frozenset({"played", *MATCHING})
R = TypeVar("R", "CellResult", "CallResult", "UndoResult")
_KINDS: tuple[CallKind, ...] = (*sorted(MATCHING), "text", "effect", "refused", "not re-run", "not run")


@dataclass(frozen=True)
class CellResult:
    """A code cell, counted from 1 among all cells. `detail` says in one line what differs or failed."""

    cell: int
    status: CellStatus
    detail: str = ""


@dataclass(frozen=True)
class CallResult:
    """One recorded tool call: `played` in playback, else how it drifted; `not run` when this run did not come to it."""

    turn: int
    step: int
    tool: str
    kind: CallKind
    detail: str = ""

    @property
    def where(self) -> str:
        return f"turn {self.turn}, step {self.step}, {self.tool}"


@dataclass(frozen=True)
class UndoResult:
    """One recorded undo or redo that was to be done again: `number` in the session, `after` which turn."""

    number: int
    after: int
    what: str
    kind: CallKind
    detail: str = ""

    @property
    def where(self) -> str:
        return f"{self.what} after turn {self.after}"


@dataclass(frozen=True)
class TurnResult:
    """`steps` and `calls` are the recorded numbers; `drift` counts this run's calls by kind."""

    turn: int
    steps: int
    calls: int
    drift: Mapping[CallKind, int]


@dataclass(frozen=True)
class ReplayReport:
    """`executed` is the notebook as it came out; `error` is "" when every cell ran.

    `not_applied`: recorded changes of files that are not in the scratch copy, a line each. `live`: how what the model did
    now differs from the recording, None in the other modes. `fail_on` "effect": differing text does not count.
    `approve_recorded`: as it was asked for.
    """

    mode: ReplayMode
    executed: Path
    cells: tuple[CellResult, ...]
    turns: tuple[TurnResult, ...]
    calls: tuple[CallResult, ...]
    workspace: str = ""
    error: str = ""
    undos: tuple[UndoResult, ...] = ()
    not_applied: tuple[str, ...] = ()
    live: RunDiff | None = None
    fail_on: FailOn = "text"
    approve_recorded: bool = False

    def cleaned(self, clean: Callable[[str], str]) -> ReplayReport:
        """The same with what `clean` takes out of texts gone from all that a run may have printed."""

        def details(results: tuple[R, ...]) -> tuple[R, ...]:
            return tuple(replace(result, detail=clean(result.detail)) for result in results)

        return replace(
            self,
            cells=details(self.cells),
            calls=details(self.calls),
            undos=details(self.undos),
            error=clean(self.error),
            not_applied=tuple(map(clean, self.not_applied)),
            live=self.live.cleaned(clean) if self.live is not None else None,
        )

    @property
    def exit_code(self) -> int:
        """0 nothing drifted, 1 an error or a refused call, 3 drift."""
        if self.error or any(self.verdict(result) == "error" for result in (*self.cells, *self.drifted)):
            return 1
        drift = any(self.verdict(result) == "drift" for result in (*self.cells, *self.drifted))
        return 3 if drift or self.not_applied or (self.live is not None and not self.live.same) else 0

    def verdict(self, result: CellResult | CallResult | UndoResult) -> Verdict:
        """What one result means for the whole: "drift" fails it with 3, "error" with 1."""
        kind = result.status if isinstance(result, CellResult) else result.kind
        if kind in {"error", "refused"}:
            return "error"
        if kind == "not compared" or (kind == "not run" and (self.error or isinstance(result, CellResult))):
            return "skipped"
        if kind in {"differs", "text"} and self.fail_on == "effect":
            return "same"
        return "same" if kind in _FINE else "drift"

    @property
    def drifted(self) -> list[CallResult | UndoResult]:
        results: list[CallResult | UndoResult] = [*self.calls, *self.undos]
        return [result for result in results if result.kind not in MATCHING and result.kind != "played"]

    def _legend(self) -> list[str]:
        """Return one line that explains the labels of the table and of the lines below it."""
        kinds = {kind for turn in self.turns for kind in turn.drift} | {result.kind for result in self.undos}
        if self.mode == "playback":
            return ["played: shown from the recording, nothing ran"] if kinds else []
        known = [f"{kind}: {meaning}" for kind, meaning in LEGEND.items() if kind in kinds]
        return ["; ".join(known)] if known else []

    def text(self) -> str:
        """A table for a terminal, then every drift and failure in a line of its own."""
        rows = [f"{'turn':>4}  {'steps':>5}  {'calls':>5}  result"] if self.turns else []
        rows += [f"{t.turn:>4}  {t.steps:>5}  {t.calls:>5}  {_counts(t.drift)}" for t in self.turns]
        rows += self._legend()
        played = [call for call in self.calls if call.kind == "played" and call.detail]
        rows += [f"{result.where}: {result.kind}: {result.detail}" for result in (*self.drifted, *played)]
        for cell in self.cells:
            if cell.status in ("differs", "error"):
                rows.append(f"cell {cell.cell}: {cell.status}: {cell.detail}")
        compared = [cell for cell in self.cells if cell.status in ("same", "differs")]
        same = sum(cell.status == "same" for cell in compared)
        rows += [f"not in the scratch copy: {line}" for line in self.not_applied]
        if self.live is not None:
            rows.append(_live(self.live))
        elif self.mode == "playback":
            rows.append(f"{same} of {len(compared)} compared code cells show the saved output.")
        elif self.exit_code == 0:
            every = "Every tool call and undo" if self.undos else "Every tool call"
            rows.append(f"{every}{' that ran' if played else ''} came out as recorded.")
        if self.workspace:
            rows.append(f"Workspace: {self.workspace}.")
        if self.error:
            rows.append(f"Stopped: {self.error}")
        refused = sum(call.kind == "refused" for call in self.calls)
        rows += [_how_to_allow(refused)] if refused and not self.approve_recorded else []
        rows.append(f"Executed notebook: {self.executed}")
        return "\n".join(rows)


def call_results(
    executed: Any,
    recording: Recording,
    hidden: HiddenText = NOTHING_HIDDEN,
    *,
    tools: bool,
    cells: Mapping[str, int],
) -> tuple[CallResult, ...]:
    """Return how each call of the recording came out in this run: from `metadata.kin` of the executed notebook's outputs.

    With `tools`, a call counts as run only when its output carries `drift`; without, when its card is there. `cells`: by the id
    of a turn the index of its cell, since turns of two branches may have one number; 0 for a turn that is not in it.
    """
    shown = {
        (index, kin.get("turn"), kin.get("step"), str(kin.get("id"))): (index, kin)
        for index, kin in _told(executed)
        if kin.get("kind") == "call"
    }
    results = []
    for turn in recording.turns:
        for number, step in enumerate(turn.steps, 1):
            for call in step.calls:
                met = shown.get((cells.get(turn.id, 0), turn.turn, number, one_line(call.id)))
                kind, detail = _met(met, hidden, tools=tools)
                results.append(CallResult(turn.turn, number, call.name, kind, detail))
    return tuple(results)


def undo_results(executed: Any, recording: Recording, hidden: HiddenText = NOTHING_HIDDEN) -> tuple[UndoResult, ...]:
    """Every undo of the recording, as a run with tools met it: its output carries `undo`, the id, and `drift`."""
    shown = {kin["undo"]: (index, kin) for index, kin in _told(executed) if isinstance(kin.get("undo"), str)}
    results = []
    for number, undo in enumerate((each for each in recording.moves if isinstance(each, UndoRecord)), 1):
        kind, detail = _met(shown.get(undo.id), hidden, tools=True)
        results.append(UndoResult(number, max(undo.turns, default=0), undo.type, kind, detail))
    return tuple(results)


def not_applied(executed: Any, hidden: HiddenText = NOTHING_HIDDEN) -> tuple[str, ...]:
    """What the cells of a run in a scratch copy said that they could not change: their notices carry `missing`."""
    lines = []
    for index, kin in _told(executed):
        if kin.get("kind") == SCRATCH_KIND and isinstance(kin.get("missing"), list):
            if hidden.covers(index):
                lines.append(f"cell {index + 1}: {hidden.reason}")
            else:
                lines += [f"{kin.get('place')}: {line}" for line in kin["missing"]]
    return tuple(lines)


def _told(executed: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (index of the cell, `metadata.kin`) for each output that has this metadata."""
    for index, cell in enumerate(executed["cells"]):
        for output in cell.get("outputs", []):
            kin = (output.get("metadata") or {}).get("kin")
            if isinstance(kin, dict):
                yield index, kin


def turn_results(recording: Recording, calls: tuple[CallResult, ...]) -> tuple[TurnResult, ...]:
    """`calls`: of those turns, in their order."""
    results, left = [], iter(calls)
    for turn in recording.turns:
        kinds = [call.kind for call in islice(left, len(turn.calls))]
        drift = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        results.append(TurnResult(turn.turn, len(turn.steps), len(kinds), drift))
    return tuple(results)


def _met(found: tuple[int, dict[str, Any]] | None, hidden: HiddenText, *, tools: bool) -> tuple[CallKind, str]:
    """Return the outcome of the call or undo that an output reports, and the detail. `found`: an item of `_told`."""
    if found is None:
        return "not run", "this run has no output of it"
    index, kin = found
    if not tools:
        return "played", ""
    drift = kin.get("drift")
    kind = drift.get("kind") if isinstance(drift, dict) else None
    if not isinstance(drift, dict) or kind not in _KINDS:
        return "not run", "its output was not compared"
    if hidden.covers(index):
        line = drift.get("line")
        return kind, "" if kind in MATCHING else hidden.line(line if isinstance(line, int) else 0)
    return kind, str(drift.get("detail", ""))


def _live(diff: RunDiff) -> str:
    if diff.same:
        return "The model did the same as in the recording: turns, tool calls and files."
    other = sum(not turn.same for turn in diff.turns)
    return (
        f"{other} of {len(diff.turns)} turns differ from the recording. To compare them: kin-nb diff RECORDED EXECUTED"
    )


def _how_to_allow(refused: int) -> str:
    were, them = ("was", "it") if refused == 1 else ("were", "them")
    what = f"{counted(refused, 'tool call')} {were} refused: no one can approve {them} here."
    return f"{what}\nIf you trust this notebook: --approve recorded runs what was approved when it was recorded."


def _counts(drift: Mapping[CallKind, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in drift.items()) or "no tool calls"


T = TypeVar("T")
_SEVERITY = (0, 3, 1)
"""Exit codes, the worst last: an error or a refused call outweighs drift. 130 ends everything at once."""
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {0: "same", 3: "drift", 1: "failed"}


@dataclass(frozen=True)
class ReplayResult:
    """One notebook as it was named. `error`: why there is no `report`, or "" when there is one."""

    notebook: str
    exit_code: int
    error: str = ""
    report: ReplayReport | None = None

    @classmethod
    def of(cls, notebook: str, report: ReplayReport) -> ReplayResult:
        return cls(notebook, report.exit_code, report=report)

    @classmethod
    def failed(cls, notebook: str, error: str) -> ReplayResult:
        return cls(notebook, 1, error)

    @property
    def summary(self) -> str:
        """What is wrong, in one line; "" when nothing is."""
        if self.report is None:
            return self.error
        report = self.report
        bad = [cell for cell in report.cells if report.verdict(cell) in {"drift", "error"}]
        lines = [f"{result.where}: {result.kind}: {result.detail}" for result in report.drifted]
        lines += [f"cell {cell.cell}: {cell.status}: {cell.detail}" for cell in bad] + list(report.not_applied)
        return report.error or (lines[0] if lines and self.exit_code else "")


@dataclass(frozen=True)
class ReplayDocument:
    """`kin-nb replay --report json`."""

    exit_code: int
    notebooks: tuple[ReplayResult, ...]


def worst_exit_code(rows: Sequence[ReplayResult]) -> int:
    return max((row.exit_code for row in rows), key=_SEVERITY.index, default=0)


def results_json(rows: Sequence[ReplayResult]) -> str:
    """One document: `exit_code`, and `notebooks` in the order in which they were named."""
    return as_json(ReplayDocument(worst_exit_code(rows), tuple(rows)), indent=2)


def result_from_json(text: bytes | str) -> ReplayResult:
    """Read a result. Raises ValueError."""
    row = from_json(ReplayResult, text)
    if row.exit_code not in _SEVERITY:
        raise ValueError(f"{row.exit_code} is not an exit code of a notebook")
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


def results_table(rows: Sequence[ReplayResult]) -> str:
    """A line for each notebook, and one that counts them."""
    names = [one_line(row.notebook, 1000) for row in rows]
    width = max(map(len, names))
    lines = [
        f"{_WORDS[row.exit_code]:<6}  {name:<{width}}  {one_line(row.summary, 200)}".rstrip()
        for row, name in zip(rows, names, strict=True)
    ]
    numbers = {code: sum(row.exit_code == code for row in rows) for code in _SEVERITY}
    what = ", ".join(f"{number} {_WORDS[code]}" for code, number in numbers.items() if number)
    return "\n".join([*lines, f"{counted(len(rows), 'notebook')}: {what}."])


def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415  (first use)

    return TypeAdapter(kind)


def junit_xml(rows: Sequence[ReplayResult]) -> str:
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


def _cases(row: ReplayResult) -> Iterator[ET.Element]:
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


def _case(row: ReplayResult, name: str, verdict: str, detail: str, kind: str = "") -> ET.Element:
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
