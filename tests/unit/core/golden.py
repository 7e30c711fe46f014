"""A recorded session as comparable JSON: how it is recorded, what is normalised, how it is compared with a golden file."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import hashlib
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kin_nb.core.agent import Agent
from kin_nb.core.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    AssistantEvent,
    BaseEvent,
    CompactEndEvent,
    ReasoningEvent,
    StepReplyEvent,
    SubagentEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnEndEvent,
)
from kin_nb.core.records import SessionRecord
from tests.model_server import ModelServer

REWRITE = "KIN_REWRITE_GOLDEN"
"""The environment variable that makes `assert_golden` write the file instead of comparing with it."""
PATH_LENGTH = 240
"""Characters of the workspace's path and of kin_nb's home: they are in what the model reads."""
GATES: dict[Path, asyncio.Event] = {}
"""By workspace: what a call of the tool `waits` waits for (golden_tools/waits.py)."""
_LONGEST_TEXT = 120
_SHOWN_OF_HASH = 8
_WIDTH = 160
"""Characters of a line of the golden file, where its values are not longer."""
_EMPTY = (None, "", [], {})
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_LONGEST_DIFF = 12
"""Lines of each place that a failed comparison shows."""
_LONGEST_ENTRY = 2_000
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_PIECES = (AssistantEvent, ReasoningEvent, ToolOutputEvent)


def padded(folder: Path, name: str) -> Path:
    """Make a folder below `folder` whose resolved path is PATH_LENGTH characters long, wherever `folder` is.

    So that estimates of tokens, in which the path counts, are the same in each run.
    """
    folder = folder.resolve()
    missing = PATH_LENGTH - len(str(folder)) - len(name) - 2
    path = folder / ("x" * missing) / name
    path.mkdir(parents=True)
    return path


@dataclass
class Script:
    """Enqueues the model's replies, each with another usage, so that a step that is counted twice or never is noticed."""

    server: ModelServer
    replies: int = 0

    def reply(self, text: str | None = None, *calls: dict[str, Any], tokens: int = 0, **options: Any) -> None:
        """Script the next reply. `tokens`: of its prompt, about 1,000 where they do not matter. One delta holds its text."""
        self.replies += 1
        usage = {"prompt_tokens": tokens or 1_000 + self.replies, "completion_tokens": 10 + self.replies}
        self.server.enqueue(text, calls=calls, usage=usage, chunk=1_000, **options)


@dataclass
class Recording:
    """What a session did, in the order in which it was driven: `turns` holds a list of events for each turn or command."""

    turns: list[dict[str, Any]] = field(default_factory=list)

    async def events(self, agent: Agent, prompt: str) -> AsyncGenerator[BaseEvent, None]:
        """Run a turn: yield its events, and keep those that came, however it ends."""
        seen: list[BaseEvent] = []
        try:
            async with aclosing(agent.act(prompt)) as events:
                async for event in events:
                    seen.append(event)
                    yield event
        finally:
            assert all(event.record == agent.turns[-1] for event in seen if isinstance(event, TurnEndEvent))
            self.turns.append({"prompt": prompt, "events": list(_joined(map(event_as_json, seen)))})

    async def turn(self, agent: Agent, prompt: str, until: type[BaseEvent] | None = None) -> list[BaseEvent]:
        """Run a turn; with `until`, close its generator after the first event of that type."""
        seen: list[BaseEvent] = []
        async with aclosing(self.events(agent, prompt)) as events:
            async for event in events:
                seen.append(event)
                if until is not None and isinstance(event, until):
                    break
        return seen

    async def cancelled_turn(self, agent: Agent, prompt: str, after: type[BaseEvent]) -> None:
        """Run a turn in a task of its own, and cancel that after the first event of the type `after`."""
        reached = asyncio.Event()

        async def run() -> None:
            async with aclosing(self.events(agent, prompt)) as events:
                async for event in events:
                    if isinstance(event, after):
                        reached.set()

        task = asyncio.create_task(run())
        await reached.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def command(self, name: str, work: Awaitable[Any]) -> None:
        """Await a call between turns and keep the text that it returns, the type of its record, or its error."""
        try:
            result = await work
        except Exception as error:  # noqa: BLE001  (which error it is belongs to the behaviour)
            told = f"{type(error).__name__}: {error}"
        else:
            told = result if isinstance(result, str) else type(result).__name__
        self.turns.append({"command": name, "result": told})

    def note(self, name: str) -> None:
        """Keep that a call was made that returns nothing."""
        self.turns.append({"command": name})


