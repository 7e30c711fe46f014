"""`kin-nb audit`, and `kin-nb run --policy`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kin_nb.core.safety.audit import AuditEntry, AuditLog
from kin_nb.core.safety.policies import CHAIN
from tests.model_server import tool_call
from tests.table import each_row
from tests.unit.cli.conftest import EDIT, LOOK, session_ids

NOW = datetime.now(UTC)
PERSON = {"by": "person", "risk": "medium", "verdict": "allow", "tool": "edit_file"}
ENTRIES = [
    {
        "session": "aaaaaaaa-1",
        "turn": 1,
        **PERSON,
        "time": NOW - timedelta(days=2),
        "summary": "edit a.py",
        "reason": "w",
    },
    {
        "session": "aaaaaaaa-1",
        "turn": 2,
        **PERSON,
        "scope": "session",
        "time": NOW - timedelta(hours=3),
        "edited": True,
    },
    {
        "session": "bbbbbbbb-2",
        "turn": 1,
        "tool": "bash",
        "risk": "high",
        "verdict": "deny",
        "by": "headless",
        "summary": "make",
        "reason": "bash runs a command",
        "note": "not approved",
        "time": NOW - timedelta(minutes=5),
    },
]


@pytest.fixture
def path(home) -> Path:
    return home / ".kin-code" / "audit.jsonl"


@pytest.fixture
def three(path) -> Path:
    log = AuditLog(path)
    for fields in ENTRIES:
        log.record(AuditEntry(**fields))
    return path


def test_without_decisions_it_says_so_and_makes_nothing(kin, home):
    assert kin("audit") == (0, "No decisions to show.\n", "")
    assert list(home.iterdir()) == []


def test_it_is_a_table_with_the_newest_last(kin, three):
    done = kin("audit")
    assert (done.returncode, done.stderr) == (0, "")
    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["time", "session", "turn", "tool", "risk", "decision", "by", "call", "because"]
    at = [heading.index(word) for word in ("session", "tool", "decision", "by", "call", "because")]
    cells = [[row[start:].split("  ")[0].strip() for start in at] for row in rows]
    assert cells == [
        ["aaaaaaaa", "edit_file", "allow", "user", "edit a.py", "w"],
        ["aaaaaaaa", "edit_file", "allow, session, edited", "user", "", ""],
        ["bbbbbbbb", "bash", "deny", "no one to ask", "make", "bash runs a command; note: not approved"],
    ]


@each_row(
    ("words", "which"),
    [
        (["--session", "aaaa"], [0, 1]),
        (["--tool", "bash"], [2]),
        (["--verdict", "deny"], [2]),
        (["--verdict", "allow", "--since", "4h"], [1]),
        (["--since", "10m"], [2]),
        (["--since", "1w"], [0, 1, 2]),
        (["--since", "2001-02-03"], [0, 1, 2]),
        (["--since", "2999-01-01T10:00"], []),
        (["--since", "999999w"], [0, 1, 2]),
        (["-n", "2"], [1, 2]),
        (["-n", "1", "--session", "aaaaaaaa-1"], [1]),
    ],
)
def test_what_was_asked_for(kin, three, words, which):
    done = kin("audit", "--json", *words)
    found = [json.loads(line) for line in done.stdout.splitlines()] if which else []
    assert [(each["session"], each["turn"]) for each in found] == [
        (ENTRIES[i]["session"], ENTRIES[i]["turn"]) for i in which
    ]


@each_row("words", [["-n", "0"], ["-n", "x"], ["--since", "soon"], ["--verdict", "ask"], ["--since", "2x"]])
def test_wrong_usage(kin, words):
    done = kin("audit", *words)
    assert done.returncode == 2
    assert words[1] in done.stderr


def test_broken_lines_are_counted_and_the_rest_is_shown(kin, three):
    with three.open("ab") as file:
        file.write(b"\xff\n{}\n")
    done = kin("audit")
    assert len(done.stdout.splitlines()) == 4
    assert done.stderr.splitlines()[0] == "2 lines of ~/.kin-code/audit.jsonl cannot be read and are not shown."


def test_a_log_that_was_cut_is_shown_with_the_place_and_fails(kin, three):
    lines = three.read_text().splitlines(keepends=True)
    three.write_text("".join([lines[0], lines[2]]))
    done = kin("audit")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 3, "what is there is shown"
    assert done.stderr.splitlines() == [
        "warning: ~/.kin-code: audit.jsonl:2: line number 2 is missing before it.",
        "The audit log was changed or cut by another program.",
    ]
    three.write_text("".join(lines[:2]))
    done = kin("audit", "--session", "no-such")
    assert (done.returncode, done.stdout) == (1, "No decisions to show.\n")
    assert "line number 3 is missing at the end: the log was cut." in done.stderr


def test_a_folder_in_its_place_is_an_error_with_its_name(kin, path):
    path.mkdir(parents=True)
    done = kin("audit")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{path} cannot be read: Is a directory.\n"


def test_a_policy_is_shown_in_words(kin, path):
    log = AuditLog(path)
    for policy in (*(type(policy).__name__ for policy in CHAIN), "DenyAnythingElse"):
        log.record(AuditEntry(**{**ENTRIES[0], "by": policy}))
    _, *rows = kin("audit").stdout.splitlines()
    assert "rule: deny anything else" in rows[-1]
    assert not any(re.search(r"[a-z][A-Z]", row) for row in rows)


def test_a_run_leaves_its_decisions_and_no_secret(kin, server, home, workspace, monkeypatch, path):
    monkeypatch.setenv("MY_API_TOKEN", "hunter2-hunter2")
    server.enqueue(calls=[LOOK])
    server.enqueue(calls=[tool_call("bash", command="touch hunter2-hunter2")])
    server.enqueue("Well.")
    kin("run", "-p", "Go.")
    found = [json.loads(line) for line in kin("audit", "--json").stdout.splitlines()]
    assert [(each["tool"], each["verdict"], each["by"], each["risk"], each["turn"]) for each in found] == [
        ("read_file", "allow", "AllowByRisk", "low", 1),
        ("bash", "deny", "headless", "high", 1),
    ]
    assert {each["workspace"] for each in found} == {str(workspace)}
    assert {each["session"] for each in found} == set(session_ids(home))
    assert "hunter2" not in path.read_text()


def test_switched_off_it_is_not_made(kin, server, settings, path):
    settings("audit = false")
    server.enqueue(calls=[LOOK])
    server.enqueue("Well.")
    assert kin("run", "-p", "Go.").returncode == 0
    assert not path.exists()


# --policy


def test_a_policy_for_one_run(kin, server, workspace):
    for words in ([], ["--policy", "strict"]):
        server.enqueue(calls=[EDIT])
        server.enqueue("I may not.")
        assert kin("run", "-p", "Make x 3.", *words).returncode == 1
    server.enqueue(calls=[EDIT])
    server.enqueue("Done.")
    assert kin("run", "-p", "Make x 3.", "--policy", "auto-edit").returncode == 0
    assert (workspace / "a.py").read_text() == "x = 3\n"


def test_it_comes_before_the_configured_one(kin, server, settings, workspace):
    settings('policy = "yolo"')
    server.enqueue(calls=[LOOK])
    server.enqueue(calls=[tool_call("bash", command="touch made")])
    server.enqueue("I may not.")
    assert kin("run", "-p", "Go.", "--policy", "strict").returncode == 1
    assert not (workspace / "made").exists()
    assert "x = 1" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("mode", ["plan", "default"])
def test_a_mode_that_names_no_policy_goes_with_any(kin, server, mode):
    server.enqueue(calls=[LOOK])
    server.enqueue("Done.")
    assert kin("run", "-p", "Go.", "--policy", "strict", "--mode", mode).returncode == 0


@pytest.mark.parametrize(("mode", "policy"), [("accept-edits", "strict"), ("auto-approve", "auto-edit")])
def test_a_mode_that_means_another_policy_is_a_contradiction(kin, server, mode, policy):
    done = kin("run", "-p", "Go.", "--policy", policy, "--mode", mode)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"--mode {mode} and --policy {policy} contradict each other.\nGive only one of them.\n"
    assert server.requests == []


def test_there_is_no_such_policy(kin):
    done = kin("run", "-p", "Go.", "--policy", "careless")
    assert done.returncode == 2
    assert "strict" in done.stderr
