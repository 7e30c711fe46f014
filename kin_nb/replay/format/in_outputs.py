"""The recording in a cell's outputs, for a notebook that only a front end saves (docs/session-notebook.md).

A kernel cannot write cells' metadata. So the last output of a turn, and the card of an undo, carry the record in theirs.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from pydantic import ValidationError

from kin_nb.core.session.records import TOOK, TurnRecord, UndoRecord
from kin_nb.replay.errors import DoesNotFollowError, LaterFormatError, NoRecordingError, RecordingError
from kin_nb.replay.format.carrying import AFTER, KEY, STANDS, carried_in, sessions_before
from kin_nb.replay.format.in_notebook import record_json
from kin_nb.replay.format.kept import restored
from kin_nb.replay.format.later import later_format, refuse_later
from kin_nb.replay.format.reading import Reading
from kin_nb.replay.format.relinking import numbered, relinked
from kin_nb.replay.format.stood import Run, Stood
from kin_nb.replay.recording import FORMAT, SESSION_ID, Recording, SessionMeta, whole_numbers

MAX_CHARACTERS = 2_000_000
"""Of one record: a front end keeps all outputs in memory. What is larger is in the log alone."""


def carried(
    record: TurnRecord | UndoRecord,
    meta: SessionMeta,
    turns: Sequence[TurnRecord],
    number: int = 0,
    after: Sequence[str] = (),
    took: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Metadata for the output that carries `record`: its hash is in it. `turns`: all of its session.

    `number`: an undo's, in its session. `after`: the sessions that its session went on from, the nearest first; `took`: the
    numbers of the last turn and the last undo that they told of. Empty for a record over MAX_CHARACTERS.
    """
    if isinstance(record, UndoRecord):
        stands = Stood.of(turns[: record.at], record.to)
        record = numbered(record, turns)
    else:
        stands = Stood.of(turns[: bisect_right(turns, record.turn, key=lambda turn: turn.turn)], None)
    blobs: dict[str, Any] = {}
    stored = record_json(record, blobs, number)
    size = sum(len(str(text)) for text in blobs.values()) + len(str(stored))
    if size > MAX_CHARACTERS:
        return {}
    kept: dict[str, Any] = {
        "session": meta.model_dump(exclude_defaults=True),
        "record": stored,
        "blobs": blobs,
        AFTER: [*after],
    }
    if after and took is not None:
        kept[TOOK] = [*took]
    return {KEY: {**kept, STANDS: stands.model_dump(mode="json")}}


def recording_in_outputs(nb: Any, session: str = "", held: Recording | None = None) -> Recording:
    """What the outputs of `nb` carry, every hash checked; of several sessions, what `session` left there, and those that it
    went on from. `held`: what the notebook recorded, which may be the first of these.

    Turns whose cells were run again are not in there any more; an undo of such turns alone is left out, and what followed
    it goes on from the turn before. Raises NoRecordingError when no output carries a record, RecordingError when one of these
    sessions was changed, used or not, or when they are of several and none is named.
    """
    found = list(carried_records(nb))
    if not found:
        raise NoRecordingError(
            "No output of this notebook carries a record: it was not made by %%kin, or outputs were cleared."
        )
    names = [session] if session else [*sessions_in_outputs(nb)]
    if len(names) > 1:
        raise RecordingError(
            f"The outputs are of {len(names)} sessions ({', '.join(names)}), and a recording holds one. "
            "Write each from the log: kin-nb save SESSION PATH"
        )
    after = _afters(found)
    led = _led_to(after, names[0])
    for each in found:
        if each.meta.session in led:
            each.verify()
    began = held if held is not None and held.session in {led[0], *after[led[0]]} else None
    try:
        return _as_one(found, led, began)
    except DoesNotFollowError:
        if len(led) == 1 and began is None:
            raise
        return _as_one(found, led[-1:])  # it went on from another place than the end


