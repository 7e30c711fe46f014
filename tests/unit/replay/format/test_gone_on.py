"""What the outputs of a session notebook carry after its recording: of one session, or of several that follow each other."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.core.session.records import END, Place, UndoRecord
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.carrying import AFTER, KEY, STANDS
from kin_nb.replay.format.gone_on import gone_on, whole
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.making import session_notebook
from tests.unit.replay.sessions import carried_of, recording, turn

TALK = recording(turn(1, "a", cell_id="c1"), turn(2, "b", cell_id="c2"))


AFTER_OF: dict[str, list[str]] = {}
"""Of the sessions here, those that they went on from."""


def went_on(session: str, *turns, after: Recording = TALK, undos=()) -> Recording:
    """A session that went on where `after` ends."""
    AFTER_OF[session] = [after.session, *AFTER_OF.get(after.session, [])] if after.session != session else []
    meta = after.meta.model_copy(update={"session": session})
    return Recording(session, (*after.turns, *turns), meta, undos=(*after.undos, *undos))


def notebook(*sessions: Recording, first: int = 3, held: Recording = TALK):
    """A notebook that holds `held`, in whose outputs are the turns from `first` on, and the undos, of those sessions."""
    nb = session_notebook(held)
    for each in sessions:
        records = [
            carried_of(each, turn, 0, *AFTER_OF.get(each.session, [])) for turn in each.turns if turn.turn >= first
        ]
        records += [carried_of(each, undo, n, *AFTER_OF.get(each.session, [])) for n, undo in enumerate(each.undos, 1)]
        nb["cells"] += [
            new_code_cell("%%kin\nx", outputs=[new_output("display_data", {"text/plain": ""}, metadata=metadata)])
            for metadata in records
        ]
    return json.loads(json.dumps(nb))


ONE = went_on("one", turn(3, "c", cell_id="c3"))
TWO = went_on("two", turn(4, "d", cell_id="c4"), after=ONE)
HELPER = replace(
    recording(turn(1, "h", cell_id="h1"), turn(2, "h", cell_id="h2"), turn(3, "h", cell_id="h3")),
    session="helper",
    meta=TALK.meta.model_copy(update={"session": "helper"}),
)


def test_what_follows_is_of_the_session_that_went_on():
    found = gone_on(notebook(ONE), TALK)
    assert found.recording == ONE
    assert [*found.carried] == [("turn", 3)]
    assert found.carried["turn", 3][KEY] == carried_of(ONE, ONE.turns[2], 0, TALK.session)[KEY]


def test_nothing_follows():
    assert gone_on(notebook(), TALK).recording == TALK
    assert not gone_on(notebook(TALK, first=1), TALK).carried, "its own turns, as the notebook had them before"


@pytest.mark.parametrize("sessions", [(ONE, TWO), (TWO, ONE), (HELPER, TWO, ONE)])
def test_sessions_follow_each_other_whatever_their_order_in_the_notebook(sessions):
    found = gone_on(without(notebook(*sessions), 3, "two"), TALK)
    assert found.recording == TWO
    assert [*found.carried] == [("turn", 3), ("turn", 4)]


def test_a_turn_that_two_sessions_carry_is_one():
    """Its cell was copied, and shown again by the session that went on from it."""
    assert gone_on(notebook(ONE, TWO), TALK).recording == TWO
    assert gone_on(notebook(TWO, ONE), TALK).recording == TWO


def test_a_session_follows_though_nothing_is_there_of_the_one_that_it_went_on_from():
    """All of that was asked again, and went on from where it stood."""
    again = went_on("two", turn(4, "c", cell_id="c3", origin=Place(turn=3)), after=ONE)
    found = gone_on(notebook(again, first=4), TALK)
    assert [each.turn for each in found.recording.turns] == [1, 2, 4]
    assert (found.recording.session, found.after, found.lost) == ("two", ("one", TALK.session), {})


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_session_that_began_by_itself_is_apart(first):
    """Also where the cells of its first turns were run again, so that its numbers would fit."""
    found = gone_on(notebook(HELPER, first=first), TALK)
    assert (found.recording, found.apart) == (TALK, ["helper"])


def test_damage_in_a_session_apart_is_not_looked_at():
    nb = notebook(ONE)
    nb["cells"] += notebook(HELPER, first=1)["cells"][-3:]
    nb["cells"][-1]["outputs"][0]["metadata"][KEY]["record"]["prompt"] = "Something else."
    found = gone_on(nb, TALK)
    assert (found.recording, found.apart) == (ONE, ["helper"])


def test_what_follows_and_was_changed_is_named():
    nb = notebook(ONE)
    nb["cells"][-1]["outputs"][0]["metadata"][KEY]["record"]["prompt"] = "Something else."
    with pytest.raises(RecordingError, match="cell 4, turn 3: it was changed after it was recorded"):
        gone_on(nb, TALK)
    with pytest.raises(RecordingError, match=r"cell 4, turn 3: .* to leave out what that cell's output carries, clear"):
        whole(nb, TALK)


@pytest.mark.parametrize(
    ("field", "value"), [("turn", None), ("turn", "x"), ("turn", []), ("type", None), ("type", {})]
)
def test_a_record_that_says_nothing_of_its_place_is_named(field, value):
    nb = notebook(ONE)
    nb["cells"][-1]["outputs"][0]["metadata"][KEY]["record"][field] = value
    with pytest.raises(RecordingError, match="cell 4"):
        gone_on(nb, TALK)


def test_an_answer_after_another_turn_of_that_number_does_not_follow():
    """Turn 3 was asked again in another kernel; turn 4 was answered after the first one."""
    again = went_on("again", turn(3, "c again", cell_id="c3"))
    found = gone_on(without(notebook(again, TWO), 3, "two"), TALK)
    assert (found.recording, found.apart) == (again, ["two"])


def without(nb, number: int, session: str):
    def goes(cell):
        kept = [o["metadata"].get(KEY, {}) for o in cell.get("outputs", [])]
        return any(k.get("session", {}).get("session") == session and k["record"].get("turn") == number for k in kept)

    nb["cells"] = [cell for cell in nb["cells"] if not goes(cell)]
    return nb


def test_of_two_that_went_on_from_one_turn_the_first_counts():
    found = gone_on(notebook(ONE, went_on("other", turn(3, "e"))), TALK)
    assert (found.recording, found.apart) == (ONE, ["other"])


@pytest.mark.parametrize("first", [3, 4])
def test_a_turn_of_the_conversation_that_is_not_there_is_named(first):
    """It failed and its cell was run again, or that was deleted."""
    more = went_on("one", turn(3, "c"), turn(4, "d"), turn(5, "e"))
    nb = notebook(more)
    for number in range(first, 5):
        nb = without(nb, number, "one")
    found = gone_on(nb, TALK)
    assert [each.turn for each in found.recording.turns] == [*range(1, first), 5]
    assert len(found.recording.standing) == len(found.recording.turns)
    assert (found.lost, found.gaps) == ({5: ((first, 4),)}, True)


def asked_again(*leave_out: int, undos: int = 1):
    """Turns 3 and 4; then turn 3 was asked again from where it stood, as turn 5."""
    stood = Place(turn=3)
    again = turn(5, "c", cell_id="c3", origin=stood)
    taken = (UndoRecord(at=4, turns=(3, 4), to=stood),)[:undos]
    nb = notebook(went_on("again", turn(3, "c"), turn(4, "d"), again, undos=taken))
    for number in leave_out:
        nb = without(nb, number, "again")
    return nb


@pytest.mark.parametrize("undos", [0, 1])
def test_a_turn_that_was_asked_again_is_not_missed(undos):
    """Nor the card of what took it back, where the answer was played from the log."""
    nb = asked_again(3, 4, undos=undos)
    found = gone_on(nb, TALK).recording
    assert [(each.turn, each.origin) for each in found.turns[2:]] == [(5, None)]
    assert found.undos == ()


@pytest.mark.parametrize("leave_out", [(), (3,), (4,)])
def test_what_was_taken_back_does_not_stand_also_without_what_took_it_back(leave_out):
    found = gone_on(asked_again(*leave_out, undos=0), TALK)
    assert [found.recording.turns[n].turn for n in sorted(found.recording.standing)] == [1, 2, 5]
    assert not found.lost


def test_a_turn_below_that_was_taken_back_with_it_is_there_and_does_not_stand():
    """Its cell still shows it."""
    found = gone_on(asked_again(3), TALK)
    assert [(each.turn, each.origin) for each in found.recording.turns[2:]] == [(4, None), (5, Place(turn=2, step=END))]
    assert sorted(found.recording.standing) == [0, 1, 3]
    assert (found.lost, found.gaps) == ({}, True)


def test_what_was_undone_last_says_what_stands_though_turns_that_it_took_back_are_not_there():
    found = gone_on(without(asked_again(3), 5, "again"), TALK)
    assert [each.turn for each in found.recording.turns] == [1, 2, 4]
    assert sorted(found.recording.standing) == [0, 1]
    assert found.recording.undos[0].turns == (3, 4), "as its card says"


def test_what_was_undone_before_it_was_asked_again_is_not_gone_on_from():
    """c, undo, d, and d asked again from where it stood: only c and the last are in the outputs."""
    undos = (UndoRecord(at=3, turns=(3,), to=Place(turn=3)), UndoRecord(at=4, turns=(4,), to=Place(turn=4)))
    turns = turn(3, "c"), turn(4, "d", origin=Place(turn=3)), turn(5, "d", origin=Place(turn=4))
    found = gone_on(without(notebook(went_on("one", *turns, undos=undos)), 4, "one"), TALK)
    assert [each.turn for each in found.recording.turns] == [1, 2, 3, 5]
    assert sorted(found.recording.standing) == [0, 1, 3]
    assert found.recording.undos == undos[:1]


def test_undos_follow_too_and_the_last_one_says_what_stands_where_one_is_missing():
    undos = (UndoRecord(at=2, turns=(2,), to=Place(turn=2)), UndoRecord(at=2, turns=(1,), to=Place(turn=1)))
    undone = went_on("one", undos=undos)
    assert gone_on(notebook(undone), TALK).recording == undone
    nb = notebook(undone)
    del nb["cells"][-2]
    found = gone_on(nb, TALK)
    assert (found.recording.undos, found.recording.standing, found.undone) == (undos[1:], frozenset(), 2)


def test_a_conversation_that_began_anew_with_a_turn_that_is_not_there_begins_with_the_next_one():
    more = went_on("one", turn(3, "c", fresh=True), turn(4, "d"), turn(5, "e"))
    found = gone_on(without(notebook(more), 3, "one"), TALK)
    assert [(each.turn, each.fresh) for each in found.recording.turns[2:]] == [(4, True), (5, False)]


@pytest.mark.parametrize("value", [None, [], {"turns": [[1]]}, {"turns": [[0, 1]]}, {"turns": "x"}, {"began": -1}])
def test_what_does_not_say_which_turns_stand_is_named(value):
    nb = notebook(ONE)
    nb["cells"][-1]["outputs"][0]["metadata"][KEY][STANDS] = value
    with pytest.raises(RecordingError, match=r"cell 4, kin_recording\.stands: no kin_nb wrote this"):
        gone_on(nb, TALK)


def test_an_undo_in_a_session_of_its_own_is_apart():
    undo = UndoRecord(at=1, turns=(1,), to=Place(turn=0))
    helper = replace(HELPER, undos=(undo,), turns=HELPER.turns[:1])
    assert gone_on(notebook(helper), TALK).apart == ["helper"]


def test_old_outputs_that_do_not_say_what_they_come_after_follow_by_their_numbers():
    nb = notebook(ONE)
    kept = nb["cells"][-1]["outputs"][0]["metadata"][KEY]
    del kept[AFTER], kept[STANDS]
    assert gone_on(nb, TALK).recording == ONE


def test_old_outputs_that_do_not_say_which_turns_stand_must_have_all():
    nb = without(notebook(went_on("one", turn(3, "c"), turn(4, "d"))), 3, "one")
    del nb["cells"][-1]["outputs"][0]["metadata"][KEY][STANDS]
    with pytest.raises(RecordingError, match="carry turn 4, and not all before it"):
        gone_on(nb, TALK)


def test_a_session_that_was_resumed_follows_its_own_recording_though_texts_were_taken_out_of_that():
    whole_one = went_on(TALK.session, turn(3, "c"))
    held = replace(TALK, turns=(TALK.turns[0], turn(2, "[taken out]", cell_id="c2")))
    found = gone_on(notebook(whole_one, held=held), held)
    assert [each.prompt for each in found.recording.turns] == ["a", "[taken out]", "c"]


def test_numbers_that_nobody_counts_to_are_read_at_once():
    nb = notebook(went_on("far", turn(2**52, "c")))
    nb["cells"][-1]["outputs"][0]["metadata"][KEY][STANDS]["turns"] = [[1, 2**51]]
    found = gone_on(nb, TALK)
    assert sorted(found.recording.standing) == [0, 1, 2]
    assert found.lost == {2**52: ((3, 2**51),)}


def test_an_undo_after_a_turn_that_is_missing_stands_where_it_stood_among_those_that_are_there():
    """c asked again from where it stood; that taken back; d."""
    undos = (UndoRecord(at=3, turns=(3,), to=Place(turn=3)), UndoRecord(at=4, turns=(4,), to=Place(turn=3)))
    turns = turn(3, "c"), turn(4, "c", origin=Place(turn=3)), turn(5, "d", origin=Place(turn=3))
    found = gone_on(without(notebook(went_on("one", *turns, undos=undos)), 3, "one"), TALK)
    assert [(each.turn, each.origin) for each in found.recording.turns[2:]] == [(4, None), (5, Place(turn=2, step=END))]
    assert found.recording.undos == (undos[1].model_copy(update={"at": 3, "to": Place(turn=2, step=END)}),)
    assert ("undo", 1) in found.carried
    assert sorted(found.recording.standing) == [0, 1, 3]
