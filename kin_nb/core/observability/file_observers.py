"""Observers that write files: a log of events as JSON lines, and counters for Prometheus."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
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
from kin_nb.core.observability.observer import OTHER, Observed, name_or_other, setting_path
from kin_nb.core.paths import private_folder, read_settings, sole_writer
from kin_nb.core.records import CompactRecord, Sent, TurnRecord
from kin_nb.core.safe_fs import replace_path
from kin_nb.core.wire import to_wire

_WORDS = frozenset(
    {
        *("type", "kind", "action", "status", "outcome", "verdict", "by", "scope", "risk", "policy", "mode", "model"),
        *("name", "tool_name", "id", "tool_call_id", "cost", "finish_reason"),
    }
)
"""Fields whose text is a name or a number. All other text is contents, and so is everything in `_CONTENTS`."""
_CONTENTS = frozenset({"args", "arguments", "edited_args", "edited_arguments", "result", "images", "preview", "scopes"})
_TOLD_BEFORE = frozenset({"steps"})
"""Fields of a turn's record that are omitted, because each step and call had its own event."""


class EventLog:
    """Writes `{"time": UTC, "session": id, "turn": n, "step": n, "event": type, "fields": {...}}`, with fields as in the wire.

    Pieces of a text are not logged, because the whole text follows. The file is opened for each turn, so that it may be
    rotated, and is created with mode 0600.
    """

    def __init__(self, session: Observed) -> None:
        self._session = session
        self._path = setting_path(session.config.observability.log)
        self._file: int | None = None
        self._turn = self._step = 0

    def on_event(self, event: BaseEvent) -> None:
        """Log an event. Raises OSError if the line cannot be written completely."""
        if isinstance(event, TurnStartEvent):
            self._turn, self._step = event.turn, 0
        elif isinstance(event, StepStartEvent):
            self._step = event.step
        if not _is_piece(event):
            self._write(self._line(event))
        if isinstance(event, TurnEndEvent):
            self.close()

    def compacted(self, record: CompactRecord) -> None:
        """Do nothing: only events are logged."""

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
        if os.write(self._file, data) != len(data):  # one write for each line, so that processes can share the file
            raise OSError(f"{self._path}: the disk is full")


def _is_piece(event: BaseEvent) -> bool:
    while isinstance(event, SubagentEvent):
        event = event.event
    if isinstance(event, AssistantEvent):
        return not event.stopped_by_middleware
    return isinstance(event, ReasoningEvent | ToolOutputEvent)


def _bare(value: Any) -> Any:
    """Return `value` without contents: only numbers, names, and the objects and lists that have some."""
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


MOST_NAMES = 200
"""Most names of tools, and of models. Later names count as "other", because a model may invent any number of them."""
_MARK = "# kin_nb: counters of all sessions, written at the end of each turn\n"
_HELP = {
    "kin_nb_turns_total": "Turns by model, agent (main, sub) and outcome.",
    "kin_nb_turn_seconds_total": "Time that turns took.",
    "kin_nb_steps_total": "Requests to a model.",
    "kin_nb_tokens_total": "Tokens by model and kind (input, output).",
    "kin_nb_cost_usd_total": "What turns cost, where prices are known.",
    "kin_nb_tool_calls_total": "Tool calls by tool and status.",
    "kin_nb_tool_seconds_total": "Time that tool calls took.",
    "kin_nb_compactions_total": "Compactions of a conversation.",
}
_SAMPLE = re.compile(r"(kin_nb_[a-z_]+)(\{.*\}) ([0-9.e+-]+)")

_Samples = dict[tuple[str, str], float]