def sessions_in_outputs(nb: Any) -> dict[str, list[int]]:
    """Of each session whose records the outputs of `nb` carry, the cells, from 1, with those of the sessions that it went on
    from, which are not named by themselves. Raises RecordingError.
    """
    found = list(carried_records(nb))
    after = _afters(found)
    own = _by_session(found)
    ways = {name: _on_the_way(own, _led_to(after, name)) for name in own}
    # one that others went on from too is named by itself where it has more than each of them took
    before = {
        name
        for session, way in ways.items()
        for name, taken in way.items()
        if name != session and len(taken) == len(own[name])
    }
    ends = [name for name in own if name not in before] or [*own]
    return {name: sorted({each.cell for taken in ways[name].values() for each in taken}) for name in ends}


def _by_session(records: Sequence[Carried]) -> dict[str, list[Carried]]:
    found: dict[str, list[Carried]] = {}
    for each in records:
        found.setdefault(each.meta.session, []).append(each)
    return found


def _on_the_way(own: Mapping[str, Sequence[Carried]], sessions: Sequence[str]) -> dict[str, list[Carried]]:
    """Those of `sessions`, of which each went on from the one before: what that did later, elsewhere, is not among them."""
    found = {}
    known = inf, inf
    for name in reversed(sessions):
        records = own.get(name, ())
        found[name] = [each for each in records if each.number <= known[each.type != "turn"]]
        took = next((each.took for each in records if each.took is not None), known)
        known = min(known[0], took[0]), min(known[1], took[1])
    return found


def _afters(records: Sequence[Carried]) -> dict[str, Sequence[str]]:
    """Of each session those that it went on from, the nearest first."""
    return {each.meta.session: each.after or () for each in records}


def _led_to(after: Mapping[str, Sequence[str]], session: str) -> list[str]:
    """`session`, and before it those of `after` that it went on from, the first one first."""
    led: dict[str, None] = {}
    wanted = [session]
    while wanted:
        name = wanted.pop()
        if name in after and name not in led:
            led[name] = None
            wanted += after[name][::-1]
    return [*led][::-1]


def _as_one(records: Sequence[Carried], sessions: Sequence[str], held: Recording | None = None) -> Recording:
    """What `sessions`, of which each went on from the one before, and the first from `held`, left in `records`.

    Raises DoesNotFollowError where they do not fit together.
    """
    way = _on_the_way(_by_session(records), sessions)
    of_them = sorted((each for taken in way.values() for each in taken), key=lambda each: each.cell)
    if not of_them:
        raise NoRecordingError(f"No output of this notebook carries a record of session {sessions[-1]}.")
    meta = next(each.meta for each in of_them if each.meta.session == sessions[-1])
    return joined(of_them, meta, held).recording


@dataclass(frozen=True)
class Joined:
    """`undos`: all that are known, by number. `held`: the numbers of those that `recording` has.

    `lost`, of turns that stand, and `cleared`: as in Relinked.
    """

    recording: Recording
    undos: Mapping[int, UndoRecord]
    held: Sequence[int]
    lost: Mapping[int, Sequence[Run]]
    cleared: bool


def joined(records: Sequence[Carried], meta: SessionMeta, begins: Recording | None = None) -> Joined:
    """The turns and undos of `records`, after those of `begins`, as they stand among each other.

    Raises RecordingError naming a record that was changed, DoesNotFollowError where they do not fit together.
    """
    reading = Reading(meta, {sha: text for each in records for sha, text in each.blobs.items()})
    if begins is not None:
        reading.hold(begins)
    for each in records:
        reading.add(each.cell, each.record)
    stood = {each.named: known for each in records if (known := each.stood) is not None}
    recorded = {turn.turn for turn in begins.turns} if begins is not None else ()
    turns = [reading.turns[number].record for number in sorted(reading.turns)]
    found = relinked(turns, reading.undos, stood, recorded)
    others = begins.others if begins is not None else tuple(reading.others.values())
    try:
        whole = Recording(meta.session, tuple(found.turns), meta, others, tuple(found.undos.values()))
    except ValueError as error:
        raise reading.conflict("outputs", str(error)) from error
    standing = {whole.turns[position].turn for position in whole.standing}
    lost = {number: runs for number, runs in found.lost.items() if number in standing}
    return Joined(whole, reading.undos, [*found.undos], lost, found.cleared)


