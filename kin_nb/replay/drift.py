"""How a tool call that ran again differs from the recorded one. Bare numbers, durations and dates are never masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from kin_nb.core.session.records import FileChange, RecordedCall, sha256
from kin_nb.core.session.whole_outputs import without_note

DriftKind = Literal["same", "equivalent", "unordered", "text", "effect", "refused", "not re-run"]
HARMLESS: frozenset[DriftKind] = frozenset({"same", "equivalent", "unordered"})


@dataclass(frozen=True)
class Drift:
    """`rules` are the numbers of the rules that made two texts equal; `detail` says in one line what differs."""

    kind: DriftKind
    rules: tuple[int, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Rule:
    """One harmless difference in what one program prints: `pattern` matches whole lines, `shown` replaces each."""

    number: int
    program: str
    says: str
    pattern: re.Pattern[str]
    shown: str


_SECONDS = r"\d+(?:\.\d+)?s(?: \(\d+:\d\d:\d\d\))?"
_COUNTS = r"(?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)(?:, )?)+|no tests ran"

RULES: tuple[Rule, ...] = (
    Rule(
        1,
        "unittest",
        "the seconds in `Ran n tests in S s`, under unittest's line of 70 dashes",
        re.compile(r"^(-{70}\nRan \d+ tests? in )\d+\.\d+s$", re.MULTILINE),
        r"\g<1>_s",
    ),
    Rule(
        2,
        "pytest",
        "the seconds in the last summary line, and the `=` that fill it up",
        re.compile(rf"^(?:=+ )?({_COUNTS}) in {_SECONDS}(?: =+)?$", re.MULTILINE),
        r"\g<1> in _s",
    ),
    Rule(
        3,
        "Python",
        "lines of ~ and ^ in a traceback, and the rest of the statement that they mark (3.13 shows all of it)",
        re.compile(
            r'^(  File "[^"\n]+", line \d+, in [^\n]+\n    [^\n]+)(?:\n {4}[^\n]*)*\n {4}[ ~^]*[~^]$', re.MULTILINE
        ),
        r"\g<1>",
    ),
)

_LISTING_TOOLS = frozenset({"grep", "list_dir"})
_LISTING_COMMAND = re.compile(r"(?:find|ls|grep|rg|git grep|git ls-files)(?: [^|;&<>$`()\n]*)?")


def compare_call(recorded: RecordedCall, actual: RecordedCall) -> Drift:
    """Drift of `actual` against `recorded`: refusal first, then effects (arguments, status, exit, files), then text."""
    if actual.status == "refused" and recorded.status != "refused":
        reason = actual.decision.reason if actual.decision else ""
        return Drift("refused", detail=_short(f"recorded as {recorded.status}, now refused: {reason}"))
    effect = _effect(recorded, actual)
    if effect:
        return Drift("effect", detail=_short(effect))
    recorded, actual = _without_note(recorded), _without_note(actual)
    if recorded.withheld:
        same = recorded.withheld == sha256(actual.output) or actual.output == recorded.told  # it was not run again
        return Drift("same") if same else Drift("text", detail="another result; the recording has its hash alone")
    if recorded.output == actual.output:
        return Drift("same")
    return _compare_text(recorded, actual)


def _without_note(call: RecordedCall) -> RecordedCall:
    """A run has a session of its own, and keeps whole outputs there."""
    return call.model_copy(update={"output": without_note(call.output)[0]})


def _effect(recorded: RecordedCall, actual: RecordedCall) -> str:
    if recorded.name != actual.name or _ran(recorded) != _ran(actual):
        return f"another call ran: {actual.name} {actual.edited_arguments or actual.arguments}"
    if recorded.status != actual.status:
        return f"status: recorded {recorded.status}, now {actual.status}"
    if recorded.exit != actual.exit:
        return f"exit code: recorded {recorded.exit}, now {actual.exit}"
    return files_effect(recorded.files, actual.files)


def files_effect(recorded: Iterable[FileChange], actual: Iterable[FileChange]) -> str:
    """Which file came out otherwise than recorded, and how; "" when none did."""
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
        return "it was another file before the call already"
    return "changed otherwise than recorded"


def _compare_text(recorded: RecordedCall, actual: RecordedCall) -> Drift:
    command = _command(recorded)
    if recorded.name == "bash":
        before, after, rules = _masked(recorded.output, actual.output)
        if before == after:
            says = "; ".join(rule.says for rule in RULES if rule.number in rules)
            return Drift("equivalent", rules, says)
    listing = recorded.name in _LISTING_TOOLS or bool(command and _LISTING_COMMAND.fullmatch(command))
    if listing and sorted(recorded.output.splitlines()) == sorted(actual.output.splitlines()):
        return Drift("unordered", detail="the same lines in another order")
    return Drift("text", detail=first_difference(recorded.output, actual.output))


def _masked(recorded: str, actual: str) -> tuple[str, str, tuple[int, ...]]:
    """Both texts under the rules, and the numbers of those rules whose lines differ between them."""
    rules = []
    for rule in RULES:
        before, after = ([found[0] for found in rule.pattern.finditer(text)] for text in (recorded, actual))
        if before != after:
            rules.append(rule.number)
        recorded, actual = rule.pattern.sub(rule.shown, recorded), rule.pattern.sub(rule.shown, actual)
    return recorded, actual, tuple(rules)


def _ran(call: RecordedCall) -> Any:
    """The arguments that ran, as a value: the spelling of JSON does not matter."""
    text = call.arguments if call.edited_arguments is None else call.edited_arguments
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _command(call: RecordedCall) -> str:
    ran = _ran(call)
    command = ran.get("command") if call.name == "bash" and isinstance(ran, dict) else None
    return command.strip() if isinstance(command, str) else ""


def first_difference(old: str, new: str, *, was: str = "recorded") -> str:
    """Where two texts part, in one line: the line's number and both spellings from shortly before the difference."""
    before, after = old.split("\n"), new.split("\n")
    for number, (a, b) in enumerate(zip(before, after, strict=False), 1):
        if a != b:
            shared = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            start = max(0, shared - 30)
            return f"line {number}: {was} {_short(a[start:], 100)!r}, now {_short(b[start:], 100)!r}"
    longer, which = (before, was) if len(before) > len(after) else (after, "now")
    number = min(len(before), len(after)) + 1
    return f"line {number}, only {which}: {_short(longer[number - 1], 100)!r}"


def _short(text: str, most: int = 240) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
