"""The event protocol for programs in other languages (seed 001): each event as one line of JSON (docs/reference/events.md).

Not a format of providers: those are in kin_nb/core/llm/adapters.

A line is `{"type": "StepStart", "payload": {...}}`: the name of the event's class without "Event", and its fields. Python
objects (a tool's class) are omitted; values that JSON does not have become text. The first line of a stream has the
protocol version. The version changes only when readers must change: new types and fields do not change it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time
from enum import Enum
from itertools import islice
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, RootModel

from kin_nb.core.events import (
    AssistantEvent,
    BaseEvent,
    ReasoningEvent,
    SubagentEvent,
    ToolOutputEvent,
    ToolResultEvent,
)

PROTOCOL_VERSION = "1"
METADATA = "metadata"
_PYTHONS_OWN = frozenset({"tool_class"})
_PROVIDERS_OWN = frozenset({"provider_data"})
"""Omitted: only the provider that made these fields can read them."""
_DEEPEST = 60
_LONGEST_LINE = 8_192
"""Most characters that are held back while a line, or a private key, is incomplete."""
_LONGEST_SECRET = 4_096
"""Characters at the end of a longer line that are still held back: a secret may begin in them."""
_CUTS, _STEP = 64, 64
"""How many places are tried for a cut, and the characters between two such places in a line."""
_LINE_END = re.compile(r"[\n\r]")
_KEY_LINE = r"[A-Z ]{0,30}PRIVATE KEY-----"
_BEGUN = re.compile(
    rf"-----BEGIN {_KEY_LINE}(?!.{{0,{_LONGEST_LINE}}}-----END {_KEY_LINE})|authorization\W{{1,5}}[^\n\r]{{0,200}}\Z",
    re.DOTALL | re.IGNORECASE,
)
"""Matches the beginning of a secret of several lines whose end has not arrived."""

Redact = Callable[[str], str]
_Key = tuple[str, ...]


class WireError(ValueError):
    """A line that is not valid in this protocol."""


@dataclasses.dataclass(frozen=True)
class WireMessage:
    """A line that was read. The first line has `type` "metadata" and a payload with `protocol_version`."""

    type: str
    payload: dict[str, Any]


def to_wire(event: BaseEvent, redact: Redact = str) -> dict[str, Any]:
    """Return `{"type": ..., "payload": ...}` with JSON values only. An event inside an event has the same form.

    `redact` is applied to every text: pass `agent.redact` when the result leaves this process.
    """
    wire: dict[str, Any] = _plain(event, redact, 0)
    return wire


def from_wire(line: str | bytes) -> WireMessage:
    """Read one line. Raises WireError for an invalid line, and for a first line with another protocol version."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"no line of the wire: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise WireError('no line of the wire: an object with a "type" was expected')
    if value["type"] == METADATA:
        version = value.get("protocol_version")
        if version != PROTOCOL_VERSION:
            raise WireError(f"the wire has protocol version {version!r}; this kin_nb reads {PROTOCOL_VERSION!r}")
        return WireMessage(METADATA, {key: item for key, item in value.items() if key != "type"})
    if not isinstance(value.get("payload"), dict):
        raise WireError(f'no line of the wire: {value["type"]} has no "payload"')
    return WireMessage(value["type"], value["payload"])


def wire_type(event: type[BaseEvent]) -> str:
    return event.__name__.removesuffix("Event")


class WireStream:
    """The lines of one stream. Text that arrives in pieces is sent in whole lines: half a secret would not be recognized."""

    def __init__(self) -> None:
        self._begun = False
        self._held: dict[_Key, tuple[BaseEvent, str]] = {}  # the last piece of each text, and its unsent part

    def lines(self, event: BaseEvent, redact: Redact) -> Iterator[str]:
        """Yield the lines for `event`: none while its line of text is incomplete, several when it ends other texts."""
        if not self._begun:
            self._begun = True
            yield json.dumps({"type": METADATA, "protocol_version": PROTOCOL_VERSION})
        piece = _piece(event)
        for key in [key for key in self._held if _is_over(key, event, piece)]:
            last, rest = self._held.pop(key)
            yield _line(_with_text(last, rest), redact)
        if piece is None:
            yield _line(event, redact)
            return
        key, new = piece
        text = self._held.pop(key, (event, ""))[1] + new
        end = _sendable(text, redact) if _LINE_END.search(new) or len(text) > _LONGEST_LINE else 0
        if text[end:]:
            self._held[key] = (event, text[end:])
        if end:
            yield _line(_with_text(event, text[:end]), redact)


