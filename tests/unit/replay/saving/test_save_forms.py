"""The forms of a session notebook: long texts beside it, and the recording in a cell."""

from __future__ import annotations

import json

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.errors import LaterFormatError, MissingTextError, RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from kin_nb.replay.format.storage import is_recording_cell
from kin_nb.replay.playback.locate import embedded_recording, find_recording
from kin_nb.replay.playback.process_context import ProcessContext
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import LARGE_BYTES, SaveOptions, describe_files, parse_save
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import LONG, carried_of, recording, turn

SIDECAR, PORTABLE = SaveOptions(sidecar=True), SaveOptions(portable=True)


def stored(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_sidecar_holds_the_long_texts_and_loading_puts_them_back(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    beside = tmp_path / "talk.kin.json"
    kin = stored(path)["metadata"]["kin"]
    assert (kin["sidecar"], "blobs" in kin) == ("talk.kin.json", False)
    assert list(stored(beside)["blobs"].values()) == [LONG]
    held = [cell["metadata"].get("kin") for cell in stored(path)["cells"]]
    assert [sorted(kin) for kin in held if kin] == [["records"], ["records"]]
    assert LONG[:200] not in json.dumps(held), "only the cards' outputs still show its beginning"
    assert read_recording(load_notebook(path)) == session
    assert read_recording(load_notebook(path)).digest == session.digest


def test_a_notebook_that_has_a_sidecar_keeps_it_when_it_is_written_elsewhere(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.ipynb")
    copy = write_notebook(as_node(load_notebook(path)), tmp_path / "other.ipynb")
    assert stored(copy)["metadata"]["kin"]["sidecar"] == "other.kin.json"
    assert read_recording(load_notebook(copy)) == session


@pytest.mark.parametrize(
    "spoil",
    [
        lambda beside: beside.unlink(),
        lambda beside: beside.write_text("{"),
        lambda beside: beside.write_text("[]"),
        lambda beside: beside.write_text('{"blobs": {}}'),
    ],
)
def test_a_missing_sidecar_is_named_with_the_place_that_needs_it(session, tmp_path, spoil):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    spoil(tmp_path / "talk.kin.json")
    with pytest.raises(
        MissingTextError, match=r"(?s)cell 2, turn 1, step 1: field calls\.1\.output: .* talk\.kin\.json"
    ):
        read_recording(load_notebook(path))


def test_a_text_that_was_changed_in_the_sidecar_is_named(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    beside = tmp_path / "talk.kin.json"
    beside.write_text(beside.read_text().replace("a long result", "another one", 1))
    with pytest.raises(RecordingError, match=r"(?s)cell 2, turn 1, step 1: .* in talk\.kin\.json was changed"):
        read_recording(load_notebook(path))


@each_row(
    "name",
    ["../../etc/x.json", "/etc/x.json", "a\\x.json", "a\x00.json", "a\ud800.json", "x.txt", "", None, 3, "a\nb.json"],
)
def test_a_sidecar_is_a_plain_name_beside_the_notebook(session, tmp_path, name):
    (tmp_path / "in").mkdir()
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "in" / "talk.ipynb")
    raw = stored(path)
    raw["metadata"]["kin"]["sidecar"] = name
    path.write_text(json.dumps(raw))
    (tmp_path / "in" / "talk.kin.json").rename(tmp_path / "x.json")
    with pytest.raises(MissingTextError):
        read_recording(load_notebook(path))


def test_a_copy_without_its_sidecar_plays_what_lies_near(session, tmp_path):
    made = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.ipynb")
    (tmp_path / "out").mkdir()
    copy = tmp_path / "out" / "talk.ipynb"
    copy.write_bytes(made.read_bytes())
    here = ProcessContext(tmp_path, {"JPY_SESSION_NAME": str(copy)})
    found = find_recording(session.session, session.digest[:12], context=here)
    assert found.path == made


def test_a_save_without_its_sidecar_takes_the_file_away_unless_a_copy_needs_it(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    copy = tmp_path / "talk-Copy1.kin.ipynb"
    copy.write_bytes(path.read_bytes())
    write_notebook(session_notebook(session), path)
    assert (tmp_path / "talk.kin.json").exists()
    copy.unlink()
    write_notebook(session_notebook(session, options=SIDECAR), path)
    write_notebook(session_notebook(session), path)
    assert not (tmp_path / "talk.kin.json").exists()
    assert read_recording(load_notebook(path)) == session


def test_a_portable_notebook_holds_all_of_it_in_one_cell(session, tmp_path):
    path = write_notebook(session_notebook(session, options=PORTABLE), tmp_path / "talk.ipynb")
    raw = stored(path)
    assert "kin" not in raw["metadata"]
    assert not any("kin" in cell["metadata"] for cell in raw["cells"])
    assert [cell["source"][0] for cell in raw["cells"][:2]] == [
        "%load_ext kin_nb",
        f"%%kin_recording {session.name}\n",
    ]
    assert raw["cells"][1]["metadata"]["jupyter"] == {"source_hidden": True}
    assert read_recording(load_notebook(path)) == session


def test_what_a_portable_cell_holds_is_checked_by_itself(session, tmp_path):
    path = write_notebook(session_notebook(session, options=PORTABLE), tmp_path / "talk.ipynb")
    _, _, body = "".join(stored(path)["cells"][1]["source"]).partition("\n")
    nb, found = embedded_recording(session.name, body)
    assert read_recording(nb) == found == session
    with pytest.raises(RecordingError, match=r"turn 1: it was changed"):
        embedded_recording(session.name, body.replace("Fix the build", "Break the build"))
    with pytest.raises(RecordingError, match=rf"names {session.session}@{'0' * 12}, but holds"):
        embedded_recording(f"{session.session}@{'0' * 12}", body)
    for damaged in ("", "{", "[]", '{"kin": {}}', "[" * 5000):
        with pytest.raises(RecordingError, match="is not a saved recording"):
            embedded_recording(session.name, damaged)


def test_saving_again_without_portable_takes_the_cell_away(session, tmp_path):
    path = write_notebook(session_notebook(session, options=PORTABLE), tmp_path / "talk.ipynb")
    nb = session_notebook(session, source_nb=load_notebook(path))
    assert not any(map(is_recording_cell, nb["cells"]))
    assert nb["cells"][0]["source"] == f"%load_ext kin_nb\n%kin replay {session.name}"
    again = session_notebook(session, source_nb=nb, options=PORTABLE)
    assert [is_recording_cell(cell) for cell in again["cells"]] == [False, True, False, False]


@pytest.mark.parametrize("portable", [False, True])
def test_a_record_that_a_portable_notebook_holds_for_a_cell_that_was_deleted_gets_a_cell_again(tmp_path, portable):
    talk = recording(turn(1, "a", cell_id="a"), turn(2, "b", cell_id="b"))
    path = write_notebook(session_notebook(talk, options=PORTABLE), tmp_path / "talk.ipynb")
    raw = stored(path)
    del raw["cells"][2]
    path.write_text(json.dumps(raw))
    nb = load_notebook(path)
    assert read_recording(nb) == talk
    again = session_notebook(read_recording(nb), source_nb=nb, options=SaveOptions(portable=portable))
    assert [cell["source"] for cell in again["cells"][1 + portable :]] == ["%%kin\nb", "%%kin\na"]
    assert read_recording(again) == talk


def test_a_prompt_that_was_changed_into_a_cell_which_loads_kin_nb_is_asked_by_a_cell_of_its_own():
    talk = recording(turn(1, "a", cell_id="a"), turn(2, "b", cell_id="b"))
    nb = session_notebook(talk)
    nb["cells"][1]["source"] = "%load_ext kin_nb"
    again = session_notebook(talk, source_nb=nb)
    assert [cell["source"] for cell in again["cells"][1:]] == ["%%kin\nb", "%%kin\na"]
    assert read_recording(again) == talk


def test_a_session_notebook_that_becomes_portable_leaves_no_output_at_the_cell_that_only_loads(session, tmp_path):
    nb = session_notebook(session)
    assert nb["cells"][0]["outputs"]
    loads, holds = session_notebook(session, source_nb=nb, options=PORTABLE)["cells"][:2]
    assert (loads["source"], loads["outputs"]) == ("%load_ext kin_nb", [])
    assert holds["outputs"] == nb["cells"][0]["outputs"]


def test_what_a_later_version_wrote_is_kept_or_the_file_is_left_alone(session, tmp_path):
    path = write_notebook(session_notebook(session), tmp_path / "talk.ipynb")
    raw = stored(path)
    raw["metadata"]["kin"]["later"] = {"some": "thing"}
    path.write_text(json.dumps(raw))
    again = session_notebook(session, source_nb=load_notebook(path))
    assert again["metadata"]["kin"]["later"] == {"some": "thing"}
    raw["metadata"]["kin"]["format"] = 3
    path.write_text(json.dumps(raw))
    before = path.read_bytes()
    with pytest.raises(
        LaterFormatError, match=r"format 3 by kin_nb 0\.1\.0; this version reads format 2\.\nUpdate kin_nb"
    ):
        read_recording(load_notebook(path))
    with pytest.raises(RecordingError, match="has data of another kin_nb version"):
        write_notebook(again, path)
    assert path.read_bytes() == before


def test_a_file_that_holds_turns_which_this_session_has_not_is_left_alone(tmp_path):
    path = write_notebook(session_notebook(recording(turn(1, "a"), turn(2, "b"), turn(3, "c"))), tmp_path / "t.ipynb")
    before = path.read_bytes()
    with pytest.raises(
        RecordingError, match=r"t\.ipynb has turns 2, 3 of session 5b1c-ses, which this session does not have"
    ):
        write_notebook(session_notebook(recording(turn(1, "a"))), path)
    other = recording(turn(1, "x", steps=(), id="f" * 16))
    with pytest.raises(RecordingError, match="has turns 1, 2, 3"):
        write_notebook(session_notebook(other), path)
    assert path.read_bytes() == before
    longer = recording(turn(1, "a"), turn(2, "b"), turn(3, "c"), turn(4, "d"))
    write_notebook(session_notebook(longer), path)
    assert len(read_recording(load_notebook(path)).turns) == 4


def test_the_save_line_takes_a_path_and_options_in_any_order():
    path, options = parse_save(r"--no-results my talk.ipynb --redact 'ACME-\d+' --redact secret --sidecar")
    assert path == "my talk.ipynb"
    assert (options.results, options.sidecar, options.portable) == (False, True, False)
    assert [pattern.pattern for pattern in options.redact] == [r"ACME-\d+", "secret"]
    assert parse_save("") == (None, SaveOptions())


@each_row(
    ("line", "message"),
    [
        ("--redact '('", "is not a valid regular expression"),
        ("--redact 'a*'", "matches the empty text, and so everywhere"),
        ("--portable --sidecar", "use either --portable or --sidecar"),
        ("--no-such", "unknown option --no-such"),
        ("'a", "No closing quotation"),
    ],
)
def test_a_wrong_save_line_shows_the_usage(line, message):
    with pytest.raises(Exception, match=message) as raised:
        parse_save(line)
    assert "Usage: save [--portable" in str(raised.value)


def test_a_sidecar_is_offered_for_a_large_notebook(tmp_path):
    path = tmp_path / "talk.ipynb"
    path.write_bytes(b" " * LARGE_BYTES)
    assert describe_files(path, SaveOptions()) == ""
    path.write_bytes(b" " * (LARGE_BYTES + 1))
    assert (
        describe_files(path, SaveOptions()) == "The file has 8.0 MB. To move long results to a second file: --sidecar"
    )


def test_a_sidecar_is_said_to_travel_along(tmp_path):
    path = tmp_path / "talk.kin.ipynb"
    path.write_bytes(b" " * (LARGE_BYTES + 1))
    assert describe_files(path, SIDECAR) == ("Long texts are in talk.kin.json: copy and commit both files.")
    assert describe_files(path, PORTABLE) == ""


def test_what_outputs_carried_is_in_the_cells_alone_once_it_is_saved():
    talk = recording(turn(1, "Ask.", options="--session helper", id="a" * 16), turn(2, "a"))
    helper = talk.turns[0]
    talk = Recording(talk.meta, talk.records, session_names={helper.id: "helper"})
    carries = {"kin": {}, **carried_of(talk, helper), BACKUP_KEY: [{"cell": "a", "carried": {"record": LONG}}]}
    output = new_output("display_data", {"text/plain": "said"}, metadata=carries)
    cells = [new_code_cell(source, outputs=[output]) for source in ("print(1)", "%%kin --session helper\nAsk.")]
    made = session_notebook(talk, source_nb=new_notebook(cells=cells))
    assert RECORD_KEY not in json.dumps(made)
    assert BACKUP_KEY not in json.dumps(made)
    assert made["cells"][1]["outputs"][0]["data"] == {"text/plain": "said"}
    assert read_recording(made) == talk
