"""The tools of a session in real turns: servers, tool files, skills, modes; and tools that misbehave."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.config.entries import MCPStdio
from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.events import ToolResultEvent, WarningEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.store import StoredSession
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

SERVERS = Path(__file__).parents[1] / "mcp" / "servers"


@pytest.fixture(autouse=True, scope="session")
def _imported() -> None:
    """`mcp` takes a second to import, which is not what these tests measure."""
    import kin_nb.core.tools.mcp.session
    import kin_nb.core.tools.mcp.stdio  # noqa: F401


def stdio(name: str = "test", scenario: str = "normal", *listed: str) -> MCPStdio:
    """The server of the MCP tests; `listed`: names of more tools, of those that it knows and does not list."""
    more = [{"name": tool, "inputSchema": {"type": "object"}} for tool in listed]
    start = f"import sys; sys.path.insert(0, {str(SERVERS)!r}); import behaviour; behaviour.TOOLS += {more!r}"
    return MCPStdio(name=name, command=[sys.executable, "-ESc", f"{start}; import stdio_server", scenario])


def changed(config: KinConfig, **settings: Any) -> KinConfig:
    return config.model_copy(update=settings)


@pytest.fixture
async def make(config) -> AsyncIterator[Any]:
    """`make(mode, **settings)`: an agent that is closed at the end."""
    agents: list[Agent] = []

    def make(mode: AgentMode | CustomMode = AgentMode.AUTO_APPROVE, **settings: Any) -> Agent:
        agents.append(Agent(changed(config, **settings), mode))
        return agents[-1]

    yield make
    for agent in agents:
        await agent.aclose()


def offered(server: ModelServer, request: int = -1) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[request].get("tools", ())]


def described(server: ModelServer, name: str) -> str:
    return next(
        tool["function"]["description"] for tool in server.requests[-1]["tools"] if tool["function"]["name"] == name
    )


def answers(server: ModelServer, request: int = -1) -> list[Any]:
    """The contents of the tool messages at the end of a request."""
    messages = server.requests[request]["messages"]
    last = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
    return [message["content"] for message in messages[last + 1 :] if message["role"] == "tool"]


def warnings(events: list[Any]) -> list[str]:
    return [event.message for event in events if isinstance(event, WarningEvent)]


def results(events: list[Any]) -> list[Any]:
    return [event.call for event in events if isinstance(event, ToolResultEvent)]


# MCP servers


async def test_a_servers_tools_are_offered_and_asked_for(model_server, make):
    agent = make(AgentMode.DEFAULT, mcp_servers=[stdio()])
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(True)

    agent.set_ask(approve)
    model_server.enqueue(calls=[tool_call("test_echo", word="hello")])
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    assert [name for name in offered(model_server, 0) if name.startswith("test_")] == ["test_deep", "test_echo"]
    assert [(request.tool_name, request.preview.summary, request.preview.claim) for request in asked] == [
        ("test_echo", 'test: echo {"word": "hello"}', "Say it again")
    ]
    assert answers(model_server) == ['{"word": "hello"}']
    assert [call.status for call in results(events)] == ["ok"]
    assert warnings(events) == []


async def test_a_servers_word_that_a_tool_only_reads_is_no_permission(model_server, make):
    agent = make(AgentMode.DEFAULT, mcp_servers=[stdio()])
    model_server.enqueue(calls=[tool_call("test_deep", tree={})])
    model_server.enqueue("Not allowed.")
    (call,) = results(await run_turn(agent))
    assert call.status == "refused"
    assert "test_deep was refused" in answers(model_server)[0]


async def test_plan_mode_lets_no_server_act(model_server, make):
    agent = make(AgentMode.PLAN, mcp_servers=[stdio()])
    model_server.enqueue(calls=[tool_call("test_echo", word="hello")])
    model_server.enqueue("Planned.")
    (call,) = results(await run_turn(agent))
    assert call.status == "refused"


async def test_the_tools_that_a_server_announces_are_offered_from_the_next_step_after_all_others(model_server, make):
    agent = make(mcp_servers=[stdio("test", "normal", "change"), stdio("zebra")])
    model_server.enqueue(calls=[tool_call("test_change")])
    model_server.enqueue(calls=[tool_call("test_new", a=1)])
    model_server.enqueue("Used.")
    model_server.enqueue("And again.")
    assert warnings(await run_turn(agent)) == []
    await run_turn(agent)
    before, after = offered(model_server, 0), offered(model_server, 1)
    assert "test_new" not in before
    assert after == [*before, "test_new"]  # prompt caches know the beginning
    assert described(model_server, "test_echo") == "[test] Say it otherwise"
    assert answers(model_server, 2) == ['{"a": 1}']
    assert offered(model_server, 2) == offered(model_server, 3) == after


async def test_a_tool_that_its_server_removed_answers_that_it_is_gone(model_server, make):
    agent = make(mcp_servers=[stdio("test", "normal", "remove")])
    model_server.enqueue(calls=[tool_call("test_remove")])
    model_server.enqueue(calls=[tool_call("test_echo", word="hello"), tool_call("test_alpha", a=1)])
    model_server.enqueue("Gone.")
    await run_turn(agent)
    assert [name for name in offered(model_server, 1) if name.startswith("test_")] == ["test_deep", "test_alpha"]
    gone, found = answers(model_server, 2)
    assert gone == (
        "The tool 'test_echo' was removed: its MCP server does not offer it any more, or is not configured any more.\n"
        "Use another tool."
    )
    assert found == '{"a": 1}'


async def test_a_server_that_came_back_with_other_tools_is_offered_as_it_is_now(model_server, make):
    agent = make(mcp_servers=[stdio("test", "changes", "crash")])
    model_server.enqueue(calls=[tool_call("test_crash")])
    for _ in range(2):
        model_server.enqueue(calls=[tool_call("test_echo", word="hello")])
    model_server.enqueue("Said.")
    await run_turn(agent)
    assert "defines this tool differently now" in answers(model_server, 2)[0]
    assert described(model_server, "test_echo") == "[test] Say something else"
    assert answers(model_server, 3) == ['{"word": "hello"}']


async def test_a_server_that_ends_after_it_announced_others_keeps_its_tools_with_a_warning(model_server, make):
    agent = make(mcp_servers=[stdio("test", "normal", "change_and_end")])
    model_server.enqueue(calls=[tool_call("test_change_and_end")])
    model_server.enqueue("Ended.")
    (warning,) = warnings(await run_turn(agent))
    assert warning.startswith("MCP server test: ")
    assert offered(model_server, 1) == offered(model_server, 0)


async def test_the_list_of_tools_is_the_same_object_while_nothing_changes(model_server, make):
    agent = make(mcp_servers=[stdio()])
    for _ in range(2):
        model_server.enqueue("Hello.")
        await run_turn(agent)
        schemas = agent.tool_manager.schemas()
    assert agent.tool_manager.schemas() is schemas
    assert model_server.requests[0]["tools"] == model_server.requests[1]["tools"]


async def test_a_server_that_the_settings_drop_is_gone_with_its_process(model_server, make, config, workspace):
    agent = make(mcp_servers=[stdio("one"), stdio("two")])
    model_server.enqueue("Both.")
    await run_turn(agent)
    assert {"one_echo", "two_echo"} <= set(offered(model_server))
    agent.switch_config(changed(config, mcp_servers=[stdio("two")]))
    model_server.enqueue("One.")
    await run_turn(agent)
    assert [name for name in offered(model_server) if "echo" in name] == ["two_echo"]
    agent.switch_config(config)
    model_server.enqueue(calls=[tool_call("two_echo")])
    model_server.enqueue("None.")
    await run_turn(agent)
    assert [name for name in offered(model_server) if "echo" in name] == []
    assert answers(model_server)[0].startswith("The tool 'two_echo' was removed: ")
    assert len((workspace / "starts").read_text().splitlines()) == 3, "or the servers were never started"


async def test_a_server_that_does_not_start_is_one_warning_and_the_turn_continues(model_server, make):
    agent = make(mcp_servers=[stdio(), stdio("broken", "exit_at_start")])
    model_server.enqueue("Hello.")
    events = await run_turn(agent)
    (warning,) = warnings(events)
    assert "broken" in warning
    assert "no such table: users" in warning
    assert events[-1].record.warnings == (agent.redact(warning),)
    assert "test_echo" in offered(model_server)
    model_server.enqueue("Hello.")
    assert warnings(await run_turn(agent)) == []


async def test_a_server_that_crashes_under_a_call_fails_that_call_alone(model_server, make):
    agent = make(mcp_servers=[stdio("test", "normal", "crash")])
    model_server.enqueue(calls=[tool_call("test_crash"), tool_call("test_echo", a=1)])
    model_server.enqueue("It crashed.")
    first, second = results(await run_turn(agent))
    assert first.status == "error"
    assert "the disk is full" in first.output
    assert second.status in {"ok", "error"}
    assert len(answers(model_server)) == 2


async def test_after_aclose_the_agent_starts_its_servers_again(model_server, make, workspace):
    agent = make(mcp_servers=[stdio()])
    for _ in range(2):
        model_server.enqueue(calls=[tool_call("test_echo", a=1)])
        model_server.enqueue("Hello.")
        (call,) = results(await run_turn(agent))
        assert call.status == "ok"
        await agent.aclose()
    assert len((workspace / "starts").read_text().splitlines()) == 2


async def test_pictures_of_a_tool_reach_a_model_that_sees_and_are_recorded(model_server, make, config):
    seeing = config.models[0].model_copy(update={"supports_images": True})
    agent = make(mcp_servers=[stdio("test", "normal", "mixed")], models=[seeing])
    model_server.enqueue(calls=[tool_call("test_mixed")])
    model_server.enqueue("I see.")
    (call,) = results(await run_turn(agent))
    assert [image.media_type for image in call.images] == ["image/png", "image/png"]
    sent = str(model_server.requests[1]["messages"])
    assert sent.count("data:image/png;base64,") == 2
    assert "first" in answers(model_server)[0]
    (turn,) = StoredSession.read(agent.log.folder).turns
    assert turn.calls[0].images == call.images


async def test_a_model_that_does_not_see_gets_the_words_alone(model_server, make):
    agent = make(mcp_servers=[stdio("test", "normal", "mixed")])
    model_server.enqueue(calls=[tool_call("test_mixed")])
    model_server.enqueue("I read.")
    (call,) = results(await run_turn(agent))
    assert len(call.images) == 2
    assert "base64" not in str(model_server.requests[1]["messages"])


# Skills


def skill(folder: Path, name: str = "tidy", text: str = "Sweep the floor.") -> None:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: How to {name}\n---\n{text}\n")


async def test_the_skill_tool_is_offered_only_where_there_are_skills(model_server, make):
    model_server.enqueue("Hello.")
    await run_turn(make())
    assert "skill" not in offered(model_server)
    skill(kin_home() / "skills")
    model_server.enqueue(calls=[tool_call("skill", name="tidy")])
    model_server.enqueue("Swept.")
    (call,) = results(await run_turn(make(AgentMode.DEFAULT)))
    assert "skill" in offered(model_server)
    assert "How to tidy" in model_server.requests[-1]["messages"][0]["content"]
    assert (call.status, "Sweep the floor." in call.output) == ("ok", True)


async def test_a_skill_survives_a_new_conversation(model_server, make):
    skill(kin_home() / "skills")
    agent = make()
    await agent.clear_history()
    model_server.enqueue(calls=[tool_call("skill", name="tidy")])
    model_server.enqueue("Swept.")
    (call,) = results(await run_turn(agent))
    assert call.status == "ok"


async def test_skills_are_not_told_of_where_the_tool_is_disabled(model_server, make):
    skill(kin_home() / "skills")
    model_server.enqueue("Hello.")
    await run_turn(make(disabled_tools=["skill"]))
    assert "skill" not in offered(model_server)
    assert "How to tidy" not in model_server.requests[0]["messages"][0]["content"]


# Settings that change which tools there are


async def test_a_mode_with_its_own_tools_offers_those_and_refuses_the_others(model_server, make):
    reviewer = CustomMode("reviewer", overrides={"enabled_tools": ["read_file", "test_*"]})
    agent = make(reviewer, mcp_servers=[stdio()])
    model_server.enqueue(calls=[tool_call("bash", command="touch x"), tool_call("read_file", path="a.py")])
    model_server.enqueue("Reviewed.")
    bash, read = results(await run_turn(agent))
    assert sorted(offered(model_server)) == ["read_file", "test_deep", "test_echo"]
    assert bash.output == "The tool 'bash' is disabled in this session."
    assert read.status == "ok"
    agent.switch_mode(AgentMode.DEFAULT)
    model_server.enqueue("Back.")
    await run_turn(agent)
    assert "bash" in offered(model_server)


async def test_a_folder_that_is_trusted_later_brings_its_tools_and_skills(model_server, config, workspace, make):
    tools = workspace / ".kin-code" / "tools"
    tools.mkdir(parents=True)
    (tools / "mine.py").write_text(TOOL_FILE.format(body="return Result(text='mine')"))
    skill(workspace / ".kin-code" / "skills")
    overrides = {"active_model": "m", "providers": config.providers, "models": config.models}
    agent = make()
    agent.switch_config(KinConfig.load(workdir=workspace, **overrides))
    model_server.enqueue(calls=[tool_call("todo", action="write", todos=[{"id": "1", "content": "remember me"}])])
    model_server.enqueue("Hello.")
    (told,) = warnings(await run_turn(agent))
    assert "is not trusted" in told
    assert not {"mine", "skill"} & set(offered(model_server))
    TrustedFolders().trust(workspace)
    agent.switch_config(KinConfig.load(workdir=workspace, **overrides))
    calls = [tool_call("mine"), tool_call("skill", name="tidy"), tool_call("todo", action="read")]
    model_server.enqueue(calls=calls)
    model_server.enqueue("Hello.")
    mine, tidy, todo = results(await run_turn(agent))
    assert {"mine", "skill"} <= set(offered(model_server))
    assert (mine.status, tidy.status) == ("ok", "ok"), (mine.output, tidy.output)
    assert "remember me" in todo.output, "what tools remember stays"


# Tools that misbehave


TOOL_FILE = """
import asyncio
import sys
from pydantic import BaseModel
from kin_nb.core.tools.base import Accesses, BaseTool, BaseToolConfig, BaseToolState, Preview

