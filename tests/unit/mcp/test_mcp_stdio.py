"""Servers that are child processes: how they start, fail, end and are ended."""

from __future__ import annotations

import asyncio
import json
import sys
import threading

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import tool_output
from kin_nb.core.tools.mcp import MCPServers
from kin_nb.core.tools.mcp import servers as servers_module
from tests.unit.mcp.conftest import gone, lines, lives, said, stdio, tool, until


async def test_nothing_is_started_before_connect_and_nothing_twice(make, tmp_path):
    servers = make(stdio())
    assert servers.tool_classes() == {}
    assert lines(tmp_path, "starts") == []
    threads = threading.enumerate()
    assert await servers.connect() == []
    classes = servers.tool_classes()
    assert await servers.connect() == []
    assert len(lines(tmp_path, "starts")) == len(lines(tmp_path, "lists")) == 1
    assert all(servers.tool_classes()[name] is found for name, found in classes.items())
    assert threading.enumerate() == threads


INHERITED = {
    "PATH": "/usr/bin",
    "HOME": "/home/ada",
    "LANG": "C",
    "LC_TIME": "C",
    "TMPDIR": "/tmp",
    "https_proxy": "http://127.0.0.1:9",
    "SSL_CERT_FILE": "/etc/own.pem",
}
"""What programs need, and every server gets."""


async def test_a_server_gets_few_variables_and_those_configured_for_it(make, tmp_path):
    others = {
        "GITHUB_TOKEN": "hidden",
        "CUSTOMER_LIST": "x",
        "PYTHONPATH": "/y",
        "SSH_AUTH_SOCK": "/z",
        "BASH_ENV": "/b",
    }
    named = {"MY_REGION": "eu", "MY_TOKEN": "t-given-on"}
    given = {"API_KEY": "k-${GITHUB_TOKEN}", "MODE": "$plain", "LANG": "C.UTF-8"}
    servers = make(
        stdio(env=given, env_vars=["MY_REGION", "MY_TOKEN", "NOT_SET"]), environ={**INHERITED, **others, **named}
    )
    assert await servers.connect() == []
    seen = json.loads(await said(servers, "environment"))
    seen.pop("LC_CTYPE", None)  # Python's own
    assert seen.pop("PYTHONSAFEPATH") == "1"
    assert seen == {**INHERITED, **named, "API_KEY": "k-hidden", "MODE": "$plain", "LANG": "C.UTF-8"}
    assert await said(servers, "folder") == str(tmp_path)


async def test_a_start_that_is_not_of_the_protocol_is_a_plain_warning(make):
    assert await make(stdio("odd_start")).connect() == [
        "MCP server test: its answer is not as MCP wants it (capabilities, protocolVersion missing or wrong)"
    ]


async def test_a_variable_given_on_is_in_no_warning(make):
    script = "import os, sys; sys.exit('no login for ' + os.environ['MY_TOKEN'])"
    servers = make(
        stdio(command=[sys.executable, "-c", script], env_vars=["MY_TOKEN"]), environ={"MY_TOKEN": "t-given-on"}
    )
    (warning,) = await servers.connect()
    assert warning.endswith("its last words: no login for [secret]")


async def test_a_folder_is_relative_to_the_workspace(make, tmp_path):
    (tmp_path / "sub").mkdir()
    servers = make(stdio(cwd="sub"))
    await servers.connect()
    assert await said(servers, "folder") == str(tmp_path / "sub")


async def test_a_module_of_the_workspace_is_no_server_unless_the_settings_say_so(subtests, make, tmp_path):
    for fields, runs in [({}, False), ({"env": {"PYTHONSAFEPATH": ""}}, True), ({"cwd": "../own"}, True)]:
        with subtests.test(fields=fields, runs=runs):
            folder = tmp_path.parent / "own" if "cwd" in fields else tmp_path
            folder.mkdir(exist_ok=True)
            (folder / "some_server.py").write_text("raise SystemExit('it ran')")
            warnings = await make(stdio(command=[sys.executable, "-m", "some_server"], **fields)).connect()
            assert ("it ran" in warnings[0]) is runs


async def test_a_server_that_cannot_start_is_one_warning_that_says_what_to_check(subtests, make):
    for fields, why in [
        (
            {"command": "no-such-program"},
            "it cannot be started (No such file or directory: no-such-program); check its command and cwd",
        ),
        ({"command": "a 'b"}, "No closing quotation; check command and env in its [[mcp_servers]]"),
        ({"cwd": "~no-such-person"}, "Could not determine home directory; check cwd in its [[mcp_servers]]"),
        ({"command": []}, "the command is empty; check command and env in its [[mcp_servers]]"),
        ({"command": ["a\0b"]}, "it cannot be started (embedded null byte); check its command and cwd"),
        (
            {"env": {"KEY": "${NO_SUCH}"}},
            "env.KEY wants ${NO_SUCH}, and there is no such variable; check command and env in its [[mcp_servers]]",
        ),
        ({"command": [sys.executable, "-c", "print('hello')"]}, "it ended with exit code 0; its last words: hello"),
    ]:
        with subtests.test(fields=fields, why=why):
            assert await make(stdio(**fields)).connect() == [f"MCP server test: {why}"]


