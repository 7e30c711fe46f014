"""What seeds 000, 002 and 003 say of tools, permissions and MCP servers, where no other test shows it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.config.entries import MCPHttp, MCPStdio, MCPStreamableHttp
from kin_nb.core.events import ToolCallEvent, ToolResultEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.tools.base import BaseToolConfig, ToolError, ToolPermission
from kin_nb.core.tools.builtins import builtin_tools
from kin_nb.core.tools.builtins.grep import Grep
from kin_nb.core.tools.builtins.write_file import WriteFileArgs
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.types import ApprovalResponse
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.mcp import conftest as mcp_parts
from tests.unit.mcp.http_server import HttpServer

WRITE = tool_call("write_file", path="new.py", content="1")

COUNTING_TOOL = """
from pathlib import Path
from pydantic import BaseModel
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, BaseToolState

HERE = Path(__file__).parent

class Args(BaseModel):
    x: int = 0

class Counting(BaseTool[Args, Args, BaseToolConfig, BaseToolState]):
    description = "Notes when it is made"

    def __init__(self, config, state):
        super().__init__(config, state)
        with (HERE / "made").open("a") as file:
            file.write("made\\n")

    async def run(self, args):
        return args
"""


def with_rules(config: KinConfig, **rules: BaseToolConfig) -> KinConfig:
    return config.model_copy(update={"tools": rules})


async def called(agent: Agent, server: Any, *calls: dict[str, Any]) -> list[Any]:
    """Results of the calls of one reply, in call order: they are told as the calls end."""
    server.enqueue(calls=list(calls))
    server.enqueue("Done.")
    results = {event.tool_call_id: event for event in await run_turn(agent) if isinstance(event, ToolResultEvent)}
    return [results[call.id] for call in agent.turns[-1].calls]


async def test_a_tool_that_is_allowed_always_is_not_asked_for(model_server, config, workspace):
    agent = Agent(with_rules(config, write_file=BaseToolConfig(permission=ToolPermission.ALWAYS)))
    (result,) = await called(agent, model_server, WRITE)
    assert (result.error, result.skipped) == (None, False)
    assert (workspace / "new.py").exists()
    await agent.aclose()


@pytest.mark.parametrize("mode", [AgentMode.DEFAULT, AgentMode.AUTO_APPROVE])
async def test_a_tool_that_is_never_allowed_is_skipped_and_the_model_told(model_server, config, mode):
    agent = Agent(with_rules(config, read_file=BaseToolConfig(permission=ToolPermission.NEVER)), mode)
    (result,) = await called(agent, model_server, tool_call("read_file", path="a.py"))
    assert result.skipped
    assert "forbids" in result.skip_reason
    assert model_server.requests[1]["messages"][-1]["content"] == result.skip_reason
    await agent.aclose()


async def test_a_tool_that_asks_is_asked_for_with_its_name_its_arguments_and_its_call(model_server, config, workspace):
    agent = Agent(config)
    asked: list[tuple[Any, ...]] = []

    def approve(*question: Any) -> tuple[ApprovalResponse, str | None]:
        asked.append(question)
        return ApprovalResponse.YES, None

    agent.set_approval_callback(approve)
    assert agent.approval_callback is approve
    (result,) = await called(agent, model_server, WRITE)
    assert asked == [("write_file", WriteFileArgs(path="new.py", content="1"), result.tool_call_id)]
    assert (workspace / "new.py").read_text() == "1"
    await agent.aclose()


@pytest.mark.parametrize(
    ("command", "skipped"),
    [("git --version", False), ("git push", True), ("git push && ls", True), ("touch x", True), ("ls", False)],
)
async def test_the_lists_of_bash_allow_deny_and_leave_the_rest_to_be_asked(model_server, config, command, skipped):
    """Seed 003's `allowlist=["git *"]`; no one can be asked here, so what asks is refused; `ls` is harmless."""
    agent = Agent(with_rules(config, bash=BaseToolConfig(allowlist=["git *"], denylist=["git push"])))
    (result,) = await called(agent, model_server, tool_call("bash", command=command))
    assert result.skipped is skipped
    await agent.aclose()


async def test_a_denylist_holds_in_auto_approve_too(model_server, config, workspace):
    agent = Agent(with_rules(config, write_file=BaseToolConfig(denylist=["*.py"])), AgentMode.AUTO_APPROVE)
    denied, allowed = await called(agent, model_server, WRITE, tool_call("write_file", path="x.txt", content="1"))
    assert "denylist" in denied.skip_reason
    assert allowed.error is None
    assert {path.name for path in workspace.iterdir()} == {"a.py", "x.txt"}
    await agent.aclose()


async def test_the_calls_of_a_reply_are_announced_together_and_answered_in_order(model_server, trusted):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py"), tool_call("list_dir", path=".")])
    model_server.enqueue("Done.")
    told = [e for e in await run_turn(trusted) if isinstance(e, ToolCallEvent | ToolResultEvent)]
    assert [(type(e).__name__, e.tool_name) for e in told] == [
        *(("ToolCallEvent", "read_file"), ("ToolCallEvent", "list_dir")),
        *(("ToolResultEvent", "read_file"), ("ToolResultEvent", "list_dir")),
    ]


async def test_a_tool_is_found_at_once_made_when_it_is_first_called_and_kept(model_server, config):
    folder = kin_home() / "tools"
    folder.mkdir(parents=True)
    (folder / "counting.py").write_text(COUNTING_TOOL)
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    assert "counting" in agent.tool_manager.available_tools()
    assert not (folder / "made").exists()
    for _ in range(2):
        await called(agent, model_server, tool_call("counting"), tool_call("counting"))
    assert (folder / "made").read_text() == "made\n"
    agent.tool_manager.reset_all()
    await called(agent, model_server, tool_call("counting"))
    assert (folder / "made").read_text() == "made\nmade\n"
    await agent.aclose()


