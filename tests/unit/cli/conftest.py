"""A person at the command line: a home, a workspace, a model server; `kin-nb` as a process, and in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kin_nb.cli import main
from tests.model_server import ModelServer, tool_call
from tests.notebook.people import kin_nb, write_config

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")
LOOK = tool_call("read_file", path="a.py")


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


Kin = Callable[..., Done]


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def kin_process(home, workspace):
    """`kin-nb ARGV...` in the workspace, as a process of its own."""
    return lambda *argv, **more: kin_nb(*argv, home=home, cwd=workspace, **more)


@pytest.fixture
def kin(home, workspace, monkeypatch, capsys) -> Kin:
    """`kin-nb ARGV...` in the workspace (or `cwd`), in this process: it costs milliseconds."""
    home.mkdir(exist_ok=True)
    for name in [name for name in os.environ if name.startswith("KIN_") or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))

    def run(*argv: str | Path, cwd: Path = workspace) -> Done:
        monkeypatch.chdir(cwd)
        try:
            code = main(list(map(str, argv)))
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def server(model_server, home) -> ModelServer:
    """The model server, and settings that name it."""
    write_config(home, model_server.url)
    return model_server


@pytest.fixture
def settings(home) -> Callable[[str], Path]:
    """Add lines to `~/.kin-code/config.toml`, before its tables."""

    def add(text: str) -> Path:
        path = home / ".kin-code" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n{path.read_text() if path.exists() else ''}")
        return path

    return add


@pytest.fixture
def project(workspace) -> Path:
    """The workspace with a file of each kind that only trust brings into force."""
    (workspace / ".kin-code" / "tools").mkdir(parents=True)
    (workspace / ".kin-code" / "config.toml").write_text('instructions = "Speak like the project."\n')
    (workspace / ".kin-code" / "tools" / "shout.py").write_text(TOOL)
    (workspace / "AGENTS.md").write_text("Always write tests.\n")
    return workspace


TOOL = """
from pydantic import BaseModel

from kin_nb.core.tools.base import BaseTool, BaseToolConfig, BaseToolState


class Args(BaseModel):
    text: str


class Result(BaseModel):
    text: str


class Shout(BaseTool[Args, Result, BaseToolConfig, BaseToolState]):
    description = "Say it louder"

    async def run(self, args):
        return Result(text=args.text.upper())
"""


def logs(home: Path) -> list[Path]:
    return sorted((home / ".kin-code" / "sessions").glob("*/log.jsonl"))


def session_ids(home: Path) -> list[str]:
    return [log.parent.name for log in logs(home)]


def log_records(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def conversation(request: dict[str, Any]) -> list[tuple[str, str]]:
    """(role, content) of what a request holds after its system message; of a tool's answer the id of its call."""
    messages = request["messages"][1:]
    return [(message["role"], message.get("tool_call_id") or message.get("content") or "") for message in messages]
