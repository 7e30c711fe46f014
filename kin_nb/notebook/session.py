"""KinSession: the agent of one kernel, and which way its cells go: live, playback, or re-execution."""

from __future__ import annotations

import atexit
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kin_nb.core.agent import Agent
from kin_nb.core.commands import CommandResult, unescaped
from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.custom_modes import CustomMode, load_mode
from kin_nb.core.events import BaseEvent, ErrorEvent
from kin_nb.core.first_steps import explain
from kin_nb.core.modes import AgentMode
from kin_nb.core.questions import AskQuestion
from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.session.records import TurnRecord
from kin_nb.core.time_travel import TurnRunningError
from kin_nb.core.tools.watched_files import watched_files
from kin_nb.notebook.agent_thread import AgentThread
from kin_nb.notebook.cell_io import CellOutput, cell_io
from kin_nb.notebook.cell_view import CellView
from kin_nb.notebook.commands import command_in, result_of, show_command
from kin_nb.notebook.errors import KinError, TurnFailedError
from kin_nb.notebook.installed import import_installed
from kin_nb.notebook.options import CellOptions
from kin_nb.notebook.own_file import surroundings
from kin_nb.notebook.pump import SubmitMain, run_on_agent_thread
from kin_nb.notebook.tap import ShellTap, hearing
from kin_nb.notebook.turns import CellTurns
from kin_nb.render import Output
from kin_nb.replay.matching import Undoing, cell_key, normal_body

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.skills.flows import Flow
    from kin_nb.notebook.replaying import Replaying

T = TypeVar("T")


