"""Which files the model knows when a session is resumed: those that it read or wrote, and that are still as they were then."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kin_nb.core.records import RecordedCall
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.text_file import READER, seen_by

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

When: TypeAlias = dict[tuple[str, str], int]
"""(type of the log's line, the call's id) -> its time in milliseconds: "run" before a call began, "result" when it had ended."""
_WRITER = "write_file"
_EDITORS = frozenset({"edit_file", "search_replace"})


def noting(when: When, lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The log's `lines`; the times of calls are in `when` as they go by. Raises LookupError, TypeError, ValueError."""
    for line in lines:
        if line.get("type") in {"run", "result"}:
            when[line["type"], line["call"]["id"]] = int(line["time"])
        yield line


def know_again(agent: Agent, when: When) -> None:
    """What was changed since, by whomever, counts as changed since the model read it: it is not overwritten as a whole.

    An edit tells what is in the file only where it followed the model's own writing: what came between a read and an edit
    is in no record.
    """
    seen = seen_by(agent.tool_manager)
    if seen is None:
        return
    left_so: dict[Path, str | None] = {}
    for call in _calls(agent):
        path = _path(agent, call)
        if path is None:
            continue
        before, after = next(((change.before, change.after) for change in call.files if change.after), (None, None))
        if call.name == READER and ("run", call.id) in when:
            left_so[path] = None
            seen.note_as_of(path, when["run", call.id])
        elif ("result", call.id) in when and (call.name == _WRITER or path in left_so):
            known = call.name == _WRITER or (before is not None and left_so[path] == before)
            left_so[path] = after if known else None
            seen.note_as_of(path, when["result", call.id] if known else 0)


def _calls(agent: Agent) -> Iterator[RecordedCall]:
    """Those of the conversation that read or wrote a file."""
    for turn in agent.undos.conversation:
        yield from (c for c in turn.calls if c.status == "ok" and c.name in {READER, _WRITER, *_EDITORS})


def _path(agent: Agent, call: RecordedCall) -> Path | None:
    try:
        given = json.loads(call.edited_arguments or call.arguments)
        return agent.workspace.resolve(agent.here(given.get("path") or given["file_path"]))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError, ToolError):
        return None
