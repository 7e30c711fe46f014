"""A notebook that only a front end saved: the records are taken from its outputs, and checked."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.core.session.records import Place, UndoRecord
from kin_nb.replay.errors import NoRecordingError, RecordingError
from kin_nb.replay.format.carrying import KEY
from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import MAX_CHARACTERS, carried, recording_in_outputs, sessions_in_outputs
from kin_nb.replay.format.kept import keeping
from kin_nb.replay.recording import SessionMeta
from tests.unit.replay.sessions import carried_of, recording, turn

UNDO = UndoRecord(at=2, turns=(2,), to=Place(turn=1, step=-1))


def as_saved(found, *, leave_out=()):
    """Each record in an output of a cell of its own, through JSON as a front end writes it."""
    outputs = [carried_of(found, each) for each in found.turns if each.turn not in leave_out]
    outputs += [carried_of(found, undo, n) for n, undo in enumerate(found.undos, 1)]
    cells = [
        new_code_cell(
            "%%kin\nx", id=f"c{n}", outputs=[new_output("display_data", {"text/plain": ""}, metadata=metadata)]
        )
        for n, metadata in enumerate(outputs)
    ]
    return json.loads(json.dumps(new_notebook(cells=cells), sort_keys=True))


def test_outputs_give_the_recording_back_long_texts_and_broken_ones_too(session):
    whole = replace(session, undos=(UNDO,))
    assert recording_in_outputs(as_saved(whole)) == whole
    assert recording_in_outputs(as_saved(whole)).digest == whole.digest


def test_a_record_that_was_changed_is_named(session):
    nb = as_saved(session)
    record = nb["cells"][0]["outputs"][0]["metadata"][KEY]["record"]
    record["steps"][1]["content"] = "Something else."
    with pytest.raises(RecordingError, match="cell 1, turn 1, step 2: its reply"):
        recording_in_outputs(nb)


def test_an_undo_of_turns_that_are_not_there_is_left_out():
    three = recording(turn(1, "a"), turn(2, "b"), turn(3, "c", origin=Place(turn=2, step=-1)))
    undone = replace(three, undos=(UNDO,))
    found = recording_in_outputs(as_saved(undone, leave_out={2}))
    assert [each.turn for each in found.turns] == [1, 3]
    assert found.undos == ()
    assert found.turns[1].origin is None


def test_an_undo_takes_back_those_of_its_turns_that_are_there():
    two = replace(
        recording(turn(1, "a"), turn(2, "b")), undos=(UndoRecord(at=2, turns=(1, 2), to=Place(turn=1, step=0)),)
    )
    found = recording_in_outputs(as_saved(two, leave_out={2}))
    assert [each.turn for each in found.turns] == [1]
    assert (found.standing, found.undos[0].turns, found.undos[0].at) == (frozenset(), (1, 2), 1)


def test_what_came_after_a_missing_turn_does_not_go_on_from_what_was_taken_back():
    four = recording(turn(1, "a"), turn(2, "b", origin=Place(turn=1, step=0)), turn(3, "c"), turn(4, "d"))
    undone = replace(four, undos=(UndoRecord(at=1, turns=(1,), to=Place(turn=1, step=0)),))
    found = recording_in_outputs(as_saved(undone, leave_out={2}))
    assert [each.turn for each in found.turns] == [1, 3, 4]
    assert [found.turns[position].turn for position in sorted(found.standing)] == [3, 4]


def test_what_an_output_lost_and_the_first_cell_keeps_is_there(session):
    nb = as_saved(session)
    head = new_output("display_data", {}, metadata=keeping(nb))
    for cell in nb["cells"]:
        cell["outputs"] = []
    nb["cells"].insert(0, new_code_cell("%kin replay x@y", id="head", outputs=[head]))
    assert recording_in_outputs(nb) == session


@pytest.mark.parametrize("nb", [new_notebook(), new_notebook(cells=[new_code_cell("1", id="a")])])
def test_a_notebook_whose_outputs_carry_nothing_says_so(nb):
    with pytest.raises(NoRecordingError, match="No output of this notebook carries a record"):
        recording_in_outputs(nb)


@pytest.fixture
def two(session):
    """A notebook with the records of two sessions, `session`'s in its first two cells."""
    other = replace(session, session="other", meta=session.meta.model_copy(update={"session": "other"}))
    nb = as_saved(session)
    nb["cells"] += as_saved(other)["cells"]
    return nb


