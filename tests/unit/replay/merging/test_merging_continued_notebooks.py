"""Notebooks that two people continued, and that only their front ends saved: compared and merged with what they hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.cli import main
from kin_nb.core.records import SessionRecord, TurnRecord
from kin_nb.replay.book import Book
from kin_nb.replay.cell_keys import cell_key
from kin_nb.replay.format.notebook_codec import raw_records, read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.output_records import RECORD_KEY
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import carried_of, recording, turn, undo

TALK = recording(turn(1, "first", cell_id="c1"), turn(2, "second", cell_id="c2"))


def went_on(session: str) -> Recording:
    """What a kernel recorded that went on where TALK ends, with one prompt: its session's name."""
    more = turn(3, session, cell_id=f"c-{session}", id=f"{session:0<16}")
    whole = recording(*TALK.records, more)
    return replace(whole, meta=SessionMeta(session=session))


OURS, THEIRS = went_on("ours"), went_on("theirs")


def live(whole: Recording, record: SessionRecord, source: str) -> Any:
    """The cell that made `record`, as a front end saves it."""
    card = new_output("display_data", {"text/plain": "x"}, metadata=carried_of(whole, record))
    return new_code_cell(source, id=record.cell_id, outputs=[card])


def typed(path: Path, *cells: Any) -> Path:
    """As a front end saves it, with these cells at the end."""
    nb = json.loads(path.read_text())
    nb["cells"].extend(cells)
    path.write_text(json.dumps(nb))
    return path


def notebook(path: Path, whole: Recording) -> Path:
    """The session notebook, opened and continued."""
    more = whole.turns[-1]
    return typed(write_notebook(session_notebook(TALK), path), live(whole, more, f"%%kin\n{more.prompt}"))


@pytest.fixture
def base(tmp_path) -> Path:
    return write_notebook(session_notebook(TALK), tmp_path / "base.ipynb")


@pytest.fixture
def ours(tmp_path) -> Path:
    return notebook(tmp_path / "a.ipynb", OURS)


def test_both_continued_is_a_fork(base, ours, tmp_path, capsys):
    theirs = notebook(tmp_path / "b.ipynb", THEIRS)
    assert main(["merge", str(base), str(ours), str(theirs), "-o", str(tmp_path / "out.ipynb")]) == 0
    assert "A and B both have new turns" in capsys.readouterr().out
    nb = load_notebook(tmp_path / "out.ipynb")
    merged = read_recording(nb)
    assert merged.records == (*TALK.records, OURS.turns[-1], THEIRS.turns[-1])
    assert [each.shown for each in Book.collect(nb).cells] == [(record,) for record in merged.records]
    assert RECORD_KEY not in json.dumps([cell.get("outputs") for cell in nb["cells"]])


def test_a_turn_that_only_one_has_is_a_difference(base, ours, capsys):
    assert main(["diff", str(base), str(ours)]) == 3
    assert "ours" in capsys.readouterr().out
    assert main(["diff", str(ours), str(ours)]) == 0


def test_what_was_changed_is_named_with_the_repair(base, ours, tmp_path, capsys):
    ours.write_text(ours.read_text().replace('"turn": 3', '"turn": 5'))
    for command in (["diff", str(base), str(ours)], ["merge", str(base), str(ours), str(base)]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert "cell 4, turn 5: it was changed" in error
        assert "kin-nb save ours" in error
    assert not list(tmp_path.glob("*merged*"))


def test_an_output_that_was_changed_and_hashed_again_is_refused_with_its_field(base, ours, tmp_path, capsys):
    """It is a record of its own then, under the id of another one."""
    other = OURS.turns[-1].model_copy(update={"message": "not so"})
    theirs = notebook(tmp_path / "b.ipynb", replace(OURS, records=(*TALK.records, other)))
    assert main(["merge", str(base), str(ours), str(theirs)]) == 1
    assert "turn 3 differs in B and A: field message" in capsys.readouterr().err


def test_commands_are_left_out_and_a_prompt_that_was_not_answered_stays_and_is_named(base, ours, tmp_path, capsys):
    """Played, `%kin live` would call a model."""
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
    assert "has no saved answer, so a replay stops there" in said
    sources = [cell["source"] for cell in load_notebook(out)["cells"]]
    assert sources[-1] == "%%kin\ndraft"
    assert not [source for source in sources if "%kin live" in source or "%kin cost" in source]


def test_what_a_named_session_did_stays_its_own(base, tmp_path):
    options = "--session helper"
    asked = turn(1, "help", cell_id="h", id="a" * 16, seq=1).model_copy(update={"key": cell_key("help", options)})
    taken = undo(asked, id="b" * 16, seq=9, cell_id="u")
    helper = replace(recording(asked, taken), meta=SessionMeta(session="helper"))
    ours = write_notebook(session_notebook(TALK), tmp_path / "a.ipynb")
    cells = [live(helper, asked, f"%%kin {options}\nhelp"), live(helper, taken, f"%kin {options} undo")]
    typed(ours, *cells, new_code_cell(f"%kin {options} mode", id="mode"))
    assert main(["merge", str(base), str(ours), str(base), "-o", str(tmp_path / "out.ipynb")]) == 0
    nb = load_notebook(tmp_path / "out.ipynb")
    assert [cell["source"] for cell in nb["cells"][-2:]] == [cell["source"] for cell in cells]
    book = Book.collect(nb)
    assert book.head() == TALK.records[-1]
    assert book.head("helper") == taken
    assert [raw["id"] for _, raw in raw_records(nb)][-2:] == [asked.id, taken.id]
    assert read_recording(nb).session_names == {asked.id: "helper", taken.id: "helper"}


def test_a_session_that_no_one_can_name_is_refused_and_without_that_output_all_is_well(base, ours, tmp_path, capsys):
    nb = json.loads(ours.read_text())
    nb["cells"][-1]["outputs"][0]["metadata"][RECORD_KEY]["session"]["session"] = "../\x1b[31m"
    ours.write_text(json.dumps(nb))
    for command in (["diff", str(base), str(ours)], ["save", str(ours), str(tmp_path / "out.ipynb")]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert "cell 4, kin_recording.session.session" in error
        assert "\x1b" not in error
    assert not (tmp_path / "out.ipynb").exists()
    nb["cells"][-1]["outputs"] = []
    ours.write_text(json.dumps(nb))
    assert main(["save", str(ours), str(tmp_path / "out.ipynb")]) == 0
    assert read_recording(load_notebook(tmp_path / "out.ipynb")) == read_recording(load_notebook(base))


def test_the_turns_that_only_outputs_hold_count_as_those_of_metadata(base, ours, tmp_path):
    """One side has saved with kin_nb, the other with its front end alone: the same turn is one."""
    saved = write_notebook(session_notebook(OURS, source_nb=load_notebook(ours)), tmp_path / "b.ipynb")
    assert main(["merge", str(base), str(ours), str(saved), "-o", str(tmp_path / "out.ipynb")]) == 0
    merged = read_recording(load_notebook(tmp_path / "out.ipynb"))
    assert merged.records == OURS.records
    assert all(isinstance(record, TurnRecord) for record in merged.records)
