"""What the strict servers refuse: other tests lean on it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.anthropic_rules import broken_rules as broken_anthropic_rules
from tests.anthropic_server import AnthropicServer
from tests.mistral_rules import broken_mistral_rules
from tests.model_server import ModelServer, broken_rules, tool_call


def post(url: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


USER = {"role": "user", "content": "go"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", **tool_call("bash")}]}
ANSWER = {"role": "tool", "content": "done", "tool_call_id": "abcdefghi", "name": "bash"}
FINE = {"model": "devstral-latest", "messages": [USER, CALL, ANSWER]}
LONG_ID = {**CALL, "tool_calls": [{"id": "call_1234567890", **tool_call("bash")}]}
PICTURE = {"type": "image_url", "image_url": {"url": "data:,"}}


def test_mistrals_server_refuses(subtests) -> None:
    for request_body, status, rule in [
        (FINE | {"stream_options": {"include_usage": True}}, 422, "stream_options"),
        (FINE | {"tools": []}, 422, "tools"),
        (FINE | {"tool_choice": "maybe"}, 422, "tool_choice"),
        (FINE | {"reasoning_effort": "high"}, 400, "reasoning_effort"),
        (FINE | {"messages": [USER, {**CALL, "reasoning_content": "x"}, ANSWER]}, 422, "reasoning_content"),
        (FINE | {"messages": [{**USER, "name": "me"}]}, 422, "name"),
        (FINE | {"messages": [{"role": "robot", "content": ""}]}, 422, "role 'robot'"),
        (FINE | {"messages": [USER, CALL, {**ANSWER, "content": [PICTURE]}]}, 422, "'image_url'"),
        (FINE | {"messages": [*FINE["messages"], USER]}, 400, "Unexpected role 'user' after role 'tool'"),
        (FINE | {"messages": [USER, CALL, USER]}, 400, "Not the same number"),
        (FINE | {"messages": [USER, CALL]}, 400, "Not the same number"),
        (FINE | {"messages": [USER, LONG_ID, ANSWER]}, 400, "length of 9"),
        (FINE | {"messages": [USER, {"role": "assistant", "content": ""}, USER]}, 400, "content or tool_calls"),
        (FINE | {"messages": [USER, {"role": "assistant", "content": "x"}]}, 400, "Expected last role"),
    ]:
        with (
            subtests.test(request_body=request_body, status=status, rule=rule),
            ModelServer.start(rules="mistral") as server,
        ):
            server.enqueue("not taken")
            code, said = post(f"{server.url}/chat/completions", request_body)
            assert (code, rule in said["message"]) == (status, True)
            assert len(server.violations) == 1
            assert post(f"{server.url}/chat/completions", FINE)[0] == 200, "the reply was not taken"


def test_mistrals_server_takes_a_good_request() -> None:
    assert list(broken_mistral_rules(FINE)) == []


def test_openais_rules_allow_no_image_in_a_tools_message() -> None:
    assert broken_rules({"messages": [USER, CALL, {**ANSWER, "content": [PICTURE]}]}) == [
        "message 2: a tool message whose content is not text"
    ]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


GO = {"role": "user", "content": [text("go")]}
USE = {"type": "tool_use", "id": "a", "name": "bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": [text("done")]}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "signed"}
SIGNED = {"signed": "hm"}
MODERN = {"model": "claude-sonnet-5-5", "max_tokens": 4096}
OLDER = {"model": "claude-haiku-4-5", "max_tokens": 4096}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def claude(*contents: Any, **more: Any) -> dict[str, Any]:
    roles = ["user", "assistant"] * len(contents)
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    return {**MODERN, "messages": messages or [GO], **more}


GOOD = [
    claude([text("go")], [THOUGHT, text("x"), USE], [RESULT, text("and")]),
    claude(**OLDER, temperature=0.5),
    claude(**OLDER, **BUDGET),
    claude(thinking={"type": "adaptive"}, output_config={"effort": "max"}),
]
BAD = [
    (claude(max_tokens=None), "max_tokens"),
    (claude(top_q=1), "top_q: Extra inputs"),
    (claude(temperature=1.0), "temperature"),
    (claude(**OLDER, **BUDGET, temperature=1.0), "temperature"),
    (claude(**BUDGET), '"thinking.type.enabled" is not supported'),
    (claude(**OLDER, thinking={"type": "adaptive"}), '"thinking.type.adaptive" is not supported'),
    (claude(thinking={"type": "disabled"}), '"thinking.type.disabled" is not supported'),
    (claude(**OLDER, thinking={"type": "enabled", "budget_tokens": 4096}), "budget_tokens"),
    (claude(tool_choice={"type": "any"}), "tool_choice"),
    (claude(messages=[]), "first message"),
    (claude(messages=[{"role": "assistant", "content": [text("x")]}]), "first message"),
    (claude(messages=[GO, GO]), "alternate"),
    (claude("go"), "must be a list"),
    (claude([]), "must be a list"),
    (claude([text(" ")]), "non-whitespace"),
    (claude([{**text("go"), "name": "x"}]), "Extra inputs"),
    (claude([text("go")], [USE], [text("no")]), "without `tool_result`"),
    (claude([text("go")], [USE]), "without `tool_result`"),
    (claude([RESULT]), "the reverse"),
    (claude([text("go")], [USE], [text("x"), RESULT]), "must come first"),
    (claude([text("go")], [USE, USE], [RESULT, RESULT]), "unique"),
    (claude([text("go")], [{**THOUGHT, "signature": "forged"}, text("x")], [text("on")]), "Invalid `signature`"),
    (claude([text("go")], [{**THOUGHT, "thinking": "changed"}, text("x")], [text("on")]), "Invalid `signature`"),
    (claude([text("go")], [text("x"), THOUGHT], [text("on")]), "final block"),
    (claude([text("go")], [{"type": "redacted_thinking", "data": "?"}, text("x")], [text("on")]), "Invalid `data`"),
    (claude([text("go")], [USE], [RESULT], **OLDER, **BUDGET), "Expected `thinking`"),
    (claude([{**text(str(n)), "cache_control": {}} for n in range(5)]), "A maximum of 4"),
    (claude([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": ""}}]), "image/bmp"),
    (claude([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}]), "base64"),
]


def test_anthropics_rules_allow(subtests) -> None:
    for request_body in GOOD:
        with subtests.test(request_body=request_body):
            assert list(broken_anthropic_rules(request_body, SIGNED)) == []


def test_anthropics_rules_forbid(subtests) -> None:
    for request_body, rule in BAD:
        with subtests.test(request_body=request_body, rule=rule):
            assert any(rule in broken for broken in broken_anthropic_rules(request_body, SIGNED))


def test_anthropics_server_refuses_and_keeps_the_reply() -> None:
    with AnthropicServer.start() as server:
        server.enqueue("kept")
        code, said = post(f"{server.url}/messages", claude(top_q=1), **{"anthropic-version": "x"})
        assert (code, said["error"]["message"]) == (400, "top_q: Extra inputs are not permitted")
        assert post(f"{server.url}/messages", claude())[1]["error"]["message"].startswith("anthropic-version")
        assert post(f"{server.url}/messages", claude(), **{"anthropic-version": "x"})[1]["content"] == [text("kept")]
        assert len(server.violations) == 2


def test_anthropics_server_notices_what_changed_before_a_thinking_block() -> None:
    version = {"anthropic-version": "x"}
    with AnthropicServer.start() as server:
        server.enqueue("Hello.", reasoning="hm")
        server.enqueue("taken")
        reply = post(f"{server.url}/messages", claude(), **version)[1]["content"]
        changed = claude([text("other")], reply, [text("on")])
        assert (
            "bound to another conversation" in post(f"{server.url}/messages", changed, **version)[1]["error"]["message"]
        )
        dropping = {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
        assert post(f"{server.url}/messages", changed | dropping, **version)[0] == 200
