"""Commands in a notebook: `%kin NAME`, or `/NAME` as a whole cell. What each does is core.commands' business."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kin_nb.core.commands import CommandError, CommandResult, TypedCommand, named_command, run_command, typed_command
from kin_nb.notebook.errors import InPlaybackError, KinError

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.config import KinConfig
    from kin_nb.core.custom_modes import CustomMode
    from kin_nb.core.modes import AgentMode
    from kin_nb.notebook.session import KinSession

T = TypeVar("T")

_TAKE_ANOTHER = {"load", "resume"}


def run_line(session: KinSession, line: str, name: str = "") -> None:
    """What stands after `%kin [--session NAME]`; in playback `session` may be another. Raises KinError for an unknown
    command, naming the nearest.
    """
    from kin_nb.notebook.options import CellOptions  # noqa: PLC0415  (commands that ask only)

    try:
        typed = named_command(line)
    except CommandError as error:
        raise KinError(str(error)) from None
    options = CellOptions(session=name, text=f"--session {name}") if name else CellOptions()
    if typed.command.asks:
        session.run_cell(f"/{line.strip().removeprefix('/')}", options)
    else:
        show_command(session.meant(options), typed)


def command_in(prompt: str) -> TypedCommand | None:
    """The command that a cell's whole text is. Raises KinError for what is nearly one."""
    try:
        return typed_command(prompt)
    except CommandError as error:
        raise KinError(str(error)) from None


def show_command(session: KinSession, typed: TypedCommand) -> None:
    """Run a command, and show what it gives in the cell; in playback, that there is nothing for it. Raises KinError."""
    from kin_nb.replay.errors import NotRecorded  # noqa: PLC0415  (unknown commands need none)

    try:
        _show(session, typed)
    except (InPlaybackError, NotRecorded) as error:
        if typed.command.name in _TAKE_ANOTHER:
            raise  # what is asked below is meant for that other conversation
        session.passed_by(typed.command.name, error)


def _show(session: KinSession, typed: TypedCommand) -> None:
    from kin_nb.core.session.records import UndoRecord  # noqa: PLC0415  (as above)
    from kin_nb.notebook.carried import carried_by  # noqa: PLC0415
    from kin_nb.render import render_result  # noqa: PLC0415

    if session.in_playback and typed.command.name in {"undo", "redo"}:
        _undo_as_recorded(session, typed)
        return
    played = session.played if typed.command.name == "last" else None
    result = CommandResult(record=played) if played is not None else result_of(session, typed)
    outputs = render_result(result, session.name)
    if isinstance(result.record, UndoRecord) and session.begun is not None:
        outputs[-1].metadata.update(carried_by(session.shell, session.begun, result.record))
    for output in outputs:
        session.show(output)


def result_of(session: KinSession, typed: TypedCommand) -> CommandResult:
    """Raises KinError."""
    try:
        return run_command(NotebookHost(session), typed)
    except CommandError as error:
        raise KinError(str(error)) from None


def _undo_as_recorded(session: KinSession, typed: TypedCommand) -> None:
    from kin_nb.core.commands.conversation import turns_to_undo  # noqa: PLC0415  (playback only)
    from kin_nb.replay.cells.matching import Undoing  # noqa: PLC0415

    if typed.command.name == "redo":
        session.undo_as_recorded(Undoing("redo"))
        return
    try:
        session.undo_as_recorded(Undoing("undo", turns_to_undo(typed.words)))
    except CommandError as error:
        raise KinError(str(error)) from None


class NotebookHost:
    """A KinSession as commands see it (core.commands.CommandHost)."""

    def __init__(self, session: KinSession) -> None:
        self._session = session

    @property
    def agent(self) -> Agent | None:
        return self._session.begun

    @property
    def mode(self) -> AgentMode | CustomMode:
        return self._session.mode

    def config(self) -> KinConfig:
        return self._session.config()

    def check_live(self, what: str) -> None:
        if self._session.in_playback:
            named = f"--session {self._session.name} " if self._session.name else ""
            raise InPlaybackError(
                f"This notebook is in playback: there is no conversation to {what}. "
                f"`%kin {named}live` to go on where the recording ends."
            )

    def up_to_date(self) -> Agent | None:
        return self._session.agent() if self.agent is not None else None

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._session.on_agent_thread(work)

    def choose_model(self, alias: str) -> None:
        self._session.choose_model(alias)

    def choose_mode(self, name: str) -> None:
        self._session.choose_mode(name)

    def save(self, line: str) -> CommandResult:
        self._session.save(line)
        return CommandResult()

    def notebook(self, path: Path) -> Callable[[Agent], None]:
        """Raises ReplayError."""
        from kin_nb.replay.format.in_notebook import read_recording  # noqa: PLC0415  (/load only)
        from kin_nb.replay.format.loading import load_notebook  # noqa: PLC0415
        from kin_nb.replay.playback.going_on import go_on  # noqa: PLC0415

        recording = read_recording(load_notebook(path))
        return lambda agent: go_on(agent, recording)

    def take(self, agent: Agent) -> None:
        self._session.take(agent)

    def replay(self, name: str, source: str | None, *, scratch: bool) -> None:
        self._session.replay(name, source, scratch=scratch)

    def go_live(self) -> None:
        self._session.go_live()