def event_as_json(event: BaseEvent) -> dict[str, Any]:
    """Return the event's type and its main texts. A record in it is named only: `records` has all of it."""
    return {"event": type(event).__name__, **_plain_fields(event), **_more_fields(event)}


def _plain_fields(event: BaseEvent) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in type(event).model_fields}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float | tuple | None)}


def _more_fields(event: BaseEvent) -> dict[str, Any]:
    match event:
        case SubagentEvent():
            return {"inner": event_as_json(event.event)}
        case StepReplyEvent():
            return {"content": event.step.content, "calls": [call.id for call in event.step.calls]}
        case ToolCallEvent():
            return {"args": event.args.model_dump(mode="json"), "tool_class": event.tool_class.__name__}
        case ApprovalRequestEvent():
            return {"request": {name: value for name, value in _value(event.request).items() if name != "args"}}
        case ApprovalDecisionEvent():
            return {"decision": _value(event.decision)}
        case ToolResultEvent():
            result = event.result and type(event.result).__name__
            return {"status": event.call and event.call.status, "result": result}
        case CompactEndEvent():
            return {"summary": event.compaction and event.compaction.summary}
        case TurnEndEvent():
            return {"turn": event.record.turn, "outcome": event.record.outcome, "message": event.record.message}
    return {}


def _value(value: Any) -> Any:
    """Return a dataclass as JSON, without the whole texts of a diff and what is at its default."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value):
        fields = {each.name: (getattr(value, each.name), each.default) for each in dataclasses.fields(value)}
        return {name: _value(own) for name, (own, default) in fields.items() if name != "texts" and own != default}
    return [_value(each) for each in value] if isinstance(value, tuple | list) else value


def _joined(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Join adjacent pieces of one text: where it is cut depends on the time at which they arrive."""
    last: dict[str, Any] | None = None
    for event in events:
        names = {kind.__name__: "text" if kind is ToolOutputEvent else "content" for kind in _PIECES}
        text = names.get(event["event"], "")
        if last is not None and text and {**last, text: ""} == {**event, text: ""}:
            last[text] += event[text]
            continue
        if last is not None:
            yield last
        last = event
    if last is not None:
        yield last


def requests_as_json(server: ModelServer) -> list[dict[str, Any]]:
    """Return the bodies: tools as a hash, and of the messages those alone that no request before begins with.

    `begins_as`: [the number of the earlier request, counted from 0, how many of its messages]. `settings`: all but the
    messages, where they are not those of the request before. `affinity`: the header.
    """
    requests: list[dict[str, Any]] = []
    earlier: list[list[Any]] = []
    before: dict[str, Any] = {}
    for body, headers in zip(server.requests, server.headers, strict=True):
        messages, settings = body["messages"], {name: value for name, value in body.items() if name != "messages"}
        if "tools" in settings:
            settings["tools"] = f"{len(body['tools'])} tools, sha256 {_sha256(body['tools'])}"
        same, number = max(((_same(messages, known), n) for n, known in enumerate(earlier)), default=(0, 0))
        told = {"begins_as": [number, same], "messages": messages[same:], "affinity": headers.get("x-affinity")}
        requests.append(told if settings == before else {**told, "settings": settings})
        earlier.append(messages)
        before = settings
    return requests