class Args(BaseModel):
    x: int = 0

class Result(BaseModel):
    text: str

class OwnError(BaseException):
    pass

ASKED = []

class Mine(BaseTool[Args, Result, BaseToolConfig, BaseToolState]):
    description = "Mine"

    async def run(self, args):
        {body}
"""


def misbehaving(body: str = "return Result(text='fine')", more: str = "") -> None:
    folder = kin_home() / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(TOOL_FILE.format(body=body) + more)


def method(name: str, body: str, arguments: str = "self, args") -> str:
    return f"\n    def {name}({arguments}):\n        {body}\n"


BAD = {
    "exits": {"body": "sys.exit(3)"},
    "exits in a thread of its own": {"body": "raise SystemExit"},
    "is interrupted": {"body": "raise KeyboardInterrupt"},
    "returns nothing": {"body": "return None"},
    "returns text": {"body": "return 'text'"},
    "returns a table": {"body": "return {'text': 1}"},
    "returns itself": {"body": "return self"},
    "returns text, and takes it for a result": {
        "body": "return 'text'",
        "more": method("to_model", "return str(args)"),
    },
    "raises what has no words": {"body": "raise BaseExceptionGroup('', [ValueError()])"},
    "is cancelled by itself": {"body": "raise asyncio.CancelledError"},
    "raises an error of its own": {"body": "raise OwnError"},
    "ends as a generator does": {"body": "raise GeneratorExit"},
    "is cancelled when it speaks": {"more": method("to_model", "raise asyncio.CancelledError")},
    "raises an error of its own when it speaks": {"more": method("to_model", "raise OwnError")},
    "says no text": {"more": method("to_model", "return 7")},
    "says half a character": {"more": method("to_model", "return '\\ud800'")},
    "exits when it speaks": {"more": method("to_model", "sys.exit()")},
    "has an exit code that is none": {"more": method("exit_code", "return 'many'")},
    "has pictures that are none": {"more": method("images", "return [7]")},
    "has no pictures at all": {"more": method("images", "return None")},
    "fails to preview": {"more": method("preview", "1 / 0")},
    "exits at the preview": {"more": method("preview", "sys.exit(1)")},
    "previews nothing": {"more": method("preview", "return None")},
    "previews a number": {"more": method("preview", "return Preview(7, None)")},
    "fails to say what it touches": {"more": method("accesses", "1 / 0")},
    "exits when asked what it touches": {"more": method("accesses", "sys.exit(1)")},
    "is cancelled when asked what it touches": {"more": method("accesses", "raise asyncio.CancelledError")},
    "raises an error of its own when asked what it touches": {"more": method("accesses", "raise OwnError")},
    "raises an error of its own when asked again": {
        "more": method(
            "accesses",
            "if ASKED: ASKED.clear(); raise OwnError\n        ASKED.append(1); return Accesses(everything=True)",
        )
    },
    "raises an error of its own at the preview": {"more": method("preview", "raise OwnError")},
    "is cancelled at the preview": {"more": method("preview", "raise asyncio.CancelledError")},
    "touches nonsense": {"more": method("accesses", "return 'everything'")},
    "touches impossible paths": {"more": method("accesses", "return Accesses(writes=('\\0', 7))")},
    "fails at its own rules": {"more": method("check_allowlist_denylist", "1 / 0")},
    "has rules that are none": {"more": method("check_allowlist_denylist", "return 'maybe'")},
}


TAKES_ANYTHING = """
from kin_nb.core.tools.discovery import Tool

