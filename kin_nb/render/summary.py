"""Summarize a tool call: the first line of its card, its status, and its arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kin_nb.core.records import RecordedCall, RecordedDecision
from kin_nb.core.text import counted, first_line
from kin_nb.render.diff import changed_lines, without_header
from kin_nb.render.text import indent, one_line, reveal_hidden

PYTHON = "python"
"""The tool whose argument `code` runs in the notebook's own namespace."""
_SUBJECTS = ("path", "file_path", "pattern", "url", "question", "description")
_LONGEST_REASON = 400
_REFUSED = ("The user refused this call.", "The person refused this call.")
"""The result of a refusal without a note, now and in older recordings."""
_APPROVED = {"once": "approved by you", "session": "approved for this session", "always": "approved always"}


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call in readable form: the shell command, if any, and indented JSON. Untrusted text."""

    values: dict[str, Any]
    command: str | None
    pretty: str

    @classmethod
    def read(cls, text: str) -> Arguments:
        """Parse JSON arguments. Invalid JSON is kept as text: every call has a card."""
        try:
            values = json.loads(text)
            pretty = _pretty(values)
        except (ValueError, RecursionError):
            values, pretty = {}, text.strip()
        values = values if isinstance(values, dict) else {}
        command = values.get("command")
        return cls(
            values,
            reveal_hidden(command) if isinstance(command, str) else None,
            "" if pretty == "{}" else reveal_hidden(pretty),
        )

    def code_of(self, call: RecordedCall) -> str | None:
        """Return the Python code that `call`, which has these arguments, runs in the notebook; None for other calls."""
        code = self.values.get("code") if call.name == PYTHON else None
        return reveal_hidden(code) if isinstance(code, str) else None


def _pretty(values: Any) -> str:
    """Format as indented JSON, with multi-line strings verbatim below it: `\\n` is hard to read."""
    texts = {key: value for key, value in values.items() if _has_lines(value)} if isinstance(values, dict) else {}
    rest = {key: value for key, value in values.items() if key not in texts} if texts else values
    json_text = [json.dumps(rest, indent=2, ensure_ascii=False)] if rest or not texts else []
    return "\n".join([*json_text, *(f"{one_line(key)}:\n{indent(text.rstrip())}" for key, text in texts.items())])


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value


def call_summary(call: RecordedCall, arguments: Arguments) -> str:
    """Return one line: the changed file, the first line of code, the tool's own summary, the command or the path."""
    if (code := arguments.code_of(call)) is not None:
        return one_line(first_line(code))
    edits = arguments.command is None and call.subagent is None and call.status == "ok"
    if edits and len(call.files) == 1:
        return one_line(call.files[0].path, 400)
    if call.summary and call.summary != call.name:
        return one_line(call.summary)
    subjects = (arguments.command, *(arguments.values.get(key) for key in _SUBJECTS))
    return one_line(next((subject for subject in subjects if isinstance(subject, str)), ""))


def describe_call(call: RecordedCall) -> str:
    """Return `call_summary` for the call's recorded arguments."""
    return call_summary(call, Arguments.read(call.arguments))


def status_words(call: RecordedCall, *, waiting: bool, printing: bool) -> list[str]:
    """Return the status line: size of the change, status, nonzero exit code, whether it ran, and a user's decision."""
    return [
        *_size(call),
        _status(call, waiting=waiting, printing=printing),
        *([f"exit {call.exit}"] if call.exit else []),
        *(["ran once, together with the same call before it"] if call.is_repeated else []),
        *_approval(call),
        *(["edited by you before it ran"] if call.edited_arguments is not None else []),
    ]


def _size(call: RecordedCall) -> list[str]:
    files = [counted(len(call.files), "file")] if len(call.files) > 1 else []
    counts = [changed_lines(without_header(file.patch)) for file in call.files if file.patch]
    return [*files, f"+{sum(c[0] for c in counts)} -{sum(c[1] for c in counts)}"] if counts else files


def _status(call: RecordedCall, *, waiting: bool, printing: bool) -> str:
    if waiting:
        return "waiting for your answer"
    if call.status == "pending":
        return "running" if printing or call.decision else "pending"
    if call.status == "refused":
        return _refusal(call)
    return {"ok": "done", "error": "failed", "interrupted": "interrupted"}[call.status]


def is_refusal_reason(call: RecordedCall, output: str) -> bool:
    """Whether the status words of a refused call contain all of `output`, the message to the model."""
    if call.status != "refused" or call.decision is None:
        return False
    why = _why_refused(call.decision)
    if not why:
        return call.decision.by == "person" and output in _REFUSED
    return "\n" not in why and len(why) <= _LONGEST_REASON and output.endswith(f": {why}")


def _refusal(call: RecordedCall) -> str:
    if call.decision is None:
        return "refused"
    if call.decision.by == "headless":
        return "not run: needs approval"  # the reason is in the output, with what to do
    why = one_line(_why_refused(call.decision), _LONGEST_REASON)
    return f"refused: {why}" if why else f"refused{' by you' if call.decision.by == 'person' else ''}"


def _why_refused(decision: RecordedDecision) -> str:
    return (decision.note if decision.by == "person" else decision.reason) or ""


def _approval(call: RecordedCall) -> list[str]:
    decision = call.decision
    if decision is None or decision.by != "person" or decision.verdict != "allow":
        return []
    note = one_line(decision.note or "", 400)
    return [_APPROVED[decision.scope] + (f": {note}" if note else "")]