def test_outputs_of_two_sessions_are_not_mixed(two):
    with pytest.raises(RecordingError, match=r"of 2 sessions \(5b1c-session, other\)"):
        recording_in_outputs(two)


def test_one_of_two_sessions_is_taken_by_its_name(two, session):
    assert sessions_in_outputs(two) == {"5b1c-session": [1, 2], "other": [3, 4]}
    assert recording_in_outputs(two, "5b1c-session") == session
    assert recording_in_outputs(two, "other").turns == session.turns


def lived(session: str, after: str, *turns):
    meta = SessionMeta(session=session)
    own = {each.turn: each for each in turns}
    whole = [own.get(number) or turn(number, "") for number in range(1, turns[-1].turn + 1)]
    outputs = [carried(each, meta, whole, after=[after] if after else []) for each in turns]
    return [new_code_cell("x", outputs=[new_output("display_data", {}, metadata=metadata)]) for metadata in outputs]


def test_a_session_is_taken_with_those_that_it_went_on_from():
    a, b, c, d = (turn(number, text) for number, text in enumerate("abcd", 1))
    nb = new_notebook(cells=[*lived("one", "", a, b), *lived("two", "one", c), *lived("three", "two", d)])
    nb["cells"] += lived("apart", "", a)
    assert sessions_in_outputs(nb) == {"three": [1, 2, 3, 4], "apart": [5]}
    found = recording_in_outputs(nb, "three")
    assert (found.session, found.turns) == ("three", (a, b, c, d))
    assert recording_in_outputs(nb, "two").turns == (a, b, c)
    assert recording_in_outputs(nb, "apart").turns == (a,)


def test_one_that_went_on_from_another_place_than_the_end_is_taken_alone():
    nb = new_notebook(cells=[*lived("one", "", turn(1, "a"), turn(2, "b")), *lived("two", "one", turn(2, "else"))])
    assert [each.prompt for each in recording_in_outputs(nb, "two").turns] == ["else"]


def test_what_the_notebook_recorded_comes_first_where_the_session_went_on_from_that(session):
    number = len(session.turns)
    nb = new_notebook(
        cells=[*lived("live", session.session, turn(number + 2, "later")), *lived("apart", "", turn(1, "x"))]
    )
    found = recording_in_outputs(nb, "live", session)
    assert [each.turn for each in found.turns] == [*range(1, number + 1), number + 2]
    assert recording_in_outputs(nb, "apart", session).turns == (turn(1, "x"),)
    held = replace(session, turns=(*session.turns, turn(number + 1, "else"), turn(number + 2, "else")), undos=())
    assert [each.turn for each in recording_in_outputs(nb, "live", held).turns] == [number + 2]


def test_sessions_that_say_they_went_on_from_one_another_are_each_there():
    nb = new_notebook(cells=[*lived("one", "two", turn(1, "a")), *lived("two", "one", turn(2, "b"))])
    assert set(sessions_in_outputs(nb)) == {"one", "two"}


@pytest.mark.parametrize("spoil", [{"session": {"session": "../x"}}, {"session": None}])
def test_metadata_that_no_kin_nb_wrote_is_named(session, spoil):
    nb = as_saved(session)
    nb["cells"][0]["outputs"][0]["metadata"][KEY].update(spoil)
    with pytest.raises(RecordingError, match=r"cell 1, kin_recording\.session"):
        recording_in_outputs(nb)


def test_a_record_that_is_too_large_for_a_front_end_stays_in_the_log(session):
    assert carried(turn(1, "x" * MAX_CHARACTERS), session.meta, []) == {}


def test_a_notebook_that_only_a_front_end_saved_says_how_to_make_a_session_notebook_of_it(session):
    nb = as_saved(session)
    with pytest.raises(NoRecordingError, match=r"only its outputs carry one\. .* OUT\.ipynb --from-outputs$"):
        read_recording(nb)
    nb["cells"].append({"cell_type": "code", "metadata": {}, "source": "%kin replay 5b1c@0123456789ab"})
    with pytest.raises(NoRecordingError, match="a cleaner may have dropped its metadata: kin-nb save 5b1c"):
        read_recording(nb)
