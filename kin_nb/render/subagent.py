"""A subagent on the card of the call that runs it: a line for each of its calls, while it works and as they stay."""

from __future__ import annotations

from kin_nb.core.session.records import RecordedCall, RecordedSubagent
from kin_nb.render.fact import Arguments, summary
from kin_nb.render.text import count, escape, indent, one_line, pre

_STATUS = {"pending": " · running", "ok": "", "error": " · failed", "refused": " · refused"}


def subagent_line(call: RecordedCall) -> str:
    """One of its calls, as far as it is known by now."""
    return _line(call.name, summary(call, Arguments.read(call.edited_arguments or call.arguments)), call.status)


def subagent_html(done: RecordedSubagent) -> str:
    head, lines = escape(_head(done)), "\n".join(_lines(done))
    return f"<details><summary>{head}</summary>\n{pre(lines)}</details>\n" if lines else f"{head}<br>\n"


def subagent_text(done: RecordedSubagent) -> str:
    return "\n".join([_head(done), *map(indent, _lines(done))])


def _head(done: RecordedSubagent) -> str:
    calls, tokens = len(done.calls) + done.more, done.prompt_tokens + done.completion_tokens
    figures = f"{count(done.steps, 'step')}, {count(calls, 'tool call')}, {count(tokens, 'token')}"
    return f"Subagent {one_line(done.profile)}: {figures}"


def _lines(done: RecordedSubagent) -> list[str]:
    more = [f"… and {count(done.more, 'more call')}"] if done.more else []
    return [*(_line(call.name, one_line(call.summary), call.status) for call in done.calls), *more]


def _line(name: str, subject: str, status: str) -> str:
    """Most calls succeed, so only the others say how they ended."""
    named = f"{one_line(name)} {subject}".rstrip()
    return f"{named}{_STATUS.get(status, f' · {status}')}"
