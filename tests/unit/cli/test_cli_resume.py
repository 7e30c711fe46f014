"""`kin-nb run --continue` and `--resume ID`: the same conversation, in the same log, in the session's own folder."""

from __future__ import annotations

import json
import shutil
import threading

import pytest

from tests.model_server import tool_call
from tests.unit.cli.conftest import EDIT, LOOK, conversation, log_records, logs, session_ids

FIRST = [("user", "What is x?"), ("assistant", "I look."), ("tool", "call00001"), ("assistant", "x is 1.")]


@pytest.fixture
def first(kin, server, home) -> str:
    """The id of a session of one turn."""
    server.enqueue("I look.", calls=[LOOK])
    server.enqueue("x is 1.")
    assert kin("run", "-p", "What is x?").returncode == 0
    return session_ids(home)[0]


def test_continue_sends_the_conversation_again_and_writes_the_same_log(kin, server, home, first):
    server.enqueue("Nothing else.")
    done = kin("run", "-p", "And y?", "--continue")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Nothing else.\n", "")
    assert conversation(server.requests[-1]) == [*FIRST, ("user", "And y?")]
    assert server.requests[-1]["messages"][:5] == [*server.requests[1]["messages"], server.requests[-1]["messages"][4]]
    (log,) = logs(home)
    assert log.parent.name == first
    types = [record["type"] for record in log_records(log)]
    assert types.count("session") == 1
    assert types.count("resumed") == 1
    assert types.count("turn") == 2


def test_continue_takes_the_newest_of_this_folder(kin, server, workspace, tmp_path, first):
    other = tmp_path / "other"
    other.mkdir()
    server.enqueue("Elsewhere.")
    kin("run", "-p", "Where?", cwd=other)
    server.enqueue("Here.")
    kin("run", "-p", "And y?", "--continue")
    assert conversation(server.requests[-1])[:4] == FIRST


def test_continue_where_no_session_was_says_so(kin, server, tmp_path, first):
    other = tmp_path / "other"
    other.mkdir()
    done = kin("run", "-p", "And y?", "--continue", cwd=other)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"No sessions of {other} in ")
    assert len(server.requests) == 2


@pytest.mark.parametrize("length", [8, 36])
def test_resume_takes_an_id_or_the_beginning_of_one(kin, server, first, length):
    server.enqueue("Nothing else.")
    assert kin("run", "-p", "And y?", "--resume", first[:length]).returncode == 0
    assert conversation(server.requests[-1]) == [*FIRST, ("user", "And y?")]


def test_resume_from_another_folder_works_in_the_sessions_own(kin, server, workspace, tmp_path, first):
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.py").write_text("x = 'the wrong one'\n")
    server.enqueue(calls=[EDIT])
    server.enqueue("Done.")
    done = kin("run", "-p", "Make x 3.", "--resume", first, "--mode", "accept-edits", cwd=other)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr == f"Working in {workspace}, the folder of the session.\n"
    assert (workspace / "a.py").read_text() == "x = 3\n"
    assert (other / "a.py").read_text() == "x = 'the wrong one'\n"


def test_resume_in_a_folder_that_is_given_works_there(kin, server, workspace, tmp_path, first):
    copy = shutil.copytree(workspace, tmp_path / "copy")
    server.enqueue(calls=[EDIT])
    server.enqueue("Done.")
    assert kin("run", "-p", "Make x 3.", "--resume", first, "--mode", "accept-edits", "--workdir", copy).stderr == ""
    assert (copy / "a.py").read_text() == "x = 3\n"
    assert (workspace / "a.py").read_text() == "x = 1\n"


def test_resume_of_a_session_whose_folder_is_gone_works_here_and_says_so(kin, server, workspace, tmp_path, first):
    moved = workspace.rename(tmp_path / "moved")
    server.enqueue("Here I am.", calls=[LOOK])
    server.enqueue("Still 1.")
    done = kin("run", "-p", "And now?", "--resume", first, cwd=moved)
    assert (done.returncode, done.stdout) == (0, "Still 1.\n")
    assert done.stderr == (
        f"warning: the folder of the session, {workspace}, does not exist any more; working in {moved}\n"
    )
    assert "x = 1" in server.requests[-1]["messages"][-1]["content"]


