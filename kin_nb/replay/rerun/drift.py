"""Compare a tool call that ran again with the recorded one. Bare numbers, durations and dates always count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kin_nb.core.records import FileChange, RecordedCall, sha256
from kin_nb.core.text import shorten
from kin_nb.render.text import clean, one_line
from kin_nb.replay.format.redacted_text import matches_redacted
from kin_nb.replay.rerun.rules import Rule, built_in_rules, command_programs, compare_under_rules

DriftKind = Literal["same", "equivalent", "unordered", "played", "text", "effect", "refused", "not re-run"]
AFTER_DRIFT = "after drift: "
"""Prefix of a detail, after an earlier call has drifted."""
MATCHING: frozenset[DriftKind] = frozenset({"same", "equivalent", "unordered", "played"})


@dataclass(frozen=True)
class Drift:
    """The difference of a call. `rules`: names of the rules that made two texts equal; `detail`: the difference in one line.

    `line`: number of the first line that differs, from 1; 0 if something else differs.
    """

    kind: DriftKind
    rules: tuple[str, ...] = ()
    detail: str = ""
    line: int = 0

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the fields for an output's metadata, from which a report is made."""
        return {"kind": self.kind, "detail": self.detail, **({"line": self.line} if self.line else {})}


_LONGEST = 240
"""Characters of a detail."""
_LISTING_TOOLS = frozenset({"grep", "list_dir"})
_LISTING_COMMAND = re.compile(r"(?:find|ls|grep|rg|git grep|git ls-files)(?: [^|;&<>$`()\n]*)?")


def compare_call(recorded: RecordedCall, actual: RecordedCall, rules: Sequence[Rule] | None = None) -> Drift:
    """Compare `actual` with `recorded`: first refusal, then effects (arguments, status, exit, files), then text.

    `rules`: allowed differences in texts; None: the built-in rules.
    """
    if actual.status == "refused" and recorded.status != "refused":
        reason = actual.decision.reason if actual.decision else ""
        return Drift("refused", detail=shorten(f"recorded as {recorded.status}, now refused: {reason}", _LONGEST))
    effect = _effect(recorded, actual)
    if effect:
        return Drift("effect", detail=shorten(effect, _LONGEST))
    recorded, actual = _without_advice(recorded), _without_advice(actual)
    if recorded.withheld:
        same = (
            recorded.withheld == sha256(actual.output) or actual.output == recorded.shown_to_model
        )  # it was not run again
        return Drift("same") if same else Drift("text", detail="another result; the recording has only the hash")
    if recorded.output == actual.output:
        return Drift("same")
    if matches_redacted(recorded.output, actual.output):
        return Drift("equivalent", detail="except for text that was redacted when it was saved")
    return _compare_text(recorded, actual, built_in_rules() if rules is None else rules)


def _without_advice(call: RecordedCall) -> RecordedCall:
    """Remove the notes about full outputs and undo: they depend on the run's own session and disk."""
    return call.model_copy(update={"output": call.result})


def _effect(recorded: RecordedCall, actual: RecordedCall) -> str:
    if recorded.name != actual.name or _ran(recorded) != _ran(actual):
        return f"another call ran: {actual.name} {actual.edited_arguments or actual.arguments}"
    if recorded.status != actual.status:
        said = one_line(clean(actual.output)) if actual.status != "ok" else ""
        return f"status: recorded {recorded.status}, now {actual.status}{f': {said}' if said else ''}"
    if recorded.exit != actual.exit:
        return f"exit code: recorded {recorded.exit}, now {actual.exit}"
    return files_effect(recorded.files, actual.files)


def files_effect(recorded: Iterable[FileChange], actual: Iterable[FileChange]) -> str:
    """Describe the first file that differs from the recorded one; "" if none does."""
    before = {change.path: change for change in recorded}
    after = {change.path: change for change in actual}
    for path in sorted(before.keys() | after.keys()):
        difference = _file_effect(before.get(path), after.get(path))
        if difference:
            return f"{path}: {difference}"
    return ""


def _file_effect(recorded: FileChange | None, actual: FileChange | None) -> str:
    if recorded is None:
        return "changed now, not when recorded"
    if actual is None:
        return "changed when recorded, not now"
    if recorded.after == actual.after:
        return ""
    if recorded.before != actual.before:
        return "its content differed before the call"
    return "changed differently than recorded"


def _compare_text(recorded: RecordedCall, actual: RecordedCall, rules: Sequence[Rule]) -> Drift:
    texts = (recorded.output, actual.output)
    outcome = compare_under_rules(*texts, rules, tool=recorded.name, programs=_programs(recorded))
    if outcome.equal:
        return Drift("equivalent", tuple(rule.name for rule in outcome.used), outcome.label)
    listing = recorded.name in _LISTING_TOOLS or _LISTING_COMMAND.fullmatch(_command(recorded))
    if listing and sorted(recorded.output.splitlines()) == sorted(actual.output.splitlines()):
        return Drift("unordered", detail="the same lines in another order")
    return Drift("text", detail=f"{outcome.warning}{first_difference(*texts)}", line=differing_line(*texts))


def _programs(call: RecordedCall) -> frozenset[str]:
    if call.name == "python":  # in the notebook's kernel
        return frozenset((call.name,))
    return command_programs(_command(call)) if call.name == "bash" else frozenset()


def _ran(call: RecordedCall) -> Any:
    """Parse the arguments of the run, so that the formatting of JSON does not count."""
    text = call.arguments if call.edited_arguments is None else call.edited_arguments
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _command(call: RecordedCall) -> str:
    ran = _ran(call)
    command = ran.get("command") if call.name == "bash" and isinstance(ran, dict) else None
    return command.strip() if isinstance(command, str) else ""


def differing_line(old: str, new: str) -> int:
    """Return the number of the first line, from 1, in which two texts differ."""
    before, after = old.split("\n"), new.split("\n")
    pairs = enumerate(zip(before, after, strict=False), 1)
    return next((n for n, (a, b) in pairs if not matches_redacted(a, b)), min(len(before), len(after)) + 1)


def first_difference(old: str, new: str, *, was: str = "recorded") -> str:
    """Describe the first difference of two texts in one line: the line number, and both texts around it."""
    before, after, number = old.split("\n"), new.split("\n"), differing_line(old, new)
    if number > min(len(before), len(after)):
        longer, which = (before, was) if len(before) > len(after) else (after, "now")
        return f"line {number}, only {which}: {shorten(''.join(longer[number - 1 : number]), 100)!r}"
    a, b = before[number - 1], after[number - 1]
    shared = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, shared - 30)
    return f"line {number}: {was} {shorten(a[start:], 100)!r}, now {shorten(b[start:], 100)!r}"
