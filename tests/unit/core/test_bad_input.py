"""What comes from outside and is wrong: nonsense from the model, traps in the workspace, a disk that is full."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import socket
from collections.abc import Iterable

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.events import LoopEvent, WarningEvent
from kin_nb.core.records import RecordedCall
from kin_nb.core.session.log import LOST, read_lines
from kin_nb.core.session.state import SessionState
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

BLOCK = "<<<<<<< SEARCH\nx = 1\n=======\nx = 3\n>>>>>>> REPLACE\n"


def edit(path: str) -> dict:
    return tool_call("edit_file", path=path, old_string="x = 1", new_string="x = 3")


def overwrite(path: str, content: str = "all new\n") -> dict:
    return tool_call("write_file", path=path, content=content, overwrite=True)


FILE_TOOLS = {
    "read_file": lambda path: tool_call("read_file", path=path),
    "edit_file": edit,
    "search_replace": lambda path: tool_call("search_replace", path=path, content=BLOCK),
    "write_file": overwrite,
    "grep": lambda path: tool_call("grep", pattern="x", path=path),
    "list_dir": lambda path: tool_call("list_dir", path=path),
}


async def calls_in_order(server: ModelServer, agent: Agent, *calls: dict) -> list[RecordedCall]:
    """One turn with a step for each call. It must not take long: nothing here may hang."""
    for call in calls:
        server.enqueue(calls=[call])
    server.enqueue("I see.")
    async with asyncio.timeout(60):
        record = (await run_turn(agent))[-1].record
    assert record.outcome == "done", record.message
    return list(record.calls)


async def calls_of_a_step(server: ModelServer, agent: Agent, tools: Iterable[str], path: str) -> list[RecordedCall]:
    """One turn in which the model calls each tool with the path. It must not hang."""
    server.enqueue(calls=[FILE_TOOLS[tool](path) for tool in tools], chunk=10_000)
    server.enqueue("I see.")
    async with asyncio.timeout(60):
        record = (await run_turn(agent))[-1].record
    assert record.outcome == "done", record.message
    assert [call.name for call in record.calls] == list(tools)
    return list(record.calls)


# A model that answers nonsense.


async def test_nonsense_of_every_kind_in_one_reply_is_answered_call_by_call(model_server, agent):
    broken = tool_call("read_file")
    broken["function"]["arguments"] = '{"path": "a.py"'
    nested = tool_call("read_file")
    nested["function"]["arguments"] = "[" * 100_000
    calls = [tool_call("nope"), broken, nested, tool_call("read_file", path=7), tool_call("read_file", path="a.py")]
    model_server.enqueue(calls=calls, chunk=10_000)
    model_server.enqueue("I see.")
    record = (await run_turn(agent))[-1].record
    assert [call.status for call in record.calls] == ["error"] * 4 + ["ok"]
    assert all(call.output for call in record.calls)
    assert record.outcome == "done"


async def test_text_that_repeats_without_end_is_cut_and_kept(model_server, agent):
    model_server.enqueue("and then it says the same thing over again. " * 4_000, chunk=400)
    events = await run_turn(agent)
    assert [(e.kind, e.action) for e in events if isinstance(e, LoopEvent)] == [("text", "stop")]
    record = events[-1].record
    assert record.outcome == "stopped"
    assert 0 < len(record.steps[0].content) < 100_000
    model_server.enqueue("Sorry.")
    assert (await run_turn(agent))[-1].record.outcome == "done"


@pytest.mark.parametrize("nothing", ["", " \n \t "])
async def test_two_empty_replies_are_an_error_in_words_and_the_session_continues(model_server, agent, nothing):
    model_server.enqueue(nothing)
    model_server.enqueue(nothing)
    record = (await run_turn(agent))[-1].record
    assert [m.role for m in agent.messages] == ["system", "user"]
    assert (record.outcome, record.message.splitlines()[0]) == ("error", "The model's reply was empty, twice.")
    model_server.enqueue("Here.")
    assert (await run_turn(agent))[-1].record.outcome == "done"


async def test_thoughts_and_blanks_are_no_answer(model_server, agent):
    model_server.enqueue(" \n", reasoning="Hm.")
    model_server.enqueue("Here.")
    record = (await run_turn(agent))[-1].record
    assert (record.outcome, [step.content for step in record.steps]) == ("done", ["Here."])


# A file that changes between read and edit.


async def between(server: ModelServer, agent: Agent, change, *calls: dict) -> list[RecordedCall]:
    """The file is read in a turn, changed by someone else, and the calls come in the next turn."""
    await calls_in_order(server, agent, tool_call("read_file", path="a.py"))
    change()
    return await calls_in_order(server, agent, *calls)


async def test_overwriting_a_file_that_changed_since_it_was_read_is_refused(model_server, trusted, workspace):
    path = workspace / "a.py"
    refused, _, again = await between(
        model_server,
        trusted,
        lambda: path.write_text("x = 1\nsomebody = 'else'\n"),
        overwrite("a.py"),
        tool_call("read_file", path="a.py"),
        overwrite("a.py"),
    )
    assert refused.status == "error"
    assert refused.output.startswith("a.py has changed since you read it. Nothing was written")
    assert (again.status, path.read_text()) == ("ok", "all new\n")


async def test_overwriting_what_the_model_knows_is_not_refused(model_server, trusted, workspace):
    calls = [
        tool_call("read_file", path="a.py"),
        edit("a.py"),
        overwrite("a.py", "x = 1\n"),
        overwrite("a.py", "y = 1\n"),
        tool_call("search_replace", path="a.py", content=BLOCK.replace("x", "y")),
        overwrite("./a.py", "z = 1\n"),
    ]
    assert [call.status for call in await calls_in_order(model_server, trusted, *calls)] == ["ok"] * 6
    assert (workspace / "a.py").read_text() == "z = 1\n"


async def test_an_edit_whose_text_is_still_there_is_made_and_the_rest_stays_unknown(model_server, trusted, workspace):
    path = workspace / "a.py"
    edited, refused = await between(
        model_server, trusted, lambda: path.write_text("x = 1\nz = 9\n"), edit("a.py"), overwrite("a.py")
    )
    assert edited.status == "ok"
    assert "has changed since you read it" in refused.output
    assert path.read_text() == "x = 3\nz = 9\n"


@pytest.mark.parametrize("tool", ["edit_file", "search_replace"])
async def test_an_edit_whose_text_is_gone_says_that_the_file_has_changed(model_server, trusted, workspace, tool):
    path = workspace / "a.py"
    (call,) = await between(model_server, trusted, lambda: path.write_text("q = 1\n"), FILE_TOOLS[tool]("a.py"))
    assert call.status == "error"
    assert "a.py has changed since you read it." in call.output
    assert path.read_text() == "q = 1\n"


async def test_a_file_that_was_never_read_may_be_overwritten(model_server, trusted, workspace):
    (call,) = await calls_in_order(model_server, trusted, overwrite("a.py"))
    assert call.status == "ok"


async def test_what_one_conversation_has_seen_is_not_known_to_the_next(model_server, trusted, workspace):
    await calls_in_order(model_server, trusted, tool_call("read_file", path="a.py"))
    await trusted.clear_history()
    (workspace / "a.py").write_text("other\n")
    (call,) = await calls_in_order(model_server, trusted, overwrite("a.py"))
    assert call.status == "ok"


# Traps in the workspace.


async def test_a_path_that_no_file_can_have_is_an_error(subtests, model_server, trusted):
    for path in ["a\0b", "a\nb", "", "x" * 5_000, "\ud800"]:
        for call in await calls_of_a_step(model_server, trusted, FILE_TOOLS, path):
            with subtests.test(path=path[:10], tool=call.name):
                assert call.status == "error"
                assert "path" in call.output.lower() or "surrogates" in call.output


async def test_what_is_no_file_is_refused_at_once(subtests, model_server, trusted, workspace, monkeypatch):
    os.mkfifo(workspace / "fifo")
    (workspace / "link").symlink_to("/dev/zero")
    monkeypatch.chdir(workspace)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    for trap in ["fifo", "/dev/zero", "link", "socket"]:
        for call in await calls_of_a_step(model_server, trusted, FILE_TOOLS, trap):
            with subtests.test(trap=trap, tool=call.name):
                assert call.status == "error"


async def test_traps_are_passed_over_where_a_whole_folder_is_searched(model_server, trusted, workspace):
    os.mkfifo(workspace / "fifo")
    (workspace / "zero").symlink_to("/dev/zero")
    (workspace / "loop").symlink_to("loop")
    calls = [tool_call("grep", pattern="x = 1"), tool_call("glob", pattern="**/*"), tool_call("list_dir", path=".")]
    found = await calls_in_order(model_server, trusted, *calls)
    assert [call.status for call in found] == ["ok"] * 3
    assert "a.py" in found[0].output


async def test_a_binary_file_is_named_as_one_and_left_alone(model_server, trusted, workspace):
    content = b"x = 1\n\0\1\2"
    (workspace / "data.bin").write_bytes(content)
    tools = ("edit_file", "search_replace", "write_file", "read_file")
    calls = await calls_of_a_step(model_server, trusted, tools, "data.bin")
    assert [call.output for call in calls] == ["data.bin is a binary file (9 bytes)."] * 4
    assert (workspace / "data.bin").read_bytes() == content


async def test_a_huge_file_is_not_read_whole(model_server, trusted, workspace):
    with (workspace / "huge.txt").open("wb") as file:
        file.write(b"x = 1\n")
        file.truncate(20_000_000_000)  # takes no room on the disk
    tools = ("edit_file", "search_replace", "write_file")
    calls = await calls_of_a_step(model_server, trusted, tools, "huge.txt")
    assert ["is larger than 10,000,000 bytes" in call.output for call in calls] == [True] * 3


async def test_a_part_of_a_huge_text_file_is_read(model_server, agent, workspace):
    (workspace / "huge.txt").write_text("a line of text\n" * 2_000_000)
    (call,) = await calls_in_order(model_server, agent, tool_call("read_file", path="huge.txt", offset=3, limit=2))
    assert "[lines 3-4 of 2,000,000; continue with offset=5]" in call.output


async def test_a_link_that_leads_out_is_asked_about_and_not_followed_unasked(
    subtests, model_server, agent, workspace, tmp_path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("x = 1  # private\n")
    (workspace / "out").symlink_to(outside)
    calls = await calls_of_a_step(model_server, agent, ("read_file", "edit_file", "write_file"), "out/a.py")
    calls += await calls_of_a_step(model_server, agent, ("grep", "list_dir"), "out")
    for call in calls:
        with subtests.test(tool=call.name):
            assert call.status == "refused"
            assert "is outside the workspace" in call.output
    assert (outside / "a.py").read_text() == "x = 1  # private\n"


async def test_a_search_does_not_follow_a_link_that_leads_out(model_server, agent, workspace, tmp_path):
    (tmp_path / "outside.py").write_text("secret_word = 1\n")
    (workspace / "out.py").symlink_to(tmp_path / "outside.py")
    calls = [tool_call("grep", pattern="secret_word"), tool_call("bash", command="cat out.py")]
    searched, read = await calls_in_order(model_server, agent, *calls)
    assert "secret_word = 1" not in searched.output
    assert read.status == "refused"


async def test_a_folder_that_may_not_be_read_is_an_error_of_its_own_call(model_server, agent, workspace, monkeypatch):
    locked = workspace / "locked"
    locked.mkdir()
    scandir = os.scandir

    def refuse(path="."):
        if os.path.samestat(os.stat(path), locked.stat()):  # noqa: PTH116  (a path, or a descriptor)
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    locked.chmod(0)
    if os.geteuid() == 0:  # nothing is locked for root
        monkeypatch.setattr(os, "scandir", refuse)
    calls = [
        tool_call("list_dir", path="locked"),
        tool_call("glob", pattern="**/*.py"),
        tool_call("list_dir", path="."),
    ]
    listed, found, above = await calls_in_order(model_server, agent, *calls)
    locked.chmod(0o700)
    assert (listed.status, "permission denied" in listed.output) == ("error", True)
    assert (found.status, "a.py" in found.output) == ("ok", True)
    assert "locked/" in above.output


async def test_a_workspace_that_is_gone_is_reported_by_every_call_and_the_session_continues(
    model_server, trusted, workspace
):
    await calls_in_order(model_server, trusted, tool_call("read_file", path="a.py"))
    shutil.rmtree(workspace)
    calls = [make("a.py") for make in FILE_TOOLS.values()]
    calls += [tool_call("bash", command="ls"), tool_call("bash", command="touch x"), tool_call("glob", pattern="*")]
    found = await calls_in_order(model_server, trusted, *calls)
    assert [call.status for call in found] == ["error"] * len(calls)
    assert all(call.output for call in found)
    assert not workspace.exists()


# A disk that is full.


async def test_a_full_disk_is_reported_once_and_the_session_continues_in_memory(model_server, config: KinConfig):
    agent = Agent(config)
    await calls_in_order(model_server, agent, tool_call("read_file", path="a.py"))
    before = agent.log.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before + 300, hard))  # Python ignores the signal that comes with it
    try:
        said = []
        for line in (1, 2, 1):
            model_server.enqueue(calls=[tool_call("read_file", path="a.py", offset=line)])
            model_server.enqueue("Fine.")
            events = await run_turn(agent)
            assert events[-1].record.outcome == "done"
            said += [event.message for event in events if isinstance(event, WarningEvent)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [text for text in said if "session log" in text] == [
        f"The session log cannot be written (File too large); this session continues in memory only.\n{LOST}"
    ]
    assert len(agent.turns) == 4
    assert not agent.log.is_written
    await agent.aclose()
    lines = agent.log.path.read_bytes().splitlines()
    assert agent.log.path.stat().st_size <= before + 300
    assert all(json.loads(line) for line in lines[:-1])
    assert SessionState.of(read_lines(agent.log.path)).records[0] == agent.turns[0]
