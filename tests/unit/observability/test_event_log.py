"""The log of events: JSON lines, without contents unless they are asked for, and never with a secret."""

from __future__ import annotations

import json
import stat

import pytest

from kin_nb.core.events import (
    AssistantEvent,
    ErrorEvent,
    ReasoningEvent,
    SubagentEvent,
    ToolOutputEvent,
    TurnEndEvent,
    TurnStartEvent,
    WarningEvent,
)
from kin_nb.core.observability.file_observers import EventLog
from kin_nb.core.records import TurnRecord
from tests.model_server import tool_call
from tests.unit.observability.conftest import SECRET


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


async def turn(make_agent, model_server, watch, **settings):
    agent = make_agent(log="logs/events.jsonl", **settings)
    model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.txt")])
    model_server.enqueue("It has words.")
    await watch(agent, EventLog(agent), f"read a.txt, my key is {SECRET}")
    return agent


async def test_a_turn_is_a_line_for_each_event(make_agent, model_server, watch, home):
    agent = await turn(make_agent, model_server, watch)
    path = home / "logs" / "events.jsonl"
    logged = lines(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {line["session"] for line in logged} == {agent.session_id}
    events = [line["event"] for line in logged if line["event"] != "Checkpoint"]
    assert events[:4] == ["TurnStart", "StepStart", "StepReply", "ToolCall"]
    assert events[4:] == ["ToolResult", "StepStart", "StepReply", "TurnEnd"]
    assert [(line["turn"], line["step"]) for line in logged if line["event"] == "StepReply"] == [(1, 1), (1, 2)]
    assert all(line["time"].endswith("+00:00") for line in logged)
    result = next(line for line in logged if line["event"] == "ToolResult")
    assert result["fields"]["tool_name"] == "read_file"
    assert result["fields"]["call"]["status"] == "ok"
    assert logged[-1]["fields"]["record"]["outcome"] == "done"
    reply = next(line for line in logged if line["event"] == "StepReply")
    assert reply["fields"]["step"]["calls"] == [{"id": "call00001", "name": "read_file", "status": "pending"}]
    assert reply["fields"]["step"]["prompt_tokens"] > 0


async def test_it_holds_no_prompt_no_reply_no_argument_and_no_file(make_agent, model_server, watch, home):
    await turn(make_agent, model_server, watch)
    text = (home / "logs" / "events.jsonl").read_text()
    for content in ("my key", "I look", "It has words", "the file's words", "a.txt", SECRET):
        assert content not in text


async def test_contents_are_in_it_when_asked_for_without_secrets(make_agent, model_server, watch, home, tmp_path):
    await turn(make_agent, model_server, watch, contents=True)
    text = (home / "logs" / "events.jsonl").read_text()
    for content in ("my key is [secret]", "I look", "It has words", "the file's words [secret]", "a.txt"):
        assert content in text
    assert SECRET not in text
    assert str(tmp_path) not in text


class Session:
    session_id = "s"

    def __init__(self, config):
        self.config = config

    def redact(self, text):
        return text.replace("secret", "[secret]")


@pytest.fixture
def log(make_agent, home):
    return EventLog(Session(make_agent(log="x.jsonl").config))


def test_text_in_pieces_is_not_in_it(log, home):
    log.on_event(TurnStartEvent(turn=3, prompt="p"))
    for event in (
        AssistantEvent(content="a"),
        ReasoningEvent(content="b"),
        ToolOutputEvent(tool_call_id="c", text="d"),
    ):
        log.on_event(event)
        log.on_event(SubagentEvent(tool_call_id="c", event=event))
    log.on_event(AssistantEvent(content="why it stopped", stopped_by_middleware=True))
    assert [line["event"] for line in lines(home / "x.jsonl")] == ["TurnStart", "Assistant"]


def test_of_what_went_wrong_the_class_and_the_status_are_in_it(log, home):
    error = ErrorEvent(message="400: near 'a patient's name'", kind="BackendError", status=400)
    log.on_event(error)
    log.on_event(SubagentEvent(tool_call_id="c1", event=error))
    log.on_event(WarningEvent(message="the file of secret is broken"))
    first, second, third = lines(home / "x.jsonl")
    assert first["fields"] == {"kind": "BackendError", "status": 400}
    assert second["fields"] == {"tool_call_id": "c1", "event": {"type": "Error", "payload": first["fields"]}}
    assert third["fields"] == {}


async def test_an_error_that_repeats_the_prompt_is_in_it_only_with_contents(make_agent, model_server, watch, home):
    for contents in (False, True):
        agent = make_agent(log=f"{contents}.jsonl", contents=contents)
        model_server.enqueue(status=400, body={"error": {"message": f"bad request near 'Jane Doe {SECRET}'"}})
        await watch(agent, EventLog(agent), "summarise Jane Doe")
        text = (home / f"{contents}.jsonl").read_text()
        assert ("Jane Doe" in text) is contents
        assert SECRET not in text
        error = next(line for line in lines(home / f"{contents}.jsonl") if line["event"] == "Error")
        assert (error["fields"]["kind"], error["fields"]["status"]) == ("BackendError", 400)


async def test_a_name_that_the_model_invented_is_not_in_it(make_agent, model_server, watch, home):
    agent = make_agent(log="x.jsonl")
    model_server.enqueue("I look.", calls=[tool_call("what the person told me", a=1)])
    model_server.enqueue("Done.")
    await watch(agent, EventLog(agent), "go")
    assert "told" not in (home / "x.jsonl").read_text()
    result = next(line for line in lines(home / "x.jsonl") if line["event"] == "ToolResult")
    assert result["fields"]["tool_name"] == result["fields"]["call"]["name"] == "other"


def test_a_file_that_was_moved_away_is_begun_again_with_the_next_turn(log, home):
    start, end = TurnStartEvent(turn=1, prompt="p"), TurnEndEvent(record=TurnRecord(turn=1, prompt="p"))
    log.on_event(start)
    log.on_event(end)
    (home / "x.jsonl").rename(home / "x.jsonl.1")
    log.on_event(start)
    log.close()
    assert len(lines(home / "x.jsonl")) == 1


def test_lines_are_added_to_what_is_there(log, home):
    (home / "x.jsonl").write_text("{}\n")
    log.on_event(WarningEvent(message="w"))
    log.close()
    assert len(lines(home / "x.jsonl")) == 2
