"""Commands in a notebook: `%kin NAME`, or `/NAME` as a whole cell. What each does is core.commands' business."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kin_nb.core.commands import (
    CommandError,
    CommandHost,
    CommandResult,
    TypedCommand,
    named_command,
    run_command,
    typed_command,
)
from kin_nb.notebook.cell_io import cell_io, has_reader
from kin_nb.notebook.options import InPlaybackError, KinError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent
    from kin_nb.core.config import KinConfig
    from kin_nb.core.config.custom_modes import CustomMode
    from kin_nb.core.host_facts import HostFacts
    from kin_nb.core.modes import AgentMode
    from kin_nb.notebook.live_agent import LiveAgent
    from kin_nb.notebook.modes.mode import CellMode
    from kin_nb.notebook.options import CellOptions
    from kin_nb.notebook.recorded_answers import RecordedAnswers
    from kin_nb.render import Output

T = TypeVar("T")

_TAKE_ANOTHER = {"load", "resume"}
_MOVE = {"undo", "redo", "clear", "compact"}


class CommandTarget(Protocol):
    """The part of a session (session.py) that commands use."""

    name: str
    live: LiveAgent
    recorded: RecordedAnswers

    @property
    def shell(self) -> InteractiveShell: ...
    @property
    def host(self) -> NotebookHost: ...
    @property
    def mode(self) -> CellMode: ...

    def run_cell(self, body: str, options: CellOptions) -> None: ...
    def show(self, output: Output) -> None: ...
    def save(self, line: str) -> None: ...
    def take(self, agent: Agent) -> None: ...
    def replay(self, name: str, source: str | None, *, scratch: bool) -> None: ...
    def go_live(self) -> None: ...


def run_line(session: CommandTarget, line: str, name: str = "") -> None:
    """Run the command after `%kin [--session NAME]`. Raises KinError for an unknown one, with the nearest name."""
    from kin_nb.notebook.options import CellOptions  # noqa: PLC0415  (commands that ask only)

    try:
        typed = named_command(line)
    except CommandError as error:
        raise KinError(str(error)) from None
    options = CellOptions(session=name, text=f"--session {name}") if name else CellOptions()
    if typed.command.asks:
        session.run_cell(f"/{line.strip().removeprefix('/')}", options)
    else:
        show_command(session, typed)


def command_of(prompt: str) -> TypedCommand | None:
    """Parse a cell whose whole text is a command; None for a prompt. Raises KinError for a misspelled command."""
    try:
        return typed_command(prompt)
    except CommandError as error:
        raise KinError(str(error)) from None


def show_command(session: CommandTarget, typed: TypedCommand) -> None:
    """Run a command, and show its result in the cell. Raises KinError, ReplayError.

    In playback one that moves the conversation shows what is recorded; of any other that needs one there is a notice.
    """
    from kin_nb.render import render_notice  # noqa: PLC0415  (unknown commands need none)

    try:
        _show(session, typed)
    except InPlaybackError as error:
        if typed.command.name in _TAKE_ANOTHER or not has_reader(cell_io(session.shell)):
            raise  # what is asked below is meant for that other conversation
        fact, _, advice = str(error).partition(". ")
        session.show(render_notice(fact, [advice]))


def _show(session: CommandTarget, typed: TypedCommand) -> None:
    from kin_nb.render import render_result  # noqa: PLC0415  (as above)

    name = typed.command.name
    if name in _MOVE and not session.mode.is_live:
        session.mode.move(_moving(typed), cell_io(session.shell))
        return
    played = session.mode.last if name == "last" else None
    result = CommandResult(record=played) if played is not None else _result_of(session.host, typed)
    outputs = render_result(result, session.name)
    agent = session.live.agent_or_none
    if result.record is not None and result.record.type != "turn":
        if agent is not None:
            session.recorded.know(agent, session.name)
        earlier = session.recorded.earlier(cell_io(session.shell).cell_id, [result.record])
        outputs[-1].metadata.update({**session.recorded.output_records(result.record), **earlier})
    for output in outputs:
        session.show(output)


def _moving(typed: TypedCommand) -> str:
    """Return a command that moves the conversation in normal form, such as `undo 2`. Raises KinError."""
    from kin_nb.core.commands.conversation import turns_to_undo  # noqa: PLC0415  (playback only)

    try:
        return f"undo {turns_to_undo(typed.words)}" if typed.command.name == "undo" else typed.command.name
    except CommandError as error:
        raise KinError(str(error)) from None


def _result_of(host: CommandHost, typed: TypedCommand) -> CommandResult:
    """Run a command. Raises KinError."""
    try:
        return run_command(host, typed)
    except CommandError as error:
        raise KinError(str(error)) from None


class NotebookHost:
    """Give commands access to the session (core.commands.CommandHost)."""

    def __init__(self, session: CommandTarget) -> None:
        self._session = session

    @property
    def agent(self) -> Agent | None:
        return self._session.live.agent_or_none

    @property
    def mode(self) -> AgentMode | CustomMode:
        return self._session.live.mode

    @property
    def facts(self) -> HostFacts:
        return self._session.live.host_facts()

    def config(self) -> KinConfig:
        return self._session.live.config()

    def check_live(self, what: str) -> None:
        from kin_nb.notebook.modes.mode import BlockedMode  # noqa: PLC0415  (the session has it by now)

        session = self._session
        if isinstance(session.mode, BlockedMode):
            raise KinError(session.mode.refusal(f"There is no conversation to {what}"))
        if not session.mode.is_live:
            named = f"--session {session.name} " if session.name else ""
            raise InPlaybackError(
                f"This notebook plays a recording: there is no conversation to {what}. "
                f"To continue it with a model: `%kin {named}live`."
            )

    def asking_cell(self, command: str) -> dict[str, Any]:
        from kin_nb.replay.cell_keys import command_key  # noqa: PLC0415  (few commands need it)

        return {"key": command_key(command), "cell_id": cell_io(self._session.shell).cell_id}

    def clear_unused(self) -> CommandResult:
        """Record the clear in this kernel: a session without an agent has no log."""
        from kin_nb.core.session.metadata import workspace_location  # noqa: PLC0415  (rarely used)

        session, place = self._session, workspace_location(self.config())
        return CommandResult(record=session.recorded.clear(session.name, place, **self.asking_cell("clear")))

    def up_to_date(self) -> Agent | None:
        return self._session.live.get() if self.agent is not None else None

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._session.live.on_thread(work)

    def choose_model(self, alias: str) -> None:
        self._session.live.choose_model(alias)

    def choose_mode(self, name: str) -> None:
        self._session.live.choose_mode(name)

    def save(self, line: str) -> CommandResult:
        self._session.save(line)
        return CommandResult()

    def notebook(self, path: Path) -> Callable[[Agent], None]:
        """Return what lets an agent continue from the notebook at `path`. Raises ReplayError."""
        from kin_nb.replay.playback.player import resume_from_file  # noqa: PLC0415  (/load only)

        return resume_from_file(path)

    def take(self, agent: Agent) -> None:
        self._session.take(agent)

    def replay(self, name: str, source: str | None, *, scratch: bool) -> None:
        self._session.replay(name, source, scratch=scratch)

    def go_live(self) -> None:
        self._session.go_live()

    def record_mode(self) -> str:
        from kin_nb.notebook.recorded_answers import UNKNOWN_FILE  # noqa: PLC0415  (the session has it by now)

        session = self._session
        if session.recorded.knows_file or cell_io(session.shell).cell_id is None:
            return session.mode.name
        return f"{session.mode.name}; saved answers cannot be shown: {UNKNOWN_FILE}"
