"""`kin-nb save`: what goes in, what comes out, and what is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.cli.main import main
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import NoRecordingError, RecordingError, ReplayError
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import carried
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.recording import WorkspaceMeta
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import recording, turn

TALK = recording(turn(1, "first ACME-1"), turn(2, "second"), workspace=WorkspaceMeta(path="work"))


@pytest.fixture
def saved(tmp_path):
    """Writes a session notebook after `change`."""

    def saved(change=lambda nb: None, name: str = "talk.ipynb") -> Path:
        nb = session_notebook(TALK)
        change(nb)
        return write_notebook(nb, tmp_path / name)

    return saved


@pytest.fixture
def lived(tmp_path) -> Path:
    """A notebook as a front end saves it: no records in its metadata, one in the last output of each turn."""
    cells = [
        new_code_cell(
            f"%%kin\n{each.prompt}",
            id=f"c{each.turn}",
            outputs=[new_output("display_data", {"text/plain": "x"}, metadata=carried(each, TALK.meta))],
        )
        for each in TALK.turns
    ]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(new_notebook(cells=[new_code_cell("x = 1", id="own"), *cells])))
    return path


def redrawn(path: Path):
    out = path.with_name("again.ipynb")
    SaveCommand(str(path), out).run()
    return load_notebook(out)


def test_outputs_are_drawn_anew_from_the_recording_alone(saved):
    def spoil(nb):
        nb["cells"][1]["outputs"][0]["data"]["text/html"] = "<script>alert(1)</script>"
        nb["cells"][2]["outputs"] = []

    fresh = load_notebook(saved(name="fresh.ipynb"))
    nb = redrawn(saved(spoil))
    assert read_recording(nb) == read_recording(fresh)
    assert [cell["outputs"] for cell in nb["cells"]] == [cell["outputs"] for cell in fresh["cells"]]
    assert "<script>" not in str(nb)
    assert "Answer 2." in str(nb["cells"][2]["outputs"])


def test_a_changed_recording_is_not_drawn_anew(saved):
    def tamper(nb):
        nb["cells"][1]["metadata"]["kin"][0]["prompt"] = "other"

    with pytest.raises(RecordingError, match=r"talk\.ipynb: cell 2, turn 1"):
        redrawn(saved(tamper))


def test_a_notebook_without_a_recording_says_how_to_get_one_back(saved):
    with pytest.raises(RecordingError, match="kin-nb save 5b1c-session"):
        redrawn(saved(lambda nb: nb["metadata"].pop("kin")))


def test_a_notebook_written_elsewhere_finds_its_workspace(saved, tmp_path):
    (tmp_path / "other").mkdir()
    SaveCommand(str(saved()), tmp_path / "other" / "talk.ipynb").run()
    assert read_recording(load_notebook(tmp_path / "other" / "talk.ipynb")).meta.workspace.path == "../work"


def test_the_outputs_of_a_front_ends_notebook_become_records_and_the_rest_stays(lived, capsys):
    assert main(["save", str(lived), "--from-outputs"]) == 0
    nb = load_notebook(lived.with_name("mine.kin.ipynb"))
    assert [turn.prompt for turn in read_recording(nb).turns] == ["first ACME-1", "second"]
    assert "x = 1" in [cell["source"] for cell in nb["cells"]]
    assert "Saved mine.kin.ipynb: recording 5b1c-session@" in capsys.readouterr().out


def test_from_outputs_needs_a_notebook_that_carries_something(lived, tmp_path):
    with pytest.raises(ReplayError, match="takes a notebook"):
        SaveCommand("5b1c", tmp_path / "a.ipynb", from_outputs=True).run()
    lived.write_text(json.dumps(new_notebook(cells=[new_code_cell("1", id="a")])))
    with pytest.raises(NoRecordingError, match="outputs were cleared"):
        SaveCommand(str(lived), from_outputs=True).run()


def test_what_is_taken_out_is_said_and_secrets_go_always(saved, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")

    def type_a_secret(nb):
        nb["cells"].append(new_code_cell("login('hunter2hunter2')", id="typed"))

    path, out = saved(type_a_secret), tmp_path / "out.ipynb"
    assert main(["save", str(path), str(out), "--redact", r"ACME-\d", "--no-results"]) == 0
    said = capsys.readouterr().out
    assert "Taken out:" in said
    assert re.search(r"turn 1, prompt: 1 match of ACME", said)
    assert re.search(r"cell 4: 1 secret", said)
    assert "hunter2" not in out.read_text() + said
    assert "ACME-1" not in out.read_text()


def test_an_existing_file_is_not_written_over_by_a_plain_export(saved, tmp_path):
    plain = SaveOptions(plain=True)
    said = SaveCommand(str(saved()), options=plain).run()
    assert said == ["Saved talk.plain.ipynb: it needs no kin_nb, and holds no recording."]
    assert "kin" not in load_notebook(tmp_path / "talk.plain.ipynb")["metadata"]
    with pytest.raises(ReplayError, match=r"talk\.plain\.ipynb exists"):
        SaveCommand(str(tmp_path / "talk.ipynb"), options=plain).run()


def test_a_file_that_cannot_be_written_is_named(saved, tmp_path, capsys):
    assert main(["save", str(saved()), str(tmp_path / "no" / "x.ipynb")]) == 1
    assert capsys.readouterr().err.endswith("x.ipynb cannot be written: No such file or directory\n")


def test_in_place_is_refused_while_a_server_has_the_file_open(saved, tmp_path, monkeypatch):
    path = saved()
    monkeypatch.setattr("kin_nb.replay.saving.open_notebooks.open_in", lambda _: "http://127.0.0.1:8888/")
    with pytest.raises(RecordingError, match=r"is open in http://127\.0\.0\.1:8888/, whose next save would erase"):
        SaveCommand(str(path), path, SaveOptions(in_place=True)).run()


def test_only_a_session_notebook_is_calibrated(lived, tmp_path):
    for command in (
        SaveCommand("5b1c", tmp_path / "a.ipynb", calibrate=True),
        SaveCommand(str(lived), tmp_path / "a.ipynb", from_outputs=True, calibrate=True),
    ):
        with pytest.raises(ReplayError):
            command.run()
    assert not (tmp_path / "a.ipynb").exists()
