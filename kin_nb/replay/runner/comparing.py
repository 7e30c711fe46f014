"""Stored outputs against those of a new run, as nbval compares them."""

from __future__ import annotations

import copy
import html
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.format.taken_out import NOT_SHOWN, TAKEN_OUT, align, holds_marks
from kin_nb.replay.rerun.drift import AFTER, HARMLESS, first_difference, hidden_difference
from kin_nb.replay.runner.report import SCRATCH, CellResult

_SKIPPED = frozenset({"application/vnd.jupyter.widget-view+json", "image/png", "image/jpeg"})
_Parts = list[tuple[str, str, str]]
"""(kind, MIME type or stream name, text)."""
_UNCOMPARED_TAGS = frozenset({"nbval-ignore-output", "nbval-skip"})
CANNOT_BE_FOUND = "not shown: a save took something out of this cell or one above it, and it cannot be found again here"


@dataclass(frozen=True)
class TakenOut:
    """`values`: what was found in place of marks. `lost`: for some mark nothing was; `at`: the index of that cell."""

    values: tuple[str, ...] = ()
    lost: bool = False
    at: int | None = None

    def patterns(self, shortest: int) -> list[re.Pattern[str]]:
        """What finds the values, also as repr, JSON and HTML spell them."""
        spelled = [
            each
            for value in self.values
            for each in (value, repr(value)[1:-1], json.dumps(value)[1:-1], html.escape(value))
            if len(each) >= shortest
        ]
        return [re.compile(re.escape(each)) for each in sorted(set(spelled), key=len, reverse=True)]

    def hidden(self, cells: tuple[CellResult, ...], executed: Any) -> tuple[CellResult, ...]:
        """`cells` without what those from `at` on say in detail, but for names of exceptions; after `hide_taken_out`."""

        def detail(cell: CellResult) -> str:
            if self.at is None or cell.cell <= self.at or not cell.detail or cell.detail.endswith(NOT_SHOWN):
                return cell.detail
            return _failure(executed["cells"][cell.cell - 1]) if cell.status == "error" else CANNOT_BE_FOUND

        return tuple(replace(cell, detail=detail(cell)) for cell in cells)

    def stopped(self, error: str, stopped_at: int | None, executed: Any) -> str:
        """`error`, why the cell at `stopped_at` stopped the run, in the same way."""
        if self.at is None or stopped_at is None or stopped_at < self.at:
            return error
        failed = any(output["output_type"] == "error" for output in executed["cells"][stopped_at]["outputs"])
        return f"cell {stopped_at + 1}: {_failure(executed['cells'][stopped_at])}" if failed else error


def compare_cells(stored: Any, executed: Any, stopped_at: int | None, *, tools: bool) -> tuple[CellResult, ...]:
    """One result per code cell; both notebooks have the same cells. `stopped_at`: index of the cell that failed.

    With `tools` the cells that ask or undo are not compared: their calls and undos are, one by one (rerun/drift.py). What
    differs after the first drift says so: that may be why. No detail shows what stands where saving took something out.
    """
    results = []
    drifted = False
    for index, (before, after) in enumerate(zip(stored["cells"], executed["cells"], strict=True)):
        if before["cell_type"] != "code":
            continue
        if stopped_at is not None and index > stopped_at:
            results.append(CellResult(index + 1, "not run"))
        elif index == stopped_at:
            results.append(CellResult(index + 1, "error", _failure(after)))
        elif tools and _asks(stored, before):
            results.append(CellResult(index + 1, "not compared"))
        else:
            result = _compare(index + 1, before, after)
            late = drifted and result.status == "differs"
            results.append(replace(result, detail=f"{AFTER}{result.detail}") if late else result)
        drifted = drifted or results[-1].status == "differs" or _has_drift(after)
    return tuple(results)


def _asks(nb: Any, cell: Any) -> bool:
    return asked_key(nb, cell) is not None or undoes(nb, cell) is not None


def _has_drift(cell: Any) -> bool:
    """Whether a call or an undo that ran again in this cell came out otherwise than recorded."""
    for output in cell["outputs"]:
        kin = (output.get("metadata") or {}).get("kin")
        drift = kin.get("drift") if isinstance(kin, dict) else None
        if isinstance(drift, dict) and drift.get("kind") not in HARMLESS:
            return True
    return False


def _compare(number: int, before: Any, after: Any) -> CellResult:
    # a stripped or never-run cell claims nothing, so nothing can be compared
    unclaimed = before.get("execution_count") is None and not before["outputs"]
    tags = before["metadata"].get("tags")
    named = set(map(str, tags)) if isinstance(tags, list) else set()
    if unclaimed or (_UNCOMPARED_TAGS & named and TAKEN_OUT not in named):
        return CellResult(number, "not compared")
    old, new, _ = _aligned(before, after)
    if old == new:
        return CellResult(number, "same")
    return CellResult(number, "differs", _difference(old, new))


