"""Records that are small and would cost much, say what a terminal obeys, or hold more than this version knows."""

from __future__ import annotations

import json

import pytest
from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.core.records import RecordedStep, Ref, SessionRecord, UndoRecord
from kin_nb.replay.book import Book
from kin_nb.replay.errors import LaterFormatError, RecordingError
from kin_nb.replay.format.notebook_codec import raw_records, read_recording
from kin_nb.replay.format.output_records import RECORD_KEY
from kin_nb.replay.recording import FORMAT, turn_sha
from kin_nb.replay.saving.build import session_notebook
from tests.table import each_row
from tests.unit.replay.edits import stored
from tests.unit.replay.sessions import carried_of, recording, turn

SEQUENCE = "\x1b]0;title\x07\x1b[2J"
HUGE = 10**7


def refused(nb, kind: type[RecordingError] = RecordingError) -> str:
    with pytest.raises(kind) as caught:
        read_recording(nb)
    return said_safely(caught.value)


def said_safely(error: Exception) -> str:
    said = str(error)
    assert len(said) < 1000
    assert all(map(str.isprintable, said.splitlines()))
    return said


def in_outputs(*metadata: dict):
    """A notebook whose outputs carry records."""
    outputs = [[new_output("display_data", {"text/plain": ""}, metadata=each)] for each in metadata]
    cells = [new_code_cell("%%kin\nx", id=f"c{n}", outputs=each) for n, each in enumerate(outputs)]
    return json.loads(json.dumps(new_notebook(cells=cells)))


# What no kernel would have made


def saved(*records: SessionRecord):
    """A notebook as it is saved, its cells to be edited."""
    return json.loads(json.dumps(session_notebook(recording(*records))))


CIRCLE = (
    turn(1, "a", parent=Ref(id=f"{2:016x}"), ancestors=(f"{2:016x}", f"{1:016x}")),
    turn(2, "b", parent=Ref(id=f"{1:016x}"), ancestors=(f"{1:016x}", f"{2:016x}")),
)
ITSELF = turn(3, "c", parent=Ref(id=f"{3:016x}"), ancestors=(f"{3:016x}",))


THROUGH_WHAT_IS_GONE = (
    turn(1, "a", parent=Ref(id="gone"), ancestors=("gone", f"{2:016x}")),
    turn(2, "b", parent=Ref(id="lost"), ancestors=("lost", f"{1:016x}")),
)


@each_row("records", [CIRCLE, (ITSELF,), (*CIRCLE, ITSELF), THROUGH_WHAT_IS_GONE])
@each_row("carrier", ["metadata", "outputs"])
def test_turns_that_continue_from_each_other_in_a_circle_are_refused(carrier, records):
    """Who follows such a link never ends."""
    whole = recording(*records)
    nb = saved(*records) if carrier == "metadata" else in_outputs(*(carried_of(whole, each) for each in records))
    book = Book.collect(nb)
    with pytest.raises(RecordingError, match=r"^turn \d: its parents lead back to itself") as caught:
        book.conversation(book.head())
    said_safely(caught.value)


def undo_to(known_as: str, *ancestors: str, **fields) -> UndoRecord:
    fields = {"id": "e" * 16, "seq": 2, "ancestors": ancestors, "head": Ref(id=known_as), **fields}
    return UndoRecord(turn_ids=(f"{1:016x}",), turns=(1,), parent=Ref(id=f"{1:016x}"), **fields)


LED_BY_UNDOS = {
    "to itself": (undo_to("e" * 16),),
    "to itself, which it goes on from": (undo_to("e" * 16, "e" * 16),),
    "to each other": (
        undo_to("d" * 16, "d" * 16, "e" * 16),
        undo_to("e" * 16, "e" * 16, "d" * 16, id="d" * 16),
    ),
    "from what is gone to each other": (
        undo_to("gone", "d" * 16, "e" * 16),
        undo_to("gone", "e" * 16, "d" * 16, id="d" * 16),
    ),
}


