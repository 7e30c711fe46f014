"""The recording in a cell's outputs, for a notebook that only a front end saves (docs/session-notebook.md).

A kernel cannot write cells' metadata. So the last output of a turn, and the card of an undo, carry the record in theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from pydantic import ValidationError

from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.errors import LaterFormatError, NoRecordingError, RecordingError
from kin_nb.replay.format.carrying import KEY, carried_in
from kin_nb.replay.format.in_notebook import record_json
from kin_nb.replay.format.later import later_format, refuse_later
from kin_nb.replay.format.reading import Read, Reading
from kin_nb.replay.recording import FORMAT, Recording, SessionMeta

MAX_CHARACTERS = 2_000_000
"""Of one record: a front end keeps all outputs in memory. What is larger is in the log alone."""


def carried(record: TurnRecord | UndoRecord, meta: SessionMeta, number: int = 0) -> dict[str, Any]:
    """Metadata for the output that carries `record`: its hash is in it. `number`: an undo's, in its session.

    Empty for a record over MAX_CHARACTERS.
    """
    blobs: dict[str, Any] = {}
    stored = record_json(record, blobs, number)
    size = sum(len(str(text)) for text in blobs.values()) + len(str(stored))
    if size > MAX_CHARACTERS:
        return {}
    return {KEY: {"session": meta.model_dump(exclude_defaults=True), "record": stored, "blobs": blobs}}


def recording_in_outputs(nb: Any, session: str = "") -> Recording:
    """What the outputs of `nb` carry, every hash checked; of several sessions, what `session` left there.

    Turns whose cells were run again are not in there any more; an undo of such turns is left out, and what followed it
    goes on from the turn before. Raises NoRecordingError when no output carries a record, RecordingError when one was
    changed, or when they are of several sessions and none is named.
    """
    found = [each for each in _records(nb) if session in {"", each[1].session}]
    if not found:
        raise NoRecordingError(
            "No output of this notebook carries a record: it was not made by %%kin, or outputs were cleared."
        )
    metas = {meta.session: meta for _, meta, _, _ in found}
    if len(metas) > 1:
        raise RecordingError(
            f"The outputs are of {len(metas)} sessions ({', '.join(metas)}), and a recording holds one. "
            "Write each from the log: kin-nb save SESSION PATH"
        )
    (meta,) = metas.values()
    blobs = {sha: text for _, _, _, each in found for sha, text in each.items()}
    reading = Reading(meta, blobs)
    for cell, _, record, _ in found:
        reading.add(cell, record)
    return _recording(reading, meta)


def sessions_in_outputs(nb: Any) -> dict[str, list[int]]:
    """Of each session whose records the outputs of `nb` carry, the cells, from 1. Raises RecordingError."""
    cells: dict[str, list[int]] = {}
    for number, meta, _, _ in _records(nb):
        cells.setdefault(meta.session, []).append(number)
    return {session: list(dict.fromkeys(numbers)) for session, numbers in cells.items()}


_NUMBERS = {"turn": "turn", "undo": "n", "redo": "n"}


def gone_on(nb: Any, recording: Recording) -> tuple[Recording, dict[tuple[str, int], dict[str, Any]]]:
    """`recording`, and after it the turns and undos that outputs of `nb` carry: it went on live, and a front end saved that.

    Also the metadata that carries each of them, by type and number. Raises RecordingError when one was changed, or is of
    another session.
    """
    found = list(_records(nb))
    reading = Reading(recording.meta, {sha: text for _, _, _, each in found for sha, text in each.items()})
    reading.turns.update((turn.turn, Read(0, turn)) for turn in recording.turns)
    reading.undos.update(enumerate(recording.undos, 1))
    before = {("turn", turn.turn) for turn in recording.turns}
    before.update((undo.type, number) for number, undo in enumerate(recording.undos, 1))
    carried_by: dict[tuple[str, int], dict[str, Any]] = {}
    for cell, meta, record, blobs in found:
        reading.add(cell, record)
        field = _NUMBERS.get(record["type"])
        if field is None:
            continue
        named = record["type"], int(record[field])  # it has been read, so it is one, however it is written
        if named not in before:
            session = meta.model_dump(exclude_defaults=True)
            carried_by[named] = {KEY: {"session": session, "record": record, "blobs": blobs}}
    if not carried_by:
        return recording, {}
    return replace(_recording(reading, recording.meta), others=recording.others), carried_by


def claimed_sessions(cell: Any) -> Iterator[str]:
    """The sessions that the outputs of `cell` say they are of; nothing is checked but that these are texts."""
    for kept in carried_in(cell):
        session = kept.get("session")
        name = session.get("session") if isinstance(session, dict) else None
        if isinstance(name, str):
            yield name


def _records(nb: Any) -> Iterator[tuple[int, SessionMeta, Any, dict[str, Any]]]:
    """(cell from 1, session, record, long texts) of each output that carries one."""
    for number, cell in enumerate(nb["cells"], 1):
        for kept in carried_in(cell):
            blobs = kept.get("blobs")
            try:
                meta = SessionMeta.model_validate(kept.get("session"))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise RecordingError(f"cell {number}, {KEY}.session.{where}: {first['msg']}.") from None
            if meta.format != FORMAT:
                raise LaterFormatError(f"cell {number}: {later_format(meta.format, meta.kin_nb)}")
            refuse_later(f"cell {number}, {KEY}.session", kept.get("session"), meta, meta.kin_nb)
            yield number, meta, kept.get("record"), blobs if isinstance(blobs, dict) else {}


def _recording(reading: Reading, meta: SessionMeta) -> Recording:
    """The turns that are there, and the undos that can be played with them."""
    turns = [reading.turns[number].record for number in sorted(reading.turns)]
    numbers = {turn.turn for turn in turns}
    whole = next(number for number in count(1) if number not in numbers) - 1  # no turn before it is missing
    undos = [reading.undos[number] for number in sorted(reading.undos)]
    undos = [undo for undo in undos if undo.at <= whole and numbers.issuperset(undo.turns)]
    linked = tuple(
        turn if turn.origin is None or turn.origin.turn in {0, *numbers} else turn.model_copy(update={"origin": None})
        for turn in turns
    )
    try:
        return Recording(meta.session, linked, meta, tuple(reading.others.values()), tuple(undos))
    except ValueError as error:
        raise reading.error("outputs", str(error)) from error
