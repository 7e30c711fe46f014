"""Compare stored outputs with those of a new run, as nbval compares them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kin_nb.replay.cell_keys import conversation_key
from kin_nb.replay.format.redacted_text import NOTHING_HIDDEN, REDACTED_TAG, HiddenText, matches_redacted
from kin_nb.replay.rerun.drift import AFTER_DRIFT, MATCHING, differing_line, first_difference
from kin_nb.replay.rerun.rules import Outcome, Rule, compare_under_rules
from kin_nb.replay.runner.results import SCRATCH_KIND, CellResult

_SKIPPED = frozenset({"application/vnd.jupyter.widget-view+json", "image/png", "image/jpeg"})
_Part = tuple[str, str, str]
"""(kind, MIME type or stream name, text)."""
_UNCOMPARED_TAGS = frozenset({"nbval-ignore-output", "nbval-skip"})


def compare_cells(
    stored: Any,
    executed: Any,
    stopped_at: int | None,
    hidden: HiddenText = NOTHING_HIDDEN,
    *,
    tools: bool,
    rules: Sequence[Rule] = (),
) -> tuple[CellResult, ...]:
    """One result per code cell; both notebooks have the same cells. `stopped_at`: index of the cell that failed.

    With `tools` the cells that ask or undo are not compared: their calls and undos are, one by one (rerun/drift.py). What
    differs after the first drift says so: that may be why. Details of the cells that `hidden` covers hold no text. `rules`:
    what may differ; the detail of a cell that is the same under them says what they allowed.
    """
    results = []
    drifted = False
    for index, (before, after) in enumerate(zip(stored["cells"], executed["cells"], strict=True)):
        if before["cell_type"] != "code":
            continue
        if stopped_at is not None and index > stopped_at:
            results.append(CellResult(index + 1, "not run"))
        elif index == stopped_at:
            results.append(CellResult(index + 1, "error", _failure(index, after, hidden)))
        elif tools and conversation_key(stored, before) is not None:
            results.append(CellResult(index + 1, "not compared"))
        else:
            result = _compare(index, before, after, hidden, rules)
            late = drifted and result.status == "differs"
            results.append(replace(result, detail=f"{AFTER_DRIFT}{result.detail}") if late else result)
        drifted = drifted or results[-1].status == "differs" or _has_drift(after)
    return tuple(results)


def _has_drift(cell: Any) -> bool:
    """Whether a call or an undo that ran again in this cell came out otherwise than recorded."""
    for output in cell["outputs"]:
        kin = (output.get("metadata") or {}).get("kin")
        drift = kin.get("drift") if isinstance(kin, dict) else None
        if isinstance(drift, dict) and drift.get("kind") not in MATCHING:
            return True
    return False


def _compare(index: int, before: Any, after: Any, hidden: HiddenText, rules: Sequence[Rule]) -> CellResult:
    number = index + 1
    # a stripped or never-run cell claims nothing, so nothing can be compared
    unclaimed = before.get("execution_count") is None and not before["outputs"]
    tags = before["metadata"].get("tags")
    named = set(map(str, tags)) if isinstance(tags, list) else set()
    if unclaimed or (_UNCOMPARED_TAGS & named and REDACTED_TAG not in named):
        return CellResult(number, "not compared")
    old, new = _normalised(before["outputs"]), _normalised(after["outputs"])
    outcomes = [_compare_parts(was, now, rules) for was, now in zip(old, new, strict=False)]
    at = next((n for n, outcome in enumerate(outcomes) if not outcome.equal), None)
    if at is None and len(old) == len(new):
        return CellResult(number, "same", "; ".join(dict.fromkeys(each.label for each in outcomes if each.used)))
    warning = outcomes[at].warning if at is not None else ""
    return CellResult(number, "differs", warning + _difference(old, new, at, hidden if hidden.covers(index) else None))


def _compare_parts(was: _Part, now: _Part, rules: Sequence[Rule]) -> Outcome:
    if was[:2] != now[:2]:
        return Outcome(equal=False)
    if matches_redacted(was[2], now[2]):
        return Outcome(equal=True)
    return compare_under_rules(was[2], now[2], rules)


def _normalised(outputs: list[Any]) -> list[_Part]:
    """(kind, MIME type or stream name, text) in order: streams joined, what varies from run to run left out."""
    parts: list[_Part] = []
    for output in outputs:
        kind = output["output_type"]
        kin = (output.get("metadata") or {}).get("kin")
        if isinstance(kin, dict) and kin.get("kind") == SCRATCH_KIND:
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


def _difference(old: list[_Part], new: list[_Part], at: int | None, hidden: HiddenText | None) -> str:
    """`at`: the first part that differs, None where one has more of them."""
    if at is None:
        return hidden.reason if hidden else f"saved {len(old)} outputs, now {len(new)}"
    (kind, mime, was), (other_kind, other_mime, now) = old[at], new[at]
    alike = (kind, mime) == (other_kind, other_mime)
    if hidden:
        return hidden.line(differing_line(was, now) if alike else 0)
    if not alike:
        return f"saved {kind} {mime}, now {other_kind} {other_mime}"
    return f"{mime}, {first_difference(was, now, was='saved')}"


def _failure(index: int, cell: Any, hidden: HiddenText) -> str:
    for output in reversed(cell["outputs"]):
        if output["output_type"] == "error":
            return hidden.failure(index, output["ename"], output["evalue"])
    return "the cell ended without an answer"
