"""Counters: a text file for Prometheus (the node exporter's textfile collector), written at the end of each turn.

The file is the store: what it holds is read, added to and replaced under a lock, so that it counts for all sessions and
goes on after a restart. Labels come from bounded sets.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from kin_nb.core.events import BaseEvent, SubagentEvent, TurnEndEvent
from kin_nb.core.observability.observers import OTHER, Observed, name_or_other, place
from kin_nb.core.paths import read_settings, sole_writer
from kin_nb.core.records import CompactRecord, Sent, TurnRecord

MOST_NAMES = 200
"""Different tools, and different models: a model may invent names, and whatever comes after these is "other"."""
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
    def __init__(self, session: Observed) -> None:
        """Raises FileNotFoundError when the folder is not there: a new one would be the user's alone to read."""
        self._path = place(session.config.observability.prometheus)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(2, "there is no such folder", str(self._path.parent))
        self._pending: list[tuple[str, TurnRecord]] = []

    def on_event(self, event: BaseEvent) -> None:
        """Raises OSError, and ValueError for a file that is not ours; that stays as it is."""
        nested = False
        while isinstance(event, SubagentEvent):
            nested, event = True, event.event
        if isinstance(event, TurnEndEvent):
            self._pending.append(("sub" if nested else "main", event.record))
            if not nested:
                self.close()

    def compacted(self, record: CompactRecord) -> None:
        """Count what it took, in the file at once: no turn may follow. Raises as `on_event`."""
        with sole_writer(self._path):
            samples = _read(self._path)
            _count_used(samples, record)
            _replace(self._path, _text(samples))

    def close(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        with sole_writer(self._path):
            samples = _read(self._path)
            subagents = [record for agent, record in pending if agent == "sub"]
            for agent, record in pending:
                _add(samples, agent, record, () if agent == "sub" else subagents)
            _replace(self._path, _text(samples))


def _add(samples: _Samples, agent: str, record: TurnRecord, within: Sequence[TurnRecord]) -> None:
    """`within`: turns that are counted by themselves, and whose tokens and cost the record's figures hold too."""
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
    bounded = {name: _bounded(samples, name, value) for name, value in labels.items()}
    text = ",".join(f'{name}="{value}"' for name, value in bounded.items())
    samples[metric, f"{{{text}}}"] += by


def _bounded(samples: Mapping[tuple[str, str], float], label: str, value: str) -> str:
    value = name_or_other(value)
    if label not in {"tool", "model"} or any(f'{label}="{value}"' in labels for _, labels in samples):
        return value
    known = {found[1] for _, labels in samples if (found := re.search(rf'{label}="([^"]*)"', labels))}
    return value if len(known) < MOST_NAMES else OTHER


def _read(path: Path) -> _Samples:
    text = read_settings(path) or ""
    if text and not text.startswith(_MARK):
        raise ValueError(f"{path} holds something else, and stays as it is")
    samples: _Samples = defaultdict(float)
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found:
            samples[found[1], found[2]] = float(found[3])
    return samples


def _text(samples: _Samples) -> str:
    return _MARK + "".join(_lines(samples))


def _lines(samples: _Samples) -> Iterator[str]:
    for metric, about in _HELP.items():
        own = sorted((labels, value) for (name, labels), value in samples.items() if name == metric)
        if own:
            yield f"# HELP {metric} {about}\n# TYPE {metric} counter\n"
        for labels, value in own:
            yield f"{metric}{labels} {round(value, 6):.15g}\n"


def _replace(path: Path, text: str) -> None:
    """At once, and readable by others: the collector is another user. Its name keeps the half-written file from it."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", suffix=".tmp", delete=False
    ) as file:
        temporary = Path(file.name)
        try:
            file.write(text)
            file.flush()
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
