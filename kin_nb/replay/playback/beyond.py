"""What playback has beyond a session notebook's recording: it went on live, and then only a front end saved it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.cells.matching import Undoing
from kin_nb.replay.cells.placing import asked_key, asked_with, named_session, options_of
from kin_nb.replay.errors import NotRecorded, RecordingError
from kin_nb.replay.format.carrying import KEY, carried_in
from kin_nb.replay.format.gone_on import Card, GoneOn, gone_on
from kin_nb.replay.format.in_outputs import Named, claimed_sessions
from kin_nb.replay.recording import Recording, SessionMeta, turn_sha

_RETRY = "To ask the model again, where a person is there: `%%kin --retry`."
_LIVE = "To ask the model again: `%kin live`, then run it."


class _Answered(NamedTuple):
    """A cell whose outputs say that they hold an answer to its text: the last turn, and its session, where they name one."""

    cell_id: str | None
    key: str | None
    turn: int
    sessions: Sequence[str]


class Beyond:
    """`known`: `recording`, with what the outputs of `nb`, its notebook, or the log add to it."""

    def __init__(self, recording: Recording, nb: Any = None) -> None:
        self._nb = nb
        self._outputs = self.known = GoneOn(recording, {})
        self.later: GoneOn | None = None
        """What the outputs add where they have not all of it: the log may."""
        self._carried: dict[Named, Mapping[str, Any]] = {}
        self.problem = ""
        """Why what the outputs hold cannot be played."""
        answered = [cell for cell in nb["cells"] if _is_answered(nb, cell)] if nb is not None else []
        self._answered = [
            _Answered(cell.get("id"), asked_key(nb, cell), _last_turn(cell), [*claimed_sessions(cell)][-1:])
            for cell in answered
        ]
        try:
            if nb is not None:
                self._outputs = gone_on(nb, recording)
        except RecordingError as error:
            self._outputs = GoneOn(recording, {}, _named_sessions(nb))
            self.problem = f" It cannot be played: {error}"
        self._shown = {what: self._outputs.carried[named] for named, what in _what_it_is(self._outputs).items()}
        """What they carry, by what it is: the log may have it as another session's, which went on from here."""
        if self._outputs.gaps:
            self.later = self._outputs
        elif not self.problem:
            self.take(self._outputs)

    def __bool__(self) -> bool:
        return bool(self._carried or self.later)

    def take(self, found: GoneOn) -> None:
        """What follows was found."""
        self.known, self.later, self.problem = found, None, ""
        what = _what_it_is(found)
        self._carried.update(
            {named: self._shown.get(what.get(named, ""), each) for named, each in found.carried.items()}
        )

    def cards(self, turn: TurnRecord) -> Sequence[Card]:
        """What was undone when this was asked again in its cell."""
        if ("turn", turn.turn) in self._outputs.carried:
            return self._outputs.cards.get(turn.turn, ())
        elsewhere = [(undo.type, undo.turns) for undo, _ in self._outputs.undone_by.values()]
        return [card for card in self.known.cards.get(turn.turn, ()) if (card[0].type, card[0].turns) not in elsewhere]

    def undone_by(self, cell_id: str | None, asked: Undoing) -> Card | None:
        """What the outputs of this cell say that it did, where it may have asked for that: there were fewer turns, or more."""
        card = self._outputs.undone_by.get(cell_id or "")
        if card is None or card[0].type != asked.type or (asked.type == "undo" and len(card[0].turns) > asked.turns):
            return None
        return card

    @property
    def shown(self) -> Mapping[str, int]:
        """By the id of a cell, the turn that its outputs hold as the answer to its text."""
        return self._outputs.shown

    @property
    def replaced(self) -> frozenset[int]:
        """Turns whose cells show what took them back, or a later answer."""
        again = {
            each.turn
            for each in self.known.recording.turns
            if each.turn < self._outputs.latest.get(each.cell_id or "", 0)
        }
        return frozenset(
            again.union(
                *(
                    undo.turns
                    for cards in (*self.known.cards.values(), *self._outputs.cards.values())
                    for undo, _ in cards
                )
            )
        )

    def shows_later(self, turn: TurnRecord, cell_id: str | None) -> bool:
        """Whether the outputs of the cell hold a later answer to the text of `turn`, which is not known."""
        known = self.known.recording.turns[-1].turn if self.known.recording.turns else 0
        return self.shows(turn.key, cell_id) > max(known, turn.turn)

    def shows(self, key: str, cell_id: str | None) -> int:
        """The number of the last turn that the outputs of the cell hold, where that answers its text; 0 for none."""
        return max((each.turn for each in self._answered if (each.cell_id, each.key) == (cell_id, key)), default=0)

    def metadata(self, record: TurnRecord | UndoRecord, number: int) -> Mapping[str, Any]:
        """What the last output of `record` carries: played, it must not be lost when the front end saves again."""
        return self._carried.get((record.type, number), {})

    def check_not_answered(self, key: str, cell_id: str | None, *, retry: bool = False) -> None:
        """Raises NotRecorded for a cell whose outputs hold an answer to its text: a model is asked again only when told to.

        `retry`: `--retry` is in that text, and so it has been told already.
        """
        for each in self._answered:
            if each.key == key and (not cell_id or each.cell_id in {None, cell_id}):
                raise NotRecorded(
                    "The answer to this cell is in its outputs alone, not in the recording."
                    f"{self.problem or self._how_to_have(each)} {_LIVE if retry else _RETRY}"
                )

    def _how_to_have(self, answer: _Answered) -> str:
        """With what follows the recording; alone, where it is of a session that does not."""
        save = "kin-nb save NOTEBOOK.ipynb OUT.ipynb --from-outputs"
        for session in answer.sessions:
            if session in self._outputs.apart:
                return (
                    f" It is of another session, {session[:8]}. To have that by itself: {save} --session {session[:8]}."
                )
        return f" To have both in one: {save}."

    def check_known(self, who: str) -> None:
        """Raises NotRecorded where the outputs of `who` have more, and it cannot be played: a prompt would not go on from it."""
        if self.problem:
            on = "go on where the recording ends" if self.known.recording.turns else "begin it anew"
            raise NotRecorded(
                f"What {who} was answered before is in the outputs.{self.problem} To {on}: `%kin live`, then run this cell."
            ) from None

    def beside(self, name: str) -> Recording:
        """Where the session of that name begins: without turns, since what its cells were answered went on from there."""
        cells = [cell for cell in self._nb["cells"] if named_session(cell) == name] if self._nb is not None else []
        claimed = {session for cell in cells if _speaks_as_then(self._nb, cell) for session in claimed_sessions(cell)}
        session = next((each for each in self._outputs.apart if each in claimed), str(uuid4()))
        return Recording(session, (), SessionMeta(session=session))