@pytest.mark.parametrize("what", LED_BY_UNDOS)
def test_what_leads_to_what_is_no_turn_leads_to_what_is_missing(what):
    book = Book.collect(saved(turn(1, "a"), *LED_BY_UNDOS[what]))
    for record in LED_BY_UNDOS[what]:
        found = book.conversation(record)
        assert (found.sent, found.uncut) == ((), ())
        assert found.missing_ids


@pytest.mark.parametrize("step", [-5, 0, 99, 2**52])
def test_a_step_that_no_turn_has_is_continued_from_at_its_end_or_beginning(step):
    first = turn(1, "a", steps=tuple(RecordedStep(content=text) for text in "abc"))
    book = Book.collect(saved(first, turn(2, "b", parent=Ref(id=first.id, step=step), ancestors=(first.id,))))
    found = book.conversation(book.head())
    assert len(found.sent) == 2
    assert not found.missing_ids


@pytest.mark.parametrize("ancestors", [("nowhere",) * 99_999, tuple(f"{n:016x}" for n in range(50_000))])
def test_any_number_of_ancestors_is_looked_through_at_once(ancestors):
    """Those that no one has; each is named once."""
    book = Book.collect(saved(turn(HUGE, "a", parent=Ref(id="gone"), ancestors=ancestors)))
    found = book.conversation(book.head())
    assert len(found.turns) == 1
    assert found.missing_ids == (*reversed(dict.fromkeys(ancestors)), "gone")


def test_a_long_conversation_of_turns_that_are_nowhere_is_read_at_once():
    turns = [
        turn(n, f"Prompt {n}.", parent=Ref(id=f"gone {n}"), ancestors=(f"gone {n}", f"{n - 1:016x}"))
        for n in range(1, 400)
    ]
    book = Book.collect(saved(*turns))
    found = book.conversation(book.head())
    assert len(found.turns) == 399
    assert len(found.missing_ids) == 400


@pytest.mark.parametrize("numbers", [(1, HUGE), (1, 1), (0, 3), (3, 2, 1)])
def test_numbers_are_labels_that_may_repeat_and_leave_any_out(numbers):
    turns = [turn(number, f"p{n}", id=f"{n:016x}", seq=n) for n, number in enumerate(numbers, 1)]
    nb = saved(*turns)
    book = Book.collect(nb)
    assert [each.turn for each in book.conversation(book.head()).turns] == [*numbers]
    assert [each.turn for each in read_recording(nb).turns] == [*numbers]


@pytest.mark.parametrize("seq", [2**53 - 1, 0, -1])
def test_a_place_in_the_order_that_no_kernel_gave_is_one_like_others(seq):
    nb = saved(turn(1, "a"), turn(2, "b", seq=seq, parent=Ref(id="0" * 16)))
    assert len(read_recording(nb).turns) == 2


@pytest.mark.parametrize("known_as", ["", None])
def test_a_record_without_an_id_is_refused(known_as):
    nb = saved(turn(1, "a"))
    record = first_record(nb)
    record["id"] = known_as
    record["sha"] = turn_sha(turn(1, "a", id=known_as or ""))
    assert refused(nb).startswith("cell 2, turn")


@each_row("known_as", ["x" * 70_000, "../../etc/passwd", SEQUENCE, "\ud800", "0"])
def test_an_id_is_a_text_like_any_other(known_as):
    whole = recording(turn(1, "a", id=known_as))
    assert read_recording(json.loads(json.dumps(session_notebook(whole)))) == whole


# What a terminal obeys


def first_record(nb):
    return next(raw for _, raw in raw_records(nb))


