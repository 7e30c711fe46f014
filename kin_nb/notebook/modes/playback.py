"""PlaybackMode: a cell shows its recorded answer. Nothing runs or is written, and no model is called without asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.commands.conversation import NOTHING_TO_DO
from kin_nb.core.records import SessionRecord, TurnRecord
from kin_nb.notebook.cell_io import CellOutput, has_reader
from kin_nb.notebook.modes.binding import BindingOffer
from kin_nb.notebook.modes.mode import GoLive, PromptCell
from kin_nb.notebook.modes.show_records import confirm_model_request, show_records
from kin_nb.notebook.options import KinError
from kin_nb.notebook.recorded_answers import RecordedAnswers, RecordMode, record_mode
from kin_nb.render import render_notice
from kin_nb.replay.cell_keys import command_key, is_answer
from kin_nb.replay.errors import AmbiguousTurn, NotRecorded
from kin_nb.replay.playback.player import Playback, describe_edited_prompt

if TYPE_CHECKING:
    from kin_nb.notebook.live_agent import LiveAgent

_HEADLESS = (
    "No saved answer: {why} No model was asked, because no user can watch it here.\n"
    "To ask it, open the notebook in JupyterLab, or set KIN_RECORD=new."
)
_LOST = " If its output was cleared, the session log may have it: kin-nb save SESSION NOTEBOOK.ipynb"


class PlaybackMode:
    """Playback of one session; "" is the notebook's own. Created again whenever the notebook's records are read again."""

    is_live = False

    def __init__(self, recorded: RecordedAnswers, live: LiveAgent, session: str) -> None:
        self._recorded, self._live, self._session = recorded, live, session
        self._playback = Playback(recorded.book, session)
        self._offer = BindingOffer(recorded, live)
        self.last: TurnRecord | None = None

    @property
    def name(self) -> str:
        return f"playback of recorded answers, record mode {record_mode() or RecordMode.NEW}"

    def run(self, cell: PromptCell) -> TurnRecord | GoLive:
        try:
            shown, of_another = self._playback.play(cell.key, cell.io.cell_id)
        except (NotRecorded, AmbiguousTurn) as error:
            return self._without(cell, error)
        self._recorded.announce(cell.io)
        self.last = next(record for record in reversed(shown) if isinstance(record, TurnRecord))
        if not is_answer(self.last) and has_reader(cell.io):
            notice = render_notice(f"Turn {self.last.turn} has no answer", [f"It is shown as it ended. {_ASK_AGAIN}"])
            cell.io.display(notice.data, notice.metadata)
        if of_another and has_reader(cell.io):
            notice = render_notice(f"Turn {self.last.turn} is shown again", [f"Another cell asked it. {_ASK_AGAIN}"])
            cell.io.display(notice.data, notice.metadata)
        book, scratch = self._recorded.book, self._recorded.scratch
        earlier = {} if of_another else self._recorded.earlier(cell.io.cell_id, shown)
        show_records(shown, book, cell.io, self._session, scratch, of_another=of_another, earlier=earlier)
        self._recorded.shown_again(cell.io.cell_id)
        self._offer.make(shown, cell.io)
        return self.last

    def move(self, command: str, io: CellOutput) -> SessionRecord:
        try:
            shown, of_another = self._playback.play(command_key(command), io.cell_id)
        except (NotRecorded, AmbiguousTurn):
            if self._playback.has_nothing_to(command, io.cell_id):
                raise KinError(NOTHING_TO_DO[command.split(maxsplit=1)[0]]) from None  # as it was live
            raise NotRecorded(
                f"Nothing was done: for this cell no `{self._command(command.removesuffix(' 1'))}` is recorded, and "
                f"{self._which} plays a recording. "
                f"To continue from its end: `{self._command('live')}`, then run this cell again."
            ) from None
        book, scratch = self._recorded.book, self._recorded.scratch
        earlier = {} if of_another else self._recorded.earlier(io.cell_id, shown)
        show_records(shown, book, io, self._session, scratch, of_another=of_another, earlier=earlier)
        self._recorded.shown_again(io.cell_id)
        return shown[-1]

    def close(self) -> None:
        """Do nothing: nothing is open."""

    @property
    def _which(self) -> str:
        return f"session {self._session}" if self._session else "this notebook"

    def _command(self, name: str) -> str:
        return f"%kin --session {self._session} {name}" if self._session else f"%kin {name}"

    def _without(self, cell: PromptCell, error: NotRecorded | AmbiguousTurn) -> GoLive:
        """Handle a cell without a recorded answer. Raises NotRecorded or KinError if no model may be asked."""
        mode = record_mode()
        if cell.options.live and mode is not RecordMode.NONE:
            return GoLive("The conversation continues from the end of the recording.")
        if cell.options.cached or mode is RecordMode.NONE:
            raise NotRecorded(
                f"{error} No model was asked: {'--cached' if cell.options.cached else 'KIN_RECORD is none'}."
            )
        entry = self._playback.cell(cell.io.cell_id)
        turns = [each for each in entry.records if isinstance(each, TurnRecord)] if entry is not None else []
        watched = has_reader(cell.io)
        if cell.options.retry and turns and watched:
            return GoLive(f"Turn {turns[-1].turn} is asked again at its place. The recording keeps the old answer.")
        if turns and watched and mode is None:
            raise NotRecorded(describe_edited_prompt(turns[-1], cell.body), turn=turns[-1]) from None
        agreed: bool | None = mode is RecordMode.NEW or (cell.options.retry and watched)
        if not agreed:
            agreed = confirm_model_request(self._recorded.shell, self._live.thread, cell.io) if watched else None
        if agreed is None:
            lost = _LOST if entry is not None and not entry.records else ""
            why = str(error)
            raise NotRecorded(f"{_HEADLESS.format(why=why[0].lower() + why[1:])}{lost}") from None
        if not agreed:
            raise KinError("This cell was skipped: it has no saved answer.\nRun it again to ask the model.")
        return GoLive("This cell continues from the end of the recording.")


_ASK_AGAIN = "To ask the model again: `%kin live`, then run this cell again."
