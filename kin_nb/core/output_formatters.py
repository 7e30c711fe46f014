"""What a program gets of a turn, as OutputFormat says (seed 003)."""

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
"""Takes one text without its line's end, as `print` does."""


class OutputFormatter:
    """Writes nothing. The formats below each listen to what they tell of."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def on_message(self, message: LLMMessage) -> None:
        """A message has entered the conversation, the system message first."""

    def on_event(self, event: BaseEvent, redact: Redact) -> None:
        """Something happened in the turn; `redact` is its session's."""

    def finish(self, turn: TurnRecord) -> None:
        """The turn is over, however it ended."""


class TextOutputFormatter(OutputFormatter):
    """The last thing that the model said in words, and nothing when it said none."""

    def finish(self, turn: TurnRecord) -> None:
        text = last_text(turn)
        if text:
            self._write(text)


class JsonOutputFormatter(OutputFormatter):
    """One JSON list of all messages, in order; also of those that a compaction has replaced since."""

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
    """Each message as one line of JSON, as soon as it is there and a first event has told what is secret."""

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
    """Each event as one line of JSON, as soon as it happens (docs/reference/events.md)."""

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
    """The last thing the model said in words, "" when it said nothing."""
    return next((step.content for step in reversed(turn.steps) if step.content), "")


def _dump(message: LLMMessage, redact: Redact) -> dict[str, Any]:
    """As records have it; a provider's own signed reasoning and data are for that provider alone."""
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
