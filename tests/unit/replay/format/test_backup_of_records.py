"""What an output carries of a record, and what the first cell's output keeps of all of them, for cells that lose theirs."""

from __future__ import annotations

import json

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.core.records import RecordedStep, canonical_json
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format import output_records as carrying
from kin_nb.replay.format.output_records import (
    BACKUP_KEY,
    RECORD_KEY,
    backed_up_records,
    backup_metadata,
    output_metadata,
    raw_output_records,
    read_output_record,
)
from kin_nb.replay.recording import unknown_record_sha
from tests.table import each_row
from tests.unit.replay.everything import EVERYTHING
from tests.unit.replay.sessions import carried_of, recording, turn

CARRIED = {"session": {"session": "live"}, "record": {"type": "turn", "turn": 3}}


# One record


@each_row("record", EVERYTHING.records, ids=lambda record: f"{record.type} {record.seq}")
def test_a_record_is_read_back_equal_with_the_session_that_made_it(record):
    raw = json.loads(json.dumps(carried_of(EVERYTHING, record)))[RECORD_KEY]
    found = read_output_record(1, raw)
    assert (found.record, found.meta, found.raw) == (record, EVERYTHING.meta, raw)


def test_what_is_too_large_for_a_front_end_is_in_the_log_alone(monkeypatch):
    whole = recording(turn(1, "a", steps=(RecordedStep(content="x" * 2000),)))
    assert output_metadata(whole.turns[0], whole.meta)
    monkeypatch.setattr(carrying, "MAX_CHARACTERS", 1000)
    assert output_metadata(whole.turns[0], whole.meta) == {}
    monkeypatch.setattr(carrying, "MAX_CHARACTERS", 10_000)
    long = recording(turn(1, "a", steps=(RecordedStep(content="x" * 20_000),)))  # a text that is stored apart
    assert output_metadata(long.turns[0], long.meta) == {}


def test_a_record_of_a_later_version_is_its_text():
    raw = json.loads(json.dumps(carried_of(EVERYTHING, EVERYTHING.turns[0])))[RECORD_KEY]
    poll = {"type": "poll", "of": [1, 2]}
    raw["record"] = {**poll, "sha": unknown_record_sha(poll)}
    assert read_output_record(5, raw).record == canonical_json(poll)
    raw["record"]["of"] = [1, 3]
    with pytest.raises(RecordingError, match=r"^cell 5, record 'poll': it was changed"):
        read_output_record(5, raw)


@pytest.mark.parametrize("blobs", [None, 5, [], "x"])
def test_long_texts_that_are_none_are_missing(blobs):
    raw = json.loads(json.dumps(carried_of(EVERYTHING, EVERYTHING.turns[1])))[RECORD_KEY]
    raw["blobs"] = blobs
    with pytest.raises(RecordingError, match=r"^cell 7, turn 2, step 1: field calls\.2\.output: its text is missing"):
        read_output_record(7, raw)


# The copy that the first cell keeps


@pytest.fixture
def nb():
    """The first cell has run, and keeps what the second one carries."""
    second = new_code_cell(
        "%%kin\nAsk.", id="b", outputs=[new_output("display_data", {}, metadata={RECORD_KEY: CARRIED})]
    )
    nb = new_notebook(cells=[new_code_cell("%kin replay x@y", id="a"), second])
    nb["cells"][0]["outputs"] = [new_output("display_data", {}, metadata=backup_metadata(nb))]
    return nb


def test_what_the_cells_carry_is_kept_with_their_ids(nb):
    assert [*raw_output_records(nb["cells"][1])] == [CARRIED]
    assert [*backed_up_records(nb)] == [{"cell": "b", "carried": CARRIED}]


def test_what_a_cell_has_lost_is_kept_on(nb):
    """Also where another one was answered since, and where all is kept once more."""
    nb["cells"][1]["outputs"] = []
    other = {**CARRIED, "record": {"type": "undo"}}
    nb["cells"].append(
        new_code_cell("%kin undo", id="c", outputs=[new_output("display_data", {}, metadata={RECORD_KEY: other})])
    )
    for _ in range(2):
        kept = backup_metadata(nb)
        nb["cells"][0]["outputs"] = [new_output("display_data", {}, metadata=kept)]
        assert [*backed_up_records(nb)] == [{"cell": "c", "carried": other}, {"cell": "b", "carried": CARRIED}]


def test_what_is_carried_and_kept_is_kept_once(nb):
    assert backup_metadata(nb) == nb["cells"][0]["outputs"][0]["metadata"]


def test_of_a_cell_that_ran_again_both_are_kept(nb):
    """The book takes them as one cell's."""
    again = {**CARRIED, "record": {"type": "turn", "turn": 4}}
    nb["cells"][1]["outputs"] = [new_output("display_data", {}, metadata={RECORD_KEY: again})]
    assert [each["carried"] for each in backup_metadata(nb)[BACKUP_KEY]] == [again, CARRIED]


def test_what_is_too_much_is_not_kept(nb, monkeypatch):
    monkeypatch.setattr(carrying, "MAX_BACKUP_CHARACTERS", 50)
    assert backup_metadata(nb) == {}


def test_where_nothing_is_carried_nothing_is_kept():
    assert backup_metadata(new_notebook(cells=[new_code_cell("1", id="a")])) == {}


@pytest.mark.parametrize(
    "claimed",
    [
        None,
        1,
        "x",
        {},
        [None, 1, [], {}],
        [{"cell": 1, "carried": {}}],
        [{"cell": "b", "carried": []}],
        [{"cell": "b"}],
    ],
)
def test_what_anybody_may_have_written_there_is_no_more_than_nothing(nb, claimed):
    nb["cells"][0]["outputs"][0]["metadata"] = {BACKUP_KEY: claimed}
    nb["cells"][1]["outputs"] = []
    assert [*backed_up_records(nb)] == []
    assert backup_metadata(nb) == {}


@pytest.mark.parametrize("metadata", [None, 5, "x", [], {RECORD_KEY: None}, {RECORD_KEY: "x"}, {RECORD_KEY: []}])
def test_an_output_whose_metadata_is_of_another_kind_carries_nothing(nb, metadata):
    nb["cells"][1]["outputs"][0]["metadata"] = metadata
    assert [*raw_output_records(nb["cells"][1])] == []


@pytest.mark.parametrize("cell_id", [None, 5, ["b"]])
def test_what_a_cell_carries_whose_id_is_none_is_not_kept(nb, cell_id):
    nb["cells"][0]["outputs"] = []
    nb["cells"][1]["id"] = cell_id
    assert backup_metadata(nb) == {}


def test_the_copy_of_a_deleted_cell_goes_with_the_next_run_of_the_first_one():
    whole = recording(turn(1, "Say one."), turn(2, "Say two."))
    cells = [_shown(f"c{n}", carried_of(whole, record)) for n, record in enumerate(whole.records)]
    first = {"cell_type": "code", "id": "first", "source": "", "metadata": {}, "outputs": []}
    nb = {"metadata": {}, "cells": [first, *cells]}
    first["outputs"] = [{"output_type": "display_data", "data": {}, "metadata": backup_metadata(nb)}]
    assert [each["cell"] for each in backup_metadata(nb)[BACKUP_KEY]] == ["c0", "c1"]
    del nb["cells"][1]
    assert [each["cell"] for each in backup_metadata(nb)[BACKUP_KEY]] == ["c1"]


def _shown(cell_id: str, metadata: dict) -> dict:
    output = {"output_type": "display_data", "data": {}, "metadata": metadata}
    return {"cell_type": "code", "id": cell_id, "source": "", "metadata": {}, "outputs": [output]}
