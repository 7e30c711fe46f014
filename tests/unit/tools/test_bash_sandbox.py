"""bash, confined: with bubblewrap for real where this machine allows it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins import sandbox
from kin_nb.core.tools.builtins.bash import Bash, BashConfig
from kin_nb.core.tools.builtins.sandbox import WorkspaceScan


def confined_bash(workspace: Path, mode: str = "on", **config) -> Bash:
    return Bash.from_config(BashConfig(workdir=workspace, sandbox=mode, **config))


@pytest.fixture
def real(workspace) -> Path:
    """The workspace, where commands can be confined."""
    why = sandbox.problem(workspace, network=False)
    if why:
        pytest.skip(why)
    return workspace


async def said(tool: Bash, command: str) -> str:
    return tool.to_model(await tool.invoke(command=command))


async def test_the_workspace_is_writable_and_the_rest_is_not(real, home):
    tool = confined_bash(real)
    assert await said(tool, "echo hi > new && cat new && pwd") == f"hi\n{real}"
    assert (real / "new").read_text() == "hi\n"
    for place in (Path.home(), real.parent, Path("/var/tmp"), Path("/etc")):
        await said(tool, f"touch {place}/kin-was-here")
        assert not (place / "kin-was-here").exists()


async def test_temporary_files_are_its_own(real):
    tool = confined_bash(real, env={"TMPDIR": "/var/tmp"})
    assert "tmp." in await said(tool, "file=$(mktemp) && echo x > $file && echo $file")
    assert "/tmp/" in await said(tool, "echo x > /tmp/kin-own && ls /tmp/kin-own")
    assert not Path("/tmp/kin-own").exists()


async def test_there_is_no_network_unless_it_is_allowed(real, model_server):
    port = model_server.url.split(":")[2].split("/")[0]
    command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"
    assert "connected" not in await said(confined_bash(real), command)
    assert "connected" in await said(confined_bash(real, sandbox_network=True), command)


async def test_what_runs_later_outside_is_out_of_reach(real, home):
    (home / "config.toml").write_text("active_model = 'x'\n")
    (real / ".git" / "hooks").mkdir(parents=True)
    (real / ".git" / "config").write_text("[core]\n")
    tool = confined_bash(real)
    await said(
        tool, f"echo x > .git/hooks/pre-commit; echo x >> .git/config; echo x > {home}/config.toml; echo x > .git/HEAD"
    )
    assert list((real / ".git" / "hooks").iterdir()) == []
    assert (real / ".git" / "config").read_text() == "[core]\n"
    assert (home / "config.toml").read_text() == "active_model = 'x'\n"
    assert (real / ".git" / "HEAD").read_text() == "x\n"
    assert await said(tool, f"ls {home}") == "[no output]"


async def test_gits_folder_cannot_be_put_aside_for_another(real):
    (real / ".git" / "hooks").mkdir(parents=True)
    (real / ".git" / "config").write_text("[core]\n")
    await said(confined_bash(real), "mv .git .g && cp -r .g .git && echo x >> .git/config")
    assert (real / ".git" / "config").read_text() == "[core]\n"
    assert not (real / ".g").exists()


async def test_the_file_that_names_the_repository_cannot_be_changed(real):
    (real / ".git").write_text("gitdir: elsewhere\n")
    await said(confined_bash(real), "mv .git .g; echo 'gitdir: mine' > .git")
    assert (real / ".git").read_text() == "gitdir: elsewhere\n"


async def test_hooks_that_are_not_there_yet_cannot_be_made(real):
    (real / ".git").mkdir()
    await said(confined_bash(real), "echo x > .git/hooks/pre-commit")
    assert not (real / ".git" / "hooks" / "pre-commit").exists()


async def test_exit_codes_time_and_other_processes_are_as_without(real):
    tool = confined_bash(real)
    assert (await tool.invoke(command="exit 3")).exit_code == 3
    assert (await tool.invoke(command="sleep 60", timeout=1)).timed_out
    assert await said(tool, f"kill -0 {os.getpid()} 2>/dev/null || echo alone") == "alone"


async def test_the_notebooks_python_runs(real):
    assert await said(confined_bash(real), "python -c 'import sys; print(sys.version_info[:2])'") == str(
        sys.version_info[:2]
    )


@pytest.fixture
def impossible(monkeypatch, tmp_path) -> None:
    """A bubblewrap that is not allowed to make namespaces."""
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "platform", "linux")


async def test_on_without_a_working_bubblewrap_runs_nothing_and_says_what_helps(impossible, workspace):
    tool = confined_bash(workspace)
    with pytest.raises(ToolError, match=r"Not run:.*No permissions to create new namespace"):
        await tool.invoke(command="touch ran")
    assert not (workspace / "ran").exists()


async def test_auto_without_a_working_bubblewrap_runs_unconfined_and_says_so_once(impossible, workspace):
    tool = confined_bash(workspace, "auto")
    first = await said(tool, "echo hi")
    assert first.startswith("[not confined: commands cannot be confined here: ")
    assert first.endswith("\nhi")
    assert await said(tool, "echo hi") == "hi"


async def test_without_bubblewrap_it_says_how_to_get_it(workspace, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(workspace))
    assert "apt install bubblewrap" in sandbox.problem(workspace, network=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sandbox.problem(workspace, network=False) == "bubblewrap is for Linux only"


async def test_off_asks_nothing_of_bubblewrap(impossible, workspace):
    assert await said(confined_bash(workspace, "off"), "echo hi") == "hi"


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"


@pytest.fixture
def service():
    """The path of a socket that someone listens at, outside of the workspace and of /tmp, by a name that it got later."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(os.path.realpath(folder)) / "service.sock"
        listening.bind(str(path.with_name("made.tmp")))
        listening.listen()
        path.with_name("made.tmp").rename(path)
        yield str(path)


def test_a_service_is_out_of_reach_where_its_socket_is_closed(real, service):
    def connect(**closed):
        argv = [sys.executable, "-c", CONNECT, service]
        command = sandbox.confined(argv, real, WorkspaceScan(), **closed)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert connect().stdout == "connected\n", "a read-only file system alone"
    closed = connect(closed=sandbox.sockets())
    assert closed.stdout == ""
    assert "ConnectionRefusedError" in closed.stderr


def test_what_is_hidden_anyhow_is_not_closed_one_by_one(workspace):
    command = sandbox.confined(
        ["true"], workspace, WorkspaceScan(), closed=["/tmp/x.sock", "/run/y.sock", "/var/z.sock"]
    )
    assert [path for path in command if path.endswith(".sock")] == ["/var/z.sock"]
