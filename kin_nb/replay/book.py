"""Book: all records of a notebook by their ids, the head of its conversation, and the path that leads there.

Records are found at several places: in cells' metadata (`kin-nb save`), in outputs' metadata (live cells), in the copy that one
output keeps. No place counts more than another: records of one id are equal, or one was changed by hand, which is an error.
Numbers are labels for people. The order is defined by each record's `parent`, and the latest record by its `seq`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kin_nb.core.records import END, ClearRecord, Moved, Ref, Sent, SessionRecord, TurnRecord, UndoRecord
from kin_nb.replay.cell_keys import conversation_key, last_run, matches_options, session_name
from kin_nb.replay.errors import NoRecordingError, RecordingError
from kin_nb.replay.format.notebook_codec import (
    SESSION_PLACEHOLDER,
    SavedRecording,
    first_differing_field,
    read_cells,
    read_saved,
    replayed_session,
)
from kin_nb.replay.format.output_records import OutputRecord, backed_up_records, raw_output_records, read_output_record
from kin_nb.replay.recording import Recording, SessionMeta, fallback_session_id, record_label

_NO_SESSION = SessionMeta(session="none")
"""For a book without records; never written."""


@dataclass(frozen=True)
class CellEntry:
    """A cell that asks, or moves the conversation: its id (None where the file has none), its text's key, its `records`.

    `session`: the name of the conversation that it speaks to, "" for the notebook's own. `number`: from 1, for messages.
    `records`: in the order of their `seq`, each once; also those whose text was another one.
    """

    cell_id: str | None
    key: str
    records: tuple[SessionRecord, ...] = ()
    session: str = ""
    number: int = 0

    @property
    def shown(self) -> tuple[SessionRecord, ...]:
        """Return the records that the cell shows: those of its last run with its present text."""
        return last_run(self.records, self.key)


@dataclass(frozen=True)
class NewRecord:
    """A record that the session `session` made in this kernel, with the metadata of its output, if any.

    `meta`: that session's metadata, None where it is the notebook's own, which the book knows.
    """

    record: SessionRecord
    session: str = ""
    output_records: OutputRecord | None = None
    meta: SessionMeta | None = None


@dataclass(frozen=True)
class RecordedConversation:
    """The records sent to the model, oldest first; the last turn may be truncated. `missing_ids`: records that were not found.

    `uncut`: the same records, with the complete last turn.
    """

    sent: tuple[Sent, ...] = ()
    missing_ids: tuple[str, ...] = ()
    uncut: tuple[Sent, ...] = ()

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """Return the complete turns, as they were recorded."""
        return tuple(each for each in self.uncut if isinstance(each, TurnRecord))


@dataclass(frozen=True)
class Book:
    """`cells`: those that hold a record, ask or move the conversation, in the notebook's order.

    `saved`: what the notebook's metadata records, None where it records nothing. `output_records`: by id, what an output carries
    of each record that is not among those. `meta`: of the session that made the last record. `no_metadata`: why `saved` is None.
    Raises RecordingError for two records with one id that differ.
    """

    cells: Sequence[CellEntry]
    saved: Recording | None = None
    output_records: Mapping[str, OutputRecord] = field(default_factory=dict)
    unknown_records: tuple[str, ...] = ()
    meta: SessionMeta = _NO_SESSION
    no_metadata: str = ""
    sessions: Mapping[str, str] = field(default_factory=dict)
    """By the id of a record, the name of its session, where its first cell speaks to another one now."""
    records: Mapping[str, SessionRecord] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, SessionRecord] = {}
        first: dict[str, int] = {}
        sessions = dict(self.sessions)
        for cell in self.cells:
            for record in cell.records:
                known = found.setdefault(record.id, record)
                first.setdefault(record.id, cell.number)
                sessions.setdefault(record.id, cell.session)
                if known != record:
                    raise RecordingError(
                        f"cell {cell.number}, {record_label(record)}: cell {first[record.id]} has another version of it; field "
                        f"{first_differing_field(known, record)} differs.\nRestore or delete one of the two cells."
                    )
        object.__setattr__(self, "records", found)
        object.__setattr__(self, "sessions", sessions)

    @classmethod
    def collect(cls, nb: Any) -> Book:
        """Collect all records of `nb` and check every hash. Raises RecordingError that names the changed record.

        A cell that lost its outputs gets its records from the copy that another output keeps.
        """
        saved, held, no_metadata = _held(nb)
        known = {record.id for record in held.recording.records}
        others = dict.fromkeys(held.recording.unknown_records)
        kept: dict[str, list[dict[str, Any]]] = {}
        for each in backed_up_records(nb):
            kept.setdefault(each["cell"], []).append(each["carried"])
        carried: dict[str, OutputRecord] = {}
        entries = []
        spoken: dict[str, str] = {}
        moved: dict[str, str] = {}
        for index, cell in enumerate(nb["cells"]):
            records = list(held.records_by_cell.get(index, ()))
            cell_id = cell.get("id") if isinstance(cell.get("id"), str) else None
            for raw in (*raw_output_records(cell), *kept.get(cell_id or "", ())):
                found = read_output_record(index + 1, raw)
                if isinstance(found.record, str):
                    others[found.record] = None
                    continue
                records.append(found.record)
                if found.record.id not in known:
                    carried.setdefault(found.record.id, found)
            key = conversation_key(nb, cell)
            if records or key is not None:
                _check_alike(index + 1, records)
                entry = CellEntry(cell_id, key or "", sort_records(records), session_name(cell) or "", index + 1)
                entries.append(entry)
                for record in entry.records:
                    if record in entry.shown or matches_options(cell, record):
                        spoken.setdefault(record.id, entry.session)
                    elif isinstance(record, Moved) and record.key == entry.key:
                        moved.setdefault(record.id, entry.session)
        meta = _meta(saved, carried) or (saved.meta if saved is not None else _unnamed(nb, held.recording.records))
        sessions = _sessions(entries, spoken, moved)
        return cls(entries, saved, carried, tuple(others), meta, no_metadata, sessions)

    @classmethod
    def of_records(cls, records: Iterable[SessionRecord]) -> Book:
        """Make a book without cells, to read the conversation of a recording."""
        return cls([CellEntry(None, "", sort_records(records))])

    @property
    def has_answers(self) -> bool:
        """Whether any record is a turn or refers to one. A clear before the first turn does not."""
        return any(not isinstance(record, ClearRecord) for record in self.records.values())

    @property
    def recording(self) -> Recording:
        """Return all records as one recording. Raises NoRecordingError when the book is empty."""
        if not self.records:
            reason, _, advice = self.no_metadata.partition("\n")
            raise NoRecordingError(
                f"{reason.removesuffix('.') or 'This notebook has no recording'}. Its outputs have no recorded answer either.\n"
                f"{advice or 'Run its %%kin cells first, or recreate it from the session log: kin-nb save SESSION'}"
            )
        names = {name: session for name, session in self.sessions.items() if session and name in self.records}
        return Recording(self.meta, sort_records(self.records.values()), self.unknown_records, session_names=names)

    @property
    def records_by_cell(self) -> dict[int, tuple[SessionRecord, ...]]:
        """Return each cell's records by the cell's index."""
        return {cell.number - 1: cell.records for cell in self.cells if cell.records}

    @property
    def shown(self) -> tuple[SessionRecord, ...]:
        """Return the records that all cells show. A retried cell shows its last answer, without the undo before it."""
        runs = [cell.shown for cell in self.cells]
        return sort_records(record for run in runs for record in (run[1:] if _makes_room(run) else run))

    def cell(self, cell_id: str | None) -> CellEntry | None:
        """Return the cell with this id."""
        return next((cell for cell in self.cells if cell_id and cell.cell_id == cell_id), None)

    def with_new(self, more: Iterable[NewRecord]) -> Book:
        """Add records to the cells that made them. A record with the same id is replaced."""
        cells = list(self.cells)
        carried, sessions = dict(self.output_records), dict(self.sessions)
        meta, last = self.meta, max((record.seq for record in self.records.values()), default=0)
        for made in more:
            record = made.record
            if made.meta is not None and record.seq >= last:
                meta, last = made.meta, record.seq
            sessions[record.id] = made.session
            home = next((n for n, cell in enumerate(cells) if record.cell_id and cell.cell_id == record.cell_id), None)
            if home is None:
                key = record.key if record.cell_id else ""  # a record without a cell id cannot belong to another cell
                cells.append(CellEntry(record.cell_id, key, (record,), made.session))
            else:
                others = [each for each in cells[home].records if each.id != record.id]
                cells[home] = replace(cells[home], records=sort_records([*others, record]), session=made.session)
            if made.output_records is not None:
                carried[record.id] = made.output_records
        return replace(self, cells=cells, output_records=carried, sessions=sessions, meta=meta)

    def with_records_of(self, before: Book) -> Book:
        """Add the records that were known `before` the notebook was read again and that it has lost since."""
        known = [(cell, record) for cell in before.cells for record in cell.records if record.id not in self.records]
        return self.with_new(
            NewRecord(record, before.sessions[record.id], before.output_records.get(record.id)) for _, record in known
        )

    def head(self, session: str = "") -> SessionRecord | None:
        """Return the last record of a conversation, by `seq`. Of two equally late ones, the one in the upper cell.

        In one cell, the one that the cell shows.
        """
        own = [[each for each in cell.records if self.sessions[each.id] == session] for cell in self.cells]
        last = [max(reversed(records), key=lambda record: record.seq) for records in own if records]
        return max(last, key=lambda record: record.seq, default=None)

    def conversation(self, at: SessionRecord | None) -> RecordedConversation:
        """Return the conversation before a prompt that follows `at` (None: empty). Raises RecordingError for a cycle of parents."""
        if at is None:
            return RecordedConversation()
        sent: list[Sent] = []
        whole: list[Sent] = []
        missing: dict[str, None] = {}  # in their order
        passed: set[str] = set()
        ref, ancestors = at.head, at.ancestors
        while ref is not None:
            record = self.records.get(ref.id)
            if isinstance(record, Sent):
                if record.id in passed:
                    raise RecordingError(
                        f"{record_label(record)}: its parents lead back to itself.\nRestore the notebook."
                    )
                passed.add(record.id)
                sent.append(truncate_turn(record, ref.step) if isinstance(record, TurnRecord) else record)
                whole.append(record)
                ref, ancestors = record.parent, record.ancestors
                continue
            # its cell was deleted: continue from the nearest ancestor that exists
            missing[ref.id] = None
            here = next((n for n, each in enumerate(ancestors) if isinstance(self.records.get(each), Sent)), None)
            missing |= dict.fromkeys(ancestors[:here])
            ref = Ref(id=ancestors[here]) if here is not None else None
        return RecordedConversation(tuple(reversed(sent)), tuple(reversed(missing)), tuple(reversed(whole)))


def _sessions(cells: Sequence[CellEntry], spoken: Mapping[str, str], moved: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each record's session by the record's id.

    `spoken`: the sessions of records whose cell still has the text, or the options, with which it asked. A cell may be a copy,
    or may address another session now: its record then belongs to the session of the next, or previous, record in its
    conversation. Where neither is known, it belongs to the notebook's own session, and a command to the session that its cell
    addresses (`moved`).
    """
    records = sort_records(record for cell in cells for record in cell.records)
    found = dict(spoken)
    for record in reversed(records):
        if record.parent is not None and record.id in found:
            found.setdefault(record.parent.id, found[record.id])
    for record in records:
        before = found.get(record.parent.id) if record.parent is not None else None
        found.setdefault(record.id, moved.get(record.id, "") if before is None else before)
    return found