def _aligned(before: Any, after: Any) -> tuple[_Parts, _Parts, TakenOut]:
    """(what was saved, what is shown now with the marks of that, what was found in their place)."""
    old, new = _normalised(before["outputs"]), _normalised(after["outputs"])
    values: list[str] = []
    counts: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str, int], int] = {}
    for n, (kind, name, _) in enumerate(new):
        places[kind, name, counts[kind, name]] = n
        counts[kind, name] += 1
    marked = lost = False
    counts.clear()
    for kind, name, was in old:
        at = places.get((kind, name, counts[kind, name]))
        counts[kind, name] += 1
        if not holds_marks(was):
            continue
        marked = True
        if at is None:
            lost = True
            continue
        found = align(was, new[at][2])
        new[at] = (kind, name, found.text)
        values += found.values
        lost = lost or found.text != was
    elsewhere = not marked and holds_marks(json.dumps(before["outputs"]))  # such as in a traceback alone
    return old, new, TakenOut(tuple(values), lost or elsewhere)


def hide_taken_out(stored: Any, executed: Any, stopped_at: int | None = None) -> TakenOut:
    """Leave out of what ordinary cells show in `executed` what saving took out of it in `stored`; returns it.

    Where only that differs the saved outputs take its place, else a line that says so. Cards are drawn without it. From the
    first cell where it cannot be found again, nothing is shown that is not as it was saved but for the names of exceptions.
    """
    from nbformat.v4 import new_output  # noqa: PLC0415  (first use)

    values: list[str] = []
    lost: int | None = None
    for index, (before, after) in enumerate(zip(stored["cells"], executed["cells"], strict=True)):
        if stopped_at is not None and index > stopped_at:
            break
        if before["cell_type"] != "code":
            continue
        if _asks(stored, before):
            if lost is not None:
                after["outputs"] = [_without_text(output) for output in after["outputs"]]
            continue
        old, new, found = _aligned(before, after)
        values += found.values
        lost = index if lost is None and found.lost else lost
        if lost is None and not any(holds_marks(text) for _, _, text in old):
            continue
        if old == new and not found.lost:
            after["outputs"] = copy.deepcopy(before["outputs"])
            continue
        failed = [output for output in after["outputs"] if output["output_type"] == "error"]
        if lost is not None:
            failed = [_without_text(output) for output in failed]
        why = NOT_SHOWN if lost is None else CANNOT_BE_FOUND
        shown = [new_output("stream", text=f"What this cell showed: {why}.\n")] if after["outputs"] else []
        after["outputs"] = [*shown, *failed]
    return TakenOut(tuple(values), lost is not None, lost)


def _without_text(output: Any) -> Any:
    """An error with its name alone; any other output as it is."""
    from nbformat.v4 import new_output  # noqa: PLC0415  (first use)

    if output["output_type"] != "error":
        return output
    name = output["ename"]
    return new_output("error", ename=name, evalue=CANNOT_BE_FOUND, traceback=[f"{name}: {CANNOT_BE_FOUND}"])


def _normalised(outputs: list[Any]) -> _Parts:
    """(kind, MIME type or stream name, text) in order: streams joined, what varies from run to run left out."""
    parts: _Parts = []
    for output in outputs:
        kind = output["output_type"]
        kin = (output.get("metadata") or {}).get("kin")
        if isinstance(kin, dict) and kin.get("kind") == SCRATCH:
            continue
        if kind == "stream":
            if parts and parts[-1][:2] == (kind, output["name"]):
                parts[-1] = (kind, output["name"], parts[-1][2] + output["text"])
            else:
                parts.append((kind, output["name"], output["text"]))
        elif kind == "error":
            parts.append((kind, output["ename"], output["evalue"]))
        else:
            data = output.get("data", {})
            parts += [
                (kind, mime, _text(data[mime])) for mime in sorted(data, key=_plain_first) if mime not in _SKIPPED
            ]
    return parts


def _plain_first(mime: str) -> tuple[bool, str]:
    """What differs is best said in plain text."""
    return mime != "text/plain", mime


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _difference(old: _Parts, new: _Parts) -> str:
    differs = hidden_difference if any(holds_marks(text) for _, _, text in old) else first_difference
    for (kind, mime, was), (other_kind, other_mime, now) in zip(old, new, strict=False):
        if (kind, mime) != (other_kind, other_mime):
            return f"saved {kind} {mime}, now {other_kind} {other_mime}"
        if was != now:
            return f"{mime}, {differs(was, now, was='saved')}"
    return f"saved {len(old)} outputs, now {len(new)}"


def _failure(cell: Any) -> str:
    for output in reversed(cell["outputs"]):
        if output["output_type"] == "error":
            return f"{output['ename']}: {output['evalue']}"
    return "it ended without an answer"
