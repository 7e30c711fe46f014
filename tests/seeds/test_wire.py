"""The wire (seed 001): every event is a line of JSON, whatever class it has, and reads back as it was sent."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import types
import typing
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, ConfigDict, RootModel, SecretStr

from kin_nb.core.events import (
    ApprovalRequestEvent,
    AssistantEvent,
    BaseEvent,
    ErrorEvent,
    ReasoningEvent,
    StepStartEvent,
    SubagentEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    WarningEvent,
)
from kin_nb.core.programmatic import run_programmatic
from kin_nb.core.redaction import Redactor
from kin_nb.core.safety.decision import ApprovalRequest, Grant
from kin_nb.core.tools.base import BaseTool, Preview
from kin_nb.core.tools.builtins.read_file import ReadFile, ReadFileArgs
from kin_nb.core.types import OutputFormat
from kin_nb.core.wire import PROTOCOL_VERSION, WireError, WireMessage, WireStream, from_wire, to_wire, wire_type
from tests.model_server import tool_call
from tests.table import each_row
from tests.unit.core.conftest import run_turn

ROOT = Path(__file__).parents[2]
METADATA = {"type": "metadata", "protocol_version": "1"}
SECRET = "sesame-open-1234"


def all_events() -> list[type[BaseEvent]]:
    """Every event class of the core, wherever it is defined."""
    for path in sorted((ROOT / "kin_nb" / "core").rglob("*.py")):
        if re.search(r"^class \w+\(\w*Event\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found, open_ends = [], [BaseEvent]
    while open_ends:
        kinds = [kind for kind in open_ends.pop().__subclasses__() if kind.__module__.startswith("kin_nb.")]
        found += kinds
        open_ends += kinds
    return sorted(found, key=lambda kind: kind.__name__)


SIMPLE = {
    str: "té\nxt",
    int: 7,
    float: 0.5,
    bool: True,
    bytes: b"x",
    Any: {"k": [1]},
    dict: {"k": "v"},
    Path: Path("/x"),
}
ABSTRACT = {
    BaseEvent: StepStartEvent(step=1),
    BaseModel: ReadFileArgs(path="a.py", offset=3),
    BaseTool: ReadFile,
    Grant: Grant("bash", "words", "pytest", parts=(Grant("bash", "words", "ls"),)),  # it may hold others of its kind
}


def sample(annotation: Any) -> Any:
    """A value of that type with something in every field. Raises TypeError for a type that no one thought of."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in SIMPLE:
        return SIMPLE[annotation]
    if annotation in ABSTRACT:
        return ABSTRACT[annotation]
    if origin in {Annotated, Literal}:
        return sample(arguments[0]) if origin is Annotated else arguments[0]
    if origin in {typing.Union, types.UnionType}:
        return sample(next(kind for kind in arguments if kind is not type(None)))
    if origin in {tuple, list, set, frozenset}:
        return origin([sample(arguments[0])])
    if origin is dict:
        return {sample(arguments[0]): sample(arguments[1])}
    return ReadFile if origin is type else instance(annotation)


