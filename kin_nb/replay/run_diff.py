"""Compare two runs of a session (`kin-nb diff`): turns, tool calls, files, tokens and cost; as values, as text and as JSON.

Not compared: seconds, texts of results, words of replies and ids, which differ in every run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Any, Literal

from kin_nb.core.records import FileChange, RecordedCall, Sent, SessionRecord, TurnRecord
from kin_nb.core.text import counted
from kin_nb.render import one_line
from kin_nb.render.diff import changed_lines, without_header
from kin_nb.render.summary import describe_call
from kin_nb.render.terminal import columns, fit, pad
from kin_nb.replay.book import active_steps
from kin_nb.replay.cell_keys import normalize_prompt
from kin_nb.replay.recording import Recording

Mark = Literal["=", "-", "+", "~"]
"""For a call: in both; only in A; only in B; in both with the same summary and other arguments."""


@dataclass(frozen=True)
class CallDiff:
    mark: Mark
    name: str
    summary: str
    status: str
    exit: int | None


@dataclass(frozen=True)
class FileOutcome:
    """The changes of one file in a turn. `added`, `removed`: numbers of lines, None when a record has no patch.

    `after`: sha256 of the final content, None when the file was deleted. `mode`: as in FileChange.
    """

    added: int | None
    removed: int | None
    after: str | None
    mode: str


@dataclass(frozen=True)
class FileDiff:
    """`a`, `b`: None when that run did not change it. `same`: it came out the same in both."""

    path: str
    a: FileOutcome | None
    b: FileOutcome | None
    same: bool


@dataclass(frozen=True)
class RunTotals:
    """The totals of a run. `cost`: USD as text, "" when the cost of any part is unknown."""

    steps: int
    calls: int
    files: int
    prompt_tokens: int
    completion_tokens: int
    cost: str


@dataclass(frozen=True)
class TurnSide:
    """One run's turn. `taken_back`: it, or a part of it, was undone and not redone."""

    turn: int
    prompt: str
    model: str
    outcome: str
    taken_back: bool
    figures: RunTotals


@dataclass(frozen=True)
class TurnDiff:
    """A pair of turns. `a`, `b`: None when that run has no such turn; then all calls and files are from the other run."""

    a: TurnSide | None
    b: TurnSide | None
    calls: tuple[CallDiff, ...]
    files: tuple[FileDiff, ...]

    @property
    def same_prompt(self) -> bool:
        return self.a is not None and self.b is not None and _words(self.a.prompt) == _words(self.b.prompt)

    @property
    def same(self) -> bool:
        """Whether prompt, outcome, calls and files are equal. Models, steps, tokens and cost may differ."""
        if self.a is None or self.b is None or not self.same_prompt:
            return False
        ended = (self.a.outcome, self.a.taken_back) == (self.b.outcome, self.b.taken_back)
        return ended and all(call.mark == "=" for call in self.calls) and all(file.same for file in self.files)


@dataclass(frozen=True)
class RunDiff:
    turns: tuple[TurnDiff, ...]
    total_a: RunTotals
    total_b: RunTotals

    def cleaned(self, clean: Callable[[str], str]) -> RunDiff:
        """Return the same diff with `clean` applied to prompts and calls."""
        found: RunDiff = _cleaned(self, clean)
        return found

    @property
    def same(self) -> bool:
        return all(turn.same for turn in self.turns)