async def test_the_model_is_offered_description_and_prompt_and_the_arguments_as_json_schema(model_server, agent):
    model_server.enqueue("Hello.")
    await run_turn(agent)
    offered = {tool["function"]["name"]: tool for tool in model_server.requests[0]["tools"]}
    assert {tool["type"] for tool in offered.values()} == {"function"}
    grep = offered["grep"]["function"]
    assert Grep.get_tool_prompt() == Grep.prompt_path.read_text().strip() != ""
    assert grep["description"] == f"{Grep.description}\n\n{Grep.get_tool_prompt()}"
    assert grep["parameters"] == Grep.get_parameters()
    assert grep["parameters"]["properties"]["pattern"]["type"] == "string"
    assert grep["parameters"]["properties"]["pattern"]["description"]


def test_the_six_tools_of_the_seed_are_built_in():
    seeds = {"bash", "read_file", "write_file", "search_replace", "grep", "todo"}
    assert seeds <= set(builtin_tools())
    assert all(tool.get_name() == name and tool.description for name, tool in builtin_tools().items())


async def test_the_six_tools_write_edit_read_search_run_and_keep_a_list(model_server, trusted, workspace):
    block = "<<<<<<< SEARCH\nalpha\n=======\nbeta\n>>>>>>> REPLACE\n"
    results = await called(
        trusted,
        model_server,
        tool_call("write_file", path="new.txt", content="alpha\n"),
        tool_call("search_replace", file_path="new.txt", content=block),
        tool_call("read_file", path="new.txt"),
        tool_call("grep", pattern="beta"),
        tool_call("bash", command="cat new.txt"),
        tool_call("todo", action="write", todos=[{"id": "1", "content": "beta"}]),
        tool_call("todo", action="read"),
    )
    assert [result.error for result in results] == [None] * 7
    assert (workspace / "new.txt").read_text() == "beta\n"
    answers = [message["content"] for message in model_server.requests[1]["messages"] if message["role"] == "tool"]
    assert ["beta" in answer for answer in answers[2:5]] == [True] * 3
    assert [item.content for item in results[-1].result.todos] == ["beta"]


async def test_invoke_validates_and_runs(config, workspace):
    tool = builtin_tools()["read_file"].from_config(BaseToolConfig(workdir=workspace))
    assert "x = 1" in tool.to_model(await tool.invoke(path="a.py"))
    with pytest.raises(ToolError, match="limit"):
        await tool.invoke(path="a.py", limit="many")


def test_each_kind_of_mcp_server_has_its_fields():
    def fields(kind: type, **given: Any) -> Any:
        (server,) = KinConfig(mcp_servers=[{"name": "s", **given}]).mcp_servers
        assert type(server) is kind
        return server

    web = {"url": "http://localhost:9/mcp", "headers": {"A": "1"}}
    for kind, transport in ((MCPHttp, "http"), (MCPStreamableHttp, "streamable-http")):
        server = fields(kind, transport=transport, **web)
        assert (server.url, server.headers) == (web["url"], web["headers"])
    program = fields(MCPStdio, transport="stdio", command="git-mcp", args=["-v"], env={"B": "2"})
    assert (program.command, program.args, program.env) == ("git-mcp", ["-v"], {"B": "2"})


@pytest.mark.parametrize("transport", ["stdio", "http", "streamable-http"])
async def test_the_tools_of_a_server_are_offered_called_and_answered(model_server, config, tmp_path, transport):
    with HttpServer.start() as web:
        command = [sys.executable, "-ES", str(mcp_parts.SCRIPT), "normal"]
        how = {"command": command, "cwd": tmp_path} if transport == "stdio" else {"url": web.url}
        given = {**config.model_dump(), "mcp_servers": [{"name": "test", "transport": transport, **how}]}
        agent = Agent(KinConfig.model_validate(given), AgentMode.AUTO_APPROVE)
        assert not web.seen
        (result,) = await called(agent, model_server, tool_call("test_echo", a=1))
        assert (result.error, result.tool_name) == (None, "test_echo")
        offered = [tool["function"]["name"] for tool in model_server.requests[0]["tools"]]
        assert offered[-2:] == ["test_deep", "test_echo"]
        assert model_server.requests[1]["messages"][-1]["content"] == '{"a": 1}'
        assert "test_echo" in agent.tool_manager.available_tools()
        await agent.aclose()


async def test_a_server_that_does_not_start_is_a_warning_and_the_turn_continues(model_server, config):
    servers = [{"name": "gone", "command": "/no/such/program"}]
    agent = Agent(KinConfig.model_validate({**config.model_dump(), "mcp_servers": servers}))
    model_server.enqueue("Hello.")
    record = (await run_turn(agent))[-1].record
    assert record.outcome == "done"
    assert [warning for warning in record.warnings if "gone" in warning]
    await agent.aclose()


async def test_settings_of_one_tool_are_no_settings_of_another(config):
    rules = {"bash": {"permission": "always", "default_timeout": 5}, "grep": {"permission": "never"}}
    manager = ToolManager(KinConfig.model_validate({**config.model_dump(), "tools": rules}))
    found = {name: manager.get_tool_config(name).permission for name in ("bash", "grep", "read_file")}
    assert found == {"bash": "always", "grep": "never", "read_file": "ask"}
    assert manager.get_tool_config("bash").default_timeout == 5
    assert Path(manager.get_tool_config("grep").workdir) == config.effective_workdir
