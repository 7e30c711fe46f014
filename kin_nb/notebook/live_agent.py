"""LiveAgent: a session's agent, from its first prompt to its end: the model, the mode, and the thread that it runs on."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.config.custom_modes import CustomMode, load_mode
from kin_nb.core.config.loading import explain
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import SessionLog, UnwrittenLog, new_session_id
from kin_nb.notebook.main_thread_loop import AgentThread, run_on_agent_thread
from kin_nb.notebook.namespace import install_tools
from kin_nb.notebook.notebook_file import surroundings
from kin_nb.notebook.options import KinError
from kin_nb.notebook.tap import ShellTap

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

T = TypeVar("T")


class LiveAgent:
    """Nothing is started before the agent is asked for; `close` leaves no thread behind."""

    def __init__(self, shell: InteractiveShell, model: str | None = None, mode: str | None = None) -> None:
        """`model`, `mode`: what the session begins with, None for the defaults."""
        self._shell = shell
        self.mode: AgentMode | CustomMode = AgentMode.DEFAULT
        self.thread = AgentThread()
        self._model, self._begins_in = model, mode
        self._agent: Agent | None = None

    @property
    def agent_or_none(self) -> Agent | None:
        """The agent, once there is one."""
        return self._agent

    def get(self) -> Agent:
        """The agent, with the model and settings that are chosen now. Raises KinError saying how to set up a model."""
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
        """Another agent with the settings, mode, tools and grants of the session's, for calls that belong to no turn.

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
        """The configuration as it is now: a new key or a fixed file takes effect without a restart."""
        try:
            return KinConfig.load(**{"active_model": self._model, **overrides})
        except ConfigError as error:
            raise KinError(explain(error)) from None

    def choose_model(self, alias: str) -> None:
        """Raises KinError, listing the models, when there is none of that name."""
        self.config(active_model=alias)
        self._model = alias

    def choose_mode(self, name: str) -> None:
        """A built-in mode or one of agents/*.toml. Raises KinError, listing the modes, when there is none of that name."""
        self._choose_mode(name, self.config())

    @contextmanager
    def in_mode(self, name: str | None) -> Iterator[None]:
        """A cell's mode holds for that cell alone; None: as it is. Raises KinError when there is none of that name."""
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
        """The next prompt begins a new agent."""
        atexit.unregister(self.close)
        agent, self._agent = self._agent, None
        if agent is not None and self.thread.running:
            run_on_agent_thread(lambda _: agent.aclose(), self.thread)
        self.thread.close()
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None:
            ShellTap.of(kernel).uninstall()

    def _new_agent(self, config: KinConfig, log: SessionLog | None = None) -> Agent:
        """In the session's mode. `log`: None for one of its own."""
        if self._begins_in is not None:
            self._choose_mode(self._begins_in, config)
        return self._at_home(Agent(config, self.mode, log=log))

    def _choose_mode(self, name: str, config: KinConfig) -> None:
        """Load the mode with `config`, and give the agent that same config: what runs is what was checked."""
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
        """Attach `agent` to this notebook. A front end may save its file while commands run: not their change."""
        own = list(surroundings(self._shell).own_files())
        agent.set_open_files(own, [path.parent / ".ipynb_checkpoints" for path in own])
        install_tools(agent, self._shell)
        return agent


@contextmanager
def _explained(config: KinConfig) -> Iterator[None]:
    """Raise KinError for what keeps an agent from being made."""
    try:
        yield
    except ConfigError as error:
        raise KinError(explain(error, config)) from None
    except (OSError, ValueError, RuntimeError) as error:  # a path among the settings that leads nowhere
        raise KinError(f"The session cannot start: {error}\nCheck the settings: `kin-nb config`") from None


class Budget(Protocol):
    """What all sessions of a notebook may cost together, in USD."""

    @property
    def max_price(self) -> float | None:
        """None: no limit."""
        ...

    def spent_by_others(self, live: LiveAgent) -> float:
        """What the sessions but that of `live` have cost until now."""
        ...
