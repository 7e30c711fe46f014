"""`kin-nb audit`: the decisions of the audit log, as a table."""

from __future__ import annotations

import argparse
import re
from collections import deque
from typing import TYPE_CHECKING

from kin_nb.cli.console import DONE, fail, note, warn
from kin_nb.core.text import shorten

if TYPE_CHECKING:
    from kin_nb.core.safety.audit import AuditEntry

_HEADINGS = ("time", "session", "turn", "tool", "risk", "decision", "by", "call", "because")
_MAX_CALL, _MAX_REASON = 50, 60
"""Characters of a column; the full texts are in --json."""
_MAX_PROBLEMS = 5
_DECISIONS = {("allow", "session"): "allow, session", ("allow", "always"): "allow, always"}
_DECIDERS = {
    "person": "user",
    "callback": "program",
    "headless": "no one to ask",
    "recorded": "recording",
    "identical": "same call before",
}
"""How `by` is shown; all other values are names of policies."""


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
        return fail(f"{audit_path()} cannot be read: {error.strerror}.")
    if broken:
        note(
            f"{broken} {'line' if broken == 1 else 'lines'} of {shown(audit_path())} cannot be read and are not shown."
        )
    if arguments.json:
        for entry in found:
            print(entry.model_dump_json())
    elif found:
        print(_table([_HEADINGS, *map(_row, found)]))
    else:
        print("No decisions to show.")
    return _report_changes(changed, shown(audit_path().parent))


def _report_changes(changed: list[str], folder: str) -> int:
    """Report changes of the log that kin_nb did not make; return the exit code."""
    for problem in changed[:_MAX_PROBLEMS]:
        warn(f"{folder}: {problem}")
    if not changed:
        return DONE
    more = f" ({len(changed)} places)" if len(changed) > _MAX_PROBLEMS else ""
    return fail(f"The audit log was changed or cut by another program{more}.")


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
        _decider(entry.by),
        shorten(entry.summary, _MAX_CALL),
        shorten(f"{entry.reason}; note: {entry.note}" if entry.note else entry.reason, _MAX_REASON),
    )


def _decider(by: str) -> str:
    """`AskOutsideWorkspace` is shown as `rule: ask outside workspace`."""
    from kin_nb.core.safety.policies import CHAIN  # noqa: PLC0415

    if by in _DECIDERS or not by:
        return _DECIDERS.get(by, by)
    labels = {type(policy).__name__: str(getattr(policy, "label", "")) for policy in CHAIN}
    return labels.get(by) or f"rule: {re.sub(r'(?<=[a-z])(?=[A-Z])', ' ', by).lower()}"


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