async def test_a_server_that_hangs_at_start_costs_its_timeout_once(subtests, make, tmp_path):
    for scenario, why in [
        (
            "hang_at_start",
            "it was not ready within 3 s (startup_timeout_sec); its last words: waiting for the database",
        ),
        (
            "garbage_at_start",
            "it was not ready within 3 s (startup_timeout_sec); its last words: Welcome! \ufffd\ufffd",
        ),
        ("hang_at_list", "it was not ready within 3 s (startup_timeout_sec)"),
    ]:
        with subtests.test(scenario=scenario, why=why):
            warnings = await make(stdio(scenario, startup_timeout_sec=3)).connect()
            assert warnings == [f"MCP server test: {why}"]
            assert not lives(int(lines(tmp_path, "starts")[0]))


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        ("exit_at_start", "it ended with exit code 1; its last words: no such table: users"),
        ("no_list", "its list of tools is not a list"),
    ],
)
async def test_a_server_that_fails_at_start_is_one_warning(make, scenario, why, tmp_path):
    assert await make(stdio(scenario)).connect() == [f"MCP server test: {why}"]
    assert not lives(int(lines(tmp_path, "starts")[0]))


async def test_servers_start_at_the_same_time(make):
    """Each waits until four have begun."""
    assert await make(*(stdio("together", name=f"s{n}", startup_timeout_sec=60) for n in range(4))).connect() == []


async def test_one_that_fails_costs_the_others_nothing(make):
    servers = make(stdio("hang_at_start", name="hanging", startup_timeout_sec=0.5), stdio())
    assert len(await servers.connect()) == 1
    assert await said(servers, "echo") == "{}"


async def test_a_failed_server_is_tried_again_after_a_pause_that_doubles(make, tmp_path, monkeypatch):
    servers = make(stdio("wants_file"))

    async def warnings_at(seconds: float) -> int:
        monkeypatch.setattr(servers_module, "monotonic", lambda: seconds)
        return len(await servers.connect())

    assert [await warnings_at(seconds) for seconds in (0, 59, 60, 179, 180)] == [1, 0, 1, 0, 1]
    (tmp_path / "wanted").touch()
    assert await warnings_at(500) == 0
    assert "test_echo" in servers.tool_classes()


async def test_a_server_that_dies_ends_the_call_and_is_started_again_by_the_next(make, tmp_path):
    servers = make(stdio())
    await servers.connect()
    with pytest.raises(ToolError) as raised:
        await said(servers, "crash")
    assert str(raised.value) == (
        "MCP server test is gone: it ended with exit code 3; its last words: the disk is full. "
        "It is started again with the next call."
    )
    assert await said(servers, "echo") == "{}"
    assert len(lines(tmp_path, "starts")) == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [("close_output", "it closed its output"), ("too_long", "it sent a message of more than 64,000,000 bytes")],
)
async def test_a_server_that_cannot_be_understood_any_more_is_ended(make, tmp_path, name, why, monkeypatch):
    monkeypatch.setattr("kin_nb.core.tools.mcp.stdio.GRACE", 0.1)
    servers = make(stdio())
    await servers.connect()
    with pytest.raises(ToolError, match=why):
        await said(servers, name)
    assert not lives(int(lines(tmp_path, "starts")[0]))
    assert await said(servers, "echo") == "{}"


async def test_a_server_that_dies_for_good_is_started_once_and_then_left_for_a_while(make, tmp_path):
    servers = make(stdio("once"))
    await servers.connect()
    with pytest.raises(ToolError, match="gone"):
        await said(servers, "crash")
    with pytest.raises(ToolError, match=r"exit code 1; its last words: the second time never works$"):
        await said(servers, "echo")
    with pytest.raises(ToolError, match=r"never works\. It is tried again in 60 s"):
        await said(servers, "echo")
    assert await servers.connect() == []
    assert len(lines(tmp_path, "starts")) == 2
    assert "test_echo" in servers.tool_classes()


async def test_a_tool_that_is_another_after_a_restart_is_not_called(make):
    servers = make(stdio("changes"))
    await servers.connect()
    echo = tool(servers, "echo")
    with pytest.raises(ToolError, match="gone"):
        await said(servers, "crash")
    with pytest.raises(ToolError, match="defines this tool differently now"):
        await echo.invoke()
    assert await servers.connect() == []
    assert await said(servers, "echo") == "{}"