SAYS = {
    "a later format's version": lambda nb: nb["metadata"]["kin"].update(format=3, kin_nb=SEQUENCE * 500),
    "a later format's version that is no text": lambda nb: nb["metadata"]["kin"].update(
        format=3, kin_nb={"a": [""] * 9000}
    ),
    "a format that is no whole number": lambda nb: nb["metadata"]["kin"].update(format=1e308),
    "a field's name": lambda nb: first_record(nb).update({SEQUENCE * 500: 1}),
    "a field's name within a step": lambda nb: first_record(nb)["steps"][0].update({SEQUENCE: 1, "sha": "0"}),
    "a field of a changed record": lambda nb: first_record(nb).update({SEQUENCE: {"blob": 1}}),
    "the version that wrote": lambda nb: (nb["metadata"]["kin"].update(kin_nb=SEQUENCE), first_record(nb).update(x=1)),
    "a type": lambda nb: first_record(nb).update(type=SEQUENCE * 500),
    "a turn's number": lambda nb: first_record(nb).update(turn=SEQUENCE * 500),
    "an id": lambda nb: first_record(nb).update(id=SEQUENCE * 500),
    "an id in the list of records": lambda nb: nb["metadata"]["kin"]["records"].update({SEQUENCE * 500: "x"}),
    "a hash in the list of records": lambda nb: nb["metadata"]["kin"]["records"].update({"1" * 16: SEQUENCE * 500}),
    "a turn's number of many digits": lambda nb: first_record(nb).update(turn=10**4000),
    "the digest": lambda nb: nb["metadata"]["kin"].update(digest=SEQUENCE),
    "a merge's conflict": lambda nb: nb["cells"][0].update(id={SEQUENCE * 500: 1}),
}


@each_row("what", SAYS)
def test_what_a_notebook_says_of_itself_is_shown_short_and_never_obeyed(what):
    nb = stored()
    SAYS[what](nb)
    refused(nb)


# What this version does not know

LATER = {
    "a turn": (lambda record: record.update(later=1), "field later"),
    "a step": (lambda record: record["steps"][0].update(later=[1]), "field later"),
    "a call": (lambda record: record["steps"][0]["calls"][0].update(later=None), "field calls.later"),
    "what it goes on from": (lambda record: record["parent"].update(later=0), "field parent.later"),
}


@pytest.mark.parametrize("where", LATER)
def test_a_field_that_no_hash_covers_is_refused_and_so_never_lost(where):
    change, named = LATER[where]
    nb = stored()
    record = next(raw for _, raw in raw_records(nb) if raw.get("parent") and raw["type"] == "turn")
    if where == "a call":
        record = next(raw for _, raw in raw_records(nb) if _calls(raw))
    change(record)
    said = refused(nb, LaterFormatError)
    assert f": {named} is unknown to this version (written by kin_nb 0.1.0).\nUpdate kin_nb" in said


def _calls(record) -> bool:
    return record["type"] == "turn" and any(step.get("calls") for step in record["steps"][:1])


MOVED = {
    "undo": (lambda record: record["parent"].update(later=1), "parent.later"),
    "redo": (lambda record: record["head"].update(later=1), "head.later"),
    "compact": (lambda record: record["compaction"].update(later=1), "compaction.later"),
    "clear": (lambda record: record.update(head=None), "head"),
}


@pytest.mark.parametrize("kind", MOVED)
def test_a_field_of_what_moved_the_conversation_that_no_hash_covers_is_refused_too(kind):
    change, named = MOVED[kind]
    nb = stored()
    change(next(raw for _, raw in raw_records(nb) if raw["type"] == kind))
    assert f"{kind}: field {named} is unknown to this version" in refused(nb, LaterFormatError)


def test_a_field_of_the_workspace_is_refused_since_writing_would_lose_it():
    nb = stored()
    nb["metadata"]["kin"]["workspace"]["later"] = 1
    assert "field workspace.later is unknown to this version" in refused(nb, LaterFormatError)


def test_a_later_field_of_the_session_stays_unless_the_digest_covers_it():
    nb = stored()
    nb["metadata"]["kin"]["later"] = 1
    assert read_recording(from_dict(nb)) == read_recording(stored())
    nb["metadata"]["kin"]["digest"] = "0" * 64
    assert "field later is unknown to this version" in refused(nb, LaterFormatError)


@pytest.mark.parametrize(
    ("session", "named"),
    [({"format": FORMAT + 1}, "format 3"), ({"later": 1}, "later"), ({"workspace": {"later": 1}}, "workspace.later")],
)
def test_what_a_later_version_carries_in_an_output_is_refused(session, named):
    whole = recording(turn(1, "a"))
    metadata = carried_of(whole, whole.turns[0])
    metadata[RECORD_KEY]["session"] |= session
    with pytest.raises(LaterFormatError, match=rf"(?s)^cell 1.*{named}.*Update kin_nb"):
        Book.collect(in_outputs(metadata))
