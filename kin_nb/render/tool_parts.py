"""Parts of the cards of tools that are drawn in their own way: code, a file that was read, a checklist, a subagent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from kin_nb.core.records import MOST_NAMES, RecordedCall, RecordedSubagent
from kin_nb.core.text import counted, listed
from kin_nb.render.card import CardPart
from kin_nb.render.highlight import code_html, highlighted, highlighted_lines, language_of
from kin_nb.render.summary import Arguments, call_summary
from kin_nb.render.text import Html, clean, escape, fill, indent, join, line_count, one_line, pre

READ_FILE = "read_file"
_OPEN_LINES = 10
_NUMBERED = re.compile(r" *\d+\t")
"""What read_file puts before each line of a file."""


def strip_notes(output: str, call: RecordedCall) -> str:
    """Remove its notes from the output of a `python` call: the card shows pictures and changed variables itself."""
    for note in (changed_note(call.bound), pictures_note(len(call.images))):
        output = "" if output == note else output.removesuffix(f"\n{note}") if note else output
    return output


def pictures_note(pictures: int) -> str:
    """Return the note of `python` to the model about the pictures that the user sees; "" for none."""
    return f"[{pictures} picture{'' if pictures == 1 else 's'} with this result]" if pictures else ""


def changed_note(names: Sequence[str]) -> str:
    """Return the note of `python` to the model about new and changed variables; "" for none."""
    return f"[new or changed: {listed(names, MOST_NAMES)}]" if names else ""


def code_part(code: str, *, waiting: bool) -> CardPart:
    """Format all of the code; collapsed if it is long and no question is open."""
    html = code_html(highlighted(code, "python"))
    lines = line_count(code)
    if lines > _OPEN_LINES and not waiting:
        size = escape(counted(lines, "line"))
        html = fill("<details><summary>The code, {}</summary>\n{}</details>\n", size, html)
    return CardPart(html, code)


def read_part(output: str, path: str) -> CardPart:
    """Format the lines of a file with their numbers. Lines without a number are notes about the file."""
    if not language_of(path):
        return CardPart.block(output)
    html: list[Html] = []
    for numbered, group in groupby(output.split("\n"), key=lambda line: bool(_NUMBERED.match(line))):
        lines = list(group)
        if not numbered:
            html += map(escape, lines)
            continue
        ends = [line.index("\t") + 1 for line in lines]
        code = "\n".join(line[end:] for line, end in zip(lines, ends, strict=True))
        drawn = highlighted_lines(code, path)
        parts = zip(lines, ends, drawn, strict=True)
        html += [fill("{}{}", escape(line[:end]), shown) for line, end, shown in parts]
    return CardPart(code_html(join("\n", html)), output)


def uncovered_part(call: RecordedCall) -> CardPart:
    """Return the line about changes that undo does not revert: bound variables and others."""
    bound, rest = (
        one_line(listed(call.bound, MOST_NAMES), 400),
        one_line(call.uncovered.removeprefix("not covered: "), 400),
    )
    changed = call.bound and not call.is_repeated
    lines = [f"changed variables: {bound} (undo does not restore variables)"] if changed else []
    lines += [f"Undo does not restore: {rest}"] if call.uncovered else []
    html = join("", (fill("<small>{}</small><br>\n", escape(line)) for line in lines))
    return CardPart(html, "\n".join(lines))


TODO = "todo"
_MARKS = {"completed": "[x]", "in_progress": "[~]", "cancelled": "[-]", "pending": "[ ]"}
_ITEM = re.compile(r"\S*\. (.*) \((pending|in_progress|completed|cancelled)(?:, (low|high) priority)?\)")
_LONGEST_ITEM = 400


class _Item(NamedTuple):
    content: str
    status: str
    priority: str


class Checklist(NamedTuple):
    items: tuple[_Item, ...]

    @classmethod
    def of(cls, call: RecordedCall, arguments: Mapping[str, Any]) -> Checklist | None:
        """Return the list that `call` wrote or read; None if there is none or the call failed."""
        if call.name != TODO or call.status in ("error", "refused"):
            return None
        items = _items_read(call) if arguments.get("action") == "read" else _items_written(arguments)
        return cls(items) if items else None

    @property
    def fact(self) -> list[str]:
        """`2 of 5 done`, `in progress: NAME`."""
        done = sum(item.status == "completed" for item in self.items)
        now = next((item.content for item in self.items if item.status == "in_progress"), "")
        return [f"{done} of {len(self.items)} done", *([f"in progress: {one_line(now)}"] if now else [])]

    @property
    def part(self) -> CardPart:
        lines = [_item_line(item) for item in self.items]
        items = (fill("<li><samp>{}</samp>{}</li>", escape(line[:3]), escape(line[3:])) for line in lines)
        html = fill('<ul style="list-style-type:none;padding-left:8px;margin:4px 0">\n{}\n</ul>\n', join("\n", items))
        return CardPart(html, "\n".join(lines))


def _item_line(item: _Item) -> str:
    priority = "" if item.priority == "medium" else f" ({item.priority} priority)"
    return f"{_MARKS[item.status]} {one_line(item.content, _LONGEST_ITEM)}{priority}"


def _items_written(arguments: Mapping[str, Any]) -> tuple[_Item, ...]:
    """Parse the arguments as the tool does: models spell a status in several ways."""
    from pydantic import ValidationError  # noqa: PLC0415  (only for this card)

    from kin_nb.core.tools.builtins.todo import TodoArgs  # noqa: PLC0415  (as above)

    try:
        todos = TodoArgs.model_validate(arguments).todos or []
    except (ValidationError, RecursionError):
        return ()
    return tuple(_Item(todo.content, todo.status, todo.priority) for todo in todos)


def _items_read(call: RecordedCall) -> tuple[_Item, ...]:
    """Parse the output of the call: a line of counts, then a line for each item."""
    items = [_ITEM.fullmatch(line) for line in clean(call.output).strip("\n").split("\n")[1:]]
    return tuple(_Item(item[1], item[2], item[3] or "medium") for item in items if item) if all(items) else ()


_ENDED = {"pending": " · running", "ok": "", "error": " · failed", "refused": " · refused"}


def subagent_line(call: RecordedCall) -> str:
    """Return the line for a call of a subagent, which may still run."""
    return _call_line(
        call.name, call_summary(call, Arguments.read(call.edited_arguments or call.arguments)), call.status
    )


def subagent_html(done: RecordedSubagent) -> Html:
    head, lines = escape(_subagent_head(done)), "\n".join(_call_lines(done))
    if not lines:
        return fill("{}<br>\n", head)
    return fill("<details><summary>{}</summary>\n{}</details>\n", head, pre(lines))


def subagent_text(done: RecordedSubagent) -> str:
    return "\n".join([_subagent_head(done), *map(indent, _call_lines(done))])


def _subagent_head(done: RecordedSubagent) -> str:
    calls, tokens = len(done.calls) + done.more, done.prompt_tokens + done.completion_tokens
    figures = f"{counted(done.steps, 'model request')}, {counted(calls, 'tool call')}, {counted(tokens, 'token')}"
    return f"Subagent {one_line(done.profile)}: {figures}"


def _call_lines(done: RecordedSubagent) -> list[str]:
    more = [f"… and {counted(done.more, 'more call')}"] if done.more else []
    return [*(_call_line(call.name, one_line(call.summary), call.status) for call in done.calls), *more]


def _call_line(name: str, subject: str, status: str) -> str:
    """Return the line for a call. Only calls that did not succeed show their status."""
    named = f"{one_line(name)} {subject}".rstrip()
    return f"{named}{_ENDED.get(status, f' · {status}')}"
