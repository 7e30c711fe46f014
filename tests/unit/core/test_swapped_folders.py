"""A folder is replaced by a symbolic link between the decision about a call and its effect: nothing outside is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kin_nb.core import safe_fs
from kin_nb.core.agent import Agent
from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.decision import ApprovalDecision, Verdict
from kin_nb.core.safety.policies import decide
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.resolve import resolve_args
from kin_nb.core.workspace import decided_paths
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

_SWAP = """
import os, sys
folder, outside = sys.argv[1:]
print("ready", flush=True)
while True:
    os.rename(folder, folder + ".away")
    os.symlink(outside, folder)
    os.unlink(folder)
    try:
        os.rename(folder + ".away", folder)
    except OSError:  # made again by a call that was allowed to make it
        os.rename(folder, folder + f".{os.times().elapsed}")
        os.rename(folder + ".away", folder)
    for _ in range(300):  # most of the time the folder is itself, so that calls are allowed
        os.stat(folder)
"""
RG = shutil.which("rg")
SECRET = "outside = 'secret'\n"
CALLS = {
    "write_file": {"path": "src/a.py", "content": "x = 2\n", "overwrite": True},
    "edit_file": {"path": "src/a.py", "old_string": "'", "new_string": '"', "replace_all": True},
    "search_replace": {
        "path": "src/a.py",
        "content": "<<<<<<< SEARCH\nx = 'y'\n=======\nx = 'z'\n>>>>>>> REPLACE",
    },
    "read_file": {"path": "src/a.py"},
    "grep": {"pattern": "secret", "path": "src", "context": 1},
    "glob": {"pattern": "*", "path": "src"},
    "list_dir": {"path": "src"},
}


@pytest.fixture(params=["openat2", "walk"])
def opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to open a folder: the second one is for macOS, and where the system call is forbidden."""
    if request.param == "walk":
        monkeypatch.setattr(safe_fs, "_openat2", lambda: None)


@pytest.fixture
def outside(tmp_path: Path, workspace: Path) -> Path:
    """A folder outside, like `src` in the workspace, and with one file more."""
    (workspace / "src").mkdir()
    (workspace / "src" / "a.py").write_text("x = 'y'\n")
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.py").write_text(SECRET + "x = 'y'\n")
    (folder / "private.txt").write_text("secret\n")
    return folder


def swap_before_it_runs(agent: Agent, folder: Path, outside: Path) -> None:
    """After the decision, before the tool runs."""
    before = agent.parts.services.files.before

    async def swapped(request):
        folder.rename(folder.with_name("away"))
        folder.symlink_to(outside)
        return await before(request)

    agent.parts.services.files.before = swapped


