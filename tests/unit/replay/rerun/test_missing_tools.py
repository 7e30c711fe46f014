"""A recorded call of a tool that a rerun has not: the recording answers, and that is said; servers only as a person names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import MCPStdio
from kin_nb.core.records import RecordedCall
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.stubs import NO_SUCH_TOOL, SERVERS_VARIABLE, configured_servers
from tests.table import each_row
from tests.unit.replay.rerun.test_rerun import YES, Again, asking, bash, changed, refused


def of_a_server(output: str = "Clean.", **fields: Any) -> RecordedCall:
    fields = {"decision": YES, "status": "ok", "id": "c1", **fields}
    return RecordedCall(name="git_git_status", arguments='{"repo_path": "{workspace}/a"}', output=output, **fields)


async def again(workspace: Path, *calls: RecordedCall, approve: bool = True) -> Again:
    run = Again(asking(*calls), workspace, approve_recorded=approve)
    run.rerun.prepare(run.agent)
    return await run.run()


async def test_the_recording_answers_and_it_is_reported_and_what_comes_after_runs(workspace):
    run = await again(workspace, of_a_server("In {workspace}/a: clean."), bash("echo on", "on", call_id="c2"))
    assert run.kinds == ["played", "same"]
    assert run.compared[0][1].detail == NO_SUCH_TOOL
    assert run.compared[0][0].output == "In {workspace}/a: clean."
    assert run.told[0] == f"In {workspace}/a: clean."
    assert run.rerun.drifts == []


async def test_it_needs_the_approval_that_running_it_would(workspace):
    run = await again(workspace, of_a_server(), approve=False)
    assert [request.tool_name for request in run.asked] == ["git_git_status"]
    assert run.kinds == ["refused"]


async def test_a_recorded_refusal_and_a_recorded_error_are_what_they_were(workspace):
    no = of_a_server(
        "The user refused this call, with the note: later", status="refused", decision=refused("person", "later")
    )
    run = await again(workspace, no, of_a_server("no repository there", status="error", id="c2"))
    assert run.kinds == ["same", "played"]
    assert run.told == ["The user refused this call, with the note: later", "no repository there"]


async def test_what_a_server_changed_in_files_is_there_for_the_calls_after_it(workspace):
    call = of_a_server(files=(changed("new.txt", None, b"n\n"),))
    run = await again(workspace, call, bash("cat new.txt", "n", call_id="c2"))
    assert run.kinds == ["played", "same"], run.rerun.drifts


async def test_a_tool_that_the_model_only_imagined_stays_unknown(workspace):
    imagined = of_a_server("Unknown tool 'git_git_status'. Tools: many.", status="error", decision=None)
    run = await again(workspace, imagined)
    assert run.kinds == ["text"]
    assert run.told[0].startswith("Unknown tool 'git_git_status'.")


async def test_a_server_that_is_named_and_does_not_start_is_drift(workspace):
    run = Again(asking(of_a_server()), workspace)
    server = MCPStdio(name="git", command=str(workspace / "no-such-server"))
    run.agent = Agent(run.agent.config.model_copy(update={"mcp_servers": [server]}))
    run.agent.set_ask(run.rerun.answer_approvals(run._ask))
    run.rerun.prepare(run.agent)
    assert (await run.run()).kinds == ["effect"]


@pytest.mark.parametrize("name", ["bash", "task", "a b", "x" * 200, ""])
async def test_a_recording_takes_no_tools_place(workspace, name):
    run = Again(asking(of_a_server().model_copy(update={"name": name})), workspace)
    run.rerun.prepare(run.agent)
    assert not any(tool.__name__ == "StandIn" for tool in run.agent.tool_manager.available_tools().values())
    await run.agent.aclose()


def test_servers_are_those_of_the_variable_as_the_setting_has_them():
    named = [{"name": "git", "command": "mcp-server-git"}, {"name": "docs", "url": "https://example.org/mcp"}]
    assert [server.name for server in configured_servers({SERVERS_VARIABLE: json.dumps(named)})] == ["git", "docs"]
    assert configured_servers({}) == configured_servers({SERVERS_VARIABLE: " "}) == []


@each_row("text", ["git", "{}", "[1]", '[{"name": "git"}]', '[{"command": "x"}]', "[" * 100_000])
def test_what_is_no_list_of_servers_is_one_error_that_says_how_to_write_them(text):
    with pytest.raises(
        ReplayError,
        match=rf"(?s)^{SERVERS_VARIABLE} is not a list of MCP servers: .*\nWrite them as the setting mcp_servers",
    ):
        configured_servers({SERVERS_VARIABLE: text})
