"""The example that asked an MCP server, re-executed where that server is: it is started, and answers as it did."""

from __future__ import annotations

import json

import psutil

from tests.notebook.people import ROOT, kin_nb
from tests.peers.conftest import PEERS


def test_a_server_that_the_person_names_answers_as_it_did_and_is_gone_afterwards(tmp_path):
    before = set(psutil.pids())
    done = kin_nb(
        *("replay", "--tools", "--approve", "recorded", "examples/investigate.ipynb"),
        home=tmp_path / "home",
        cwd=ROOT,
        KIN_REPLAY_SERVERS=json.dumps([{"name": "git", "command": [str(PEERS / "bin" / "mcp-server-git")]}]),
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "git_git_show] git: git_show" in done.stdout
    assert "played" not in done.stdout
    assert not [pid for pid in set(psutil.pids()) - before if "mcp-server-git" in command_of(pid)]


def command_of(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""