class Counters:
    """Writes a text file for Prometheus (the node exporter's textfile collector) at the end of each turn.

    The counters are read from the file, increased and written back under a lock, so that they count all sessions and
    continue after a restart. The number of labels is bounded.
    """

    def __init__(self, session: Observed) -> None:
        """Raises FileNotFoundError if the folder does not exist: a new folder would be readable by the user only."""
        self._path = setting_path(session.config.observability.prometheus)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(2, "there is no such folder", str(self._path.parent))
        self._pending: list[tuple[str, TurnRecord]] = []

    def on_event(self, event: BaseEvent) -> None:
        """Count an event. Raises OSError, and ValueError for another program's file, which is left unchanged."""
        nested = False
        while isinstance(event, SubagentEvent):
            nested, event = True, event.event
        if isinstance(event, TurnEndEvent):
            self._pending.append(("sub" if nested else "main", event.record))
            if not nested:
                self.close()

    def compacted(self, record: CompactRecord) -> None:
        """Count a compaction, and write the file at once, since no turn may follow. Raises as `on_event` does."""
        with sole_writer(self._path):
            samples = _read_samples(self._path)
            _count_used(samples, record)
            _replace_file(self._path, _samples_text(samples))

    def close(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        with sole_writer(self._path):
            samples = _read_samples(self._path)
            subagents = [record for agent, record in pending if agent == "sub"]
            for agent, record in pending:
                _add(samples, agent, record, () if agent == "sub" else subagents)
            _replace_file(self._path, _samples_text(samples))


def _add(samples: _Samples, agent: str, record: TurnRecord, within: Sequence[TurnRecord]) -> None:
    """Add a turn. `within`: subagents' turns that are counted separately; the record's tokens and cost include theirs."""
    count, model = partial(_count, samples), record.model
    count("kin_nb_turns_total", model=model, agent=agent, outcome=record.outcome)
    count("kin_nb_turn_seconds_total", record.milliseconds / 1000, model=model)
    count("kin_nb_steps_total", len(record.steps), model=model)
    _count_used(samples, record, within)
    for call in record.calls:
        count("kin_nb_tool_calls_total", tool=call.name, status=call.status)
        count("kin_nb_tool_seconds_total", (call.milliseconds or 0) / 1000, tool=call.name)


def _count_used(samples: _Samples, record: Sent, within: Sequence[TurnRecord] = ()) -> None:
    """Count tokens, compactions and cost."""
    count, model = partial(_count, samples), record.model
    for kind, name in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        own = getattr(record, name) - sum(getattr(turn, name) for turn in within)
        count("kin_nb_tokens_total", max(0, own), model=model, kind=kind)
    compactions = len(record.compactions) if isinstance(record, TurnRecord) else 1
    count("kin_nb_compactions_total", compactions, model=model)
    if record.cost:
        own_cost = float(record.cost) - sum(float(turn.cost or 0) for turn in within)
        count("kin_nb_cost_usd_total", max(0.0, own_cost), model=model)


def _count(samples: _Samples, metric: str, by: float = 1, **labels: str) -> None:
    bounded = {name: _bounded_label(samples, name, value) for name, value in labels.items()}
    text = ",".join(f'{name}="{value}"' for name, value in bounded.items())
    samples[metric, f"{{{text}}}"] += by


def _bounded_label(samples: Mapping[tuple[str, str], float], label: str, value: str) -> str:
    value = name_or_other(value)
    if label not in {"tool", "model"} or any(f'{label}="{value}"' in labels for _, labels in samples):
        return value
    known = {found[1] for _, labels in samples if (found := re.search(rf'{label}="([^"]*)"', labels))}
    return value if len(known) < MOST_NAMES else OTHER


def _read_samples(path: Path) -> _Samples:
    text = read_settings(path) or ""
    if text and not text.startswith(_MARK):
        raise ValueError(f"{path} holds something else, and is left unchanged")
    samples: _Samples = defaultdict(float)
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found:
            samples[found[1], found[2]] = float(found[3])
    return samples


def _samples_text(samples: _Samples) -> str:
    return _MARK + "".join(_sample_lines(samples))


def _sample_lines(samples: _Samples) -> Iterator[str]:
    for metric, about in _HELP.items():
        own = sorted((labels, value) for (name, labels), value in samples.items() if name == metric)
        if own:
            yield f"# HELP {metric} {about}\n# TYPE {metric} counter\n"
        for labels, value in own:
            yield f"{metric}{labels} {round(value, 6):.15g}\n"


def _replace_file(path: Path, text: str) -> None:
    """Replace the file atomically, readable by other users, as which the collector runs. It ignores the temporary name."""
    replace_path(path, text.encode(), 0o644)
