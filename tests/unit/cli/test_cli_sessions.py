"""`kin-nb sessions`: a table, one session, its document."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.model_server import tool_call
from tests.notebook.people import environment
from tests.unit.cli.conftest import LOOK, logs, session_ids

NONE_YET = "No sessions yet. `kin-nb run` starts one, and so does the first %%kin cell of a notebook.\n"


@pytest.fixture
def two(kin, server, home) -> list[str]:
    """The ids of two sessions, the newest first."""
    server.enqueue("I look.", calls=[LOOK])
    server.enqueue("x is 1.")
    kin("run", "-p", "What is x?\nTell me.")
    (first,) = session_ids(home)
    server.enqueue("Hello \N{SNOWMAN}.")
    kin("run", "-p", "Hello?")
    return [*(set(session_ids(home)) - {first}), first]


@pytest.mark.parametrize("words", [[], ["list"]])
def test_an_empty_home_has_none_and_none_is_made(kin, home, words):
    assert kin("sessions", *words) == (0, NONE_YET, "")
    assert list(home.iterdir()) == []


def test_show_without_any_says_so(kin):
    done = kin("sessions", "show")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("No sessions in ")


def test_the_list_is_a_table_newest_first(kin, two):
    done = kin("sessions")
    heading, *rows = done.stdout.splitlines()
    assert heading.split("  ")[0] == "id"
    assert [row.split()[0] for row in rows] == [name[:8] for name in two]
    at = heading.index("first prompt")
    assert [row[at:] for row in rows] == ["Hello?", "What is x? Tell me."]
    assert kin("sessions", "list").stdout == done.stdout


def test_what_to_do_next_is_not_in_what_a_program_reads(kin, two):
    done = kin("sessions")
    for command in ("kin-nb sessions show ID", "kin-nb run --resume ID", "kin-nb save ID FILE"):
        assert command in done.stderr
        assert command not in done.stdout


def test_the_list_of_one_workspace(kin, server, two, workspace, tmp_path):
    server.enqueue("Elsewhere.")
    kin("run", "-p", "Where?", cwd=tmp_path)
    assert "Where?" in kin("sessions", "list").stdout
    listed = kin("sessions", "list", "--workdir", ".")
    assert "Where?" not in listed.stdout
    assert len(listed.stdout.splitlines()) == 3
    assert kin("sessions", "list", "--workdir", workspace / "none").stdout.startswith(
        f"No sessions in {workspace}/none yet."
    )


def test_show_tells_the_newest_turn_by_turn_or_the_one_that_is_named(kin, two):
    assert kin("sessions", "show").stdout.startswith(f"Session {two[0]}\n")
    done = kin("sessions", "show", two[1][:6])
    assert done.returncode == 0
    assert done.stdout.startswith(f"Session {two[1]}\nin ")
    assert "1. What is x?\n   read_file\n   done · 2 model requests" in done.stdout


def test_show_as_json_is_the_whole_document(kin, two):
    done = kin("sessions", "show", two[1], "--json")
    document = json.loads(done.stdout)
    assert list(document) == ["metadata", "messages", "stats", "config_snapshot"]
    assert document["metadata"]["session_id"] == two[1]
    assert [message["role"] for message in document["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert document["stats"]["steps"] == 2
    assert document["config_snapshot"]["active_model"] == "scripted"


@pytest.fixture
def long_one(kin, server, home) -> str:
    """The id of a session with a call whose output the model got a part of: call00001, as the server counts."""
    server.enqueue(None, calls=[tool_call("bash", command="seq 20000")])
    server.enqueue("Done.")
    kin("run", "-p", "Count.", "--mode", "auto-approve")
    (name,) = session_ids(home)
    return name


def test_all_of_a_long_output_is_printed_and_its_call_is_named(kin, long_one):
    assert "\n   bash\n   full output of bash: --output call00001\n" in kin("sessions", "show").stdout
    done = kin("sessions", "show", long_one[:8], "--output", "call00001")
    assert done == (0, "".join(f"{number}\n" for number in range(1, 20_001)), "")


def test_the_output_of_a_short_call_is_printed_as_it_was_told(kin, two):
    assert kin("sessions", "show", two[1], "--output", "call00001") == (0, "     1\tx = 1\n", "")


def test_an_output_does_not_steer_the_terminal(kin, server, monkeypatch):
    server.enqueue(None, calls=[tool_call("bash", command=r"printf '\033]0;title\007\033[1mbold\033[0m\n'")])
    server.enqueue("Done.")
    kin("run", "-p", "Print.", "--mode", "auto-approve")
    shown = ("sessions", "show", "--output", "call00001")
    assert kin(*shown).stdout == "\x1b]0;title\x07\x1b[1mbold\x1b[0m\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert kin(*shown).stdout == "bold\n"


def test_an_output_that_is_not_there_is_an_error_that_says_which_are(kin, home, long_one):
    done = kin("sessions", "show", "--output", "call00009")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"No tool call call00009 in session {long_one}. The newest: call00001 (bash).\n"
    (file,) = (home / ".kin-code" / "sessions" / long_one / "outputs").iterdir()
    file.unlink()
    done = kin("sessions", "show", "--output", "call00001")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{file}: cannot be read (No such file or directory).")


def test_the_document_and_one_output_are_asked_for_one_at_a_time(kin, long_one):
    assert kin("sessions", "show", "--json", "--output", "call00001").returncode == 2


@pytest.mark.parametrize(("name", "said"), [("nonesuch", "No session nonesuch in "), ("abc", "No session abc in ")])
def test_a_name_of_no_session_lists_the_newest(kin, two, name, said):
    done = kin("sessions", "show", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(said)
    assert two[0][:8] in done.stderr


@pytest.mark.parametrize("damage", [b"", b"\x00\xff\n", b"[]\n", b'{"type":"session"}\n', b'{"type":"session"' * 1000])
def test_a_broken_log_is_left_out_of_the_list_and_named_when_asked_for(kin, home, two, damage):
    log = home / ".kin-code" / "sessions" / two[0] / "log.jsonl"
    log.write_bytes(damage)
    listed = kin("sessions")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == [two[1][:8]]
    for option in ([], ["--json"]):
        done = kin("sessions", "show", two[0], *option)
        assert "Traceback" not in done.stderr
        if done.returncode:
            assert (done.returncode, done.stdout) == (1, "")
            assert str(log) in done.stderr
        else:
            assert damage == b'{"type":"session"}\n', "a header alone is a session without turns"


def test_a_log_that_was_cut_in_the_middle_of_a_line_is_shown_as_far_as_it_goes(kin, home, two):
    log = home / ".kin-code" / "sessions" / two[1] / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-100])
    done = kin("sessions", "show", two[1])
    assert done.returncode == 0
    assert "interrupted" in done.stdout
    assert len(kin("sessions").stdout.splitlines()) == 3


def test_a_log_that_no_one_may_read_stops_nothing_else(kin, home, two):
    log = home / ".kin-code" / "sessions" / two[0] / "log.jsonl"
    log.unlink()
    log.mkdir()
    assert len(kin("sessions").stdout.splitlines()) == 2


def test_broken_settings_are_an_error_with_their_place(kin, home, two):
    config = home / ".kin-code" / "config.toml"
    config.write_text("x = \n")
    for words in (["sessions"], ["sessions", "show"]):
        done = kin(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"{config}:1: not valid TOML")


def test_a_reader_that_leaves_early_is_no_failure_to_complain_about(server, kin, home, workspace, two):
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-m", "kin_nb.cli", "sessions", "show", "--json"]
    with os.fdopen(write, "w") as broken:
        done = subprocess.run(
            argv,
            cwd=workspace,
            env=environment(home),
            stdout=broken,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.returncode == 1
    assert len(logs(home)) == 2


def test_an_encrypted_session_needs_its_key(kin, server, home, settings):
    table = '\n[session_logging]\nencrypt = "key-file"\n'
    path = settings("")
    path.write_text(path.read_text() + table)
    server.enqueue("Hello.")
    done = kin("run", "-p", "Hello?")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert "new key, ~/.kin-code/session.key" in done.stderr
    (name,) = session_ids(home)
    assert kin("sessions").stdout.splitlines()[1].endswith("Hello?")
    assert kin("sessions", "show", name, "--json").returncode == 0
    (home / ".kin-code" / "session.key").unlink()
    assert kin("sessions").stdout.splitlines()[1].endswith("(encrypted)")
    for words in (["sessions", "show", name], ["run", "--resume", name, "-p", "x"], ["run", "--continue", "-p", "x"]):
        done = kin(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert "its key file ~/.kin-code/session.key does not exist" in done.stderr
    done = kin("save", name, "x.ipynb")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not exist" in done.stderr