def _makes_room(run: Sequence[SessionRecord]) -> bool:
    """Whether the run begins with an undo, and a turn follows."""
    return len(run) > 1 and not isinstance(run[0], TurnRecord)


def truncate_turn(turn: TurnRecord, step: int) -> TurnRecord:
    """Return `turn` without `step` and later steps; for END, the whole turn."""
    return turn if step == END else turn.model_copy(update={"steps": turn.steps[: step - 1], "dmail": None})


def active_steps(recording: Recording) -> dict[str, int]:
    """Return the number of active steps of each turn that was not undone, by its id: all steps, unless an undo cut the turn.

    A turn that was cleared, or is on another branch of the conversation, does not count as undone.
    """
    steps = {turn.id: len(turn.steps) for turn in recording.turns}
    found = dict(steps)
    for undo in recording.moves:
        if not isinstance(undo, UndoRecord):
            continue
        for turn_id in undo.turn_ids:
            if undo.head is not None and undo.head.id == turn_id and undo.head.step != END:
                found[turn_id] = undo.head.step - 1
            elif undo.type == "redo":
                found[turn_id] = steps.get(turn_id, 0)
            else:
                found.pop(turn_id, None)
    return {turn_id: count for turn_id, count in found.items() if turn_id in steps}


def sort_records(records: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """Sort by `seq`, keeping each id once."""
    return tuple(sorted({record.id: record for record in records}.values(), key=lambda record: record.seq))


def _held(nb: Any) -> tuple[Recording | None, SavedRecording, str]:
    """Return the recording in the notebook's metadata or None, the records in its cells (pasted ones too), and why it is None."""
    try:
        saved = read_saved(nb)
    except NoRecordingError as error:
        meta = SessionMeta(session=replayed_session(nb) or SESSION_PLACEHOLDER)
        return None, read_cells(nb, meta), str(error)
    return saved.recording, saved, ""


def _unnamed(nb: Any, records: Sequence[SessionRecord]) -> SessionMeta:
    """Return the session of records that are in cells' metadata only, which does not name it: a `%kin replay` cell may."""
    named = replayed_session(nb) or (fallback_session_id(records) if records else "")
    return SessionMeta(session=named) if named else _NO_SESSION


def _meta(saved: Recording | None, carried: Mapping[str, OutputRecord]) -> SessionMeta | None:
    """Return the metadata of the session that made the last record, None when unknown."""
    metas = {each.seq: saved.meta for each in saved.records} if saved is not None else {}
    for each in carried.values():
        if not isinstance(each.record, str):
            metas[each.record.seq] = each.meta
    return metas[max(metas)] if metas else None


def _check_alike(number: int, records: Sequence[SessionRecord]) -> None:
    """Raise RecordingError when the copies of a record in one cell differ."""
    known: dict[str, SessionRecord] = {}
    for record in records:
        before = known.setdefault(record.id, record)
        if before != record:
            raise RecordingError(
                f"cell {number}, {record_label(record)}: its outputs and metadata have different versions; field "
                f"{first_differing_field(before, record)} differs.\nRestore the notebook."
            )
