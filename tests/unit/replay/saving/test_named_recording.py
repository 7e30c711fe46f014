"""A recording by its name: a session's from the log, whatever was the end of it, joined with what a notebook of it holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.replay.cell_keys import cell_key
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.sources import session_from_log

HEADER = {"format": 1, "model": "m", "commit": None, "system_prompt": "b" * 64, "tools": "c" * 64}
SESSION = json.dumps({**HEADER, "type": "session", "session": "abc", "workspace": "/w"})
TURN = json.dumps({"type": "turn", "record": {"turn": 1, "prompt": "x"}})
CALL = RecordedCall(id="c1", name="bash", arguments='{"command": "make"}')


def recording_from_log(session: str, folder: Path) -> Recording:
    return session_from_log(session, folder).recording


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def logged(home, tmp_path):
    """Writes the log of a session whose prompts are answered; the last of `open_prompts` has a call that never ended."""

    def logged(session: str, *prompts: str, open_prompts: tuple[str, ...] = ()) -> Path:
        log = SessionLog(session)
        log.append("session", **HEADER, session=session, workspace=str(tmp_path / "work"))
        for number, prompt in enumerate((*prompts, *open_prompts), 1):
            record = TurnRecord(
                turn=number, prompt=prompt, key=cell_key(prompt, ""), cell_id=f"cell{number}", model="m"
            )
            recorder = TurnRecorder(log, str, record)
            recorder.reply(RecordedStep(content=f"Answer {number}.", calls=() if number <= len(prompts) else (CALL,)))
            if number <= len(prompts):
                recorder.end("done")
        log.close()
        return log.path

    return logged


def test_one_cell_per_turn_in_order_and_the_recording_reads_back(logged, tmp_path):
    logged("abc-1", "first", "second\nwith a line", "first")
    recording = recording_from_log("abc-1", tmp_path / "notebooks")
    nb, name = session_notebook(recording), recording.name
    sources = [cell["source"] for cell in nb["cells"]]
    assert sources == [
        f"%load_ext kin_nb\n%kin replay {name}",
        "%%kin\nfirst",
        "%%kin\nsecond\nwith a line",
        "%%kin\nfirst",
    ]
    found = read_recording(nb)
    assert found.name == name
    assert [(t.prompt, t.outcome) for t in found.turns] == [
        ("first", "done"),
        ("second\nwith a line", "done"),
        ("first", "done"),
    ]
    assert found.meta.workspace.path == "../work", "relative to the notebook's folder"
    assert "Answer 2." in str(nb["cells"][2]["outputs"])


def test_a_session_that_was_cut_off_ends_interrupted(logged, tmp_path):
    path = logged("abc-1", "first", open_prompts=("second",))
    with path.open("ab") as log:
        log.write(b'{"type": "result", "call": {"id": "c1", "outp')
    last = recording_from_log("abc-", tmp_path).turns[-1]
    assert (last.outcome, last.calls[0].status) == ("interrupted", "interrupted")


def test_the_beginning_of_an_id_is_enough_while_it_is_the_only_one(logged, tmp_path):
    logged("abcd-1", "one")
    logged("abcd-2", "two")
    assert recording_from_log("abcd-2", tmp_path).session == "abcd-2"
    with pytest.raises(ReplayError, match=r"^2 session ids start with abcd: abcd-1, abcd-2\. Give more characters\.$"):
        recording_from_log("abcd", tmp_path)


@pytest.mark.parametrize("session", ["xyz", "", "*", "../sessions/abc", "."])
def test_a_session_that_is_unknown(logged, home, tmp_path, session):
    logged("abc-1", "one")
    with pytest.raises(ReplayError, match=f"in {home}/sessions"):
        recording_from_log(session, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the session header is missing"),
        ("not json\n", "the session header is missing"),
        (f"{TURN}\n" + '{"type": "run", "call": {"id": "c1"}}\n', "the session header is missing"),
        (f"{SESSION}\n{TURN}\n{TURN}\n", "is not a log that this version can read"),
        (json.dumps({"type": "session", "session": "abc"}) + f"\n{TURN}\n", "is not a log that this version can read"),
        (
            json.dumps({"type": "turn", "record": {"turn": "x"}}) + "\n",
            "record 1, of type turn, is not valid in this version",
        ),
        (f"{SESSION}\n", "abc has no turns"),
    ],
)
def test_a_log_that_cannot_be_used_is_named(home, tmp_path, text, said):
    log = home / "sessions" / "abc" / "log.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    with pytest.raises(ReplayError, match=said):
        recording_from_log("abc", tmp_path)


def test_sessions_are_looked_for_where_the_settings_keep_them(logged, home, tmp_path):
    logged("abc-1", "one")
    (home / "sessions").rename(tmp_path / "elsewhere")
    (home / "config.toml").write_text(f'[session_logging]\nsave_dir = "{tmp_path / "elsewhere"}"\n')
    assert recording_from_log("abc-1", tmp_path).session == "abc-1"
    (home / "config.toml").write_text("[session_logging]\nsave_dir = 1\n")
    with pytest.raises(ReplayError, match="save_dir"):
        recording_from_log("abc-1", tmp_path)


@pytest.fixture
def worked_in(logged, tmp_path):
    """A session notebook with cells of a person's, beside a log that went on."""
    logged("abc-1", "first")
    path = tmp_path / "m.ipynb"
    SaveCommand("abc-", path).run()
    nb = json.loads(path.read_text())
    nb["cells"].insert(0, dict(new_markdown_cell("# A heading", id="h")))
    nb["cells"].append(dict(new_code_cell("important = 1", id="i")))
    path.write_text(json.dumps(nb))
    (tmp_path / "home" / "sessions" / "abc-1" / "log.jsonl").unlink()
    logged("abc-1", "first", "second")
    return path


def sources(path: Path) -> list[str]:
    return [cell["source"] for cell in load_notebook(path)["cells"]]


@pytest.mark.parametrize(
    "damage", [lambda nb: None, lambda nb: nb["cells"][2]["metadata"]["kin"]["records"][0].update(prompt="x")]
)
def test_a_save_from_the_log_onto_a_notebook_of_the_session_keeps_what_a_person_wrote_there(worked_in, damage):
    nb = json.loads(worked_in.read_text())
    damage(nb)
    worked_in.write_text(json.dumps(nb))
    SaveCommand("abc-", worked_in).run()
    first, head, *rest = sources(worked_in)
    assert (first, head.startswith("%load_ext kin_nb\n%kin replay abc-1@")) == ("# A heading", True)
    assert rest == ["%%kin\nfirst", "important = 1", "%%kin\nsecond"]
    assert len(read_recording(load_notebook(worked_in)).turns) == 2


def test_a_save_from_the_log_onto_another_sessions_notebook_takes_nothing_from_it(worked_in, logged):
    logged("other", "else")
    with pytest.raises(ReplayError, match="has turn 1 of session abc-1"):
        SaveCommand("other", worked_in).run()
    assert "# A heading" in sources(worked_in)


def test_a_notebook_that_a_merge_left_unfinished_is_no_place_for_a_save_from_the_log(worked_in):
    nb = json.loads(worked_in.read_text())
    nb["metadata"]["nbdime-conflicts"] = {}
    worked_in.write_text(json.dumps(nb))
    with pytest.raises(ReplayError, match=r"m\.ipynb: nbmerge left a conflict"):
        SaveCommand("abc-", worked_in).run()
    assert "important = 1" in sources(worked_in)
