"""CellMode: what a session does with a cell, and the values that are handed to it and come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kin_nb.core.commands import TypedCommand
from kin_nb.core.records import SessionRecord, TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.options import CellOptions, KinError


@dataclass(frozen=True)
class PromptCell:
    """A cell with a prompt. `key`: of its text; `typed`: the command that the prompt is, if it is one that asks the model."""

    io: CellOutput
    key: str
    body: str
    prompt: str
    options: CellOptions
    typed: TypedCommand | None = None


@dataclass(frozen=True)
class GoLive:
    """The session goes live, and then runs the cell. `why`: the text of the notice; "" for no notice."""

    why: str


class CellMode(Protocol):
    """What a session does with its cells. It has one mode at a time."""

    @property
    def name(self) -> str:
        """Return the description for `%kin status`."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether there is a conversation that commands can change."""
        ...

    def run(self, cell: PromptCell) -> TurnRecord | GoLive:
        """Show the cell's answer: its last turn. Raises KinError, ReplayError."""
        ...

    def move(self, command: str, io: CellOutput) -> SessionRecord:
        """Run a command that moves the conversation, such as `undo 2`. Raises KinError, ReplayError."""
        ...

    @property
    def last(self) -> TurnRecord | None:
        """Return the turn that was shown last; None if it is the agent's."""
        ...

    def close(self) -> None: ...


class BlockedMode:
    """Refuse every cell, because the recording cannot be used. `reason`: what is wrong, and on a second line what to do.

    `session`: its name, "" for the notebook's own.
    """

    is_live = False
    last = None
    name = "blocked: the recording cannot be used, and no model is asked"

    def __init__(self, reason: str, session: str = "") -> None:
        self._reason, _, self._advice = reason.partition("\n")
        self._command = f"%kin --session {session} live" if session else "%kin live"

    def run(self, cell: PromptCell) -> GoLive:
        if cell.options.live:
            return GoLive("")
        raise KinError(self.refusal("This cell has no saved answer"))

    def move(self, command: str, io: CellOutput) -> SessionRecord:  # noqa: ARG002
        raise KinError(self.refusal(f"`{command.partition(' ')[0]}` changed nothing"))

    def refusal(self, what: str) -> str:
        """The message for a cell or command: `what` does not work, why, and how to continue."""
        return f"{what}: {self._reason}.\n{self._advice}. Or run `{self._command}` to ask the model."

    def close(self) -> None:
        """Do nothing: nothing is open."""