def compare_runs(a: Recording, b: Recording) -> RunDiff:
    """Pair the turns in A's order, each with B's turn with the same prompt, otherwise the one at the same position."""
    standing_a, standing_b = ({id(turn) for turn in _whole(run)} for run in (a, b))
    turns = []
    for one, other in _pairs(a.turns, b.turns):
        side_a = _side(one, taken_back=id(one) not in standing_a) if one else None
        side_b = _side(other, taken_back=id(other) not in standing_b) if other else None
        calls, files = _calls(one, other), _files(one, other)
        turns.append(TurnDiff(side_a, side_b, tuple(calls), tuple(files)))
    return RunDiff(tuple(turns), _total(a.records), _total(b.records))


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """Return the value with `clean` applied to each text in it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        return tuple(_cleaned(item, clean) for item in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{field.name: _cleaned(getattr(value, field.name), clean) for field in fields(value)})


def _whole(run: Recording) -> list[TurnRecord]:
    """Return the turns of which nothing was undone, as the same objects as in the recording."""
    standing = active_steps(run)
    return [turn for turn in run.turns if standing.get(turn.id) == len(turn.steps)]


def _pairs(a: Sequence[TurnRecord], b: Sequence[TurnRecord]) -> Iterator[tuple[TurnRecord | None, TurnRecord | None]]:
    """Pair turns by prompt, without options, which may differ between the runs; between such pairs by position."""
    alike = SequenceMatcher(None, [_words(t.prompt) for t in a], [_words(t.prompt) for t in b], autojunk=False)
    for _, a_from, a_to, b_from, b_to in alike.get_opcodes():
        for n in range(max(a_to - a_from, b_to - b_from)):
            yield a[a_from + n] if a_from + n < a_to else None, b[b_from + n] if b_from + n < b_to else None


def _words(prompt: str) -> str:
    return normalize_prompt(prompt)


def _side(turn: TurnRecord, *, taken_back: bool) -> TurnSide:
    return TurnSide(turn.turn, turn.prompt, turn.model, turn.outcome, taken_back, _total([turn]))


def _calls(a: TurnRecord | None, b: TurnRecord | None) -> Iterator[CallDiff]:
    """Diff the summaries of calls; where the words are the same, the arguments decide."""
    ours, theirs = (turn.calls if turn else () for turn in (a, b))
    alike = SequenceMatcher(None, [_said(call) for call in ours], [_said(call) for call in theirs], autojunk=False)
    for kind, a_from, a_to, b_from, b_to in alike.get_opcodes():
        if kind == "equal":
            for one, other in zip(ours[a_from:a_to], theirs[b_from:b_to], strict=True):
                yield _call("=" if _arguments(one) == _arguments(other) else "~", one)
            continue
        yield from (_call("-", call) for call in ours[a_from:a_to])
        yield from (_call("+", call) for call in theirs[b_from:b_to])


def _said(call: RecordedCall) -> tuple[str, str, str, int | None]:
    return call.name, describe_call(call), call.status, call.exit


def _call(mark: Mark, call: RecordedCall) -> CallDiff:
    return CallDiff(mark, *_said(call))


def _arguments(call: RecordedCall) -> str:
    """Return the arguments of the run as a value, so that the formatting of JSON does not count."""
    text = call.arguments if call.edited_arguments is None else call.edited_arguments
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _files(a: TurnRecord | None, b: TurnRecord | None) -> Iterator[FileDiff]:
    ours, theirs = (_outcomes(turn) for turn in (a, b))
    for path in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(path), theirs.get(path)
        yield FileDiff(path, one, other, one is not None and other is not None and _alike(one, other))


def _alike(one: FileOutcome, other: FileOutcome) -> bool:
    """Compare modes, if both records have them: old ones have none."""
    return one.after == other.after and (one.mode == other.mode or not (one.mode and other.mode))


def _outcomes(turn: TurnRecord | None) -> dict[str, FileOutcome]:
    changes: dict[str, list[FileChange]] = {}
    for call in turn.calls if turn else ():
        for change in call.files:
            changes.setdefault(change.path, []).append(change)
    return {path: _outcome(made) for path, made in changes.items()}


def _outcome(made: Sequence[FileChange]) -> FileOutcome:
    last = made[-1]
    if any(change.patch is None and change.before != change.after for change in made):
        return FileOutcome(None, None, last.after, last.after_mode)
    counted = [changed_lines(without_header(change.patch)) for change in made if change.patch]
    return FileOutcome(sum(c[0] for c in counted), sum(c[1] for c in counted), last.after, last.after_mode)


def _total(records: Sequence[SessionRecord]) -> RunTotals:
    """Return the totals of turns and of compactions between them."""
    turns = [record for record in records if isinstance(record, TurnRecord)]
    paid = [record for record in records if isinstance(record, Sent)]
    costs = [_usd(record.cost) for record in paid if isinstance(record, TurnRecord) or record.cost]
    return RunTotals(
        steps=sum(len(turn.steps) for turn in turns),
        calls=sum(len(turn.calls) for turn in turns),
        files=len({change.path for turn in turns for call in turn.calls for change in call.files}),
        prompt_tokens=sum(record.prompt_tokens for record in paid),
        completion_tokens=sum(record.completion_tokens for record in paid),
        cost="" if None in costs or not costs else f"{sum((cost for cost in costs if cost is not None), Decimal(0)):f}",
    )


def _usd(cost: str) -> Decimal | None:
    return Decimal(cost) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,24})?", cost) else None


NARROWEST = 40
"""Fewest columns of the text form."""
_LABEL = 12

_NUMBERS = {
    "steps": "steps",
    "tool calls": "calls",
    "files": "files",
    "tokens in": "prompt_tokens",
    "tokens out": "completion_tokens",
}
"""Fields of Figures by how they are called here."""
_LEGEND = "= in both   - only in A   + only in B   ~ in both, not the same"


@dataclass(frozen=True)
class RunLabel:
    """The name of a run. `name`: as the user gave it. `recording`: SESSION@DIGEST12."""

    name: str
    recording: str
    model: str

    @classmethod
    def of(cls, name: str, recording: Recording) -> RunLabel:
        """Create the label, with the models of the turns, each once."""
        models = dict.fromkeys(turn.model for turn in recording.turns if turn.model)
        return cls(name, recording.name, ", ".join(models) or recording.meta.model)


def diff_json(a: RunLabel, b: RunLabel, found: RunDiff) -> str:
    """Return one JSON document: `a`, `b`, `same`, `turns` (each with `same`), `totals`."""
    turns = [{"same": turn.same, **asdict(turn)} for turn in found.turns]
    totals = {"a": asdict(found.total_a), "b": asdict(found.total_b)}
    document = {"a": asdict(a), "b": asdict(b), "same": found.same, "turns": turns, "totals": totals}
    return json.dumps(document, indent=2)


def diff_text(a: RunLabel, b: RunLabel, found: RunDiff, width: int) -> str:
    """Return the text form. No line is wider than `width` columns; nothing depends on colour."""
    width = max(width, NARROWEST)
    lines = [f"A  {_run(a)}", f"B  {_run(b)}"]
    for turn in found.turns:
        lines += ["", *_turn(turn, width)]
    lines += ["", "all turns", *_total_rows(found.total_a, found.total_b, width)]
    if any(turn.calls for turn in found.turns):
        lines += ["", _LEGEND]
    lines.append(_verdict(found))
    return "\n".join(fit(line, width).rstrip() for line in lines)


def _run(run: RunLabel) -> str:
    return one_line(f"{run.name} · {run.model or 'unknown model'} · {run.recording}", 400)


def _turn(turn: TurnDiff, width: int) -> Iterator[str]:
    a, b = turn.a, turn.b
    title = f"{_number(a, b)}{'' if turn.same else ' (differs)'}"
    if a is not None and (b is None or turn.same_prompt):
        yield f"{title}: {one_line(a.prompt, 400)}"
    elif a is None and b is not None:
        yield f"{title}: {one_line(b.prompt, 400)}"
    elif a is not None and b is not None:
        yield f"{title}, another prompt"
        yield f"  - {one_line(a.prompt, 400)}"
        yield f"  + {one_line(b.prompt, 400)}"
    yield _row(width, "", "A", "B")
    yield _row(width, "model", _model(a), _model(b))
    yield _row(width, "outcome", _outcome_text(a), _outcome_text(b))
    yield from _total_rows(a.figures if a else None, b.figures if b else None, width)
    for call in turn.calls:
        yield f"  {call.mark} {_call_line(call, width - 4)}"
    for file in turn.files:
        yield f"  {_file(file, width - 2)}"


def _number(a: TurnSide | None, b: TurnSide | None) -> str:
    if a and b:
        return f"turn {a.turn}" if a.turn == b.turn else f"turn {a.turn} of A, turn {b.turn} of B"
    return f"turn {a.turn}, only in A" if a else f"turn {b.turn if b else 0}, only in B"


def _model(side: TurnSide | None) -> str:
    return side.model or "unknown" if side else ""


def _outcome_text(side: TurnSide | None) -> str:
    return f"{side.outcome}{', undone' if side.taken_back else ''}" if side else "no such turn"


def _total_rows(a: RunTotals | None, b: RunTotals | None, width: int) -> Iterator[str]:
    for label, field in _NUMBERS.items():
        shown = [f"{getattr(figures, field):,}" if figures else "" for figures in (a, b)]
        yield _row(width, label, shown[0], shown[1])
    yield _row(width, "cost", _cost(a), _cost(b))


def _cost(figures: RunTotals | None) -> str:
    if figures is None:
        return ""
    return f"${figures.cost}" if figures.cost else "unknown"


def _row(width: int, label: str, a: str, b: str) -> str:
    half = (width - _LABEL - 4) // 2
    return f"  {pad(label, _LABEL)}{pad(one_line(a), half)}  {fit(one_line(b), half)}"


def _call_line(call: CallDiff, width: int) -> str:
    """Shorten the summary first: the status must stay visible."""
    ended = {"ok": "done", "error": "failed"}.get(call.status, call.status)
    end = f" · {ended}{f', exit {call.exit}' if call.exit else ''}"
    name = one_line(call.name)
    return fit(f"{name}  {call.summary}" if call.summary else name, width - columns(end)) + end


def _file(file: FileDiff, width: int) -> str:
    if file.a is None or file.b is None:
        mark, end = "+" if file.a is None else "-", f" · {_line_counts(file.a or file.b)}"
    else:
        mark = "=" if file.same else "~"
        end = f" · A {_line_counts(file.a)}, B {_line_counts(file.b)} · {'the same' if file.same else 'not the same'}"
    return fit(f"{mark} file  {one_line(file.path, 400)}", max(width - columns(end), _LABEL)) + end


def _line_counts(outcome: FileOutcome | None) -> str:
    known = outcome is not None and outcome.added is not None
    what = f"+{outcome.added} -{outcome.removed}" if outcome and known else "no text recorded"
    return f"{what}, gone" if outcome and outcome.after is None else what


def _verdict(found: RunDiff) -> str:
    if found.same:
        return "The same in turns, calls and files."
    other = sum(not turn.same for turn in found.turns)
    return f"{counted(other, 'turn')} of {len(found.turns)} {'differs' if other == 1 else 'differ'}."
