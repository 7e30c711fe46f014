"""What the messages of `kin-nb` advise is executed here: it must work where the message appeared."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.model_server import tool_call
from tests.unit.cli.conftest import EDIT, LOOK, Done


def advised_commands(done: Done) -> list[list[str]]:
    """The arguments of each complete `kin-nb ...` command in a message: without a placeholder such as TEXT or ID."""
    found = re.findall(r"kin-nb ((?:[^\s`.;,()]|\.\w|\.$)(?:[^`;,\n()]*?))(?=[`;,()]|\.(?:\s|$)|\n|$)", done.stderr)
    return [shlex.split(text) for text in found if not re.search(r"\b(?:TEXT|ID|NAME|NOTEBOOK|DIR|FILE|ALIAS)\b", text)]


def suggestions(done: Done) -> list[str]:
    (text,) = re.findall(r"Did you mean (.*?)\?", done.stderr)
    return re.split(r" or |, ", text)


@pytest.mark.parametrize("option", [("--max-requests", "1"), ("--max-turns", "1")])
def test_a_session_stopped_by_a_limit_continues_with_the_advised_command(kin, server, option):
    server.enqueue("I look.", calls=[LOOK])
    stopped = kin("run", "-p", "What is x?", *option)
    assert stopped.returncode == 3
    (command,) = advised_commands(stopped)
    server.enqueue("x is 1.")
    assert kin(*command)[:2] == (0, "x is 1.\n")
    assert [message["role"] for message in server.requests[-1]["messages"]].count("user") == 2, "the same conversation"


def test_the_advised_command_keeps_the_folder_and_the_mode(kin, server, workspace, tmp_path):
    server.enqueue("I edit.", calls=[EDIT])
    stopped = kin("run", "-p", "Edit.", "--max-requests", "1", "--mode", "plan", "--workdir", workspace, cwd=tmp_path)
    (command,) = advised_commands(stopped)
    assert ["--workdir", str(workspace)] == command[command.index("--workdir") :][:2]
    assert command[command.index("--mode") :][:2] == ["--mode", "plan"]
    server.enqueue("Planned.")
    assert kin(*command, cwd=tmp_path)[:2] == (0, "Planned.\n")


def test_a_session_stopped_by_its_price_continues_with_the_advised_command(kin, server, home):
    config = home / ".kin-code" / "config.toml"
    config.write_text(f"{config.read_text()}input_price = 3.0\noutput_price = 15.0\n")
    server.enqueue("I look.", calls=[LOOK], usage={"prompt_tokens": 1000, "completion_tokens": 200})
    stopped = kin("run", "-p", "What is x?", "--max-price", "0.001")
    assert stopped.returncode == 3
    (command,) = advised_commands(stopped)
    server.enqueue("x is 1.")
    assert kin(*command)[:2] == (0, "x is 1.\n")


def test_a_refusal_inside_a_subagent_advises_what_shows_its_reason_and_a_mode_that_allows_it(kin, server):
    task = tool_call("task", description="make x 3", prompt="Make x 3.", profile="general")

    def ask(*options: str) -> Done:
        server.enqueue(calls=[task])
        server.enqueue(calls=[EDIT])
        server.enqueue("Tried.")
        server.enqueue("Tried.")
        return kin("run", "-p", "Make x 3.", *options)

    refused = ask()
    assert refused.returncode == 1
    (command,) = advised_commands(refused)
    assert "edit_file" in kin(*command).stdout
    (mode,) = re.findall(r"--mode ([a-z-]+)", refused.stderr)
    assert ask("--mode", mode).returncode == 0


@pytest.mark.parametrize(
    ("option", "typed"),
    [("--model", "script"), ("--mode", "plam"), ("--mode", "accept"), ("--mode", "default-mode")],
)
def test_each_suggested_name_works(kin, server, option, typed):
    wrong = kin("run", "-p", "Hello?", option, typed)
    assert wrong.returncode in {1, 2}
    for name in suggestions(wrong):
        server.enqueue("Hello.")
        assert kin("run", "-p", "Hello?", option, name).stdout == "Hello.\n"


@pytest.mark.parametrize("policy", ["yolo", "auto-edit", "on-request"])
def test_the_mode_that_is_named_for_a_policy_works(kin, server, policy):
    wrong = kin("run", "-p", "Hello?", "--mode", policy)
    (mode,) = re.findall(r"its mode is ([a-z-]+)\.", wrong.stderr)
    server.enqueue("Hello.")
    assert kin("run", "-p", "Hello?", "--mode", mode).stdout == "Hello.\n"


@pytest.mark.parametrize("typed", ["/hepl", "/sesions", "/staus"])
def test_each_suggested_command_works(kin, server, typed):
    for command in suggestions(kin("run", "-p", typed)):
        assert kin("run", "-p", command).returncode == 0


@pytest.mark.parametrize("argv", [["rnu"], ["run", "--mdoe", "plan"], ["run", "--max-request", "x"], ["save"], []])
def test_the_command_that_a_usage_error_names_works(kin, argv):
    wrong = kin(*argv)
    assert wrong.returncode == 2
    commands = re.findall(r"`kin-nb ([^`]+)`", wrong.stderr)
    assert commands
    for command in commands:
        assert kin(*command.split()).returncode == 0, command


@pytest.mark.parametrize(("typed", "key"), [("activ_model", "active_model"), ("model", "active_model")])
def test_the_suggested_setting_is_one(kin, server, settings, home, typed, key):
    path = settings(f'{typed} = "scripted"')
    (name,) = suggestions(kin("config"))
    assert name == key
    lines = [line for line in path.read_text().splitlines() if not line.startswith("active_model")]
    path.write_text("\n".join(lines).replace(f'{typed} = "scripted"', f'{name} = "scripted"'))
    assert kin("config").stderr == ""