def _same(one: list[Any], other: list[Any]) -> int:
    """Return how many items both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@dataclass(frozen=True)
class Normaliser:
    """Replaces what really varies between runs, and nothing else:

    - ids of records: r1, r2, ... in the order of `records`; ids of sessions (UUIDs): s1, s2, ... in the order of the log
    - texts in `places`: the workspace, kin_nb's home and the model server's address
    - fields in `_VARYING`, each by name: times, durations, the commit and branch of git, the user's name

    In events, adjacent pieces of one text are one (`_joined`).
    """

    records: Sequence[SessionRecord]
    places: dict[str, str]
    _sessions: dict[str, str] = field(default_factory=dict)

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._field(name, own) for name, own in value.items()}
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, name: str, value: Any) -> Any:
        return _VARYING[name](value) if name in _VARYING else self(value)

    def _text(self, text: str) -> str:
        for place, label in self.places.items():
            text = text.replace(place, label)
        for number, record in enumerate(self.records, 1):
            text = text.replace(record.id, f"r{number}")
        return _UUID.sub(lambda match: self._sessions.setdefault(match[0], f"s{len(self._sessions) + 1}"), text)


def _kept_none(label: int | str) -> Any:
    return lambda value: None if value is None else label


_VARYING = {
    "time": _kept_none(0),  # of a line of the log: Unix time in milliseconds
    "milliseconds": _kept_none(0),  # durations of turns, steps and calls
    "duration": _kept_none(0),  # of an event: seconds
    "start_time": _kept_none("<time>"),
    "system_prompt_sent": _kept_none("<sha256 of a text with this machine's paths>"),
    "username": _kept_none("<user>"),
    "git_commit": lambda _: "<commit>",  # None, unless the temporary folder lies in a repository; so are the next three
    "git_branch": lambda _: "<branch>",
    "commit": lambda _: "<commit>",
    "branch": lambda _: "<branch>",
}


def readable(parts: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the parts as the golden file has them: without empty fields, times and the ends of long texts and hashes.

    `whole`: a short hash of each entry of each part with all that, and with its fields in their own order.
    """
    return {
        **_brief(parts),
        "whole": {name: " ".join(_sha256(each)[:8] for each in part) for name, part in parts.items()},
    }


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {name: own for name, own in value.items() if own not in _EMPTY and name not in _VARYING}
        told = {name: _brief(own) for name, own in fields.items()}
        return _as_line(told) if "event" in told else told
    if isinstance(value, list):
        return [_brief(each) for each in value]
    if not isinstance(value, str):
        return value
    text = _HASH.sub(lambda match: f"{match[0][:_SHOWN_OF_HASH]}…", value)
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]}… {len(text)} characters, {_sha256(text)[:_SHOWN_OF_HASH]}…"


def _as_line(event: dict[str, Any]) -> str:
    """Return the type, then the fields that are not empty."""
    fields = {name: value for name, value in event.items() if name != "event" and value is not False}
    return " ".join([event["event"], *(f"{name}={value!r}" for name, value in fields.items())])


def assert_golden(path: Path, parts: dict[str, list[Any]]) -> None:
    """Compare normalised parts with the golden file; with KIN_REWRITE_GOLDEN=1 write it instead."""
    told = readable(parts)
    text = pretty(told) + "\n"
    if os.environ.get(REWRITE) == "1":
        path.write_text(text, encoding="utf-8")
        return
    expected = path.read_text(encoding="utf-8")
    if text != expected:
        raise AssertionError(difference(json.loads(expected), told, parts, path.name))


def difference(expected: dict[str, Any], found: dict[str, Any], whole: dict[str, list[Any]], name: str) -> str:
    """Say where the parts differ: for each one the place, then the first lines that do. `whole`: what `found` is made of."""
    lines = [f"The session differs from {name}. If that is intended: {REWRITE}=1, and read the file's diff."]
    for part in whole:
        if expected[part] != found[part]:
            lines += _first_difference(part, expected[part], found[part])
        elif expected["whole"][part] != found["whole"][part]:
            place = _same(expected["whole"][part].split(), found["whole"][part].split())
            lines += [f"\n{part}[{place}] differs in what {name} has no text of, such as the order of fields. Found:"]
            lines += [f"  {json.dumps(whole[part][place], ensure_ascii=False)[:_LONGEST_ENTRY]}"]
    return "\n".join(lines)


def _first_difference(part: str, before: list[Any], after: list[Any]) -> list[str]:
    place = _same(before, after)
    sizes = f"{len(before)} expected, {len(after)} found"
    one, other = (_lines(each[place : place + 1]) for each in (before, after))
    diff = list(difflib.unified_diff(one, other, "expected", "found", n=2, lineterm=""))[2:]
    more = [f"  ... {len(diff) - _LONGEST_DIFF} more lines"] if len(diff) > _LONGEST_DIFF else []
    return [f"\n{part}[{place}] ({sizes}):", *(f"  {line}" for line in diff[:_LONGEST_DIFF]), *more]


def _lines(entries: list[Any]) -> list[str]:
    return [line for entry in entries for line in pretty(entry).split("\n")]


def pretty(value: Any, indent: int = 0) -> str:
    """Return JSON with sorted keys; what fits on a line is on one line."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(line) + indent <= _WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {pretty(own, indent + 1)}" for name, own in sorted(value.items())]
    else:
        items = [pretty(each, indent + 1) for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    space = "\n" + " " * indent
    return f"{begin}{space} {f',{space} '.join(items)}{space}{end}"


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
