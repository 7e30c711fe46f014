"""CommandHost: the session that commands work on, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from kin_nb.core.agent import Agent
    from kin_nb.core.config import KinConfig
    from kin_nb.core.config.custom_modes import CustomMode
    from kin_nb.core.modes import AgentMode
    from kin_nb.core.records import FileChange, SessionRecord
    from kin_nb.core.skills.flows import Flow


T = TypeVar("T")


CLEARED = "A new conversation begins with the next prompt. What was said stays recorded."
"""What /clear says."""


class CommandError(Exception):
    """The command could not be done; nothing was changed unless the text says so. What happened, then what to do."""


class UnknownCommandError(CommandError):
    """There is no such command. Names the nearest."""


@dataclass(frozen=True)
class Table:
    """Rows of one length. `right`: columns that are numbers, from 0."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True)
class CommandResult:
    """What there is to show, in this order; or, with `prompt`, what to run as turns: one, or those of `flow`.

    `turn`: the number of the turn that `changes` are of. A result without anything shows nothing.
    """

    title: str = ""
    table: Table | None = None
    lines: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()
    record: SessionRecord | None = None
    turn: int = 0
    prompt: str | None = None
    flow: Flow | None = None


class CommandHost(Protocol):
    """The session that a command is given to. Each method may raise CommandError, or its own front end's error."""

    @property
    def agent(self) -> Agent | None:
        """None before the first prompt."""
        ...

    @property
    def mode(self) -> AgentMode | CustomMode: ...

    def config(self) -> KinConfig:
        """As it is now. Raises when it cannot be read."""
        ...

    def check_live(self, what: str) -> None:
        """Raises in playback, where there is no conversation to `what`."""
        ...

    def asking_cell(self, command: str) -> dict[str, Any]:
        """`key` and `cell_id` of the cell that gave `command`, for the record of what it does."""
        ...

    def clear_unused(self) -> CommandResult:
        """What /clear gives before the first prompt."""
        ...

    def up_to_date(self) -> Agent | None:
        """The agent, with the model and settings that are chosen now."""
        ...

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Where the agent's loop is: what `work()` returns or raises."""
        ...

    def choose_model(self, alias: str) -> None: ...

    def choose_mode(self, name: str) -> None: ...

    def save(self, line: str) -> CommandResult:
        """The session as a notebook. `line`: its path and options; "": where it belongs by default."""
        ...

    def notebook(self, path: Path) -> Callable[[Agent], None]:
        """What puts a new agent where the session notebook at `path` ends."""
        ...

    def take(self, agent: Agent) -> None:
        """The session goes on with `agent`; the one before it, if any, is closed."""
        ...

    def replay(self, name: str, source: str | None, *, scratch: bool) -> None: ...

    def go_live(self) -> None: ...

    def record_mode(self) -> str:
        """Whether prompts show recorded answers or ask a model, in a few words."""
        ...
