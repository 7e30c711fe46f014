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
    from kin_nb.core.host_facts import HostFacts
    from kin_nb.core.modes import AgentMode
    from kin_nb.core.records import FileChange, SessionRecord
    from kin_nb.core.skills.flows import Flow


T = TypeVar("T")


CLEARED = "A new conversation begins with the next prompt. What was said stays recorded."
"""The answer of /clear."""


class CommandError(Exception):
    """The command failed; nothing was changed unless the text says so. The text: what is wrong, then what to do."""


class UsageError(CommandError):
    """Wrong arguments. The text is added to the usage line, which `run_command` writes; it may be empty."""


class UnknownCommandError(CommandError):
    """A command of this name does not exist. The text suggests similar names."""


@dataclass(frozen=True)
class Table:
    """Rows of equal length. `right`: indexes of columns that are aligned to the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True)
class CommandResult:
    """What to show, in this order; or, with `prompt`, what to run: one turn, or the turns of `flow`.

    `turn`: the number of the turn that made `changes`. An empty result shows nothing.
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
    """The session that commands work on. Each method may raise CommandError or an error of its front end."""

    @property
    def agent(self) -> Agent | None:
        """None before the first prompt."""
        ...

    @property
    def mode(self) -> AgentMode | CustomMode: ...

    @property
    def facts(self) -> HostFacts:
        """What a new agent must know of the program that runs it."""
        ...

    def config(self) -> KinConfig:
        """The current configuration. Raises ConfigError when it cannot be read."""
        ...

    def check_live(self, what: str) -> None:
        """Raise in playback, where no conversation exists. `what`: what the command would do with it, for the message."""
        ...

    def asking_cell(self, command: str) -> dict[str, Any]:
        """Return `key` and `cell_id` of the cell that holds `command`, for the record of the command."""
        ...

    def clear_unused(self) -> CommandResult:
        """Return the result of /clear before the first prompt."""
        ...

    def up_to_date(self) -> Agent | None:
        """Return the agent, with the current model and settings."""
        ...

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work()` on the agent's event loop; return or raise its result."""
        ...

    def choose_model(self, alias: str) -> None: ...

    def choose_mode(self, name: str) -> None: ...

    def save(self, line: str) -> CommandResult:
        """Save the session as a notebook. `line`: its path and options; "": the default path."""
        ...

    def notebook(self, path: Path) -> Callable[[Agent], None]:
        """Return a function that gives a new agent the conversation at the end of the notebook at `path`."""
        ...

    def take(self, agent: Agent) -> None:
        """Continue the session with `agent`; close the agent before it, if any."""
        ...

    def replay(self, name: str, source: str | None, *, scratch: bool) -> None: ...

    def go_live(self) -> None: ...

    def record_mode(self) -> str:
        """Whether prompts show recorded answers or ask a model, in a few words."""
        ...