def claimed_sessions(cell: Any) -> Iterator[str]:
    """The sessions that the outputs of `cell` say they are of; nothing is checked but that these may be ids."""
    for kept in carried_in(cell):
        session = kept.get("session")
        name = session.get("session") if isinstance(session, dict) else None
        if isinstance(name, str) and re.fullmatch(SESSION_ID, name):
            yield name


Named = tuple[str, int]
"""A record's type, and its number: a turn's own, an undo's in its session."""
_NUMBERS = {"turn": "turn", "undo": "n", "redo": "n"}
"""What is played, and the field that has its number."""


@dataclass(frozen=True)
class Carried:
    """A record that an output carries, unread. `cell`: from 1; `kept`: all that is carried with it.

    `after`: the sessions that its session went on from, the nearest first; None in old notebooks, which do not say.
    """

    cell: int
    meta: SessionMeta
    kept: Mapping[str, Any]

    @property
    def record(self) -> Any:
        return self.kept.get("record")

    @property
    def type(self) -> str:
        """ "" for what is no record."""
        found = self.record.get("type") if isinstance(self.record, dict) else None
        return found if isinstance(found, str) else ""

    @property
    def named(self) -> Named:
        return self.type, self._number(_NUMBERS.get(self.type, ""))

    @property
    def number(self) -> int:
        return self.named[1]

    def verify(self) -> None:
        """Check it by itself, used or not. Raises RecordingError naming cell, turn and step where it was changed."""
        Reading(self.meta, self.blobs).add(self.cell, self.record)

    @property
    def is_played(self) -> bool:
        """Not so one of a type that this version does not know."""
        return self.type in {*_NUMBERS, ""}

    @property
    def place(self) -> int:
        """After how many turns it came."""
        return self._number("turn") - 1 if self.type == "turn" else self._number("at")

    @property
    def sha(self) -> str:
        """As the record says it."""
        return str(self.record.get("sha")) if isinstance(self.record, dict) else ""

    def _number(self, field: str) -> int:
        """As the record says it, unread; a very high one for what is none, which is named when it is read."""
        number = whole_numbers(self.record.get(field)) if isinstance(self.record, dict) else None
        return number if isinstance(number, int) else sys.maxsize

    @property
    def blobs(self) -> dict[str, Any]:
        blobs = self.kept.get("blobs")
        return blobs if isinstance(blobs, dict) else {}

    @property
    def after(self) -> tuple[str, ...] | None:
        return sessions_before(self.kept[AFTER]) if AFTER in self.kept else None

    @property
    def took(self) -> tuple[int, int] | None:
        """The numbers of the last turn and the last undo of those sessions; None in notebooks that do not say."""
        value = whole_numbers(self.kept.get(TOOK))
        match value:
            case [int(turn), int(undo)]:
                return turn, undo
        return None

    @property
    def stood(self) -> Stood | None:
        """What the conversation was after it; None in old notebooks. Raises RecordingError."""
        try:
            return Stood.model_validate(self.kept[STANDS]) if STANDS in self.kept else None
        except ValidationError:
            raise RecordingError(f"cell {self.cell}, {KEY}.{STANDS}: no kin_nb wrote this.") from None


def carried_records(nb: Any) -> Iterator[Carried]:
    """Of all outputs, in their order, also what these lost and the first one keeps.

    Raises RecordingError for a session's metadata that no kin_nb wrote, or a later one.
    """
    for number, cell in enumerate(restored(nb)["cells"], 1):
        for kept in carried_in(cell):
            try:
                meta = SessionMeta.model_validate(kept.get("session"))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, [KEY, "session", *first["loc"]]))
                raise RecordingError(f"cell {number}, {where}: {first['msg']}.") from None
            if meta.format != FORMAT:
                raise LaterFormatError(f"cell {number}: {later_format(meta.format, meta.kin_nb)}")
            refuse_later(f"cell {number}, {KEY}.session", kept.get("session"), meta, meta.kin_nb)
            yield Carried(number, meta, kept)
