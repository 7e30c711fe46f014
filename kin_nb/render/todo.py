"""A call of the todo tool as a checklist. The marks say it all: [x] done, [~] in progress, [-] cancelled, [ ] to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kin_nb.core.session.records import RecordedCall
from kin_nb.render.part import Part
from kin_nb.render.text import clean, escape, one_line

TOOL = "todo"
_MARKS = {"completed": "[x]", "in_progress": "[~]", "cancelled": "[-]", "pending": "[ ]"}
_READ = re.compile(r"\S*\. (.*) \((pending|in_progress|completed|cancelled)(?:, (low|high) priority)?\)")
_LONGEST = 400


class _Item(NamedTuple):
    content: str
    status: str
    priority: str


class Checklist(NamedTuple):
    items: tuple[_Item, ...]

    @classmethod
    def of(cls, call: RecordedCall, arguments: Mapping[str, Any]) -> Checklist | None:
        """The list that `call` wrote or read; None when there is none, or it was not taken."""
        if call.name != TOOL or call.status in ("error", "refused"):
            return None
        items = _read(call) if arguments.get("action") == "read" else _written(arguments)
        return cls(items) if items else None

    @property
    def fact(self) -> list[str]:
        """`2 of 5 done`, `in progress: NAME`."""
        done = sum(item.status == "completed" for item in self.items)
        now = next((item.content for item in self.items if item.status == "in_progress"), "")
        return [f"{done} of {len(self.items)} done", *([f"in progress: {one_line(now)}"] if now else [])]

    @property
    def part(self) -> Part:
        lines = [_line(item) for item in self.items]
        html = "\n".join(f"<li><samp>{line[:3]}</samp>{escape(line[3:])}</li>" for line in lines)
        return Part(
            f'<ul style="list-style-type:none;padding-left:8px;margin:4px 0">\n{html}\n</ul>\n', "\n".join(lines)
        )


def _line(item: _Item) -> str:
    priority = "" if item.priority == "medium" else f" ({item.priority} priority)"
    return f"{_MARKS[item.status]} {one_line(item.content, _LONGEST)}{priority}"


def _written(arguments: Mapping[str, Any]) -> tuple[_Item, ...]:
    """As the tool reads the arguments: models spell a status in several ways."""
    from pydantic import ValidationError  # noqa: PLC0415  (only for this card)

    from kin_nb.core.tools.builtins.todo import TodoArgs  # noqa: PLC0415  (likewise)

    try:
        todos = TodoArgs.model_validate(arguments).todos or []
    except (ValidationError, RecursionError):
        return ()
    return tuple(_Item(todo.content, todo.status, todo.priority) for todo in todos)


def _read(call: RecordedCall) -> tuple[_Item, ...]:
    """From what the model was told: a line of counts, then a line for each."""
    items = [_READ.fullmatch(line) for line in clean(call.output).strip("\n").split("\n")[1:]]
    return tuple(_Item(item[1], item[2], item[3] or "medium") for item in items if item) if all(items) else ()
