"""CellMode: what a session does with a cell, and the values that are handed to it and come back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kin_nb.core.commands import TypedCommand
from kin_nb.core.session.records import SessionRecord, TurnRecord
from kin_nb.notebook.cell_io import CellOutput
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.options import CellOptions
from kin_nb.replay.environment import RECORD_VARIABLE


class RecordMode(StrEnum):
    """What happens to a cell without a recorded answer, as vcrpy names it: an error, a question to the model, always that."""

    NONE = "none"
    NEW = "new"
    ALL = "all"


def record_mode(environ: Mapping[str, str] = os.environ) -> RecordMode | None:
    """What KIN_RECORD says, None where it is not set. Raises KinError for what is no such mode."""
    text = environ.get(RECORD_VARIABLE)
    if text is None:
        return None
    try:
        return RecordMode(text)
    except ValueError:
        raise KinError(f"{RECORD_VARIABLE} is {text!r}: it takes {', '.join(RecordMode)}.") from None


@dataclass(frozen=True)
class Cell:
    """A cell that asks. `key`: of its text; `prompt`: what it says; `typed`: the command that this is, which asks too."""

    io: CellOutput
    key: str
    body: str
    prompt: str
    options: CellOptions
    typed: TypedCommand | None = None


@dataclass(frozen=True)
class Leave:
    """The session goes live, and the cell is asked there. `why`: what the notice says of it; "" for no notice."""

    why: str


class CellMode(Protocol):
    """A session has one at a time."""

    @property
    def name(self) -> str:
        """What `%kin status` says."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether there is a conversation that commands can change."""
        ...

    def run(self, cell: Cell) -> TurnRecord | Leave:
        """Show the cell's answer: its last turn. Raises KinError, ReplayError."""
        ...

    def move(self, command: str, io: CellOutput) -> SessionRecord:
        """What a command does that moves the conversation, `undo 2`. Raises KinError, ReplayError."""
        ...

    @property
    def last(self) -> TurnRecord | None:
        """The turn that was shown last, where that is not the agent's."""
        ...

    def close(self) -> None: ...