class Anything(Tool):
    name = "anything"
    description = "Take anything"
    parameters = {"type": "object", "properties": {"a": {}}}

    async def execute(self, **given):
        return "fine"
"""


async def test_arguments_that_are_nested_deeply_fail_their_call_and_nothing_else(subtests, model_server, make):
    folder = kin_home() / "tools"
    folder.mkdir(parents=True)
    (folder / "anything.py").write_text(TAKES_ANYTHING)
    agent = make(AgentMode.AUTO_APPROVE)
    for depth in [50, 300, 600, 900, 5000]:
        with subtests.test(depth=depth):
            deep = {
                "type": "function",
                "function": {"name": "anything", "arguments": f'{{"a":{"[" * depth}{"]" * depth}}}'},
            }
            model_server.enqueue(calls=[deep, deep, tool_call("read_file", path="a.py")], chunk=20_000)
            model_server.enqueue("Still here.")
            events = await run_turn(agent)
            assert events[-1].record.outcome == "done"
            first, second, read = results(events)
            assert (first.status, second.status, read.status) == (*("ok" if depth == 50 else "error",) * 2, "ok")
            assert depth == 50 or "nested" in first.output


async def test_a_tool_that_misbehaves_fails_its_call_and_nothing_else(subtests, model_server, make):
    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(True)

    for name, bad in BAD.items():
        with subtests.test(name=name):
            misbehaving(**bad)
            agent = make(AgentMode.DEFAULT)
            agent.set_ask(approve)
            for mode in (AgentMode.DEFAULT, AgentMode.AUTO_APPROVE):
                agent.switch_mode(mode)
                model_server.enqueue(calls=[tool_call("mine"), tool_call("read_file", path="a.py")])
                model_server.enqueue("Still here.")
                events = await run_turn(agent)
                assert events[-1].record.outcome == "done"
                _, read = results(events)
                assert read.status == "ok"
                assert len(answers(model_server)) == 2
            assert [turn.outcome for turn in StoredSession.read(agent.log.folder).turns] == ["done", "done"]