def instance(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind(**{name: sample(field.annotation) for name, field in kind.model_fields.items()})
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return kind(**{field.name: sample(hints[field.name]) for field in dataclasses.fields(kind)})
    raise TypeError(f"no sample of {kind}: add one to SIMPLE")


EVENTS = all_events()


@each_row("kind", EVENTS, ids=wire_type)
def test_every_event_is_a_line_that_reads_back(kind):
    event = sample(kind)
    wire = to_wire(event)
    line = json.dumps(wire, allow_nan=False)
    assert "\n" not in line
    assert from_wire(line) == WireMessage(wire_type(kind), wire["payload"])
    assert json.loads(line) == wire
    assert set(wire["payload"]) == set(kind.model_fields) - {"tool_class"}
    assert not re.search(r"<class|object at|\[[A-Z]\w+\]", line), "something was no JSON"


def test_no_two_events_have_the_same_type():
    assert len({wire_type(kind) for kind in EVENTS}) == len(EVENTS)


def test_every_event_is_in_the_documentation():
    text = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(named) == [wire_type(kind) for kind in EVENTS]


def test_the_documentation_names_each_payload_field():
    text = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    rows = {
        name: set(re.findall(r"`(\w+)`", fields))
        for name, fields in re.findall(r"^\| `(\w+)` \|(.*)\|", text, re.MULTILINE)
    }
    missing = {wire_type(kind): set(kind.model_fields) - {"tool_class"} - rows[wire_type(kind)] for kind in EVENTS}
    assert {name: fields for name, fields in missing.items() if fields} == {}


def test_kimis_messages_are_mapped_to_types_that_there_are():
    text = (ROOT / "docs" / "project" / "seed-coverage.md").read_text(encoding="utf-8")
    table = text.partition("### Its wire messages")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE)
    theirs = ["TurnBegin", "StepBegin", "MessagePart", "ToolCallRequest", "ToolCallResult"]
    theirs += ["ApprovalRequest", "ApprovalResponse", "CompactionBegin", "CompactionEnd", "TurnEnd"]
    assert [name for name, _ in rows] == theirs
    ours = {name for _, cell in rows for name in re.findall(r"`(\w+)`", cell)}
    assert ours <= {wire_type(kind) for kind in EVENTS}


async def test_a_turn_is_shown_line_by_line(model_server, config):
    """The first line is the version, the last the turn's record; arguments and results are there in full."""
    model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.py")], reasoning="Hm, well.")
    model_server.enqueue("x is 1.")
    written: list[str] = []
    await run_programmatic(config, "What is x?", output_format=OutputFormat.EVENTS, write=written.append)
    lines = [json.loads(line) for line in written]
    assert lines[0] == METADATA
    types_ = [line["type"] for line in lines[1:]]
    kept = [
        name for name in types_ if name in {"TurnStart", "StepStart", "StepReply", "ToolCall", "ToolResult", "TurnEnd"}
    ]
    assert kept == [
        "TurnStart",
        "StepStart",
        "StepReply",
        "ToolCall",
        "ToolResult",
        "StepStart",
        "StepReply",
        "TurnEnd",
    ]
    assert types_[-1] == "TurnEnd"
    by_type = {line["type"]: line["payload"] for line in lines[1:]}
    assert by_type["TurnStart"] == {"turn": 1, "prompt": "What is x?"}
    assert by_type["ToolCall"]["args"] == {"path": "a.py", "offset": 1, "limit": None}
    assert by_type["ToolResult"]["result"]["lines_read"] == 2
    assert by_type["ToolResult"]["call"]["status"] == "ok"
    assert by_type["TurnEnd"]["record"]["outcome"] == "done"
    said = [line["payload"]["content"] for line in lines[1:] if line["type"] == "Assistant"]
    assert "".join(said) == "I look.x is 1."
    thought = [line["payload"]["content"] for line in lines[1:] if line["type"] == "Reasoning"]
    assert "".join(thought) == "Hm, well."


