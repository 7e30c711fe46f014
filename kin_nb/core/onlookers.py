"""What a front end knows of the world around a turn, and the agent does not: said in the turn's own record.

What is said there, the cell, the saved notebook and playback show alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from kin_nb.core.session.records import FileChange, TurnRecord

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


class Onlooker(Protocol):
    """One of `Agent.onlookers`. Both are called on the agent's loop, which waits: look at little, and await nothing."""

    def begins(self) -> None:
        """A turn begins."""

    def ends(self, files: Sequence[FileChange]) -> Iterable[str]:
        """It ends, however it does. `files`: what its calls changed, oldest first, as recorded. Returns a line for each remark."""


def begins(agent: Agent) -> None:
    """An onlooker that fails here is heard of when it says what it cannot know then."""
    for onlooker in agent.onlookers:
        try:
            onlooker.begins()
        except Exception as error:  # noqa: BLE001  (no turn fails for a remark)
            agent.journal.warnings.append(_failed(error))


def remarks(agent: Agent, files: Sequence[FileChange]) -> list[str]:
    said: list[str] = []
    for onlooker in agent.onlookers:
        try:
            said += onlooker.ends(files)
        except Exception as error:  # noqa: BLE001  (the record is being closed)
            said.append(_failed(error))
    return [agent.redact(text) for text in said]


def files_of(turn: TurnRecord) -> tuple[FileChange, ...]:
    return tuple(change for call in turn.calls for change in call.files)


def _failed(error: Exception) -> str:
    return f"a remark on this turn could not be made: {type(error).__name__}."
