"""KinSession: the agent of one kernel, and which way its cells go: live, playback, or re-execution."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.context.compaction import CompactionError
from kin_nb.core.custom_modes import CustomMode, load_mode
from kin_nb.core.first_steps import explain
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.modes import AgentMode
from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.core.session.records import RecordedCompaction, TurnRecord
from kin_nb.core.turn import TurnRunningError
from kin_nb.notebook.agent_thread import AgentThread
from kin_nb.notebook.approval import CardPlace, choose_channel
from kin_nb.notebook.cell_io import CellOutput, cell_io
from kin_nb.notebook.cell_view import CellView
from kin_nb.notebook.errors import KinError, TurnFailedError
from kin_nb.notebook.installed import import_installed
from kin_nb.notebook.options import CellOptions
from kin_nb.notebook.pump import SubmitMain, run_on_agent_thread
from kin_nb.notebook.tap import ShellTap, hearing
from kin_nb.render import Output, render_compaction, render_turn
from kin_nb.replay.matching import cell_key, normal_body

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.replaying import Replaying


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
        io = cell_io(self.shell)
        key = cell_key(body, options.text)
        if self._replay_failed:
            raise KinError(
                "`%kin replay` failed above, so this cell plays nothing and calls no model. `%kin live` to ask."
            )
        if self._replaying is not None and self._replaying.run_cell(self, key, io):
            return
        self._apply(options)
        self.run_turn(self.agent(), prompt, key, io)

    def run_turn(
        self,
        agent: Agent,
        prompt: str,
        key: str,
        io: CellOutput,
        *,
        view: CellView | None = None,
        through: Callable[[Ask], Ask] = lambda ask: ask,
    ) -> TurnRecord:
        """One turn on the agent's thread, shown in this cell; `through` may answer before the person is asked.

        Raises TurnFailedError when the turn ended with an error, Interrupted (pump.py) when the person stopped it.
        """
        if agent.busy:
            raise KinError(str(TurnRunningError()))
        view = view or CellView(io)

        def place(request: ApprovalRequest) -> CardPlace:
            return CardPlace(view.display_of(request.tool_call_id), view.waiting_card(request.tool_call_id).data)

        async def turn(submit_main: SubmitMain) -> None:
            agent.set_ask(through(choose_channel(io, run=run, submit_main=submit_main, place=place)))
            try:
                async with aclosing(agent.act(prompt, key=key, cell_id=io.cell_id)) as events:
                    async for event in events:
                        view.handle(event)
            finally:
                view.finish(agent.turns[-1])

        try:
            with hearing(self.shell, io.parent) as run:
                run_on_agent_thread(turn, self._thread, on_tick=run.on_tick)
        except ConfigError as error:
            raise KinError(explain(error)) from None
        record = agent.turns[-1]
        if record.outcome == "error":
            raise TurnFailedError(record.message)
        return record

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
        recording, self._replaying = self._replaying.recording, None
        agent = self.agent()
        if not agent.turns:
            agent.continue_from(recording.turns)

    def save(self, path: str | None) -> None:
        from kin_nb.notebook.saving import save_session  # noqa: PLC0415  (nbformat on first use)

        if self._replaying is not None:
            raise KinError("This notebook is in playback: there is nothing new to save.")
        if self._agent is None or not self._agent.turns:
            raise KinError("Nothing to save yet: no %%kin cell has run in this kernel.")
        self.show(save_session(self.shell, self._agent, path))

    def compact(self) -> Output:
        """The conversation gives way to a summary of it. Raises KinError when the model gives none."""
        self._not_in_playback("compact")
        agent = self.agent() if self._agent is not None else None  # with the model that is chosen now
        if agent is None or len(agent.messages) <= 1:
            raise KinError("Nothing to compact yet: no %%kin cell has run in this kernel.")
        try:
            run_on_agent_thread(lambda _: agent.compact(), self._thread)
        except (BackendError, CompactionError, ConfigError) as error:
            raise KinError(str(error)) from None
        return render_compaction(agent.compaction or RecordedCompaction(summary=""), turn=len(agent.turns), step=0)

    def clear(self) -> None:
        """A new conversation in the same session. Raises KinError in playback: the recording goes on as it went."""
        self._not_in_playback("clear")
        if self._agent is not None:
            agent = self._agent
            run_on_agent_thread(lambda _: agent.clear_history(), self._thread)

    def show_last(self) -> None:
        if self._agent is None or not self._agent.turns:
            raise KinError("No %%kin cell has run in this kernel yet.")
        for output in render_turn(self._agent.turns[-1]):
            self.show(output)

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
                self._agent = Agent(config, self.mode)
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

    def _not_in_playback(self, what: str) -> None:
        if self._replaying is not None:
            raise KinError(f"This notebook is in playback: there is no conversation to {what}. `%kin live` begins one.")

    def _apply(self, options: CellOptions) -> None:
        """Options of one cell hold from that cell on, as %kin mode and %kin model do."""
        if options.model is not None:
            self.choose_model(options.model)
        if options.mode is not None:
            self.choose_mode(options.mode)
