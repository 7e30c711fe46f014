"""What seed 004 says, where no other test shows it (docs/project/seed-coverage.md)."""

from __future__ import annotations

import json

import pytest

from kin_nb.core.compat.event_names import AgentStart, ApprovalRequired, Error, LLMResponse, ToolCall, ToolResult
from kin_nb.core.compat.tool_registry import ToolRegistry
from kin_nb.core.documents.session import Session
from kin_nb.core.tools.base import ToolError
from kin_nb.core.tools.builtins.bash import BashConfig
from kin_nb.core.tools.builtins.read_file import MOST_BYTES
from kin_nb.core.tools.builtins.text_file import LARGEST
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn


async def test_the_events_of_a_turn_have_the_seeds_names(model_server, agent):
    model_server.enqueue(calls=[tool_call("bash", command="touch x")])
    model_server.enqueue("I may not.")
    model_server.enqueue(status=401, body={"error": {"message": "no"}})
    names = {
        AgentStart: "AgentStart",
        LLMResponse: "LLMResponse",
        ToolCall: "ToolCall",
        ApprovalRequired: "ApprovalRequired",
        ToolResult: "ToolResult",
        Error: "Error",
    }
    events = [*await run_turn(agent), *await run_turn(agent)]
    assert [names[type(event)] for event in events if type(event) in names] == [
        *("AgentStart", "LLMResponse", "ToolCall", "ApprovalRequired", "ToolResult", "LLMResponse"),
        *("AgentStart", "Error"),
    ]


async def test_what_a_program_executes_is_not_asked_for_and_not_recorded(agent, workspace):
    registry = ToolRegistry(agent.tool_manager)
    receipt = await registry.execute("write_file", {"path": "new.py", "content": "z = 1\n"})
    assert "new.py" in receipt
    assert (workspace / "new.py").read_text() == "z = 1\n"
    assert (agent.turns, len(agent.messages)) == ([], 1)


async def test_a_registry_tells_what_is_wrong(agent):
    registry = ToolRegistry(agent.tool_manager)
    with pytest.raises(ToolError, match="Did you mean read_file"):
        registry.get_tool("reed_file")
    with pytest.raises(ToolError, match="path: required"):
        await registry.execute("read_file", {})


async def test_the_registrys_schemas_are_what_the_model_is_sent(model_server, agent):
    model_server.enqueue("Hello.")
    await run_turn(agent)
    sent = {tool["function"]["name"]: tool for tool in model_server.requests[0]["tools"]}
    schemas = {tool["function"]["name"]: tool for tool in ToolRegistry(agent.tool_manager).get_schemas()}
    assert list(sent) == list(schemas)
    assert sent["read_file"] == schemas["read_file"]


async def test_a_session_goes_through_json_and_back(model_server, trusted):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("x is 1.")
    await run_turn(trusted, "What is x?")
    document = json.loads(json.dumps(Session(trusted).to_dict()))
    assert list(document) == ["id", "created_at", "config", "messages", "tool_history", "metadata"]
    restored = Session.from_dict(document, trusted.base_config)
    assert restored.to_dict()["messages"] == document["messages"]
    assert restored.to_dict()["tool_history"] == document["tool_history"]
    await restored.agent.aclose()


async def test_a_shell_command_has_a_time_limit(agent):
    assert BashConfig().default_timeout == 120, "longer than the seed's 30: docs/project/seed-differences.md"
    assert "default 120" in json.dumps(ToolRegistry(agent.tool_manager).get_tool("bash").get_parameters())


async def test_a_result_holds_a_part_of_a_large_file(agent, workspace):
    (workspace / "large.txt").write_text("0123456789\n" * 50_000)
    text = await ToolRegistry(agent.tool_manager).execute("read_file", {"path": "large.txt"})
    assert len(text) < MOST_BYTES
    assert "of 50,000" in text or "of 50000" in text


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("write_file", {"content": "x", "overwrite": True}),
        ("edit_file", {"old_string": "0", "new_string": "1"}),
    ],
)
async def test_a_file_over_the_limit_is_not_changed(agent, workspace, name, args):
    large = workspace / "large.txt"
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(ToolError, match=r"large\.txt is larger than 10,000,000 bytes"):
        await ToolRegistry(agent.tool_manager).execute(name, {"path": "large.txt", **args})
    assert large.stat().st_size == LARGEST + 1