def test_the_sessions_own_folder_brings_what_it_is_trusted_with(kin, server, project, tmp_path, first):
    kin("trust")
    server.enqueue("Hello.")
    assert kin("run", "-p", "Hello?", "--resume", first, cwd=tmp_path).returncode == 0
    system, *_, prompt = server.requests[-1]["messages"]
    assert "Always write tests." in prompt["content"]
    assert system == server.requests[0]["messages"][0], "requests begin as before"


def test_an_unknown_id_is_an_error_that_lists_the_newest(kin, server, first):
    done = kin("run", "-p", "x", "--resume", "nonesuch")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("No session nonesuch in ")
    assert f"{first[:8]} (What is x?)" in done.stderr
    assert len(server.requests) == 2


def test_an_ambiguous_id_is_an_error_that_lists_the_candidates(kin, server, home, first):
    folder = home / ".kin-code" / "sessions" / first
    for name in ("twin-1", "twin-2"):
        shutil.copytree(folder, folder.with_name(name))
    done = kin("run", "-p", "x", "--resume", "twin")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "2 session ids start with twin: twin-1, twin-2. Give more characters.\n"


def test_a_session_with_a_damaged_log_is_named(kin, server, home, first):
    (log,) = logs(home)
    lines = log.read_text().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), "step": 7})
    log.write_text("\n".join(lines))
    done = kin("run", "-p", "x", "--resume", first)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{log}: record 3, of type reply, ")


def test_a_session_that_another_process_has_open_is_left_to_it(kin_process, kin, server, first):
    hold = threading.Event()
    server.enqueue("Wait.", hold=hold)
    try:
        thread = threading.Thread(target=kin_process, args=("run", "-p", "Take your time.", "--continue"))
        thread.start()
        server.wait_for_request(3)
        done = kin("run", "-p", "x", "--resume", first[:8])
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Session {first} is open elsewhere: in another kernel or terminal.\n")
    finally:
        hold.set()
        thread.join()
    server.enqueue("Now.")
    assert kin("run", "-p", "x", "--resume", first[:8]).returncode == 0


def test_another_model_and_mode_continue_with_the_same_conversation(kin, server, home, first):
    config = home / ".kin-code" / "config.toml"
    config.write_text(f'{config.read_text()}\n[[models]]\nname = "other"\nprovider = "here"\n')
    server.enqueue("Planned.")
    assert kin("run", "-p", "Plan.", "--continue", "--model", "other", "--mode", "plan").returncode == 0
    assert server.requests[-1]["model"] == "other"
    assert conversation(server.requests[-1])[:4] == FIRST


def test_json_of_a_resumed_session_holds_what_was_said_before(kin, server, first):
    server.enqueue("Nothing else.")
    done = kin("run", "-p", "And y?", "--continue", "--output", "json")
    roles = [message["role"] for message in json.loads(done.stdout)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]


def test_a_turn_that_was_cut_off_is_sent_as_one_that_a_strict_server_takes(kin, server, home, first):
    server.enqueue(calls=[LOOK, tool_call("read_file", path="b.py")])
    server.enqueue("Gone.")
    kin("run", "-p", "And b?", "--continue")
    (log,) = logs(home)
    lines = log.read_text().splitlines(keepends=True)
    last_run = max(number for number, line in enumerate(lines) if '"type":"run"' in line)
    log.write_text("".join(lines[:last_run]) + lines[last_run][:20])
    server.enqueue("Again.")
    assert kin("run", "-p", "Continue.", "--continue").stdout == "Again.\n"
    roles = [role for role, _ in conversation(server.requests[-1])]
    assert roles[-5:] == ["user", "assistant", "tool", "tool", "user"]