@contextmanager
def swapping(folder: Path, outside: Path) -> Iterator[None]:
    """Another process swaps all the time."""
    command = [sys.executable, "-I", "-S", "-c", _SWAP, str(folder), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            swapper.kill()


@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_does_not_follow_a_link_that_came_after_the_decision(
    config, model_server, workspace, outside, name
):
    agent = Agent(config, AgentMode.ACCEPT_EDITS)
    swap_before_it_runs(agent, workspace / "src", outside)
    model_server.enqueue(calls=[tool_call(name, **CALLS[name])])
    model_server.enqueue("Done.")
    call = (await run_turn(agent))[-1].record.calls[0]
    await agent.aclose()
    assert call.decision.verdict == "allow"
    assert call.status == "error" or name in {"grep", "glob"}
    assert "private.txt" not in call.output
    assert "outside" not in call.output.replace(str(outside), "")
    assert (outside / "a.py").read_text() == SECRET + "x = 'y'\n"
    assert (workspace / "away" / "a.py").read_text() == "x = 'y'\n"
    assert call.files == ()


async def test_the_reason_names_the_link(config, model_server, workspace, outside):
    agent = Agent(config, AgentMode.ACCEPT_EDITS)
    swap_before_it_runs(agent, workspace / "src", outside)
    model_server.enqueue(calls=[tool_call("write_file", **CALLS["write_file"])])
    model_server.enqueue("Done.")
    call = (await run_turn(agent))[-1].record.calls[0]
    await agent.aclose()
    assert "a folder in its path is a symbolic link, and was none when the path was checked" in call.output


@pytest.mark.usefixtures("opening")
async def test_a_new_file_in_new_folders_lands_where_it_was_approved(agent, model_server, workspace, outside):
    async def ask(request):
        return ApprovalDecision(True)

    agent.set_ask(ask)
    swap_before_it_runs(agent, workspace / "src", outside)
    model_server.enqueue(calls=[tool_call("write_file", path="src/new/deep/b.py", content="b\n")])
    model_server.enqueue("Done.")
    call = (await run_turn(agent))[-1].record.calls[0]
    assert call.status == "error"
    assert sorted(path.name for path in outside.iterdir()) == ["a.py", "private.txt"]


_RG_WHILE_SWAPPED = """#!/bin/sh
mv src away && ln -s {outside} src
{rg} --follow "$@" > ../found  # as when the link came after the folder was listed
rm src && mv away src
cat ../found
"""


@pytest.mark.skipif(RG is None, reason="there is no ripgrep here")
@pytest.mark.parametrize("more", [{}, {"context": 2}, {"files_only": True}], ids=["lines", "context", "files"])
@pytest.mark.parametrize("path", ["src", "."])
async def test_no_line_reaches_the_model_that_ripgrep_read_while_a_folder_was_swapped(
    agent, model_server, workspace, tmp_path, outside, monkeypatch, path, more
):
    """The folder is a link while ripgrep runs, and itself again when its results are looked at."""
    (workspace / "own.txt").write_text("own secret\n")
    (workspace / "src" / "b.py").write_text("1\n2\nreal secret\n")
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.write_text(_RG_WHILE_SWAPPED.format(outside=outside, rg=RG))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    model_server.enqueue(calls=[tool_call("grep", pattern="secret", path=path, **more)])
    model_server.enqueue("Done.")
    call = (await run_turn(agent))[-1].record.calls[0]
    assert call.status == "ok"
    assert "outside" not in call.output
    assert "src/a.py" not in call.output
    assert "private.txt" not in call.output
    assert ("own.txt" in call.output) == (path == ".")


@pytest.mark.usefixtures("opening")
async def test_a_link_that_was_there_at_the_decision_still_works(config, model_server, workspace, outside):
    (workspace / "link").symlink_to("src")
    (workspace / "file.py").symlink_to("src/a.py")
    agent = Agent(config, AgentMode.ACCEPT_EDITS)
    edit = {"old_string": "x = ", "new_string": "x =  "}
    model_server.enqueue(calls=[tool_call("edit_file", path="link/a.py", **edit)])
    model_server.enqueue(calls=[tool_call("edit_file", path="file.py", **edit), tool_call("read_file", path="file.py")])
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    await agent.aclose()
    assert [call.status for call in record.calls] == ["ok", "ok", "ok"]
    assert (workspace / "src" / "a.py").read_text() == "x =   'y'\n"
    assert (workspace / "file.py").is_symlink()


@pytest.mark.usefixtures("opening")
async def test_an_approved_file_outside_is_opened_where_it_was_approved(agent, model_server, tmp_path, outside):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    async def ask(request):
        return ApprovalDecision(True)

    agent.set_ask(ask)
    write = tool_call("write_file", path=str(outside / "a.py"), content="new\n", overwrite=True)
    model_server.enqueue(calls=[write])
    model_server.enqueue("Done.")
    assert (await run_turn(agent))[-1].record.calls[0].status == "ok"
    assert (outside / "a.py").read_text() == "new\n"
    swap_before_it_runs(agent, outside, elsewhere)
    model_server.enqueue(calls=[tool_call("write_file", path=str(outside / "b.py"), content="new\n")])
    model_server.enqueue("Done.")
    assert (await run_turn(agent))[-1].record.calls[0].status == "error"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": "src/a.py", "content": "x = {n}\n", "overwrite": "true"}),
        ("edit_file", {"path": "src/a.py", "old_string": "x =", "new_string": "x = {n} #"}),
    ],
)
@pytest.mark.parametrize("rounds", [15, pytest.param(80, marks=pytest.mark.long)])
async def test_none_of_many_writes_lands_outside_while_a_folder_is_swapped(
    agent, workspace, outside, name, arguments, rounds
):
    """Another process replaces the folder with a link all the time; each call is decided and run as the executor does."""
    context = replace(agent.safety(), policy=Policy.AUTO_EDIT)
    tool, allowed = agent.tool_manager.get(name), 0
    with swapping(workspace / "src", outside):
        for n in range(200_000):
            if allowed == rounds:
                break
            raw = {key: value.replace("{n}", str(n % 10)) for key, value in arguments.items()}
            with suppress(ToolError, OSError):  # it was swapped while the path was looked up
                call = resolve_args(name, str(n), tool, raw, agent.workspace)
                if decide(call.request, context).verdict is Verdict.ALLOW:
                    allowed += 1
                    decided_paths.set(call.request.resolved)
                    await tool.run(call.args)
    assert allowed == rounds
    assert (outside / "a.py").read_text() == SECRET + "x = 'y'\n"
    assert sorted(path.name for path in outside.iterdir()) == ["a.py", "private.txt"]
