"""`kin-nb run -p "/command"`: about a stored session, as plain text, with an exit code."""

from __future__ import annotations

import json

import pytest

from tests.flow import FLOW
from tests.model_server import tool_call
from tests.table import each_row
from tests.unit.cli.conftest import log_records, logs, session_ids


@pytest.fixture
def first(kin, server, home, workspace) -> str:
    """The id of a session whose one turn changed a.py and made b.txt."""
    edit = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")
    server.enqueue("I change.", calls=[edit, tool_call("write_file", path="b.txt", content="b\n")])
    server.enqueue("Changed.")
    assert kin("run", "-p", "Change it.", "--mode", "auto-approve").returncode == 0
    return session_ids(home)[0]


@pytest.fixture
def flow(home):
    folder = home / ".kin-code" / "skills" / "mend"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(FLOW)


def test_help_needs_no_session_and_no_model(kin):
    done = kin("run", "-p", "/help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "/undo [N]" in done.stdout


def test_a_command_begins_no_session(kin, server, home):
    assert kin("run", "-p", "/context").returncode == 0
    assert kin("run", "-p", "/tools").returncode == 0
    assert (logs(home), server.requests) == ([], [])


def test_context_and_cost_of_a_resumed_session(kin, server, first):
    asked = len(server.requests)
    assert "tool results" in kin("run", "-p", "/context", "--continue").stdout
    assert "1 turn" in kin("run", "-p", "/cost", "--resume", first[:8]).stdout
    assert len(server.requests) == asked


def test_undo_works_on_a_resumed_session_and_is_kept_in_it(kin, server, workspace, home, first):
    done = kin("run", "-p", "/undo", "--continue")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Undid turn 1",
        "  restored: a.py +1 -1",
        "  removed: b.txt +0 -1",
        "  To restore it: `%kin redo`",
    ]
    assert ((workspace / "a.py").read_text(), (workspace / "b.txt").exists()) == ("x = 1\n", False)
    assert log_records(logs(home)[0])[-1]["type"] != "turn"
    server.enqueue("Nothing was.")
    assert kin("run", "-p", "What was changed?", "--continue").returncode == 0
    assert "Change it." not in json.dumps(server.requests[-1]["messages"])


def test_redo_after_an_undo_of_another_process(kin, workspace, first):
    kin("run", "-p", "/undo", "--continue")
    assert kin("run", "-p", "/redo", "--continue").stdout.startswith("Restored turn 1\n")
    assert ((workspace / "a.py").read_text(), (workspace / "b.txt").read_text()) == ("x = 3\n", "b\n")


def test_last_and_save(kin, workspace, first):
    assert "Changed." in kin("run", "-p", "/last", "--continue").stdout
    assert kin("run", "-p", "/save out", "--continue").returncode == 0
    assert kin("run", "-p", "/save out.json", "--continue").returncode == 0
    assert kin("run", "-p", "/load out.ipynb").stdout.startswith("Loaded out.ipynb: 1 turn")


@each_row(
    ("prompt", "code", "said"),
    [
        ("/undoo", 2, "Unknown command /undoo. Did you mean /undo?"),
        ("/undo", 1, "There is nothing to undo"),
        ("/model other", 1, "kin-nb run --model other"),
        ("/mode plan", 1, "kin-nb run --mode plan"),
        ("/replay a@b", 1, "In a terminal: kin-nb replay NOTEBOOK"),
        ("/load gone.ipynb", 1, "gone.ipynb"),
        ("/flow", 2, "Usage: /flow:NAME"),
        ("/flow:mnd", 1, "Did you mean mend?"),
    ],
)
def test_an_error_is_one_or_two_lines_and_an_exit_code(kin, server, flow, prompt, code, said):
    done = kin("run", "-p", prompt)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert server.requests == []


def test_an_escaped_command_is_a_prompt(kin, server):
    server.enqueue("It undoes.")
    assert kin("run", "-p", "//undo is what?").stdout == "It undoes.\n"
    assert server.requests[0]["messages"][-1]["content"] == "/undo is what?"


def test_a_flow_runs_its_turns_and_prints_the_last_answer(kin, server, flow, home):
    for answer in ("One fails.", "<choice>no</choice>", "Mended.", "All pass.", "Done. <choice>yes</choice>"):
        server.enqueue(answer)
    done = kin("run", "-p", "/flow:mend only the parser")
    assert (done.returncode, done.stdout) == (0, "Done. <choice>yes</choice>\n")
    asked = [request["messages"][-1]["content"] for request in server.requests]
    assert asked[0] == "Run the tests.\n\nonly the parser"
    assert asked[2:4] == ["Mend the first.", "Run the tests."]
    assert [line["type"] for line in log_records(logs(home)[0])].count("turn") == 5


def test_a_flow_that_does_not_reach_its_end_says_where_and_fails(kin, server, flow):
    server.enqueue("Ran.")
    for _ in range(4):
        server.enqueue("I cannot tell.")
    done = kin("run", "-p", "/flow:mend")
    assert done.returncode == 1
    assert "The flow mend stopped at “Do they pass?”: the model was asked 4 times" in done.stderr