def _line(event: BaseEvent, redact: Redact) -> str:
    return json.dumps(to_wire(event, redact), allow_nan=False)


def _plain(value: Any, redact: Redact, depth: int) -> Any:
    """Return `value` as JSON: fields for a model, text for a path, the type's name for what has no JSON form."""
    if isinstance(value, Enum):
        return _plain(value.value, redact, depth)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | PurePath):
        return redact(str(value))
    if isinstance(value, date | time):
        return value.isoformat()
    if depth > _DEEPEST:
        return "[...]"
    return _plain_parts(value, redact, depth + 1)


def _plain_parts(value: Any, redact: Redact, depth: int) -> Any:
    if isinstance(value, RootModel):
        return _plain(value.root, redact, depth)
    if isinstance(value, BaseEvent):
        fields = {name: item for name, item in _fields(value).items() if name not in _PYTHONS_OWN}
        return {"type": wire_type(type(value)), "payload": _object(fields, redact, depth)}
    if isinstance(value, BaseModel):
        return _object(_fields(value), redact, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, redact, depth)
    if isinstance(value, Mapping):
        return _object(value, redact, depth)
    if isinstance(value, list | tuple):
        return [_plain(item, redact, depth) for item in value]
    if isinstance(value, set | frozenset):
        return [_plain(item, redact, depth) for item in sorted(value, key=str)]
    return f"[{type(value).__name__}]"


def _object(fields: Mapping[Any, Any], redact: Redact, depth: int) -> dict[str, Any]:
    shown = {name: value for name, value in fields.items() if not isinstance(value, type)}
    return {redact(str(name)): _plain(value, redact, depth) for name, value in shown.items()}


def _fields(model: BaseModel) -> dict[str, Any]:
    """Return the fields of a model, read one by one: `model_dump` omits the fields of a subclass of the declared type."""
    fields = type(model).model_fields.items()
    own = {
        name: getattr(model, name, None) for name, field in fields if not field.exclude and name not in _PROVIDERS_OWN
    }
    return {**own, **(model.model_extra or {})}


def _piece(event: BaseEvent) -> tuple[_Key, str] | None:
    """Return the key of the text that an event continues, and the piece; None for an event that is complete."""
    match event:
        case AssistantEvent(stopped_by_middleware=False):
            return ("text",), event.content
        case ReasoningEvent():
            return ("reasoning",), event.content
        case ToolOutputEvent():
            return ("output", event.tool_call_id), event.text
        case SubagentEvent() if inner := _piece(event.event):
            return (event.tool_call_id, *inner[0]), inner[1]
    return None


def _with_text(event: BaseEvent, text: str) -> BaseEvent:
    if isinstance(event, SubagentEvent):
        return event.model_copy(update={"event": _with_text(event.event, text)})
    return event.model_copy(update={"text" if isinstance(event, ToolOutputEvent) else "content": text})


def _is_over(key: _Key, event: BaseEvent, piece: tuple[_Key, str] | None) -> bool:
    """Whether `event` ends the text of `key`. The output of a call ends with the result of that call."""
    while isinstance(event, SubagentEvent):
        event = event.event
    if "output" in key[-2:-1]:
        return isinstance(event, ToolResultEvent) and event.tool_call_id == key[-1]
    return piece is None or (piece[0] != key and "output" not in piece[0][-2:-1])


def _sendable(text: str, redact: Redact) -> int:
    """Return how many characters of an unfinished text can be sent: its complete lines.

    When the last line is too long, they are all characters except those at the end in which a secret may begin.
    """
    begun = _BEGUN.search(text)
    ends = [found.end() for found in _LINE_END.finditer(text, 0, begun.start() if begun else len(text))]
    end = _cut(text, reversed(ends), redact, otherwise=0)
    if len(text) - end <= _LONGEST_LINE:
        return end
    return _cut(text, range(len(text) - _LONGEST_SECRET, 0, -_STEP), redact, otherwise=len(text))


def _cut(text: str, places: Iterable[int], redact: Redact, otherwise: int) -> int:
    """Return the first of `places` where a cut does not divide a part that `redact` replaces."""
    tried = list(islice(places, _CUTS))
    whole = redact(text) if tried else ""
    return next((place for place in tried if redact(text[:place]) + redact(text[place:]) == whole), otherwise)
