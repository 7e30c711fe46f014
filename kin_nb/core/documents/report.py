"""The texts that `kin-nb sessions` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from datetime import datetime

from kin_nb.core.documents.document import total_cost
from kin_nb.core.records import ClearRecord, CompactRecord, RecordedCall, TurnRecord
from kin_nb.core.session.store import StoredSession
from kin_nb.core.session.summary import SessionSummary
from kin_nb.core.text import one_line

_ID = 8
"""Characters of an id in a list: enough for `SessionStore.find`."""
_LINE = 100
HEADINGS = ("id", "last activity", "turns", "tokens (in+out)", "model", "first prompt")
NUMBERS = {2, 3}
"""Right-aligned columns."""


def sessions_report(summaries: Iterable[SessionSummary]) -> str:
    """Return a table with one session per line, in the given order."""
    rows = [HEADINGS, *(session_row(summary) for summary in summaries)]
    if len(rows) == 1:
        return "No sessions yet."
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(_aligned(row, widths) for row in rows)


def session_report(stored: StoredSession) -> str:
    """Return the totals of a session, then of each turn: first line of the prompt, tools, outcome, tokens, cost, time."""
    totals = stored.state.totals
    where = one_line(str(stored.header.get("workspace", "")), _LINE)
    branch = one_line(str(stored.header.get("git_branch") or ""), _LINE)
    head = [
        f"Session {stored.session_id}",
        f"in {where}{f' on {branch}' if branch else ''}",
        f"{_time(stored.started)} to {_time(stored.last_activity)}",
        _joined(_count(totals.turns, "turn"), f"{totals.tokens:,} tokens", _cost(total_cost(stored.records))),
    ]
    lines = []
    for record in stored.records:
        if isinstance(record, TurnRecord):
            lines += ["", *_turn_lines(record, stored.full_outputs)]
        elif isinstance(record, ClearRecord):
            lines += ["", "A new conversation."]
        elif isinstance(record, CompactRecord):
            tokens = f"{record.prompt_tokens + record.completion_tokens:,} tokens"
            lines += ["", f"The conversation was compacted. {_joined(tokens, _cost(total_cost([record])))}"]
    return "\n".join([*head, *lines])


def session_row(summary: SessionSummary) -> tuple[str, ...]:
    """Return one row, with the columns of HEADINGS."""
    turns = "?" if summary.turns is None else f"{summary.turns:,}"
    tokens = "?" if summary.tokens is None else f"{summary.tokens:,}"
    time = _time(summary.last_activity)
    return summary.id[:_ID], time, turns, tokens, one_line(summary.model, _LINE), summary.title


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    cells = (
        text.rjust(width) if column in NUMBERS else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _turn_lines(turn: TurnRecord, whole: Container[str]) -> list[str]:
    first = next((line for line in turn.prompt.splitlines() if line.strip()), "")
    lines = [f"{turn.turn}. {one_line(first, _LINE)}"]
    if turn.compactions:
        lines.append("   the conversation was compacted")
    if turn.calls:
        lines.append(f"   {_tools(turn.calls)}")
    lines += [f"   full output of {one_line(c.name, _LINE)}: --output {c.id}" for c in turn.calls if c.id in whole]
    why = one_line(turn.message, _LINE)
    outcome = f"{turn.outcome}: {why}" if why else turn.outcome
    took = f"{turn.milliseconds / 1000:.1f} s" if turn.milliseconds else ""
    tokens = f"{turn.prompt_tokens + turn.completion_tokens:,} tokens"
    lines.append(
        f"   {_joined(outcome, _count(len(turn.steps), 'model request'), tokens, _cost(total_cost([turn])), took)}"
    )
    return lines


def _tools(calls: Iterable[RecordedCall]) -> str:
    """List the tools, such as `bash x2, edit_file (refused)`: in order of first use, with any status except "ok"."""
    ended = Counter((call.name, "" if call.status == "ok" else f" ({call.status})") for call in calls)
    return ", ".join(
        f"{one_line(name, _LINE)}{status}{f' x{times}' if times > 1 else ''}" for (name, status), times in ended.items()
    )


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cost(cost: float | None) -> str:
    return "" if cost is None else f"${cost:.4f}"


def _time(time: datetime | None) -> str:
    return "?" if time is None else f"{time:%Y-%m-%d %H:%M}"