async def test_a_changed_list_is_read_again_at_the_next_connect(make, tmp_path):
    servers = make(stdio())
    await servers.connect()
    before = servers.tool_classes()
    assert await said(servers, "change") == "changed"
    assert await servers.connect() == []
    after = servers.tool_classes()
    assert list(after) == ["test_echo", "test_deep", "test_new"]
    assert after["test_deep"] is before["test_deep"]
    assert after["test_echo"].fingerprint != before["test_echo"].fingerprint
    assert await servers.connect() == []
    assert len(lines(tmp_path, "lists")) == 2


async def test_a_call_without_an_answer_ends_at_its_limit_and_the_server_lives(make, tmp_path):
    servers = make(stdio(tool_timeout_sec=0.3))
    await servers.connect()
    with pytest.raises(ToolError, match=r"^MCP server test: no answer within 0.3 s \(tool_timeout_sec\)$"):
        await said(servers, "wait")
    assert await said(servers, "echo") == "{}"
    assert len(lines(tmp_path, "cancelled")) == len(lines(tmp_path, "starts")) == 1


async def test_a_server_that_hangs_is_started_again_by_the_call_after(make, tmp_path, monkeypatch):
    monkeypatch.setattr("kin_nb.core.tools.mcp.connection.PING_LIMIT", 0.3)
    servers = make(stdio(tool_timeout_sec=0.3))
    await servers.connect()
    with pytest.raises(ToolError, match="no answer within"):
        await said(servers, "hang")
    servers.tool_classes()
    assert await servers.connect() == []
    assert len(lines(tmp_path, "starts")) == 2
    assert not lives(int(lines(tmp_path, "starts")[0]))


async def test_an_interrupted_call_is_cancelled_on_the_wire_and_the_server_lives(make, tmp_path):
    servers = make(stdio())
    await servers.connect()
    waiting = asyncio.Event()
    token = tool_output.set(lambda _: waiting.set())
    running = asyncio.create_task(said(servers, "wait"))
    tool_output.reset(token)
    await waiting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await said(servers, "echo") == "{}"  # after the cancellation, on the same pipe
    assert len(lines(tmp_path, "cancelled")) == len(lines(tmp_path, "starts")) == 1


async def test_calls_at_the_same_time_get_their_own_answers(make):
    servers = make(stdio())
    await servers.connect()
    answers = await asyncio.gather(*(said(servers, "echo", n=n) for n in range(20)))
    assert answers == [f'{{"n": {n}}}' for n in range(20)]


async def test_an_interrupted_start_leaves_no_process(make, tmp_path):
    servers = make(stdio("hang_at_start", startup_timeout_sec=60))
    running = asyncio.create_task(servers.connect())
    assert await until(lambda: lines(tmp_path, "starts"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not lives(int(lines(tmp_path, "starts")[0]))


async def test_closing_ends_a_server_that_will_not_end(make, tmp_path, monkeypatch):
    monkeypatch.setattr("kin_nb.core.tools.mcp.stdio.GRACE", 0.1)
    servers = make(stdio("stays"))
    await servers.connect()
    await servers.aclose()
    assert not lives(int(lines(tmp_path, "starts")[0]))


async def test_closing_ends_a_servers_own_children(make, tmp_path):
    servers = make(stdio("children"))
    await servers.connect()
    child = int(lines(tmp_path, "children")[0])
    assert lives(child)
    await servers.aclose()
    assert await gone(child)


async def test_a_server_of_the_newest_protocol_is_understood(make):
    servers = make(stdio("modern"))
    assert await servers.connect() == []
    assert await said(servers, "echo", a=None) == '{"a": null}'


def test_servers_are_closed_in_another_event_loop(tmp_path):
    servers = MCPServers([stdio()], workdir=tmp_path)
    assert asyncio.run(servers.connect()) == []
    asyncio.run(servers.aclose())
    assert not any(lives(int(pid)) for pid in lines(tmp_path, "starts"))


def test_another_event_loop_starts_the_server_again(tmp_path):
    servers = MCPServers([stdio()], workdir=tmp_path)

    async def use() -> str:
        assert await servers.connect() == []
        return await said(servers, "echo")

    async def only_call() -> str:
        try:
            return await said(servers, "echo")
        finally:
            await servers.aclose()

    assert asyncio.run(use()) == asyncio.run(only_call()) == "{}"
    assert len(lines(tmp_path, "starts")) == 2
    assert not any(lives(int(pid)) for pid in lines(tmp_path, "starts"))