def _what_it_is(found: GoneOn) -> dict[Named, str]:
    """Of what it carries, whatever a turn goes on from: that is another one where some are gone."""
    turns = {("turn", turn.turn): turn for turn in found.recording.turns}
    return {
        named: turn_sha(turns[named].model_copy(update={"origin": None, "fresh": False}))
        if named in turns
        else str(carried[KEY]["record"].get("sha"))
        for named, carried in found.carried.items()
        if carried
    }


def _named_sessions(nb: Any) -> list[str]:
    """Of cells that name one, and of no other."""
    named = [(named_session(cell), session) for cell in nb["cells"] for session in claimed_sessions(cell)]
    own = {session for name, session in named if not name}
    return list(dict.fromkeys(session for name, session in named if session not in own))


def _is_answered(nb: Any, cell: Any) -> bool:
    """Whether its outputs say that they hold an answer to its text as it is."""
    return any(record.get("key") == asked_key(nb, cell) for record in _records(cell))


def _last_turn(cell: Any) -> int:
    """The number of the turn that its outputs say to hold; 0 for none."""
    numbers = (record.get("turn") for record in _records(cell) if record.get("type") == "turn")
    return max((number for number in numbers if isinstance(number, int)), default=0)


def _speaks_as_then(nb: Any, cell: Any) -> bool:
    """Whether its outputs say that it spoke to the session that it names: it may be a copy, or have named another."""
    line = options_of(cell)
    return _is_answered(nb, cell) or any(
        record.get("type") != "turn" or asked_with(str(record.get("key")), str(record.get("prompt")), line)
        for record in _records(cell)
    )


def _records(cell: Any) -> Iterator[dict[str, Any]]:
    """What its outputs carry, unchecked."""
    return (record for kept in carried_in(cell) if isinstance(record := kept.get("record"), dict))
