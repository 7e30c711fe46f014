"""`kin-nb run` works with the user's Python, not with the one that kin_nb is installed in, and offers what a run can use."""

from __future__ import annotations

import pytest

from tests.model_server import tool_call


@pytest.fixture
def users_python(tmp_path, monkeypatch):
    """The programs of an active environment of the user, first on PATH; kin_nb is not installed there."""
    programs = tmp_path / "env" / "bin"
    programs.mkdir(parents=True)
    python = programs / "python"
    python.write_text("#!/bin/sh\necho the user\\'s Python\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("VIRTUAL_ENV", str(programs.parent))
    return python


def test_commands_run_the_python_of_the_active_environment(kin, server, users_python):
    server.enqueue(calls=[tool_call("bash", command="python -m anything && command -v python")])
    server.enqueue("Done.")
    assert kin("run", "-p", "Which Python?", "--mode", "auto-approve").returncode == 0
    result = server.requests[-1]["messages"][-1]["content"]
    assert result.splitlines() == ["the user's Python", str(users_python)]
    system = server.requests[0]["messages"][0]["content"]
    assert f"Python in commands: {users_python} (the active environment, VIRTUAL_ENV)" in system


def test_no_tool_is_offered_that_needs_a_user(kin, server):
    server.enqueue("Done.")
    kin("run", "-p", "Do it.")
    (request,) = server.requests
    names = {tool["function"]["name"] for tool in request["tools"]}
    assert "bash" in names
    assert "ask_user" not in names


def test_the_model_reads_which_python_the_settings_choose(kin, server, home, users_python, tmp_path):
    other = tmp_path / "other" / "python"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    with (home / ".kin-code" / "config.toml").open("a") as file:
        file.write(f'\n[tools.bash]\nenv = {{ PATH = "{other.parent}:/usr/bin:/bin" }}\n')
    server.enqueue("Done.")
    kin("run", "-p", "Which Python?")
    assert f"Python in commands: {other} (on PATH)" in server.requests[0]["messages"][0]["content"]
