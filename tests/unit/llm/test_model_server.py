"""The scripted server itself: what other tests lean on."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.model_server import ModelServer, broken_rules, tool_call

USER = {"role": "user", "content": "go"}


def post(server: ModelServer, **body: Any) -> bytes:
    data = json.dumps({"model": "m", "messages": [USER], **body}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(f"{server.url}/chat/completions", data), timeout=60) as answer:
        return answer.read()


def test_a_blocking_client_gets_what_was_scripted(model_server: ModelServer) -> None:
    model_server.enqueue(
        "Hello.", calls=[tool_call("skill", name="x")], usage={"prompt_tokens": 1, "completion_tokens": 2}
    )
    reply = json.loads(post(model_server))
    choice = reply["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello.", "tool_calls")
    function = {"name": "skill", "arguments": '{"name": "x"}'}
    assert choice["message"]["tool_calls"] == [{"id": "call00001", "type": "function", "function": function}]
    assert reply["usage"]["completion_tokens"] == 2


def test_a_stream_ends_with_reason_usage_and_done(model_server: ModelServer) -> None:
    model_server.enqueue("abcdef", chunk=3)
    events = post(model_server, stream=True, stream_options={"include_usage": True}).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(e.removeprefix("data: ")) for e in events[:-2]]
    assert [c["choices"][0]["delta"].get("content") for c in chunks[:-1]] == ["", "abc", "def", None]
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert (chunks[-1]["choices"], set(chunks[-1]["usage"])) == ([], {"prompt_tokens", "completion_tokens"})


def test_a_request_without_a_scripted_reply_is_shown_so(model_server: ModelServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(model_server)
    with caught.value as error:
        assert error.code == 500
        assert b"nothing enqueued for request 1" in error.read()


def test_a_held_reply_waits_for_the_test(model_server: ModelServer) -> None:
    hold = threading.Event()
    model_server.enqueue("late", hold=hold)
    answers: list[bytes] = []
    client = threading.Thread(target=lambda: answers.append(post(model_server)))
    client.start()
    assert model_server.wait_for_request(1)["messages"] == [USER]
    assert answers == []
    hold.set()
    client.join(10)
    assert b"late" in answers[0]


def test_waiting_for_a_request_that_never_comes_times_out(model_server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="0 of 1 requests"):
        model_server.wait_for_request(1, timeout=0.01)


def test_stopping_cuts_a_held_reply_and_leaves_no_thread() -> None:
    with ModelServer.start() as server:
        server.enqueue("never", hold=threading.Event())
        failures: list[Exception] = []

        def ask() -> None:
            try:
                post(server)
            except OSError as error:
                failures.append(error)

        client = threading.Thread(target=ask)
        client.start()
        server.wait_for_request(1)
    client.join(10)
    assert len(failures) == 1
    assert not [t for t in threading.enumerate() if t.name == "model-server"]


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **tool_call("bash")}]}
ANSWER = {"role": "tool", "tool_call_id": "a", "content": ""}


def test_a_broken_history_is_noticed(subtests) -> None:
    for messages, rule in [
        ([USER, CALL], "unanswered"),
        ([USER, CALL, USER], "comes before the answers"),
        ([USER, ANSWER], "answers no open call"),
        ([USER, CALL, ANSWER, ANSWER], "answers no open call"),
        ([{"role": "system", "content": "a"}, {"role": "system", "content": "b"}], "two system messages"),
        ([{"role": "assistant", "content": None}], "no content"),
        ([{"role": "robot", "content": ""}], "role 'robot'"),
        ([], "no messages"),
    ]:
        with subtests.test(messages=messages, rule=rule):
            assert any(rule in broken for broken in broken_rules({"messages": messages}))


def test_a_good_history_breaks_no_rule() -> None:
    assert broken_rules({"messages": [{"role": "system", "content": "s"}, USER, CALL, ANSWER, USER]}) == []


def test_violations_name_the_request() -> None:
    with ModelServer.start() as server:
        server.enqueue("ok")
        post(server, messages=[USER, ANSWER])
        assert server.violations == ["request 1: message 1: a tool message that answers no open call"]
