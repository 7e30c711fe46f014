"""RecordedAnswers: what is known of a notebook's answers, in its file and made in this kernel, and whether that is played."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.records import ClearRecord, SessionRecord
from kin_nb.core.session.lineage import Lineage
from kin_nb.core.session.log import new_session_id
from kin_nb.core.text import counted
from kin_nb.notebook.cell_io import CellOutput, cell_io, has_reader
from kin_nb.notebook.notebook_file import notebook_file, notebook_folder, surroundings
from kin_nb.notebook.options import KinError
from kin_nb.render import Output, render_notice
from kin_nb.replay.book import Book, NewRecord
from kin_nb.replay.environment import RECORD_VARIABLE, ReplayEnvironment
from kin_nb.replay.errors import RecordingError, UnreadableNotebookError
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY, OutputRecord, output_metadata, record_id
from kin_nb.replay.playback.binding import without_outputs
from kin_nb.replay.playback.locate import embedded_recording, find_recording
from kin_nb.replay.playback.player import playback_notice
from kin_nb.replay.recording import SessionMeta
from kin_nb.replay.runner.run_environment import ScratchCopy, scratch_notice

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.output_backup import OutputBackup

UNKNOWN_FILE = "the kernel does not know this notebook's file"
_REPLAY_FAILED = "`%kin replay` failed above\nCorrect that line and run it again"
_MOST_NAMED = 5


class RecordMode(StrEnum):
    """The record mode (as in vcrpy): without a recorded answer a cell fails, or asks the model; `all` always asks it."""

    NONE = "none"
    NEW = "new"
    ALL = "all"


def record_mode(environ: Mapping[str, str] = os.environ) -> RecordMode | None:
    """Read KIN_RECORD; None if it is not set. Raises KinError for an unknown mode."""
    text = environ.get(RECORD_VARIABLE)
    if text is None:
        return None
    try:
        return RecordMode(text)
    except ValueError:
        raise KinError(f"{RECORD_VARIABLE} must be {', '.join(RecordMode)}; got {text!r}.") from None


class RecordedAnswers:
    """The recorded answers of a notebook. Its file is read with the first prompt, and again by each `%kin replay`."""

    def __init__(self, shell: InteractiveShell, backup: OutputBackup) -> None:
        self.shell = shell
        self._backup = backup
        backup.known = self._carried_by_cells
        backup.shown_records = self._shown_by_cells
        self.scratch: ScratchCopy | None = None
        """The copy of the workspace that the notebook plays in, if it does."""
        self.environment: ReplayEnvironment | None = None
        """How `kin-nb replay --tools` wants the calls run again; None where they are not."""
        self.blocked = ""
        """Why nothing may be played or asked, and on a second line what to do; "" when something may."""
        self._book: Book | None = None
        self._made: dict[str, NewRecord] = {}
        self._replays = False
        self._went_live = False
        self._announced = False
        self._page: Any = None
        self._page_written: tuple[Path, int, int] | None = None

    @property
    def book(self) -> Book:
        """Return all known records: those of the notebook's file, and those that this kernel made."""
        if self._book is None:
            self._book = Book([])
            try:
                nb = self._own_notebook() or self._runners_notebook()
                if nb is not None:
                    self._book = Book.collect(nb)
            except RecordingError as error:
                reason, _, advice = str(error).partition("\n")
                self.blocked = self.blocked or f"{reason.rstrip('.')}\n{advice.rstrip('.') or 'Restore the notebook'}"
        return self._book

    def page(self) -> Any:
        """Return the notebook as its file is now, or as a runner got it; None if neither is known.

        Its cells have no outputs. The file is read again only when it was written.
        """
        written = _written(notebook_file(self.shell))
        if self._page is None or self._page_written != written:
            nb = self._own_notebook() or self._runners_notebook()
            self._page = without_outputs(nb) if nb is not None else None
            self._page_written = written
        return self._page

    @property
    def knows_file(self) -> bool:
        """Whether the notebook's file is known. Otherwise only the records of this kernel are."""
        return notebook_file(self.shell) is not None

    @property
    def is_saved(self) -> bool:
        """Whether all records are in the notebook's own recording, and none were made since."""
        return self.book.saved is not None and not self.book.output_records and not self._made

    @property
    def made(self) -> tuple[NewRecord, ...]:
        """Return the records that this kernel made, in order."""
        return tuple(self._made.values())

    def plays(self, name: str) -> bool:
        """Whether the session of that name plays recorded answers."""
        if self._replays or record_mode() is RecordMode.NONE:
            return True
        return self.book.has_answers and (self.book.head(name) is not None or not self._went_live)

    def goes_live(self) -> None:
        """Note that a session goes live: from now on it works in the workspace itself."""
        self._went_live = True
        scratch, self.scratch = self.scratch, None
        if scratch is not None:
            scratch.close()

    def outside_scratch(self) -> AbstractContextManager[None]:
        """Leave the scratch copy within the block: processes started in it outlive the copy."""
        return self.scratch.outside() if self.scratch is not None else nullcontext()

    def know(self, agent: Agent, session: str) -> None:
        """Add the records that `agent` has made."""
        known = self.book.records
        meta = SessionMeta.from_header(agent.header, notebook_folder(self.shell))
        new = [record for record in agent.records if known.get(record.id) != record]
        self._add(NewRecord(record, session, _as_carried(record, meta), meta) for record in new)

    def clear(self, session: str, place: Mapping[str, Any], *, key: str, cell_id: str | None) -> ClearRecord:
        """Record that a conversation begins in `session`, which has no agent yet. `key`, `cell_id`: of the cell that asks.

        `place`: core's `workspace_location`.
        """
        lineage = Lineage()
        lineage.see(self.book.records.values())
        made = lineage.next()
        del made["ancestors"]
        record = ClearRecord(**made, key=key, cell_id=cell_id)
        meta = SessionMeta.without_agent(new_session_id(), place, notebook_folder(self.shell))
        self._add([NewRecord(record, session, _as_carried(record, meta), meta)])
        return record

    def output_records(self, record: SessionRecord) -> dict[str, Any]:
        """Return the metadata for the output that carries `record`, which was made here; empty for one that is too large."""
        found = self.book.output_records.get(record.id)
        return {RECORD_KEY: found.raw} if found is not None else {}

    def play(self, name: str, source: Path | None, body: str | None, *, scratch: bool) -> None:
        """Handle `%kin replay NAME`: all sessions play from here on. `body`: the text of a cell that embeds the recording.

        `scratch`: in a copy of the workspace. Raises ReplayError naming what is wrong. Then no cell may turn to a model.
        """
        before = self._book
        self.goes_live()
        self._replays, self.blocked = False, _REPLAY_FAILED
        environment = ReplayEnvironment.from_environ(os.environ)
        own, copy = self._own_notebook(), None
        if body is not None:
            nb, recording = embedded_recording(name, body)
        else:
            session_id, _, digest = name.partition("@")
            found = find_recording(session_id, digest, context=surroundings(self.shell), from_path=source)
            copy = ScratchCopy.create(found) if scratch and not ScratchCopy.from_environment(environment) else None
            nb, recording = found.nb, found.recording
        book = Book.collect(own if own is not None else nb)
        self._book = book.with_records_of(before) if before is not None else book
        self.environment = environment if environment is not None and environment.mode == "tools" else None
        self.scratch = copy or ScratchCopy.from_environment(environment)
        self._replays, self._went_live, self._announced, self.blocked = True, False, True, ""
        self._backup.show(playback_notice(recording), cell_io(self.shell), own if own is not None else nb)
        if copy is not None:
            self._show(scratch_notice("Files change in a temporary copy of the workspace", [f"Now in {Path.cwd()}"]))

    def announce(self, io: CellOutput) -> None:
        """Explain playback above the first played answer, in a notebook without `%kin replay`.

        Its output holds the backup of what the others carry, so it says that again when its cell runs again.
        """
        if not has_reader(io) or (self._announced and not self._backup.is_due(io.cell_id)):
            return
        self._announced = True
        lines = [
            f"Record mode {record_mode() or RecordMode.NEW}: without a saved answer, you are asked before the model is.",
            "To ask the model: `%kin live`. To ask it again for one cell: `%%kin --retry`.",
        ]
        self._backup.show(render_notice("Saved answers are shown", lines), io)

    def earlier(self, cell_id: str | None, shown: Iterable[SessionRecord] = ()) -> dict[str, Any]:
        """Return metadata for the last output of a cell: its records of earlier runs, which its outputs no longer show."""
        now = {record.id for record in shown}
        kept = [each for each in self._carried_by_cells(cell_id) if record_id(each["carried"]) not in now]
        return {BACKUP_KEY: kept} if cell_id is not None and kept else {}

    def shown_again(self, cell_id: str | None) -> None:
        """The outputs of a cell carry all of its records that only outputs carry."""
        if cell_id is not None:
            ids = [record_id(each["carried"]) for each in self._carried_by_cells(cell_id)]
            self._backup.carries_again(cell_id, ids)

    def tell_unknown_file(self, io: CellOutput) -> None:
        """Report before the first request that the recorded answers could not be read, if the file is not known."""
        if io.cell_id is None or self.knows_file or self.book.has_answers:
            return
        advice = (
            "To show them, restart the kernel and run `%env JPY_SESSION_NAME=NAME.ipynb` above the first prompt, or open a copy "
            "written by `%kin save --portable`."
        )
        self._show(render_notice(f"Saved answers cannot be shown: {UNKNOWN_FILE}", [advice]))

    def tell_missing(self, ids: Iterable[str]) -> None:
        """Report records that the conversation builds on and that were not found: they are not sent."""
        missing = list(ids)
        if missing:
            named = ", ".join(each[:8] for each in missing[:_MOST_NAMED]) + (
                " and more" if len(missing) > _MOST_NAMED else ""
            )
            lines = [f"Their cells were deleted, so the model does not see them: {named}."]
            self._show(render_notice(f"The conversation continues without {counted(len(missing), 'record')}", lines))

    def _add(self, made: Iterable[NewRecord]) -> None:
        found = {each.record.id: each for each in made}
        if found:
            self._made |= found
            self._book = self.book.with_new(found.values())

    def _own_notebook(self) -> Any:
        """Read the notebook's file; None if it is not known."""
        own = notebook_file(self.shell)
        with suppress(UnreadableNotebookError):  # it may be being written
            return load_notebook(own) if own is not None else None
        return None

    def _runners_notebook(self) -> Any:
        """Find the notebook in the arguments of a headless runner, which does not pass its name to the kernel; else None.

        Of several, the first that holds the cell which runs now.
        """
        io = cell_io(self.shell)
        code = io.parent.get("content", {}).get("code")
        if has_reader(io) or not code:
            return None
        for path in surroundings(self.shell).argument_files():
            with suppress(UnreadableNotebookError):
                nb = load_notebook(path)
                if any(cell["source"] == code for cell in nb["cells"]):
                    return nb
        return None

    def _shown_by_cells(self) -> Iterator[tuple[str, str]]:
        for cell in self.book.cells:
            if cell.cell_id is not None:
                yield from ((cell.cell_id, record.id) for record in cell.shown)

    def _carried_by_cells(self, only: str | None = None) -> Iterator[dict[str, Any]]:
        """Return the records that outputs hold, of all cells or of one; none before the first prompt."""
        book = self._book
        for cell in book.cells if book is not None else ():
            for record in cell.records if only is None or cell.cell_id == only else ():
                carried_record = book.output_records.get(record.id) if book is not None else None
                if cell.cell_id is not None and carried_record is not None:
                    yield {"cell": cell.cell_id, "carried": carried_record.raw}

    def _show(self, output: Output) -> None:
        cell_io(self.shell).display(output.data, output.metadata)


def _written(path: Path | None) -> tuple[Path, int, int] | None:
    """Return a value that changes when the file at `path` is written."""
    with suppress(OSError):
        status = path.stat() if path is not None else None
        return (path, status.st_mtime_ns, status.st_size) if path is not None and status is not None else None
    return None


def _as_carried(record: SessionRecord, meta: SessionMeta) -> OutputRecord | None:
    raw = output_metadata(record, meta)
    return OutputRecord(record, meta, raw[RECORD_KEY]) if raw else None
