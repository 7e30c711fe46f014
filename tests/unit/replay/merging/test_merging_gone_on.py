"""Notebooks that two people went on with, and that only their front ends saved: compared and merged with what they hold."""

from __future__ import annotations

import json

from nbformat.v4 import new_code_cell, new_output

from kin_nb.cli import main
from kin_nb.core.session.records import Place, UndoRecord
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.recording import SessionMeta
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.commands.test_save_command import TALK, asked_live, typed, went_on
from tests.unit.replay.sessions import turn

OURS, THEIRS = (went_on(name, turn(3, name, cell_id=f"c-{name}")) for name in ("ours", "theirs"))


def notebook(path, whole):
    """The session notebook, opened and gone on with."""
    return typed(
        write_notebook(session_notebook(TALK), path), asked_live(whole, 3, whole.session, f"c-{whole.session}")
    )


def test_both_went_on_is_a_fork(tmp_path, capsys):
    base = write_notebook(session_notebook(TALK), tmp_path / "base.ipynb")
    ours, theirs = notebook(tmp_path / "a.ipynb", OURS), notebook(tmp_path / "b.ipynb", THEIRS)
    assert main(["merge", str(base), str(ours), str(theirs), "-o", str(tmp_path / "out.ipynb")]) == 0
    assert "Both went on" in capsys.readouterr().out
    merged = read_recording(load_notebook(tmp_path / "out.ipynb"))
    assert [each.prompt for each in merged.turns] == [*(each.prompt for each in TALK.turns), "ours", "theirs"]
    assert len(merged.undos) == 1


def test_a_turn_that_only_one_has_is_a_difference(tmp_path, capsys):
    base, ours = write_notebook(session_notebook(TALK), tmp_path / "base.ipynb"), notebook(tmp_path / "a.ipynb", OURS)
    assert main(["diff", str(base), str(ours)]) == 3
    assert "ours" in capsys.readouterr().out
    assert main(["diff", str(ours), str(ours)]) == 0


def test_what_was_changed_is_named_with_the_repair(tmp_path, capsys):
    base, ours = write_notebook(session_notebook(TALK), tmp_path / "base.ipynb"), notebook(tmp_path / "a.ipynb", OURS)
    text = ours.read_text()
    ours.write_text(json.dumps(json.loads(text.replace('"turn": 3', '"turn": 5'))))
    helper = carried(turn(1, "help"), SessionMeta(session="helper"), [])
    outputs = [new_output("display_data", {"text/plain": "x"}, metadata=helper)]
    typed(ours, new_code_cell("%%kin --session helper\nhelp", id="h", outputs=outputs))
    assert main(["diff", str(base), str(ours)]) == 1
    error = capsys.readouterr().err
    assert "cell 4, turn 5: it was changed" in error
    assert "clear the output" in error
    assert "kin-nb save ours OUT.ipynb" in error


def test_commands_are_left_out_and_a_prompt_that_was_not_answered_stays_and_is_named(tmp_path, capsys):
    """Played, `%kin live` would call a model."""
    base, ours = write_notebook(session_notebook(TALK), tmp_path / "base.ipynb"), notebook(tmp_path / "a.ipynb", OURS)
    typed(
        ours,
        new_code_cell("%kin live", id="l"),
        new_code_cell("%kin cost", id="k"),
        new_code_cell("%%kin\ndraft", id="d"),
    )
    out = tmp_path / "out.ipynb"
    assert main(["merge", str(base), str(ours), str(base), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Left out: 2 commands." in said
    assert "has no answer in this recording, and a replay stops there" in said
    sources = [cell["source"] for cell in load_notebook(out)["cells"]]
    assert sources[-1] == "%%kin\ndraft"
    assert not [source for source in sources if "%kin live" in source or "%kin cost" in source]


def test_what_a_named_session_undid_stays(tmp_path):
    base, ours = write_notebook(session_notebook(TALK), tmp_path / "base.ipynb"), tmp_path / "a.ipynb"
    undo = UndoRecord(at=1, turns=(1,), to=Place(turn=1))
    card = new_output(
        "display_data", {"text/plain": "x"}, metadata=carried(undo, SessionMeta(session="helper"), [turn(1, "help")], 1)
    )
    cells = [new_code_cell(f"%kin --session helper {each}", id=each) for each in ("undo", "mode")]
    cells[0]["outputs"] = [card]
    typed(write_notebook(session_notebook(TALK), ours), *cells)
    assert main(["merge", str(base), str(ours), str(base), "-o", str(tmp_path / "out.ipynb")]) == 0
    last = load_notebook(tmp_path / "out.ipynb")["cells"][-1]
    assert (last["source"], last["outputs"][0]["metadata"]) == (cells[0]["source"], card["metadata"])


def test_a_session_that_nobody_can_name_leaves_the_repair_that_is_advised(tmp_path, capsys):
    base, ours = write_notebook(session_notebook(TALK), tmp_path / "base.ipynb"), notebook(tmp_path / "a.ipynb", OURS)
    nb = json.loads(ours.read_text())
    nb["cells"][-1]["outputs"][0]["metadata"][KEY]["session"]["session"] = "../\x1b[31m"
    ours.write_text(json.dumps(nb))
    assert main(["diff", str(base), str(ours)]) == 1
    error = capsys.readouterr().err
    assert "kin-nb save SESSION OUT.ipynb" in error
    assert "\x1b" not in error
    assert main(["save", str(ours), str(tmp_path / "out.ipynb")]) == 1
    assert "cell 4, kin_recording.session.session" in capsys.readouterr().err
    assert not (tmp_path / "out.ipynb").exists()
    nb["cells"][-1]["outputs"] = []
    ours.write_text(json.dumps(nb))
    assert main(["save", str(ours), str(tmp_path / "out.ipynb")]) == 0
    assert read_recording(load_notebook(tmp_path / "out.ipynb")) == read_recording(load_notebook(base))
