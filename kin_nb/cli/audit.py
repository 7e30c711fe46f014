"""`kin-nb audit`: who decided what."""

from __future__ import annotations

import argparse
import re
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kin_nb.cli.exits import DONE, fail, note, warn

if TYPE_CHECKING:
    from kin_nb.core.safety.audit import AuditEntry

_HEADINGS = ("time", "session", "turn", "tool", "risk", "decision", "by", "call", "because")
_CALL, _WHY = 50, 60
"""Widest columns; the rest is in --json."""
_MOST_PROBLEMS = 5
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DECISIONS = {("allow", "session"): "allow, session", ("allow", "always"): "allow, always"}


def show(arguments: argparse.Namespace) -> int:
    from kin_nb.core.paths import shown  # noqa: PLC0415  (each command loads its own)
    from kin_nb.core.safety.audit import audit_path, check_audit, read_audit  # noqa: PLC0415

    found: deque[AuditEntry] = deque(maxlen=arguments.number)
    broken = 0
    try:
        for entry in read_audit():
            if entry is None:
                broken += 1
            elif _wanted(entry, arguments):
                found.append(entry)
        changed = check_audit()
    except OSError as error:
        return fail(f"{audit_path()}: cannot be read: {error.strerror}.")
    if broken:
        note(f"{broken} {'line' if broken == 1 else 'lines'} of {shown(audit_path())} cannot be read and are left out.")
    if arguments.json:
        for entry in found:
            print(entry.model_dump_json())
    elif found:
        print(_table([_HEADINGS, *map(_row, found)]))
    else:
        print("No decisions to show.")
    return _report_changes(changed, shown(audit_path().parent))


def _report_changes(changed: list[str], folder: str) -> int:
    """The exit code, after what is wrong with the log's chain was reported."""
    for problem in changed[:_MOST_PROBLEMS]:
        warn(f"{folder}: {problem}")
    if not changed:
        return DONE
    more = f" ({len(changed)} places)" if len(changed) > _MOST_PROBLEMS else ""
    return fail(f"The audit log is not as kin-nb wrote it{more}: another program has changed or cut it.")


def since(text: str) -> datetime:
    """`90s`, `5m`, `2h`, `3d`, `1w` ago; or a date, with a time or without, here unless it says where."""
    if ago := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        try:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2h, 3d or 2025-01-31") from None


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def _wanted(entry: AuditEntry, arguments: argparse.Namespace) -> bool:
    return (
        entry.session.startswith(arguments.session or "")
        and arguments.tool in (None, entry.tool)
        and arguments.verdict in (None, entry.verdict)
        and (arguments.since is None or entry.time >= arguments.since)
    )


def _row(entry: AuditEntry) -> tuple[str, ...]:
    decision = _DECISIONS.get((entry.verdict, entry.scope), str(entry.verdict))
    return (
        f"{entry.time.astimezone():%Y-%m-%d %H:%M:%S}",
        entry.session[:8],
        str(entry.turn),
        entry.tool,
        entry.risk,
        f"{decision}, edited" if entry.edited else decision,
        entry.by,
        _cut(entry.summary, _CALL),
        _cut(f"{entry.reason}; note: {entry.note}" if entry.note else entry.reason, _WHY),
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
