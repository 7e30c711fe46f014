"""Records that are small and would cost much, say what a terminal obeys, or hold more than this version knows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.core.session.records import END, Place, UndoRecord
from kin_nb.replay.errors import LaterFormatError, RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import recording_in_outputs
from kin_nb.replay.recording import FORMAT, undo_sha
from kin_nb.replay.saving.making import session_notebook
from tests.unit.replay.edits import stored
from tests.unit.replay.sessions import carried_of, recording, turn

SEQUENCE = "\x1b]0;title\x07\x1b[2J"
HUGE = 10**7


def of_turns(*numbers: int, undos: tuple[UndoRecord, ...] = ()):
    """A notebook as it is saved, its cells to be edited."""
    whole = replace(recording(*(turn(n, f"Prompt {n}.") for n in numbers)), undos=undos)
    return json.loads(json.dumps(session_notebook(whole)))


def without(nb, kind: str, number: int):
    """The cell of a turn or undo is deleted."""
    named = [
        cell
        for cell in nb["cells"]
        for record in cell["metadata"].get("kin", [])
        if (record["type"], record.get("n" if kind != "turn" else "turn")) == (kind, number)
    ]
    nb["cells"].remove(named[0])
    return nb


def refused(nb, kind: type[RecordingError] = RecordingError) -> str:
    with pytest.raises(kind) as caught:
        read_recording(nb)
    return said_safely(caught.value)


def said_safely(error: Exception) -> str:
    said = str(error)
    assert len(said) < 1000
    assert said.isprintable()
    return said


def in_outputs(*metadata: dict):
    """A notebook whose outputs carry records."""
    outputs = [[new_output("display_data", {"text/plain": ""}, metadata=each)] for each in metadata]
    cells = [new_code_cell("%%kin\nx", id=f"c{n}", outputs=each) for n, each in enumerate(outputs)]
    return json.loads(json.dumps(new_notebook(cells=cells)))


# What is missing


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ((2, 3), "turn 1 is missing"),
        ((1, 3, 6), "turns 2, 4-5 are missing"),
        ((1, HUGE), "turns 2-9999999 are missing"),
        ((1, *range(3, 40, 2)), "turns 2, 4, 6, 8, 10 and more are missing"),
    ],
)
def test_missing_turns_are_named_a_few_of_them_and_none_is_counted_out(numbers, named):
    nb = of_turns(*numbers)
    nb["metadata"]["kin"]["digest"] = "0" * 64
    said = refused(nb)
    assert said.startswith("before cell ")
    assert f": {named}: " in said


TO = Place(turn=1, step=END)
UNDOS = (UndoRecord(at=2, turns=(2,), to=TO), UndoRecord(type="redo", at=2, turns=(2,), to=TO))


def test_an_undo_whose_cell_was_deleted_is_named():
    nb = without(of_turns(1, 2, undos=UNDOS), "undo", 1)
    assert refused(nb).startswith("before cell 4: undo 1 is missing: its cell was deleted")


def test_where_the_last_undo_is_missing_undos_are_among_the_guesses():
    nb = without(of_turns(1, 2, undos=UNDOS), "redo", 2)
    assert "the last turns or undos are missing" in refused(nb)


def test_a_missing_turn_is_named_also_where_an_undo_came_after_it():
    nb = without(of_turns(1, 2, undos=UNDOS[:1]), "turn", 1)
    assert ": turn 1 is missing: " in refused(nb)


# Undos in outputs


def forged_undos(whole, undos):
    """What outputs would carry of `undos`, which say that they came where nothing was."""
    for n, undo in enumerate(undos, 1):
        metadata = carried_of(whole, undo.model_copy(update={"at": 1}), n)
        metadata[KEY]["record"].update(at=undo.at, sha=undo_sha(n, undo))
        yield metadata


@pytest.mark.parametrize("places", [(0,), (-1,), (2, 1)])
def test_undos_that_came_nowhere_are_refused_in_outputs_too(places):
    whole = recording(turn(1, "a"), turn(2, "b"))
    undos = [UndoRecord(at=at, turns=(1,), to=TO) for at in places]
    nb = in_outputs(*(carried_of(whole, each) for each in whole.turns), *forged_undos(whole, undos))
    with pytest.raises(RecordingError, match="undos come after turn") as caught:
        recording_in_outputs(nb)
    said_safely(caught.value)


def test_undos_after_more_turns_than_there_are_are_read_at_once():
    whole = recording(*(turn(n, f"Prompt {n}.") for n in range(1, 400)))
    undos = [UndoRecord(at=HUGE + n, turns=(1,), to=TO) for n in range(400)]
    nb = in_outputs(*(carried_of(whole, each) for each in whole.turns), *forged_undos(whole, undos))
    assert recording_in_outputs(nb).turns == whole.turns


# What a terminal obeys


def first_record(nb):
    return next(cell["metadata"]["kin"][0] for cell in nb["cells"] if cell["metadata"].get("kin"))


SAYS = {
    "a later format's version": lambda nb: nb["metadata"]["kin"].update(format=2, kin_nb=SEQUENCE * 500),
    "a later format's version that is no text": lambda nb: nb["metadata"]["kin"].update(
        format=2, kin_nb={"a": [""] * 9000}
    ),
    "a format that is no whole number": lambda nb: nb["metadata"]["kin"].update(format=1e308),
    "a field's name": lambda nb: first_record(nb).update({SEQUENCE * 500: 1}),
    "a field's name within a step": lambda nb: first_record(nb)["steps"][0].update({SEQUENCE: 1, "sha": "0"}),
    "a field of a changed record": lambda nb: first_record(nb).update({SEQUENCE: {"blob": 1}}),
    "the version that wrote": lambda nb: (nb["metadata"]["kin"].update(kin_nb=SEQUENCE), first_record(nb).update(x=1)),
    "a type": lambda nb: first_record(nb).update(type=SEQUENCE * 500),
    "a turn's number": lambda nb: first_record(nb).update(turn=SEQUENCE * 500),
    "a turn's number of many digits": lambda nb: first_record(nb).update(turn=10**4000),
    "the digest": lambda nb: nb["metadata"]["kin"].update(digest=SEQUENCE),
    "a merge's conflict": lambda nb: nb["cells"][0].update(id={SEQUENCE * 500: 1}),
}


@pytest.mark.parametrize("what", SAYS)
def test_what_a_notebook_says_of_itself_is_shown_short_and_never_obeyed(what):
    nb = stored()
    SAYS[what](nb)
    refused(nb)


# What this version does not know

LATER = {
    "a turn": (lambda record: record.update(later=1), "field later"),
    "a step": (lambda record: record["steps"][0].update(later=[1]), "field later"),
    "a call": (lambda record: record["steps"][0]["calls"][0].update(later=None), "field calls.later"),
    "a place": (lambda record: record["origin"].update(later=""), "field origin.later"),
}


@pytest.mark.parametrize("where", LATER)
def test_a_field_that_no_hash_covers_is_refused_and_so_never_lost(where):
    change, named = LATER[where]
    nb = stored()
    record = next(raw for cell in nb["cells"] for raw in cell["metadata"].get("kin", []) if raw.get("origin"))
    if where == "a call":
        record = next(raw for cell in nb["cells"] for raw in cell["metadata"].get("kin", []) if _calls(raw))
    change(record)
    said = refused(nb, LaterFormatError)
    assert f": {named} is of a later version (kin_nb 0.1.0 wrote this): update kin_nb" in said


def _calls(record) -> bool:
    return record["type"] == "turn" and any(step.get("calls") for step in record["steps"][:1])


def test_a_field_of_an_undo_that_no_hash_covers_is_refused_too():
    nb = stored()
    undo = next(raw for cell in nb["cells"] for raw in cell["metadata"].get("kin", []) if raw["type"] == "undo")
    undo["to"]["later"] = 1
    assert "field to.later is of a later version" in refused(nb, LaterFormatError)


def test_a_field_of_the_workspace_is_refused_since_writing_would_lose_it():
    nb = stored()
    nb["metadata"]["kin"]["workspace"]["later"] = 1
    assert "field workspace.later is of a later version" in refused(nb, LaterFormatError)


def test_a_later_field_of_the_session_stays_unless_the_digest_covers_it():
    nb = stored()
    nb["metadata"]["kin"]["later"] = 1
    assert read_recording(from_dict(nb)) == read_recording(stored())
    nb["metadata"]["kin"]["digest"] = "0" * 64
    assert "field later is of a later version" in refused(nb, LaterFormatError)


@pytest.mark.parametrize(
    ("session", "named"),
    [({"format": FORMAT + 1}, "format 2"), ({"later": 1}, "later"), ({"workspace": {"later": 1}}, "workspace.later")],
)
def test_what_a_later_version_carries_in_an_output_is_refused(session, named):
    whole = recording(turn(1, "a"))
    metadata = carried_of(whole, whole.turns[0])
    metadata[KEY]["session"] |= session
    with pytest.raises(LaterFormatError, match=rf"^cell 1.*{named}.*update kin_nb"):
        recording_in_outputs(in_outputs(metadata))


@pytest.mark.parametrize("origin", [2, 3])
def test_a_turn_that_goes_on_from_itself_or_a_later_one_is_no_recording(origin):
    """Who follows such a link never ends."""
    with pytest.raises(ValueError, match="goes on from itself, or from a later one"):
        recording(turn(1, "a"), turn(2, "b", origin=Place(turn=origin, step=END)), turn(3, "c"))
