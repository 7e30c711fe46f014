"""A recording survives what tools do to notebooks, and no edit by hand goes unnoticed."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from nbformat import from_dict

from kin_nb.core.records import TurnRecord, canonical_json, sha256
from kin_nb.replay.errors import NoRecordingError, RecordingError, UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import raw_records, read_recording, read_saved, write_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook, parse_notebook
from kin_nb.replay.format.record_codec import encode_record
from kin_nb.replay.recording import SessionMeta, step_sha, unknown_record_sha
from kin_nb.replay.saving.build import ExecutedCell, session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import LONG, SESSION, busy_turn, recording, turn


@pytest.fixture
def nb(session):
    return session_notebook(session)


def records(nb, cell):
    return held(nb, cell)["records"]


def held(nb, cell):
    return nb["cells"][cell - 1]["metadata"]["kin"]


def test_what_is_written_is_read_back_equal(session, nb, tmp_path):
    path = write_notebook(nb, tmp_path / "s.ipynb")
    assert read_recording(load_notebook(path)) == session


def test_a_long_text_is_stored_once_in_its_cell_and_only_in_the_blobs(session):
    """So that a cell that is pasted elsewhere brings all of its records."""
    again = busy_turn().model_copy(update={"id": "e" * 16, "seq": 3, "turn": 3})  # asked again in the same cell
    whole = recording(*session.turns, again, turn(4, "else", steps=again.steps))
    nb = session_notebook(whole, cells=[ExecutedCell("%%kin\nFix the build\nplease", "aaaa")])
    assert [len(records(nb, cell)) for cell in (2, 3, 4)] == [2, 1, 1]
    assert [list(held(nb, cell).get("blobs", {})) for cell in (2, 3, 4)] == [[sha256(LONG)], [], [sha256(LONG)]]
    assert "line of a long result" not in json.dumps([records(nb, cell) for cell in (2, 3, 4)])
    assert "line of a long result" not in json.dumps(nb["metadata"])


def test_writing_twice_gives_the_same_bytes(session, nb, tmp_path):
    first = write_notebook(nb, tmp_path / "1.ipynb").read_bytes()
    assert write_notebook(session_notebook(session), tmp_path / "2.ipynb").read_bytes() == first


def test_numbers_and_key_order_as_a_javascript_front_end_writes_them_verify_equal(session, nb):
    def rewritten(value):
        if isinstance(value, dict):
            return {key: rewritten(value[key]) for key in sorted(value, reverse=True)}
        if isinstance(value, list):
            return [rewritten(item) for item in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    assert read_recording(from_dict(rewritten(json.loads(json.dumps(nb))))) == session


def test_dropped_outputs_ids_and_counts_do_not_matter(session, nb):
    for number, cell in enumerate(nb["cells"]):
        cell["id"] = str(number)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    nb["cells"].reverse()
    assert read_recording(nb) == session


def test_a_copied_cell_brings_its_turn_once(session, nb):
    nb["cells"].append(copy.deepcopy(nb["cells"][1]))
    assert read_recording(nb) == session


def test_the_text_of_cells_is_no_part_of_the_digest(session, nb):
    for cell in nb["cells"]:
        cell["source"] = "changed"
    assert read_recording(nb).digest == session.digest


def test_a_cell_that_was_deleted_is_no_error_and_what_was_saved_still_has_its_name(session, nb):
    for left in (session.records[1:], ()):
        del nb["cells"][1]
        found = read_recording(nb)
        assert found.records == left
        assert (found.digest, found.name, found.saved_shas) == (session.digest, session.name, session.shas)


def test_a_cell_that_was_pasted_from_another_notebook_is_no_error_either(session, nb):
    other = turn(7, "Pasted", steps=busy_turn().steps)
    pasted = session_notebook(recording(other))["cells"][1]
    nb["cells"].insert(1, {**pasted, "id": "new"})
    found = read_saved(nb)
    assert found.recording.records == (*session.records, other)
    assert {index + 1: [*held] for index, held in found.records_by_cell.items()} == {
        2: [other],
        3: [session.records[0]],
        4: [session.records[1]],
    }
    assert (found.recording.digest, found.recording.saved_shas) == (session.digest, session.shas)


def test_the_digest_of_format_2_does_not_move():
    assert recording(busy_turn()).digest == "76f45ecc007ddd6129cf9524b14fb33179757a3817ea31610b03e04540090a10"


EDITS = {
    "the reply": (lambda nb: records(nb, 2)[0]["steps"][1].update(content="Never."), "cell 2, turn 1, step 2"),
    "a call's output": (
        lambda nb: records(nb, 2)[0]["steps"][0]["calls"][1].update(output="x"),
        "cell 2, turn 1, step 1",
    ),
    "a call's arguments": (
        lambda nb: records(nb, 2)[0]["steps"][0]["calls"][0].update(arguments='{"command": "rm -rf ~"}'),
        "cell 2, turn 1, step 1",
    ),
    "a patch": (
        lambda nb: records(nb, 2)[0]["steps"][0]["calls"][1]["files"][0].update(patch="+evil"),
        "cell 2, turn 1, step 1",
    ),
    "a decision": (
        lambda nb: records(nb, 2)[0]["steps"][0]["calls"][0]["decision"].update(by="policy"),
        "cell 2, turn 1, step 1",
    ),
    "a blob": (
        lambda nb: held(nb, 2)["blobs"].update({sha256(LONG): "short"}),
        "cell 2, turn 1, step 1: field calls.1.output",
    ),
    "a lost blob": (lambda nb: held(nb, 2)["blobs"].clear(), "cell 2, turn 1, step 1: field calls.1.output"),
    "all blobs of a cell": (lambda nb: held(nb, 2).pop("blobs"), "cell 2, turn 1, step 1: field calls.1.output"),
    "a number made text": (
        lambda nb: records(nb, 2)[0]["steps"][0].update(prompt_tokens="many"),
        "cell 2, turn 1, step 1: field prompt_tokens",
    ),
    "a field taken out": (
        lambda nb: records(nb, 2)[0]["steps"][0]["calls"][1].pop("arguments"),
        "cell 2, turn 1, step 1: field calls.2.arguments",
    ),
    "the prompt": (lambda nb: records(nb, 3)[0].update(prompt="Else"), "cell 3, turn 2: "),
    "the key": (lambda nb: records(nb, 3)[0].update(key="0" * 64), "cell 3, turn 2: "),
    "a step taken out": (lambda nb: records(nb, 2)[0]["steps"].pop(), "cell 2, turn 1: "),
    "a step with its hash": (
        lambda nb: records(nb, 2)[0]["steps"].__setitem__(0, records(nb, 3)[0]["steps"][0]),
        "cell 2, turn 1: ",
    ),
    "a hash": (lambda nb: records(nb, 3)[0].update(sha="0" * 64), "cell 3, turn 2: "),
    "a turn's number": (lambda nb: records(nb, 3)[0].update(turn=1), "cell 3, turn 1: "),
    "a lone surrogate": (
        lambda nb: records(nb, 3)[0]["steps"][0].update(content={"json": "not json"}),
        "cell 3, turn 2, step 1: field content",
    ),
    "the place that it goes on from": (lambda nb: records(nb, 3)[0].pop("parent"), "cell 3, turn 2: "),
    "the order": (lambda nb: records(nb, 3)[0].update(seq=1), "cell 3, turn 2: "),
    "an id": (lambda nb: records(nb, 3)[0].update(id="e" * 16), "cell 3, turn 2: "),
    "an id taken out": (lambda nb: records(nb, 3)[0].pop("id"), "cell 3, turn 2"),
    "the id of another": (lambda nb: records(nb, 3)[0].update(id=records(nb, 2)[0]["id"]), "cell 3, turn 2: "),
    "the list of records": (
        lambda nb: nb["metadata"]["kin"]["records"].popitem(),
        "notebook metadata: the list of records, or model",
    ),
    "a hash in the list of records": (
        lambda nb: nb["metadata"]["kin"]["records"].update({records(nb, 3)[0]["id"]: "0" * 16}),
        "notebook metadata: the list of records, or model",
    ),
    "the list of records taken out": (lambda nb: nb["metadata"]["kin"].pop("records"), "notebook metadata: "),
    "the model": (lambda nb: nb["metadata"]["kin"].update(model="other"), "notebook metadata"),
    "the commit": (
        lambda nb: nb["metadata"]["kin"]["workspace"].update(commit="HEAD"),
        "notebook metadata, kin.workspace.commit",
    ),
    "the branch": (
        lambda nb: nb["metadata"]["kin"]["workspace"].update(branch="main"),
        "notebook metadata: the list of records, or model",
    ),
    "a branch that is none": (
        lambda nb: nb["metadata"]["kin"]["workspace"].update(branch="../../../config"),
        "notebook metadata, kin.workspace.branch",
    ),
    "the session": (lambda nb: nb["metadata"]["kin"].update(session="../../etc"), "notebook metadata, kin.session"),
    "the digest": (lambda nb: nb["metadata"]["kin"].update(digest="0" * 64), "notebook metadata"),
    "records that are no list": (lambda nb: nb["cells"][1]["metadata"].update(kin={}), "cell 2: "),
    "a record that is text": (lambda nb: held(nb, 2).update(records=["turn"]), "cell 2: a record has no type"),
    "records as format 1 had them": (
        lambda nb: nb["cells"][1]["metadata"].update(kin=held(nb, 2)["records"]),
        "cell 2: its `kin` metadata has no list of records",
    ),
}


@each_row("edit", EDITS)
def test_an_edit_by_hand_is_named(nb, edit):
    change, named = EDITS[edit]
    edited = copy.deepcopy(nb)
    change(edited)
    with pytest.raises(RecordingError) as caught:
        read_recording(edited)
    assert named in str(caught.value)


def test_a_field_of_a_later_version_is_said_to_be_one(nb):
    step = records(nb, 2)[0]["steps"][0]
    step["calls"][0]["sandbox"] = "strict"
    step["sha"] = "1" * 64
    with pytest.raises(RecordingError, match=r"(?s)field calls\.sandbox is unknown to this version .*Update kin_nb"):
        read_recording(nb)


def with_record(nb, cell: int, record) -> None:
    """The cell holds `record` alone, whole and with its hash, as a kernel would have made it."""
    blobs = {}
    made = encode_record(record, blobs)
    nb["cells"][cell - 1]["metadata"]["kin"] = {"records": [made], "blobs": blobs}


def changed(record: TurnRecord, **fields) -> TurnRecord:
    return record.model_copy(update=fields)


def in_first_call(record: TurnRecord, **fields) -> TurnRecord:
    step = record.steps[0]
    calls = (changed(step.calls[0], **fields), *step.calls[1:])
    return changed(record, steps=(changed(step, calls=calls), *record.steps[1:]))


CONTENTS = {
    "prompt": lambda record: changed(record, prompt="Else"),
    "seq": lambda record: changed(record, seq=7),
    "steps": lambda record: changed(record, steps=record.steps[:1]),
    "steps.2.content": lambda record: changed(record, steps=(record.steps[0], changed(record.steps[1], content="x"))),
    "steps.1.calls.1.decision.by": lambda record: in_first_call(
        record, decision=changed(record.steps[0].calls[0].decision, by="policy")
    ),
}


@each_row("field", CONTENTS)
def test_one_id_with_two_contents_in_two_cells_is_refused_and_the_field_is_named(session, nb, field):
    nb = copy.deepcopy(nb)
    nb["cells"].append(copy.deepcopy(nb["cells"][1]))
    assert read_recording(nb) == session
    with_record(nb, 4, CONTENTS[field](session.turns[0]))
    with pytest.raises(
        RecordingError, match=rf"^cell 4, turn 1: cell 2 has another version of it; field {re.escape(field)} differs"
    ):
        read_recording(nb)


@each_row("field", CONTENTS)
def test_a_record_that_was_exchanged_for_another_with_its_id_is_not_what_was_saved(session, nb, field):
    nb = copy.deepcopy(nb)
    with_record(nb, 2, CONTENTS[field](session.turns[0]))
    with pytest.raises(
        RecordingError, match=r"^cell 2, turn 1: this is not the record that was saved with this id\.\n"
    ):
        read_recording(nb)


def test_records_that_changed_their_cells_are_what_was_saved(session, nb):
    """As cells that were cut and pasted, or whose texts were exchanged."""
    first, second = nb["cells"][1]["metadata"], nb["cells"][2]["metadata"]
    nb["cells"][1]["metadata"], nb["cells"][2]["metadata"] = second, first
    assert read_recording(nb) == session


@pytest.mark.parametrize("digits", [15, 17, 64])
def test_a_steps_hash_has_sixteen_digits(nb, session, digits):
    step = records(nb, 2)[0]["steps"][0]
    assert step["sha"] == step_sha(session.turns[0].steps[0])[:16]
    step["sha"] = step_sha(session.turns[0].steps[0])[:digits]
    with pytest.raises(RecordingError, match="cell 2, turn 1, step 1"):
        read_recording(nb)


def test_a_later_format_is_refused_with_what_to_do(nb):
    nb["metadata"]["kin"]["format"] = 3
    with pytest.raises(
        RecordingError, match=r"format 3 by kin_nb 0\.1\.0; this version reads format 2\.\nUpdate kin_nb"
    ):
        read_recording(nb)


def test_format_1_is_refused_with_what_to_do(nb):
    """No one is told to update what is newer than the notebook."""
    nb["metadata"]["kin"]["format"] = 1
    with pytest.raises(
        RecordingError, match=r"format 1 by kin_nb 0\.1\.0; this version reads format 2\.\nUse that version"
    ):
        read_recording(nb)


@pytest.mark.parametrize("named", [{}, {"id": "d" * 16}])
def test_records_of_unknown_types_are_kept_named_and_checked(session, named):
    other = canonical_json({"type": "later", "turn": 1, "why": LONG, **named})
    with_other = recording(*session.turns, unknown_records=(other,))
    nb = session_notebook(with_other)
    back = read_saved(nb)
    assert back.recording == with_other
    assert back.recording.unknown_types == ("later",)
    assert back.recording.digest != recording(*session.turns).digest

    write_recording(nb, back.records_by_cell, back.recording)
    assert read_recording(nb) == with_other
    later = next(raw for _, raw in raw_records(nb) if raw["type"] == "later")
    later["turn"] = 2
    with pytest.raises(RecordingError, match="record 'later': it was changed"):
        read_recording(nb)


def test_a_record_of_an_unknown_type_that_was_exchanged_is_named_too(session):
    """Where it has an id; without one it is another record."""
    nb = session_notebook(
        recording(*session.turns, unknown_records=(canonical_json({"type": "later", "id": "d" * 16}),))
    )
    later = next(raw for _, raw in raw_records(nb) if raw["type"] == "later")
    later["turn"] = 2
    later["sha"] = unknown_record_sha(later)
    with pytest.raises(RecordingError, match="record 'later': this is not the record that was saved with this id"):
        read_recording(nb)
    nb["metadata"]["kin"] = session_notebook(session)["metadata"]["kin"]
    nb["cells"].append(copy.deepcopy(nb["cells"][-1]))
    assert read_recording(nb).unknown_types == ("later",)
    (again,) = [raw for index, raw in raw_records(nb) if raw["type"] == "later" and index == len(nb["cells"]) - 1]
    again["turn"] = 3
    again["sha"] = unknown_record_sha(again)
    with pytest.raises(RecordingError, match=r"^cell 4, record 'later': cell 3 has another version of it"):
        read_recording(nb)


def test_a_number_of_an_unknown_record_may_be_rewritten():
    assert unknown_record_sha({"type": "x", "n": 1.0, "sha": "s"}) == unknown_record_sha({"n": 1, "type": "x"})


def test_a_notebook_without_a_recording_says_so():
    with pytest.raises(NoRecordingError, match="kin-nb save SESSION"):
        read_recording(from_dict({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def test_ids_that_could_be_paths_are_no_session_ids():
    for bad in ("", "a/b", "..", "a" * 65, "a\n"):
        with pytest.raises(ValueError, match="session"):
            SessionMeta(session=bad)
    assert SessionMeta(session=SESSION).session == SESSION


EMPTY = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
UNREADABLE = {
    "truncated": (EMPTY[:-20], "not complete JSON"),
    "truncated within brackets that are text": ('{"a": "' + "[" * 500, "not complete JSON"),
    "NaN": (EMPTY.replace("5", "NaN"), "NaN is not a JSON number"),
    "an endless number": (EMPTY.replace("5", "9" * 5000), "not complete JSON"),
    "too deep": ("[" * 201 + "]" * 201, "deeper than 200 levels"),
    "not a notebook": ('{"a": 1}', "not a notebook"),
    "a list": ("[]", "not a notebook"),
    "format 3": ('{"worksheets": [], "metadata": {}, "nbformat": 3}', "format 3.\nConvert it"),
    "no cells": ('{"metadata": {}, "nbformat": 4}', "needs `cells` and `metadata`"),
    "a cell of text": (EMPTY.replace("[]", '["x"]'), "cell 1 is not a cell"),
    "outputs of text": (
        EMPTY.replace("[]", '[{"cell_type":"code","source":"","metadata":{},"outputs":["x"]}]'),
        "cell 1 is not a cell",
    ),
}


@each_row("what", UNREADABLE)
def test_what_is_no_notebook_is_refused_in_a_sentence(what, tmp_path):
    text, said = UNREADABLE[what]
    path = tmp_path / "bad.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableNotebookError, match=r"bad\.ipynb") as caught:
        load_notebook(path)
    assert said in str(caught.value)


def test_what_only_nbformat_looks_at_is_refused_in_a_sentence_too():
    cell = '{"cell_type":"markdown","source":"","metadata":{},"attachments":{"a":"x"}}'
    with pytest.raises(
        UnreadableNotebookError, match=r"^n\.ipynb is not a valid notebook: cell 1, attachments\.a: 'x' is"
    ):
        as_node(parse_notebook(EMPTY.replace("[]", f"[{cell}]"), "n"), "n.ipynb")


def test_playback_does_not_wait_for_nbformat(nb, tmp_path):
    path = write_notebook(nb, tmp_path / "s.ipynb")
    code = (
        "import sys, pathlib, kin_nb.replay.playback.player; from kin_nb.replay.playback.locate import *; "
        f"find_recording({SESSION!r}, {nb['metadata']['kin']['digest']!r}, "
        f"context=ProcessContext(pathlib.Path({str(path.parent)!r}), {{}})); "
        "print([name for name in ('nbformat', 'nbclient', 'jsonschema', 'IPython') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(find_spec("rfc3987_syntax") is None, reason="nothing to wait for")
def test_nbformat_does_not_wait_for_the_grammars_of_addresses():
    code = (
        "import sys; from kin_nb.replay.saving.build import empty_notebook; empty_notebook(); "
        "print('lark' in sys.modules, 'rfc3987_syntax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False"]


@pytest.mark.long
@pytest.mark.skipif(find_spec("rfc3987_syntax") is None, reason="nothing to wait for")
def test_who_checks_addresses_has_their_grammars():
    code = (
        "import sys; from kin_nb.replay.saving.build import empty_notebook; empty_notebook(); "
        "from jsonschema import FormatChecker; check = FormatChecker(['iri']); "
        "print(check.conforms('http://é.example/', 'iri'), check.conforms('no address', 'iri')); "
        "import rfc3987_syntax; print(rfc3987_syntax.__spec__ is not None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True False", "True"]


def test_brackets_within_strings_are_no_depth():
    source = json.dumps("[" * 500 + '\\"' + "{" * 500)
    cell = f'{{"cell_type":"code","source":{source},"metadata":{{}},"outputs":[],"execution_count":null}}'
    assert parse_notebook(EMPTY.replace("[]", f"[{cell}]"), "n")["cells"][0]["source"].startswith("[[[")


def test_a_file_over_the_limit_is_refused_by_its_size(tmp_path):
    path = tmp_path / "big.ipynb"
    path.write_text(EMPTY + " " * 1000, encoding="utf-8")
    with pytest.raises(UnreadableNotebookError, match="larger than"):
        load_notebook(path, max_bytes=1000)


def test_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.ipynb")
    with pytest.raises(UnreadableNotebookError, match="not a file"):
        load_notebook(tmp_path / "pipe.ipynb")


def test_a_byte_order_mark_does_not_matter(session, nb, tmp_path):
    path = write_notebook(nb, tmp_path / "s.ipynb")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_recording(load_notebook(path)) == session
