"""APIToolFormatHandler: a reply's tool calls, read, resolved and answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.messages import FunctionCall, LLMMessage, Role, ToolCall
from kin_nb.core.tools.builtins.read_file import ReadFile, ReadFileArgs
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import APIToolFormatHandler, FailedToolCall, ResolvedToolCall


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KinConfig:
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    return KinConfig(workdir=tmp_path)


@pytest.fixture
def manager(config: KinConfig) -> ToolManager:
    return ToolManager(config)


@pytest.fixture
def resolve(config, manager):
    handler = APIToolFormatHandler()

    def resolved(*calls: tuple[str, str | None]):
        message = LLMMessage(
            role=Role.assistant,
            tool_calls=[
                ToolCall(id=f"c{n}", index=n, function=FunctionCall(name=name, arguments=arguments))
                for n, (name, arguments) in enumerate(calls)
            ],
        )
        return handler.resolve_tool_calls(handler.parse_message(message), manager, config)

    return resolved


def test_the_tools_on_offer_are_the_managers(config, manager):
    handler = APIToolFormatHandler()
    assert handler.get_available_tools(manager, config) is manager.schemas()
    assert handler.get_tool_choice() == "auto"


def test_a_call_becomes_a_tool_with_validated_arguments(resolve):
    (call,) = resolve(("read_file", '{"path": "a.py", "limit": 3}')).tool_calls
    assert (call.tool_name, call.call_id, call.tool_class) == ("read_file", "c0", ReadFile)
    assert call.validated_args == call.args == ReadFileArgs(path="a.py", limit=3)


def test_a_call_that_cannot_run_fails_with_the_reason_and_the_others_stay(subtests, resolve):
    for number, (name, arguments, reason) in enumerate(
        [
            ("red_file", '{"path": "a"}', "Unknown tool 'red_file'. Did you mean read_file?"),
            ("read_file", '{"path": "a', "not valid JSON"),
            ("read_file", "[" * 100_000, "not valid JSON"),
            ("read_file", "[1]", "must be a JSON object"),
            ("read_file", None, "path: required"),
            ("read_file", '{"path": "a\\u0000"}', "control character"),
        ]
    ):
        with subtests.test(number=number):
            message = resolve(("list_dir", "{}"), (name, arguments))
            assert [call.tool_name for call in message.tool_calls] == ["list_dir"]
            (failed,) = message.failed_calls
            assert (failed.tool_name, failed.call_id) == (name, "c1")
            assert reason in failed.error


def test_arguments_are_read_with_the_message():
    calls = [
        ToolCall(id="1", function=FunctionCall(name="x", arguments='{"a": 1}')),
        ToolCall(id="2", function=FunctionCall(name="y", arguments="{")),
    ]
    parsed = APIToolFormatHandler().parse_message(LLMMessage(role=Role.assistant, tool_calls=calls)).tool_calls
    assert [(call.tool_name, call.raw_args, call.call_id) for call in parsed] == [("x", {"a": 1}, "1"), ("y", {}, "2")]
    assert [call.error is None for call in parsed] == [True, False]
    assert APIToolFormatHandler().parse_message(LLMMessage(role=Role.assistant, content="hi")).tool_calls == []


def test_a_tool_that_goes_wrong_while_it_looks_at_arguments_is_a_failed_call(resolve, manager, monkeypatch):
    monkeypatch.setattr(ReadFile, "accesses", lambda *_: 1 / 0)
    (failed,) = resolve(("read_file", '{"path": "a"}')).failed_calls
    assert failed.error == "read_file failed: ZeroDivisionError: division by zero"


def test_answers_are_messages_of_the_wire(resolve):
    handler = APIToolFormatHandler()
    message = resolve(("list_dir", "{}"), ("nope", "{}"))
    (call,), (failed,) = message.tool_calls, message.failed_calls
    assert isinstance(call, ResolvedToolCall)
    assert isinstance(failed, FailedToolCall)
    answer = {"role": "tool", "tool_call_id": "c0", "name": "list_dir", "content": "a.py"}
    assert handler.create_tool_response_message(call, "a.py") == answer
    answer = {"role": "tool", "tool_call_id": "c1", "name": "nope", "content": failed.error}
    assert handler.create_failed_tool_response_message(failed, failed.error) == answer
    assert LLMMessage.model_validate(answer).tool_call_id == "c1"


def test_a_servers_message_becomes_one_for_the_history():
    handler = APIToolFormatHandler()
    raw = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "x", "arguments": {"a": 1}}},
            {"id": None, "function": {}},
            "no call",
        ],
    }
    message = handler.process_api_response_message(json.loads(json.dumps(raw)))
    assert (message.role, message.content) == (Role.assistant, None)
    calls = message.tool_calls or []
    assert [(c.id, c.function.name, c.function.arguments) for c in calls] == [
        ("1", "x", '{"a": 1}'),
        (None, None, None),
    ]
    assert handler.process_api_response_message(message) is message
