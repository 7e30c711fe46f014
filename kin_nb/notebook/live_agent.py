"""LiveAgent: a session's agent, from its first prompt to its end: the model, the mode, and the thread that it runs on."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.config.custom_modes import CustomMode, load_mode
from kin_nb.core.config.loading import explain
from kin_nb.core.host_facts import HostFacts
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import SessionLog, UnwrittenLog, new_session_id
from kin_nb.notebook.cell_io import cell_io, has_reader
from kin_nb.notebook.main_thread_loop import AgentThread, run_on_agent_thread
from kin_nb.notebook.namespace import install_tools
from kin_nb.notebook.notebook_file import surroundings
from kin_nb.notebook.options import KinError
from kin_nb.notebook.tap import ShellTap

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

T = TypeVar("T")


def kernel_facts(*, has_user: bool) -> HostFacts:
    """Return what an agent must know of this kernel: commands use its Python, as the user's own cells do."""
    return HostFacts(in_notebook=True, interpreter=Path(sys.executable) if sys.executable else None, has_user=has_user)


class LiveAgent:
    """The agent of a session and its thread, both created on first use and ended by `close`."""

    def __init__(self, shell: InteractiveShell, model: str | None = None, mode: str | None = None) -> None:
        """`model`, `mode`: what the session begins with, None for the defaults."""
        self._shell = shell
        self.mode: AgentMode | CustomMode = AgentMode.DEFAULT
        self.thread = AgentThread()
        self._model, self._begins_in = model, mode
        self._agent: Agent | None = None

    @property
    def agent_or_none(self) -> Agent | None:
        """Return the agent, or None before the first prompt."""
        return self._agent

    def get(self) -> Agent:
        """Return the agent with the current model and settings. Raises KinError, which says how to set up a model."""
        config = self.config()
        with _explained(config):
            config.check_api_key()
            if self._agent is None:
                self._agent = self._new_agent(config)
                atexit.register(self.close)  # MCP servers end with the kernel, also those that outlive their pipes
            elif self._agent.base_config != config:
                self._agent.switch_config(config)
        return self._agent

    @contextmanager
    def separate(self) -> Iterator[Agent]:
        """Create another agent with the session's settings, mode, tools and grants, for calls outside of a turn.

        It needs no key, asks no model and writes no session log. Raises KinError as `get`.
        """
        config = self.config()
        with _explained(config):
            agent = self._new_agent(config, UnwrittenLog(new_session_id()))
        if self._agent is not None:
            agent.safety().grants.granted.extend(self._agent.safety().grants.granted)
        try:
            yield agent
        finally:
            self.on_thread(agent.aclose)

    def replace(self, agent: Agent) -> None:
        """Continue with `agent`. The previous one is closed; its session log stays."""
        before, self._agent = self._agent, self._at_home(agent)
        atexit.register(self.close)
        if before is not None:
            self.on_thread(before.aclose)

    def config(self, **overrides: Any) -> KinConfig:
        """Load the current configuration, so that a new key or a fixed file takes effect without a restart."""
        try:
            return KinConfig.load(**{"active_model": self._model, **overrides})
        except ConfigError as error:
            raise KinError(explain(error)) from None

    def host_facts(self) -> HostFacts:
        """Return the facts for a new agent. The cell that creates it says whether a user reads along."""
        return kernel_facts(has_user=has_reader(cell_io(self._shell)))

    def choose_model(self, alias: str) -> None:
        """Use another model. Raises KinError, which lists the models, for an unknown name."""
        self.config(active_model=alias)
        self._model = alias

    def choose_mode(self, name: str) -> None:
        """Use another mode, built in or of agents/*.toml. Raises KinError, which lists the modes, for an unknown name."""
        self._choose_mode(name, self.config())

    @contextmanager
    def in_mode(self, name: str | None) -> Iterator[None]:
        """Use the mode of a cell within the block; None: no change. Raises KinError for an unknown name."""
        if name is None:
            yield
            return
        before = self.mode
        self.choose_mode(name)
        try:
            yield
        finally:
            self._switch_mode(before)

    def on_thread(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `work`, which is not a turn, on the agent's thread."""
        return run_on_agent_thread(lambda _: work(), self.thread)

    def close(self) -> None:
        """Close the agent. The next prompt creates a new one."""
        atexit.unregister(self.close)
        agent, self._agent = self._agent, None
        if agent is not None and self.thread.running:
            run_on_agent_thread(lambda _: agent.aclose(), self.thread)
        self.thread.close()
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None:
            ShellTap.of(kernel).uninstall()

    def _new_agent(self, config: KinConfig, log: SessionLog | None = None) -> Agent:
        """Create an agent in the session's mode. `log`: None for a new log."""
        if self._begins_in is not None:
            self._choose_mode(self._begins_in, config)
        return self._at_home(Agent(config, self.mode, log=log, host=self.host_facts()))

    def _choose_mode(self, name: str, config: KinConfig) -> None:
        """Load the mode with `config`, which the agent uses too, so that the checked settings are the ones that apply."""
        try:
            mode = load_mode(
                name, config.effective_workdir, trusted=config.project_trusted, may_use=config.is_as_trusted
            )
            self._switch_mode(mode, config)
        except (ValueError, ConfigError) as error:
            raise KinError("\n".join(filter(None, [str(error), config.layers.left_out]))) from None

    def _switch_mode(self, mode: AgentMode | CustomMode, config: KinConfig | None = None) -> None:
        if self._agent is not None:
            self._agent.switch_mode(mode, config)
        self.mode, self._begins_in = mode, None

    def _at_home(self, agent: Agent) -> Agent:
        """Attach `agent` to this notebook. Its file is excluded from tracking: a front end may save it while commands run."""
        own = list(surroundings(self._shell).own_files())
        agent.set_open_files(own, [path.parent / ".ipynb_checkpoints" for path in own])
        install_tools(agent, self._shell)
        return agent


@contextmanager
def _explained(config: KinConfig) -> Iterator[None]:
    """Raise KinError for an error that prevents the creation of an agent."""
    try:
        yield
    except ConfigError as error:
        raise KinError(explain(error, config)) from None
    except (OSError, ValueError, RuntimeError) as error:  # a path among the settings that leads nowhere
        raise KinError(f"The session cannot start: {error}\nCheck the settings: `kin-nb config`") from None


class Budget(Protocol):
    """The limit in USD for all sessions of a notebook together."""

    @property
    def max_price(self) -> float | None:
        """Return the limit in USD, None without one."""
        ...

    def spent_by_others(self, live: LiveAgent) -> float:
        """Return the cost so far, in USD, of all sessions except that of `live`."""
        ...
