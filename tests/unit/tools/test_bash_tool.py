"""bash: real commands, real process groups."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kin_nb.core.config import keys
from kin_nb.core.config.entries import MCPStdio
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import tool_output
from kin_nb.core.tools.builtins.bash import Bash, BashArgs, BashConfig, BashResult
from kin_nb.core.tools.mcp.servers import ManagedServer
from kin_nb.core.tools.truncation import LIVE_LIMIT, CappedOutput


@pytest.fixture
def bash(tmp_path: Path) -> Callable[..., Bash]:
    return lambda **config: Bash.from_config(BashConfig(workdir=tmp_path, **config))


async def said(tool: Bash, command: str, **args) -> str:
    return tool.to_model(await tool.invoke(command=command, **args))


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pid_in(path: Path) -> int:
    """The process id that a command has written."""
    return int(path.read_text())


async def test_a_command_runs_in_the_workspace(bash, tmp_path):
    assert await said(bash(), "pwd") == str(tmp_path)


async def test_stdout_and_stderr_come_in_the_order_they_were_written(bash):
    result = await bash().invoke(command="echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    assert result.output == "1\n2\n3\n4\n"
    assert await said(bash(), "python -c 'import sys; print(1); print(2, file=sys.stderr); print(3)'") == "1\n2\n3"


async def test_a_failing_command_is_a_result_with_its_exit_code(bash):
    tool = bash()
    result = await tool.invoke(command="cat missing; exit 3")
    assert tool.exit_code(result) == 3
    assert tool.to_model(result).endswith("No such file or directory\n[exit code 3]")
    assert (await tool.invoke(command="kill -9 $$")).exit_code == 137


async def test_no_output_is_reported(bash):
    assert await said(bash(), "true") == "[no output]"


async def test_bytes_that_are_no_utf_8_read_as_latin_1(bash):
    assert await said(bash(), r"printf 'caf\xe9 \xc3\xa9t\xc3\xa9'") == "café été"


async def test_stdin_is_closed(bash):
    assert await said(bash(), "cat; echo end") == "end"


async def test_time_up_ends_the_whole_group(bash, tmp_path):
    result = await bash().invoke(command="sleep 60 & echo $! > pid; echo before; wait", timeout=1)
    assert (result.timed_out, result.exit_code, result.output) == (True, 124, "before\n")
    assert not lives(pid_in(tmp_path / "pid"))


async def test_what_ignores_the_first_signals_is_killed(bash, tmp_path):
    result = await bash().invoke(command="trap '' INT TERM; echo $$ > pid; while :; do sleep 60; done", timeout=1)
    assert result.timed_out
    assert not lives(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize(
    "traps", ["trap 'echo clean > cleaned; exit' INT", "trap '' INT; trap 'echo clean > cleaned; exit' TERM"]
)
async def test_what_handles_a_signal_may_clean_up(bash, tmp_path, traps):
    await bash().invoke(command=f"({traps}; echo $BASHPID > pid; while :; do :; done)", timeout=1)
    assert (tmp_path / "cleaned").read_text() == "clean\n"


async def test_cancelling_ends_the_whole_group(bash, tmp_path):
    started_child = asyncio.Event()
    tool_output.set(lambda _: started_child.set())
    task = asyncio.create_task(bash().invoke(command="sleep 60 & echo $! > pid; echo ready; wait", timeout=60))
    async with asyncio.timeout(60):
        await started_child.wait()
    pid = pid_in(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(pid)


async def test_what_is_left_running_is_ended_and_named(bash, tmp_path):
    tool = bash()
    result = await tool.invoke(command="sleep 60 & echo $! > pid; echo done")
    assert (result.exit_code, result.output, result.swept, result.remains) == (0, "done\n", ["sleep 60"], [])
    assert tool.to_model(result) == "done\n[processes left running were killed: `sleep 60`]"
    assert not lives(pid_in(tmp_path / "pid"))
    assert tool.uncovered(result) == tool.uncovered(None) == ""
    assert "remaining processes" in tool.uncovered(result.model_copy(update={"remains": ["sleep 60"]}))


async def test_a_command_does_not_see_the_environment_of_this_process(bash, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "not-for-commands")
    read = "tr '\\0' '\\n' < /proc/$PPID/environ"
    result = await bash().invoke(command=f"{read} | grep -c ^PATH=; {read} | grep SOME_API_KEY")
    assert (result.output, result.exit_code) == ("1\n", 1)


async def test_all_that_was_written_before_the_end_arrives(bash):
    result = await bash().invoke(command="head -c 30000 /dev/zero | tr '\\0' x; sleep 0.1 & disown; echo end")
    assert result.output == "x" * 30000 + "end\n"


async def test_long_output_keeps_head_and_tail_with_a_count(bash):
    tool = bash()
    text = tool.to_model(await tool.invoke(command="echo first; seq 100000; echo last; exit 1"))
    assert len(text) <= 40_000
    assert text.startswith("first\n1\n2\n")
    assert text.endswith("100000\nlast\n[exit code 1]")
    assert "characters left out …]" in text


def test_the_count_of_what_is_left_out_is_exact():
    output = CappedOutput(10, lambda _: None)
    for chunk in (b"abc", b"defgh", b"ijklm", b"nop"):
        output.add(chunk)
    assert output.text() == "abcde\n[… 6 characters left out …]\nlmnop"
    exact = CappedOutput(10, lambda _: None)
    exact.add(b"0123456789")
    assert exact.text() == "0123456789"


def test_a_character_that_comes_in_two_pieces_is_one():
    output = CappedOutput(10, lambda _: None)
    output.add("é".encode()[:1])
    output.add("é".encode()[1:])
    assert output.text() == "é"


async def test_output_is_shown_while_the_command_runs(bash, tmp_path):
    seen = asyncio.Event()
    pieces: list[str] = []

    def show(text: str) -> None:
        pieces.append(text)
        seen.set()

    tool_output.set(show)
    os.mkfifo(tmp_path / "go")
    task = asyncio.create_task(bash().invoke(command="echo early; cat go; echo late"))
    async with asyncio.timeout(60):
        await seen.wait()
    assert pieces == ["early\n"]
    assert not task.done()
    (tmp_path / "go").write_text("")
    await task
    assert "".join(pieces) == "early\nlate\n"


async def test_a_flood_is_not_shown_live_forever(bash):
    pieces: list[str] = []
    tool_output.set(pieces.append)
    result = await bash().invoke(command="head -c 3000000 /dev/zero | tr '\\0' x")
    assert LIVE_LIMIT <= sum(map(len, pieces)) < LIVE_LIMIT + 200
    assert "2,960,500 characters left out" in result.output


async def test_children_see_no_secret_unless_configured(bash, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "key-in-the-environment")
    command = "echo ${SOME_API_KEY:-none}"
    assert await said(bash(), command) == "none"
    assert await said(bash(keep_env=["SOME_API_KEY"]), command) == "key-in-the-environment"
    assert await said(bash(env={"SOME_API_KEY": "given"}), command) == "given"


async def test_what_shells_run_at_their_start_is_not_inherited(bash, monkeypatch, tmp_path):
    hook = tmp_path / "hook.sh"
    hook.write_text("echo from the hook\n")
    monkeypatch.setenv("BASH_ENV", str(hook))
    monkeypatch.setenv("BASH_FUNC_date%%", "() { echo from a function; }")
    command = "date +done; env true"
    assert await said(bash(), command) == "done"
    assert await said(bash(keep_env=["BASH_ENV"]), command) == "from the hook\ndone"


async def test_nothing_waits_for_a_person_or_colours_its_output(bash, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm", "LC_ALL": "C"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    command = "echo $TERM $PAGER $GIT_PAGER $NO_COLOR ${FORCE_COLOR-} ${CLICOLOR_FORCE-} ${MPLBACKEND-} $LC_ALL"
    assert await said(bash(), command) == "dumb cat cat 1 C"


async def test_the_programs_of_the_hosts_interpreter_come_first(bash):
    assert (
        await said(bash(python=Path(sys.executable)), "command -v python")
    ) == f"{Path(sys.executable).parent}/python"


async def test_without_an_interpreter_path_is_the_users(bash, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin:/nowhere")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert await said(bash(), "echo $PATH") == "/usr/bin:/bin:/nowhere"


async def test_configured_variables_come_last(bash):
    assert await said(bash(env={"TERM": "vt100", "TZ": "UTC"}), "echo $TERM $TZ") == "vt100 UTC"


async def test_a_workspace_that_is_gone_is_reported(tmp_path):
    tool = Bash.from_config(BashConfig(workdir=tmp_path / "gone"))
    with pytest.raises(ToolError, match="does not exist any more"):
        await tool.invoke(command="ls")


async def test_an_impossible_command_is_an_error_of_its_own(subtests, bash):
    for command in ["", "a\0b", "echo \ud800"]:
        with subtests.test(command=command), pytest.raises(ToolError):
            await bash().invoke(command=command)


def test_a_person_sees_the_command_whole(bash):
    preview = bash().preview(BashArgs(command="echo 1\nrm -rf build"))
    assert (preview.kind, preview.body) == ("command", "echo 1\nrm -rf build")
    assert preview.summary == "echo 1 …"


async def test_no_descriptor_is_left_open(bash):
    await bash().invoke(command="true")
    before = psutil.Process().num_fds()
    for _ in range(5):
        await bash().invoke(command="true")
    assert psutil.Process().num_fds() == before


def test_a_result_with_output_only_is_the_output(bash):
    assert bash().to_model(BashResult(output="a\n", exit_code=0)) == "a"


def test_a_key_that_was_taken_is_for_what_the_user_gave_it_to(bash, monkeypatch, tmp_path):
    monkeypatch.setattr(keys, "_taken", {})
    monkeypatch.setenv("P_API_KEY", "a-key-of-the-user")
    keys.take_from_environment(["P_API_KEY"])
    assert bash(keep_env=["P_API_KEY"]).environment()["P_API_KEY"] == "a-key-of-the-user"
    assert "P_API_KEY" not in bash().environment()
    for given in ({"env_vars": ["P_API_KEY"]}, {"env": {"P_API_KEY": "${P_API_KEY}"}}, {}):
        server = MCPStdio.model_validate({"name": "a", "command": "true", **given})
        link = ManagedServer(server, workdir=tmp_path, environ=None)._link()
        assert ("P_API_KEY" in link._environment) == bool(given)