async def test_no_secret_and_no_place_is_on_the_wire_though_both_come_in_pieces(model_server, config, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", SECRET)
    text = f"It is {SECRET}, in {config.workdir}/a.py."
    model_server.enqueue(text, chunk=3, calls=[tool_call("read_file", path=f"{config.workdir}/a.py")], reasoning=text)
    model_server.enqueue("Done.")
    written: list[str] = []
    await run_programmatic(config, text, output_format=OutputFormat.EVENTS, write=written.append)
    whole = "\n".join(written)
    assert SECRET not in whole
    assert str(config.workdir) not in whole
    said = [json.loads(line)["payload"]["content"] for line in written if '"Assistant"' in line]
    assert "".join(said) == "It is [secret], in {workspace}/a.py.Done."


async def test_an_error_of_the_server_is_an_event(model_server, agent):
    model_server.enqueue(status=401, body={"error": {"message": "no"}})
    stream = WireStream()
    lines = [line for event in await run_turn(agent) for line in stream.lines(event, agent.redact)]
    types_ = [json.loads(line)["type"] for line in lines]
    assert types_ == ["metadata", "TurnStart", "Checkpoint", "Checkpoint", "StepStart", "Error", "TurnEnd"]


def lines_of(*events: BaseEvent, redact: Any = str) -> list[dict[str, Any]]:
    stream = WireStream()
    return [json.loads(line) for event in events for line in stream.lines(event, redact)][1:]


def test_lines_are_sent_when_they_are_complete():
    texts = ["one\nt", "wo\r50 %\r", " three", " four", ""]
    sent = lines_of(*(AssistantEvent(content=text) for text in texts), ErrorEvent(message="x"))
    assert [line["payload"].get("content") for line in sent] == ["one\n", "two\r50 %\r", " three four", None]


PASSPHRASE = "correct horse battery staple"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join("MIIEowIBAAKCAQEA" * 4 for _ in range(20))
KEY += "\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("size", [3, 50, 5_000])
def test_what_records_hide_is_hidden_also_where_it_has_blanks_or_lines(size):
    redact = Redactor([PASSPHRASE], Path("/home/me/my proj/x")).text
    text = (
        f"It is {PASSPHRASE}, in /home/me/my proj/x/a.py\nAuthorization: Bearer abcDEF1234567890abcdef\n"
        f"Authorization:\n Basic dXNlcjpwYXNzd29yZDEyMw==\n{KEY}\nend " + f"{'word ' * 60}{PASSPHRASE} " * 90
    )
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    sent = [
        line["payload"]["text"]
        for line in lines_of(*(output("a", piece) for piece in pieces), result("a"), redact=redact)[:-1]
    ]
    assert "".join(sent) == redact(text)
    assert "staple" not in redact(text)
    assert len(sent) > 4, "a line without end is let go"


def test_reasoning_ends_where_text_begins():
    sent = lines_of(ReasoningEvent(content="because"), AssistantEvent(content="so"), StepStartEvent(step=2))
    assert [(line["type"], line["payload"].get("content")) for line in sent] == [
        ("Reasoning", "because"),
        ("Assistant", "so"),
        ("StepStart", None),
    ]


def output(call: str, text: str) -> ToolOutputEvent:
    return ToolOutputEvent(tool_call_id=call, text=text)


def result(call: str) -> ToolResultEvent:
    return ToolResultEvent(tool_name="bash", tool_class=None, tool_call_id=call)


def test_the_output_of_calls_that_run_at_once_stays_whole():
    redact = Redactor([SECRET], ROOT).text
    events = [output("a", "x\nsesame-"), output("b", "y\nsesame-"), output("a", "open-1234"), output("b", "open-1234")]
    sent = lines_of(*events, result("a"), result("b"), redact=redact)
    assert [(line["type"], line["payload"].get("text")) for line in sent] == [
        ("ToolOutput", "x\n"),
        ("ToolOutput", "y\n"),
        ("ToolOutput", "[secret]"),
        ("ToolResult", None),
        ("ToolOutput", "[secret]"),
        ("ToolResult", None),
    ]


def test_a_subagents_text_is_sent_by_lines_too():
    inside = [AssistantEvent(content="sesame-"), AssistantEvent(content="open-1234"), StepStartEvent(step=2)]
    events = [SubagentEvent(tool_call_id="t", event=event) for event in inside]
    sent = lines_of(*events, redact=Redactor([SECRET], ROOT).text)
    assert [line["payload"]["event"]["type"] for line in sent] == ["Assistant", "StepStart"]
    assert sent[0]["payload"] == {
        "tool_call_id": "t",
        "event": {"type": "Assistant", "payload": {"content": "[secret]", "stopped_by_middleware": False}},
    }


def test_a_line_without_end_is_sent_all_the_same():
    sent = lines_of(*(AssistantEvent(content="x" * 3000) for _ in range(4)), StepStartEvent(step=2))[:-1]
    assert [len(line["payload"]["content"]) for line in sent] == [4904, 7096]


def test_events_nest():
    inner = SubagentEvent(tool_call_id="b", event=WarningEvent(message="careful"))
    assert to_wire(SubagentEvent(tool_call_id="a", event=inner))["payload"]["event"] == {
        "type": "Subagent",
        "payload": {"tool_call_id": "b", "event": {"type": "Warning", "payload": {"message": "careful"}}},
    }


class Colour(Enum):
    RED = "red"


class Root(RootModel[dict[str, int]]):
    pass


class Odd(BaseModel):
    """What someone's tool may have for arguments or a result."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    where: Path = Path("/x/y")
    when: date = date(2026, 1, 2)
    colour: Colour = Colour.RED
    number: float = float("nan")
    raw: bytes = b"\xff"
    key: SecretStr = SecretStr("hidden")
    names: set[str] = {"b", "a"}
    root: Root = Root({"a": 1})
    nested: dict[int, tuple[str, ...]] = {1: ("x",)}
    thing: object = object()
    kind: type = int


class Loop(BaseModel):
    own: Any = None


def test_what_is_no_json_becomes_some_and_is_never_an_error():
    call = ToolCallEvent(tool_name="odd", tool_class=ReadFile, args=Odd(extra="more"), tool_call_id="a")
    payload = from_wire(json.dumps(to_wire(call), allow_nan=False)).payload
    assert payload == {
        "tool_name": "odd",
        "tool_call_id": "a",
        "args": {
            "where": "/x/y",
            "when": "2026-01-02",
            "colour": "red",
            "number": None,
            "raw": "[bytes]",
            "key": "[SecretStr]",
            "names": ["a", "b"],
            "root": {"a": 1},
            "nested": {"1": ["x"]},
            "thing": "[object]",
            "extra": "more",
        },
    }


def test_a_result_that_contains_itself_ends_somewhere():
    loop = Loop()
    loop.own = [loop]
    event = ToolResultEvent(tool_name="x", tool_class=None, tool_call_id="a", result=loop)
    assert "[...]" in json.dumps(to_wire(event))


def test_every_text_is_redacted_also_in_keys_previews_and_scopes():
    preview = Preview(f"run {SECRET}", f"body {SECRET}")
    args = Odd(**{SECRET: [SECRET]})
    asked = ApprovalRequest("bash", args, "a", SECRET, preview, (Grant("bash", SECRET, SECRET),))
    wire = json.dumps(to_wire(ApprovalRequestEvent(request=asked), Redactor([SECRET], ROOT).text))
    assert SECRET not in wire
    assert wire.count("[secret]") == 7


def test_the_first_line_says_the_version():
    first = next(WireStream().lines(StepStartEvent(step=1), str))
    assert json.loads(first) == METADATA
    assert from_wire(first) == WireMessage("metadata", {"protocol_version": PROTOCOL_VERSION})


@each_row(
    ("line", "told"),
    [
        ("", "no line of the wire"),
        (b"\xff", "no line of the wire"),
        ("[1]", 'an object with a "type"'),
        ('{"type": 1}', 'an object with a "type"'),
        ('{"type": "StepStart"}', 'StepStart has no "payload"'),
        ('{"type": "metadata", "protocol_version": "2"}', "protocol version '2'; this kin_nb reads '1'"),
        ("[" * 100_000, "no line of the wire"),
    ],
)
def test_what_is_no_line_is_one_error(line, told):
    with pytest.raises(WireError) as error:
        from_wire(line)
    assert told in str(error.value)
