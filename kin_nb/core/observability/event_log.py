"""EventLog: one line of JSON for each event, appended to a file."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from kin_nb.core.events import (
    AssistantEvent,
    BaseEvent,
    ReasoningEvent,
    StepStartEvent,
    SubagentEvent,
    ToolOutputEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from kin_nb.core.observability.observers import Observed, name_or_other, place
from kin_nb.core.paths import private_folder
from kin_nb.core.records import CompactRecord
from kin_nb.core.wire import to_wire

_WORDS = frozenset(
    {
        *("type", "kind", "action", "status", "outcome", "verdict", "by", "scope", "risk", "policy", "mode", "model"),
        *("name", "tool_name", "id", "tool_call_id", "cost", "finish_reason"),
    }
)
"""Fields whose text is a name or a figure. All other text is contents, and so is whatever lies in the next ones."""
_CONTENTS = frozenset({"args", "arguments", "edited_args", "edited_arguments", "result", "images", "preview", "scopes"})
_TOLD_BEFORE = frozenset({"steps"})
"""Of a turn's record: each step and call had an event of its own."""


class EventLog:
    """`{"time": UTC, "session": id, "turn": n, "step": n, "event": type, "fields": {...}}`, the fields as the wire has them.

    Text that comes in pieces is not in it: the whole follows. Opened for each turn, so that the file may be moved away;
    made with mode 0600.
    """

    def __init__(self, session: Observed) -> None:
        self._session = session
        self._path = place(session.config.observability.log)
        self._file: int | None = None
        self._turn = self._step = 0

    def on_event(self, event: BaseEvent) -> None:
        """Raises OSError when the line cannot be written whole."""
        if isinstance(event, TurnStartEvent):
            self._turn, self._step = event.turn, 0
        elif isinstance(event, StepStartEvent):
            self._step = event.step
        if not _is_piece(event):
            self._write(self._line(event))
        if isinstance(event, TurnEndEvent):
            self.close()

    def compacted(self, record: CompactRecord) -> None:
        """Nothing: only events are logged."""

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _line(self, event: BaseEvent) -> dict[str, Any]:
        wire = to_wire(event, self._session.redact)
        payload = wire["payload"] if self._session.config.observability.contents else _bare(wire["payload"])
        if isinstance(event, TurnEndEvent):
            payload["record"] = {key: item for key, item in payload["record"].items() if key not in _TOLD_BEFORE}
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "session": self._session.session_id,
            "turn": self._turn,
            "step": self._step,
            "event": wire["type"],
            "fields": payload,
        }

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            private_folder(self._path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            self._file = os.open(self._path, flags, 0o600)
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        if os.write(self._file, data) != len(data):  # one write a line: processes that share a file do not mix theirs
            raise OSError(f"{self._path}: the disk is full")


def _is_piece(event: BaseEvent) -> bool:
    while isinstance(event, SubagentEvent):
        event = event.event
    if isinstance(event, AssistantEvent):
        return not event.stopped_by_middleware
    return isinstance(event, ReasoningEvent | ToolOutputEvent)


def _bare(value: Any) -> Any:
    """`value` without contents: numbers, names, and what holds some."""
    if isinstance(value, list):
        return [_bare(item) for item in value if not isinstance(item, str)]
    if not isinstance(value, dict):
        return value
    kept = {
        key: name_or_other(item) if isinstance(item, str) and item else _bare(item)
        for key, item in value.items()
        if key not in _CONTENTS and (key in _WORDS or not isinstance(item, str))
    }
    return {key: item for key, item in kept.items() if item not in (None, [], {})}
