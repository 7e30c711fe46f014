"""Output of a turn for a program, in each OutputFormat (seed 003)."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum, auto
from typing import Any

from kin_nb.core.events import BaseEvent
from kin_nb.core.messages import LLMMessage
from kin_nb.core.records import TurnRecord
from kin_nb.core.redaction import redact_json
from kin_nb.core.wire import Redact, WireStream

Write = Callable[[str], None]
"""Writes one text and a line end, as `print` does."""


class OutputFormatter:
    """Base of the formats. It writes nothing; each format overrides the methods that it needs."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def on_message(self, message: LLMMessage) -> None:
        """Process a message that was added to the conversation. The first one is the system message."""

    def on_event(self, event: BaseEvent, redact: Redact) -> None:
        """Process an event of the turn. `redact` removes the session's secrets."""

    def finish(self, turn: TurnRecord) -> None:
        """Finish the output after the turn, also when it failed."""


class TextOutputFormatter(OutputFormatter):
    """Writes the last text of the model, or nothing if there is none."""

    def finish(self, turn: TurnRecord) -> None:
        text = last_text(turn)
        if text:
            self._write(text)


class JsonOutputFormatter(OutputFormatter):
    """Writes one JSON list of all messages in order, including messages that a compaction has replaced."""

    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._messages: list[LLMMessage] = []
        self._redact: Redact = str

    def on_message(self, message: LLMMessage) -> None:
        self._messages.append(message)

    def on_event(self, event: BaseEvent, redact: Redact) -> None:  # noqa: ARG002
        self._redact = redact

    def finish(self, turn: TurnRecord) -> None:  # noqa: ARG002
        self._write(json.dumps([_dump(message, self._redact) for message in self._messages]))


class StreamingJsonOutputFormatter(OutputFormatter):
    """Writes each message at once as a line of JSON. Messages before the first event wait for its `redact`."""

    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._early: list[LLMMessage] = []
        self._redact: Redact | None = None

    def on_message(self, message: LLMMessage) -> None:
        if self._redact is None:
            self._early.append(message)
        else:
            self._write(json.dumps(_dump(message, self._redact)))

    def on_event(self, event: BaseEvent, redact: Redact) -> None:  # noqa: ARG002
        early, self._early, self._redact = self._early, [], redact
        for message in early:
            self.on_message(message)


class EventsOutputFormatter(OutputFormatter):
    """Writes each event at once as a line of JSON (docs/reference/events.md)."""

    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._stream = WireStream()

    def on_event(self, event: BaseEvent, redact: Redact) -> None:
        for line in self._stream.lines(event, redact):
            self._write(line)


def create_formatter(output_format: OutputFormat, write: Write) -> OutputFormatter:
    match output_format:
        case OutputFormat.TEXT:
            return TextOutputFormatter(write)
        case OutputFormat.JSON:
            return JsonOutputFormatter(write)
        case OutputFormat.STREAMING:
            return StreamingJsonOutputFormatter(write)
        case OutputFormat.EVENTS:
            return EventsOutputFormatter(write)


def last_text(turn: TurnRecord) -> str:
    """Return the last text of the model in the turn, "" if there is none."""
    return next((step.content for step in reversed(turn.steps) if step.content), "")


def _dump(message: LLMMessage, redact: Redact) -> dict[str, Any]:
    """Return a message as redacted JSON, without the signed reasoning and data that only its provider can use."""
    dump = message.model_dump(mode="json", exclude_none=True, exclude={"reasoning_blocks"})
    for call in dump.get("tool_calls", ()):
        call.pop("origin", None)
        function = call["function"]
        function["arguments"] = redact_json(function.get("arguments", ""), redact)
    clean: dict[str, Any] = json.loads(redact_json(json.dumps(dump), redact))
    return clean


class OutputFormat(StrEnum):
    TEXT = auto()
    JSON = auto()
    STREAMING = auto()
    EVENTS = auto()
    """Every event as a line of JSON (core.wire); beyond seed 002."""