class KinSession:
    """One per kernel. Nothing is started before the first prompt; `close` leaves no thread behind."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.mode: AgentMode | CustomMode = AgentMode.DEFAULT
        self._model: str | None = None
        self._agent: Agent | None = None
        self._thread = AgentThread()
        self._replaying: Replaying | None = None
        self._replay_failed = False

    # What the magics call.

    def run_cell(self, body: str, options: CellOptions) -> None:
        """A %%kin cell. Raises KinError (one or two lines) when it cannot be answered."""
        prompt = normal_body(body).strip()
        if not prompt:
            raise KinError("The prompt is empty: write what you want done below %%kin.")
        typed = command_in(prompt)
        if typed is not None and not typed.command.asks:
            show_command(self, typed)
            return
        io = cell_io(self.shell)
        key = cell_key(body, options.text)
        if self._replay_failed:
            raise KinError(
                "`%kin replay` failed above, so this cell plays nothing and calls no model. `%kin live` to ask."
            )
        if self._replaying is not None and self._replaying.run_cell(self, key, io):
            return
        self._apply(options)
        agent = self.agent()
        result = CommandResult(prompt=unescaped(prompt)) if typed is None else result_of(self, typed)
        if result.flow is not None:
            self._run_flow(agent, result.flow, result.prompt or "", CellTurns(agent, key, io), io)
        else:
            self.run_turn(agent, result.prompt or prompt, key, io)

    def run_turn(
        self,
        agent: Agent,
        prompt: str,
        key: str,
        io: CellOutput,
        *,
        view: CellView | None = None,
        through: Callable[[Ask], Ask] = lambda ask: ask,
        answering: Callable[[AskQuestion], AskQuestion] = lambda ask: ask,
    ) -> TurnRecord:
        """One turn on the agent's thread, shown in this cell; `through` and `answering` may answer before the person is asked.

        Raises TurnFailedError when the turn ended with an error, Interrupted (pump.py) when the person stopped it.
        """
        turns = CellTurns(agent, key, io, view=view, through=through, answering=answering)
        self._run(agent, turns, io, lambda: turns.act(prompt))
        return agent.turns[-1]

    def _run_flow(self, agent: Agent, flow: Flow, request: str, turns: CellTurns, io: CellOutput) -> None:
        """A turn for each node. Raises TurnFailedError, saying where it stopped, when END was not reached."""
        from kin_nb.core.skills.flows import FlowRunner  # noqa: PLC0415  (only flows need it)

        stopped = self._run(agent, turns, io, lambda: FlowRunner(flow, turns.act).run(request))
        if stopped:
            raise TurnFailedError(stopped)

    def _run(
        self, agent: Agent, turns: CellTurns, io: CellOutput, make: Callable[[], AsyncGenerator[BaseEvent, None]]
    ) -> str:
        """All events of `make()`, on the agent's thread. Returns the error that came after the last turn, if any."""
        if agent.busy:
            raise KinError(str(TurnRunningError()))
        errors: list[str] = []

        async def drain(submit_main: SubmitMain) -> None:
            turns.begin(run, submit_main)
            async with aclosing(make()) as events:
                async for event in events:
                    errors[:] = [event.message] if isinstance(event, ErrorEvent) else []

        try:
            with hearing(self.shell, io.parent) as run:
                run_on_agent_thread(drain, self._thread, on_tick=run.on_tick)
        except ConfigError as error:
            raise KinError(explain(error)) from None
        if agent.turns[-1].outcome == "error":
            raise TurnFailedError(agent.turns[-1].message)
        return "".join(errors)

    def replay(self, name: str, source: str | None) -> None:
        """`%kin replay SESSION@DIGEST`: from here on, cells play the recording."""
        from kin_nb.notebook.replaying import Replaying  # noqa: PLC0415  (only session notebooks replay)

        # Should this fail, later cells must not turn to a model: that would be a silent live call.
        self._replaying = None
        self._replay_failed = True
        self._replaying = Replaying.start(self, name, Path(source) if source else None)
        self._replay_failed = False

    def go_live(self) -> None:
        """Leave playback; the conversation goes on from what was recorded."""
        if self._replaying is None:
            if not self._replay_failed:
                raise KinError("This notebook is live already.")
            self._replay_failed = False
            return
        replayed, self._replaying = self._replaying, None
        agent = self.agent()
        if not agent.turns:
            replayed.go_on(agent)

    def save(self, path: str | None) -> None:
        from kin_nb.notebook.saving import save_session  # noqa: PLC0415  (nbformat on first use)

        if self._replaying is not None:
            raise KinError("This notebook is in playback: there is nothing new to save.")
        if self._agent is None or not self._agent.turns:
            raise KinError("Nothing to save yet: no %%kin cell has run in this kernel.")
        self.show(save_session(self.shell, self._agent, path))

    def choose_model(self, alias: str) -> None:
        """Raises KinError, listing the models, when there is none of that name."""
        self.config(active_model=alias)
        self._model = alias

    def choose_mode(self, name: str) -> None:
        """A built-in mode or one of agents/*.toml. Raises KinError, listing the modes, when there is none of that name."""
        config = self.config()
        try:
            mode = load_mode(name, config.effective_workdir, trusted=config.project_trusted)
            if self._agent is not None:
                self._agent.switch_mode(mode)
        except (ValueError, ConfigError) as error:
            raise KinError(str(error)) from None
        self.mode = mode

    def config(self, **overrides: Any) -> KinConfig:
        """The configuration as it is now: a key set or a file mended is seen without a restart."""
        try:
            return KinConfig.load(**{"active_model": self._model, **overrides})
        except ConfigError as error:
            raise KinError(explain(error)) from None

    def agent(self) -> Agent:
        """The live agent. Raises KinError saying how to set up a model when there is none."""
        config = self.config()
        try:
            config.check_api_key()
            if self._agent is None:
                import_installed(servers=bool(config.mcp_servers))
                self._agent = self._new_agent(config)
                atexit.register(self.close)  # MCP servers end with the kernel, also those that outlive their pipes
            elif self._agent.configured != config:
                self._agent.switch_config(config)
        except ConfigError as error:
            raise KinError(explain(error)) from None
        except (OSError, ValueError, RuntimeError) as error:  # a path among the settings that leads nowhere
            raise KinError(
                f"The session cannot begin: {type(error).__name__}: {error}. `kin-nb config` shows the settings."
            ) from None
        return self._agent

    @property
    def begun(self) -> Agent | None:
        """The agent, once there is one."""
        return self._agent

    @property
    def in_playback(self) -> bool:
        return self._replaying is not None

    def undo_as_recorded(self, asked: Undoing) -> None:
        """In playback. Raises NotRecorded."""
        if self._replaying is not None:
            self._replaying.undo(self, asked, cell_io(self.shell))

    def take(self, agent: Agent) -> None:
        """Go on with `agent`; the one before it is closed, and stays in its log."""
        before, self._agent = self._agent, agent
        atexit.register(self.close)
        if before is not None:
            self.on_agent_thread(before.aclose)

    def on_agent_thread(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What concerns an agent and is no turn."""
        return run_on_agent_thread(lambda _: work(), self._thread)

    def _new_agent(self, config: KinConfig) -> Agent:
        agent = Agent(config, self.mode)
        own = list(surroundings(self.shell).own_files())  # saved by its front end while commands run
        apart = [place for path in own for place in (path, path.parent / ".ipynb_checkpoints")]
        agent.files = watched_files(agent.workspace.root, agent.journal.root_id, apart)
        return agent

    def show(self, output: Output) -> None:
        cell_io(self.shell).display(output.data, output.metadata)

    def close(self) -> None:
        atexit.unregister(self.close)
        agent, self._agent = self._agent, None
        if agent is not None and self._thread.running:
            run_on_agent_thread(lambda _: agent.aclose(), self._thread)
        self._thread.close()
        kernel = getattr(self.shell, "kernel", None)
        if kernel is not None:
            ShellTap.of(kernel).uninstall()

    def _apply(self, options: CellOptions) -> None:
        """Options of one cell hold from that cell on, as %kin mode and %kin model do."""
        if options.model is not None:
            self.choose_model(options.model)
        if options.mode is not None:
            self.choose_mode(options.mode)
