"""What outputs have of any history, whatever they lack: each turn goes on from what it went on from, as far as that is there."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.core.context.checkpoints import branch, end_of, led_to
from kin_nb.core.session.records import END, Place, TurnRecord, UndoRecord
from kin_nb.replay.format.gone_on import gone_on
from kin_nb.replay.format.in_outputs import recording_in_outputs
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.saving.making import session_notebook
from tests.unit.replay.sessions import SESSION, carried_of, turn


@dataclass
class Life:
    """A session. `stands`: its conversation; `before`: that of each turn: lists, told without any place or origin.

    `sent` and `sent_before`: the same without what was cleared.

    `happened`: each turn, and each undo with its number, with the conversation after it.
    """

    turns: list[TurnRecord] = field(default_factory=list)
    undos: list[UndoRecord] = field(default_factory=list)
    stands: list[int] = field(default_factory=list)
    before: dict[int, list[int]] = field(default_factory=dict)
    happened: list[tuple[TurnRecord | UndoRecord, int, list[int]]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    sent_before: dict[int, list[int]] = field(default_factory=dict)
    _undone: list[tuple[list[int], list[int], bool, Place, UndoRecord]] = field(default_factory=list)
    _place: Place | None = None
    _fresh: bool = False

    def prompt(self) -> None:
        number = len(self.turns) + 1
        self.before[number] = list(self.stands)
        self.sent_before[number] = list(self.sent)
        self.turns.append(turn(number, f"p{number}", cell_id=f"c{number}", origin=self._place, fresh=self._fresh))
        self.stands.append(number)
        self.sent.append(number)
        self._undone, self._place, self._fresh = [], None, False
        self.happened.append((self.turns[-1], 0, list(self.stands)))

    def clear(self) -> None:
        self.sent, self._fresh = [], True

    def undo(self, count: int) -> None:
        if self.stands:
            gone, here = self.stands[-count:], self._place or self._end
            record = UndoRecord(at=len(self.turns), turns=tuple(gone), to=Place(turn=gone[0]))
            self._undone.append((list(self.stands), list(self.sent), self._fresh, here, record))
            self.sent, self._fresh = list(self.sent_before[gone[0]]), False
            self._stand(record, self.stands[:-count])

    def redo(self) -> None:
        if self._undone:
            stands, self.sent, self._fresh, place, undone = self._undone.pop()
            self._stand(undone.model_copy(update={"type": "redo", "to": place}), stands)

    def _stand(self, record: UndoRecord, stands: list[int]) -> None:
        self.undos.append(record)
        self.stands, self._place = stands, None if record.to == self._end else record.to
        self.happened.append((record, len(self.undos), list(stands)))

    @property
    def _end(self) -> Place:
        return Place(turn=len(self.turns), step=END)

    @property
    def recording(self) -> Recording:
        return Recording(SESSION, tuple(self.turns), SessionMeta(session=SESSION), undos=tuple(self.undos))


def life(rng: random.Random, recorded: int) -> Life:
    lived = Life()
    for _ in range(recorded):
        lived.prompt()
    while len(lived.happened) < recorded + rng.randint(1, 12):
        rng.choice([lived.prompt, lived.prompt, lived.redo, lived.clear, lambda: lived.undo(rng.randint(1, 3))])()
    return lived


def notebook(lived: Life, held: Recording, kept) -> Any:
    """It recorded `held`; the other records that are `kept` are in its outputs."""
    nb, whole = session_notebook(held), lived.recording
    nb["cells"] += [
        new_code_cell("%%kin\nx", outputs=[new_output("display_data", {}, metadata=carried_of(whole, record, number))])
        for record, number, _ in kept
    ]
    return json.loads(json.dumps(nb))


def conversations(recording: Recording) -> dict[int, list[int]]:
    places = {each.turn: each.origin or end_of(recording.turns[:n]) for n, each in enumerate(recording.turns)}
    return {
        number: [each.turn for each in branch(recording.turns[:n], place)] if place else []
        for n, (number, place) in enumerate(places.items())
    }


def sent(recording: Recording) -> dict[int, list[int]]:
    """What the model was sent with each turn."""
    found = {}
    for n, each in enumerate(recording.turns):
        found[each.turn] = before = list[int]()
        place = each.origin or end_of(recording.turns[:n])
        for turn_before, step in led_to(recording.turns[:n], place) if place and not each.fresh else ():
            if step == END:
                before.insert(0, turn_before.turn)
            if turn_before.fresh:
                break
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("lost", [0, 0.2, 0.5])
def test_each_turn_goes_on_from_what_it_went_on_from_as_far_as_that_is_there(lost, seed):
    """And what was done last, if that is there, says what stands."""
    for number in range(seed * 10, seed * 10 + 10):
        rng = random.Random(number)
        recorded = rng.randint(1, 3)
        lived = life(rng, recorded)
        held = Recording(SESSION, tuple(lived.turns[:recorded]), SessionMeta(session=SESSION))
        kept = [each for each in lived.happened[recorded:] if rng.random() >= lost]
        nb = notebook(lived, held, rng.sample(kept, len(kept)))
        _, _, stands = [*lived.happened[:recorded], *kept][-1]
        for found in [gone_on(nb, held).recording, *([recording_in_outputs(nb, held=held)] if kept else [])]:
            there = {each.turn for each in found.turns}
            assert conversations(found) == {n: [each for each in lived.before[n] if each in there] for n in there}
            assert sent(found) == {n: [each for each in lived.sent_before[n] if each in there] for n in there}
            assert [found.turns[n].turn for n in sorted(found.standing)] == [each for each in stands if each in there]


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_clear_is_known_also_where_all_turns_after_it_are_gone(taken_back):
    lived = Life()
    for step in (lived.prompt, lived.prompt, lived.clear, lived.prompt, lambda: lived.undo(1), lived.redo):
        step()
    kept = lived.happened[1:2] + lived.happened[3 : 4 if taken_back else 5]
    held = Recording(SESSION, tuple(lived.turns[:1]), SessionMeta(session=SESSION))
    found = gone_on(notebook(lived, held, kept), held)
    assert ([each.turn for each in found.recording.turns], found.cleared, found.gaps) == ([1, 2], True, True)
    assert not gone_on(notebook(lived, held, lived.happened[1:]), held).cleared


def test_a_clear_is_not_forgotten_with_the_first_turn_after_it():
    """That was asked again: its record is not in the outputs any more, and the new one goes on from before it."""
    lived = Life()
    for step in (
        lived.prompt,
        lived.prompt,
        lived.clear,
        lived.prompt,
        lambda: lived.undo(1),
        lived.prompt,
        lived.prompt,
    ):
        step()
    held = Recording(SESSION, tuple(lived.turns[:1]), SessionMeta(session=SESSION))
    kept = [each for each in lived.happened[1:] if each[0] != lived.turns[2]]
    assert sent(gone_on(notebook(lived, held, kept), held).recording) == {1: [], 2: [1], 4: [], 5: [4]}


def test_a_recording_that_lacks_a_turn_is_gone_on_with():
    """It was made of outputs, of which one was gone."""
    lived = Life()
    for _ in range(5):
        lived.prompt()
    held = Recording(SESSION, (*lived.turns[:1], *lived.turns[2:4]), SessionMeta(session=SESSION))
    assert conversations(gone_on(notebook(lived, held, lived.happened[4:]), held).recording)[5] == [1, 3, 4]
