"""MCP against servers that others wrote: what they list is offered, what they answer arrives."""

from __future__ import annotations

import asyncio
import base64
import json

import psutil
import pytest

from kin_nb.core.config import KinConfig
from kin_nb.core.config.entries import MCPStdio
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import tool_output
from kin_nb.core.tools.manager import ToolManager
from tests.peers.conftest import EVERYTHING, filesystem, git, time


async def test_all_servers_together_are_listed_and_registered(connect, everything, tmp_path, repository):
    connected = await connect(everything, filesystem(tmp_path), git(repository), time())
    classes = connected.servers.tool_classes()
    assert {name.partition("_")[0] for name in classes} == {"all", "files", "git", "time"}
    assert {"all_get-tiny-image", "files_read_text_file", "git_git_status", "time_convert_time"} <= set(classes)
    manager = ToolManager(KinConfig(workdir=tmp_path))
    assert manager.register(classes) == []
    offered = {schema.function.name: schema.function for schema in manager.schemas()}
    assert offered["all_echo"].description == "[all] Echoes back the input string"
    assert offered["all_echo"].parameters["properties"] == {
        "message": {"type": "string", "description": "Message to echo"}
    }
    tool = manager.get("time_convert_time")
    result = await tool.invoke(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
    assert json.loads(tool.to_model(result))["target"]["datetime"].endswith("T21:00:00+09:00")


async def test_text_pictures_links_and_structured_content_arrive(connect, everything):
    connected = await connect(everything)
    assert await connected.said("all_echo", message="hé") == "Echo: hé"
    picture = await connected.call("all_get-tiny-image")
    (image,) = picture.images
    assert image.media_type == "image/png"
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    assert "MCP logo" in picture.text
    links = await connected.said("all_get-resource-links", count=2)
    assert links.count("demo://resource/dynamic/") == 2
    assert "plaintext resource" in await connected.said("all_get-resource-reference", resourceType="Text", resourceId=1)
    assert "temperature" in await connected.said("all_get-structured-content", location="Chicago")


async def test_wrong_arguments_come_back_as_the_servers_own_words(connect, everything):
    connected = await connect(everything)
    with pytest.raises(ToolError, match="expected number, received string"):
        await connected.call("all_get-sum", a="one", b=2)
    assert await connected.said("all_get-sum", a=1, b=2) == "The sum of 1 and 2 is 3."


async def test_a_long_operation_shows_its_progress(connect, everything):
    connected = await connect(everything)
    shown: list[str] = []
    token = tool_output.set(shown.append)
    try:
        text = await connected.said("all_trigger-long-running-operation", duration=0.4, steps=4)
    finally:
        tool_output.reset(token)
    assert text.startswith("Long running operation completed")
    assert [line.split()[0] for line in shown] == ["1/4", "2/4", "3/4", "4/4"]


async def test_an_interrupted_operation_leaves_the_connection_usable(connect, everything):
    connected = await connect(everything)
    begun = asyncio.Event()
    token = tool_output.set(lambda _: begun.set())
    running = asyncio.create_task(connected.call("all_trigger-long-running-operation", duration=3600, steps=36_000))
    tool_output.reset(token)
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await connected.said("all_echo", message="still here") == "Echo: still here"


async def test_an_operation_that_takes_too_long_is_an_error_and_the_connection_is_usable(connect, everything):
    connected = await connect(everything.model_copy(update={"tool_timeout_sec": 0.5}))
    with pytest.raises(ToolError, match=r"no answer within 0.5 s \(tool_timeout_sec\)"):
        await connected.call("all_trigger-long-running-operation", duration=60, steps=2)
    assert await connected.said("all_echo", message="still here") == "Echo: still here"


async def test_files_are_read_and_written_where_the_server_allows_it(connect, tmp_path):
    connected = await connect(filesystem(tmp_path))
    await connected.call("files_write_file", path=str(tmp_path / "a.txt"), content="one\ntwo\n")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert await connected.said("files_read_text_file", path=str(tmp_path / "a.txt"), head=1) == "one"
    with pytest.raises(ToolError, match="outside allowed directories"):
        await connected.call("files_read_text_file", path="/etc/passwd")


async def test_a_repository_is_committed_to(connect, repository):
    (repository / "a.txt").write_text("one\n")
    connected = await connect(git(repository))
    where = {"repo_path": str(repository)}
    await connected.call("git_git_add", **where, files=["a.txt"])
    await connected.call("git_git_commit", **where, message="Add a")
    assert "Add a" in await connected.said("git_git_log", **where)
    with pytest.raises(ToolError, match="nowhere"):
        await connected.call("git_git_show", **where, revision="nowhere")


async def test_a_server_sees_the_variables_that_it_needs_and_those_that_are_named(connect, monkeypatch):
    for name in ("GITHUB_TOKEN", "CUSTOMERS", "NAMED"):
        monkeypatch.setenv(name, f"value-of-{name}")
    command = ["node", str(EVERYTHING), "stdio"]
    connected = await connect(MCPStdio(name="all", command=command, env_vars=["NAMED"], env={"SET": "${CUSTOMERS}!"}))
    seen = json.loads(await connected.said("all_get-env"))
    assert {"PATH", "HOME", "NAMED", "SET"} <= seen.keys()
    assert not {"GITHUB_TOKEN", "CUSTOMERS"} & seen.keys()
    assert (seen["NAMED"], seen["SET"]) == ("value-of-NAMED", "value-of-CUSTOMERS!")


async def test_no_server_outlives_its_connection(connect, tmp_path, repository):
    before = set(psutil.Process().children(recursive=True))
    connected = await connect(filesystem(tmp_path), git(repository), time())
    started = set(psutil.Process().children(recursive=True)) - before
    assert len(started) >= 3
    await connected.servers.aclose()
    assert psutil.wait_procs(started, timeout=60)[1] == []
