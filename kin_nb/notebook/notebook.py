"""Notebook: its sessions by name, and what they share: settings, what is recorded in its file, what was made in this kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kin_nb.core.agent import Agent
from kin_nb.core.session.records import SessionRecord
from kin_nb.notebook.carried import notebook_folder
from kin_nb.notebook.cell_io import CellOutput, cell_io
from kin_nb.notebook.live_agent import LiveAgent
from kin_nb.notebook.modes.mode import RecordMode, is_watched, record_mode
from kin_nb.notebook.own_file import own_file, surroundings
from kin_nb.notebook.session import Session
from kin_nb.notebook.since_written import SinceWritten
from kin_nb.render import Output, render_notice
from kin_nb.render.text import count
from kin_nb.replay.book import Book, Made
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import RecordingError, ReplayError, UnreadableNotebookError
from kin_nb.replay.format.carrying import KEY, Carried, carried, keeping
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.playback.finding import embedded_recording, find_recording
from kin_nb.replay.playback.notice import playback_notice
from kin_nb.replay.recording import SessionMeta
from kin_nb.replay.runner.place import Scratch, scratch_notice

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Settings(Protocol):
    """`c.KinMagics` as it is now. `max_price`: USD that all sessions together may cost."""

    mode: str | None
    model: str | None
    max_price: float | None


class Notebook:
    """Its file is read once, with the first prompt, and again by each `%kin replay`."""

    def __init__(self, shell: InteractiveShell, settings: Settings, since_written: SinceWritten) -> None:
        self.shell, self.settings, self.since_written = shell, settings, since_written
        self.scratch: Scratch | None = None
        """The copy of the workspace that a notebook plays in, if it does."""
        self.environment: ReplayEnvironment | None = None
        """How `kin-nb replay` wants it; None where a user plays it."""
        self.blocked = ""
        """Why nothing may be played or asked: the beginning of a sentence."""
        self._sessions: dict[str, Session] = {}
        self._book: Book | None = None
        self._made: dict[str, Made] = {}
        self._replays = False
        self._went_live = False
        self._announced = False

    @property
    def book(self) -> Book:
        """All that is known here: what the file holds, and what this kernel made."""
        if self._book is None:
            self._book = Book([])
            nb = self._own_notebook()
            try:
                if nb is not None:
                    self._book = Book.collect(nb)
            except RecordingError as error:
                self.blocked = self.blocked or f"What this notebook recorded cannot be used: {str(error).rstrip('.')}"
        return self._book

    @property
    def max_price(self) -> float | None:
        return self.settings.max_price

    @property
    def is_saved(self) -> bool:
        """Whether what the notebook plays is all in its own recording, and nothing was made since."""
        return self.book.saved is not None and not self.book.carried and not self._made

    @property
    def made(self) -> tuple[Made, ...]:
        """What this kernel made, in its order."""
        return tuple(self._made.values())

    def session(self, name: str = "") -> Session:
        """The session of that name, begun with its first command or prompt. The notebook's own has no name."""
        if name not in self._sessions:
            self._sessions[name] = Session(self, name, LiveAgent(self.shell, self.settings.model, self.settings.mode))
        return self._sessions[name]

    def plays(self, name: str) -> bool:
        """Whether the session of that name shows what is recorded before it asks a model."""
        if self._replays or record_mode() is RecordMode.NONE:
            return True
        book = self.book
        return bool(book.records) and (book.head(name) is not None or not self._went_live)

    def goes_live(self) -> None:
        """A session does: from here on its work is in the workspace itself."""
        self._went_live = True
        scratch, self.scratch = self.scratch, None
        if scratch is not None:
            scratch.close()

    def outside_scratch(self) -> AbstractContextManager[None]:
        """Meanwhile the kernel is where it was before: what begins there outlives the copy."""
        return self.scratch.outside() if self.scratch is not None else nullcontext()

    def know(self, agent: Agent, session: str) -> None:
        """What `agent` has made is known from here on."""
        known = self.book.records
        meta = SessionMeta.of_session(agent.header, notebook_folder(self.shell))
        new = [record for record in agent.records if known.get(record.id) != record]
        self._add(Made(record, session, _as_carried(record, meta)) for record in new)

    def spent_besides(self, live: LiveAgent) -> float:
        """USD that the other sessions have cost until now."""
        others = [each.live.begun for each in self._sessions.values() if each.live is not live]
        return sum(agent.stats.all_cost for agent in others if agent is not None)

    def play(self, name: str, source: Path | None, body: str | None, *, scratch: bool) -> None:
        """`%kin replay NAME`: from here on all sessions play. `body`: of a cell that embeds it.

        `scratch`: in a copy of the workspace. Raises ReplayError naming what is wrong. Then no cell may turn to a model, and the
        output keeps what cells below lose when a front end saves.
        """
        before = self._book
        for session in self._sessions.values():
            session.begin_again()
        self.goes_live()
        self._replays, self.blocked = False, "`%kin replay` failed above"
        environment = ReplayEnvironment.from_environ(os.environ)
        own, copy = self._own_notebook(), None
        try:
            if body is not None:
                nb, recording = embedded_recording(name, body)
            else:
                session_id, _, digest = name.partition("@")
                found = find_recording(session_id, digest, surroundings=surroundings(self.shell), from_path=source)
                copy = Scratch.here(found) if scratch and not Scratch.given(environment) else None
                nb, recording = found.nb, found.recording
            book = Book.collect(own if own is not None else nb)
        except ReplayError:
            notice = render_notice(
                "The answers of the cells below are kept here", ["They play once the recording is there."]
            )
            self._show_keeping(notice, own, only=True)
            raise
        self._book = book.with_known(before) if before is not None else book
        self.environment = environment if environment is not None and environment.mode == "tools" else None
        self.scratch = copy or Scratch.given(environment)
        self._replays, self._went_live, self._announced, self.blocked = True, False, True, ""
        self._show_keeping(playback_notice(recording), own if own is not None else nb)
        if copy is not None:
            self._show(scratch_notice("Files change in a temporary copy of the workspace", [f"Now in {Path.cwd()}"]))

    def announce(self, io: CellOutput) -> None:
        """The first answer that is played, in a notebook that no `%kin replay` plays, says what happens here."""
        if self._announced or not is_watched(io):
            return
        self._announced = True
        lines = [
            f"Record mode {record_mode() or RecordMode.NEW}: a prompt without a recorded answer asks before a model is called.",
            "To ask the model: `%kin live`. To ask one cell again: `%%kin --retry`.",
        ]
        self._show_keeping(render_notice("Recorded answers are shown", lines), self._own_notebook())

    def tell_missing(self, ids: Iterable[str]) -> None:
        """Records that the conversation went on from, and that are nowhere: they are not sent."""
        missing = list(ids)
        if missing:
            named = ", ".join(each[:8] for each in missing[:5]) + (" and more" if len(missing) > 5 else "")  # noqa: PLR2004
            lines = [f"Their cells were deleted, so the model is not told of them: {named}."]
            self._show(render_notice(f"The conversation goes on without {count(len(missing), 'record')}", lines))

    def close(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].close()
        self.goes_live()

    def _add(self, made: Iterable[Made]) -> None:
        found = {each.record.id: each for each in made}
        if found:
            self._made |= found
            self._book = self.book.with_made(found.values())

    def _own_notebook(self) -> Any:
        """As its file is; None where that is not known."""
        own = own_file(self.shell)
        with suppress(UnreadableNotebookError):  # it may be being written
            return load_notebook(own) if own is not None else None
        return None

    def _show_keeping(self, notice: Output, nb: Any, *, only: bool = False) -> None:
        """Show `notice`, with what the outputs of `nb` carry; `only` where they carry something."""
        io = cell_io(self.shell)
        kept = keeping(nb) if nb is not None and is_watched(io) else {}
        if kept or not only:
            notice.metadata.update(kept)
            io.display(notice.data, notice.metadata)

    def _show(self, output: Output) -> None:
        cell_io(self.shell).display(output.data, output.metadata)


def _as_carried(record: SessionRecord, meta: SessionMeta) -> Carried | None:
    raw = carried(record, meta)
    return Carried(record, meta, raw[KEY]) if raw else None
