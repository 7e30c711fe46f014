"""Stored outputs against those of a new run, as nbval compares them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.rerun.drift import AFTER, HARMLESS, first_difference
from kin_nb.replay.runner.report import SCRATCH, CellResult

_SKIPPED = frozenset({"application/vnd.jupyter.widget-view+json", "image/png", "image/jpeg"})
_UNCOMPARED_TAGS = frozenset({"nbval-ignore-output", "nbval-skip"})


def compare_cells(stored: Any, executed: Any, stopped_at: int | None, *, tools: bool) -> tuple[CellResult, ...]:
    """One result per code cell; both notebooks have the same cells. `stopped_at`: index of the cell that failed.

    With `tools` the cells that ask or undo are not compared: their calls and undos are, one by one (rerun/drift.py). What
    differs after the first drift says so: that may be why.
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
        elif tools and (asked_key(stored, before) is not None or undoes(stored, before) is not None):
            results.append(CellResult(index + 1, "not compared"))
        else:
            result = _compare(index + 1, before, after)
            late = drifted and result.status == "differs"
            results.append(replace(result, detail=f"{AFTER}{result.detail}") if late else result)
        drifted = drifted or results[-1].status == "differs" or _has_drift(after)
    return tuple(results)


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
    if unclaimed or (isinstance(tags, list) and _UNCOMPARED_TAGS.intersection(map(str, tags))):
        return CellResult(number, "not compared")
    old, new = _normalised(before["outputs"]), _normalised(after["outputs"])
    if old == new:
        return CellResult(number, "same")
    return CellResult(number, "differs", _difference(old, new))


def _normalised(outputs: list[Any]) -> list[tuple[str, str, str]]:
    """(kind, MIME type or stream name, text) in order: streams joined, what varies from run to run left out."""
    parts: list[tuple[str, str, str]] = []
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


def _difference(old: list[tuple[str, str, str]], new: list[tuple[str, str, str]]) -> str:
    for (kind, mime, was), (other_kind, other_mime, now) in zip(old, new, strict=False):
        if (kind, mime) != (other_kind, other_mime):
            return f"saved {kind} {mime}, now {other_kind} {other_mime}"
        if was != now:
            return f"{mime}, {first_difference(was, now, was='saved')}"
    return f"saved {len(old)} outputs, now {len(new)}"


def _failure(cell: Any) -> str:
    for output in reversed(cell["outputs"]):
        if output["output_type"] == "error":
            return f"{output['ename']}: {output['evalue']}"
    return "it ended without an answer"
