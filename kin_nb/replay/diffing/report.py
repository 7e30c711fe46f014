"""What `kin-nb diff` prints: two runs side by side for a terminal, or one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from kin_nb.render import one_line
from kin_nb.render.terminal import columns, fit, pad
from kin_nb.render.text import count
from kin_nb.replay.diffing.runs import Call, Figures, File, FileOutcome, RunDiff, Side, TurnDiff
from kin_nb.replay.recording import Recording

NARROWEST = 40
"""Columns: below that nothing could be read."""
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
class Run:
    """`name`: what the person called it. `recording`: SESSION@DIGEST12."""

    name: str
    recording: str
    model: str

    @classmethod
    def of(cls, name: str, recording: Recording) -> Run:
        """With the models of its turns, each once."""
        models = dict.fromkeys(turn.model for turn in recording.turns if turn.model)
        return cls(name, recording.name, ", ".join(models) or recording.meta.model)


def diff_json(a: Run, b: Run, found: RunDiff) -> str:
    """One document: `a`, `b`, `same`, `turns` (each with `same`), `totals`."""
    turns = [{"same": turn.same, **asdict(turn)} for turn in found.turns]
    totals = {"a": asdict(found.total_a), "b": asdict(found.total_b)}
    document = {"a": asdict(a), "b": asdict(b), "same": found.same, "turns": turns, "totals": totals}
    return json.dumps(document, indent=2)


def diff_text(a: Run, b: Run, found: RunDiff, width: int) -> str:
    """No line is wider than `width` columns, and none tells anything by colour."""
    width = max(width, NARROWEST)
    lines = [f"A  {_run(a)}", f"B  {_run(b)}"]
    for turn in found.turns:
        lines += ["", *_turn(turn, width)]
    lines += ["", "all turns", *_figures(found.total_a, found.total_b, width)]
    if any(turn.calls for turn in found.turns):
        lines += ["", _LEGEND]
    lines.append(_verdict(found))
    return "\n".join(fit(line, width).rstrip() for line in lines)


def _run(run: Run) -> str:
    return one_line(f"{run.name} · {run.model or 'unknown model'} · {run.recording}", 400)


def _turn(turn: TurnDiff, width: int) -> Iterator[str]:
    a, b = turn.a, turn.b
    title = f"{_number(a, b)}{'' if turn.same else ' (differs)'}"
    if a is not None and (b is None or turn.same_prompt):
        yield f"{title}: {one_line(a.prompt, 400)}"
    elif a is None and b is not None:
        yield f"{title}: {one_line(b.prompt, 400)}"
    elif a is not None and b is not None:
        yield f"{title}, asked otherwise"
        yield f"  - {one_line(a.prompt, 400)}"
        yield f"  + {one_line(b.prompt, 400)}"
    yield _row(width, "", "A", "B")
    yield _row(width, "model", _model(a), _model(b))
    yield _row(width, "outcome", _outcome(a), _outcome(b))
    yield from _figures(a.figures if a else None, b.figures if b else None, width)
    for call in turn.calls:
        yield f"  {call.mark} {_call(call, width - 4)}"
    for file in turn.files:
        yield f"  {_file(file, width - 2)}"


def _number(a: Side | None, b: Side | None) -> str:
    if a and b:
        return f"turn {a.turn}" if a.turn == b.turn else f"turn {a.turn} of A, turn {b.turn} of B"
    return f"turn {a.turn}, only in A" if a else f"turn {b.turn if b else 0}, only in B"


def _model(side: Side | None) -> str:
    return side.model or "unknown" if side else ""


def _outcome(side: Side | None) -> str:
    return f"{side.outcome}{', taken back' if side.taken_back else ''}" if side else "no such turn"


def _figures(a: Figures | None, b: Figures | None, width: int) -> Iterator[str]:
    for label, field in _NUMBERS.items():
        shown = [f"{getattr(figures, field):,}" if figures else "" for figures in (a, b)]
        yield _row(width, label, shown[0], shown[1])
    yield _row(width, "cost", _cost(a), _cost(b))


def _cost(figures: Figures | None) -> str:
    if figures is None:
        return ""
    return f"${figures.cost}" if figures.cost else "unknown"


def _row(width: int, label: str, a: str, b: str) -> str:
    half = (width - _LABEL - 4) // 2
    return f"  {pad(label, _LABEL)}{pad(one_line(a), half)}  {fit(one_line(b), half)}"


def _call(call: Call, width: int) -> str:
    """The summary is what gives way: how it ended must be in sight."""
    ended = {"ok": "done", "error": "failed"}.get(call.status, call.status)
    end = f" · {ended}{f', exit {call.exit}' if call.exit else ''}"
    name = one_line(call.name)
    return fit(f"{name}  {call.summary}" if call.summary else name, width - columns(end)) + end


def _file(file: File, width: int) -> str:
    if file.a is None or file.b is None:
        mark, end = "+" if file.a is None else "-", f" · {_lines(file.a or file.b)}"
    else:
        mark = "=" if file.same else "~"
        end = f" · A {_lines(file.a)}, B {_lines(file.b)} · {'the same' if file.same else 'not the same'}"
    return fit(f"{mark} file  {one_line(file.path, 400)}", max(width - columns(end), _LABEL)) + end


def _lines(outcome: FileOutcome | None) -> str:
    known = outcome is not None and outcome.added is not None
    what = f"+{outcome.added} -{outcome.removed}" if outcome and known else "no text recorded"
    return f"{what}, gone" if outcome and outcome.after is None else what


def _verdict(found: RunDiff) -> str:
    if found.same:
        return "The same in turns, calls and files."
    other = sum(not turn.same for turn in found.turns)
    return f"{count(other, 'turn')} of {len(found.turns)} {'differs' if other == 1 else 'differ'}."
