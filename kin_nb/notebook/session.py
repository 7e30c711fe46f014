"""KinSession: one conversation of a notebook, and which way its cells go: live, playback, or re-execution."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kin_nb.core.agent import Agent
from kin_nb.core.commands import CommandResult, TypedCommand, unescaped
from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.custom_modes import CustomMode, load_mode
from kin_nb.core.first_steps import explain
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.records import TurnRecord
from kin_nb.core.tools.watched_files import watched_files
from kin_nb.notebook.agent_thread import AgentThread
from kin_nb.notebook.answered import Rerun, answer_again, decide, show, undo_from
from kin_nb.notebook.carried import carried_by
from kin_nb.notebook.cell_io import CellOutput, cell_io
from kin_nb.notebook.commands import command_in, result_of, show_command
from kin_nb.notebook.errors import InPlaybackError, KinError
from kin_nb.notebook.live import attach, move_in
from kin_nb.notebook.options import CellOptions
from kin_nb.notebook.own_file import surroundings
from kin_nb.notebook.pump import run_on_agent_thread
from kin_nb.notebook.recorded_approvals import through_recorded
from kin_nb.notebook.running import limits, run_flow, run_turn
from kin_nb.notebook.streaming.display import Display
from kin_nb.notebook.tap import ShellTap
from kin_nb.notebook.turns import CellTurns
from kin_nb.render import Output, render_notice
from kin_nb.replay.cells.matching import Undoing, answer_in, cell_key, normal_body

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.replaying import Replaying
    from kin_nb.notebook.settings import Settings
    from kin_nb.replay.errors import NotRecorded

T = TypeVar("T")


class KinSession:
    """Nothing is started before the first prompt; `close` leaves no thread behind. `name`: "" for the notebook's own."""

    def __init__(self, shell: InteractiveShell, settings: Settings, name: str = "") -> None:
        self.shell, self.name = shell, name
        self.settings = settings
        self.mode: AgentMode | CustomMode = AgentMode.DEFAULT
        self._model: str | None = self.settings.model
        self._begins_in: str | None = self.settings.mode
        """The mode that is set for all sessions, until one is chosen."""
        self._agent: Agent | None = None
        self._thread = AgentThread()
        self._replaying: Replaying | None = None
        self._replayed: Replaying | None = None
        """The same, also once it went live."""
        self._not_played = ""
        """Why playback could not begin, or ended: then no cell may turn to a model."""
        self._read: dict[str, Any] = {}
        """The notebooks that were played, as they were read, by SESSION@DIGEST."""

    # What the magics call.

    def run_cell(self, body: str, options: CellOptions) -> None:
        """A %%kin cell. Raises KinError (one or two lines) when it cannot be answered."""
        prompt = normal_body(body).strip("\n")
        if not prompt:
            raise KinError("The prompt is empty: write what you want done below %%kin.")
        typed = command_in(prompt)
        if typed is not None and not typed.command.asks:
            show_command(self.meant(options), typed)
            return
        io, key = cell_io(self.shell), cell_key(body, options.text)
        beside = options.session not in {None, self.name}
        if options.live and self.in_playback and not beside:
            if self._replaying is not None:
                self._replaying.check_nothing_passed_by()
            self.go_live()
        if self._not_played:
            raise KinError(f"{self._not_played}, so this cell plays nothing and calls no model. `%kin live` to ask.")
        if self._replaying is not None:
            live = beside and options.live
            played = None if live else self._replaying.run_cell(self, key, io, body, options, beside=beside)
            if played is not None:
                self.name = options.session or self.name  # what the recorded session was called, is called
                self._bind(options.out, played)
                return
            if beside:
                self.meant(options).run_cell(body, options)
                return
            options = replace(options, retry=False)  # done: the notebook is live from here
        if options.cached:
            self._bind(options.out, answer_again(self, body, options, io))
        else:
            with self._applied(options):
                self._ask(prompt, typed, key, options, io)

    def meant(self, options: CellOptions) -> KinSession:
        """The session that is named: what speaks to another comes here while this one plays, which may know it."""
        return self if options.session in {None, self.name} else self.settings.beside(options.session or "")

    def run_turn(self, agent: Agent, prompt: str, key: str, io: CellOutput, **how: Any) -> TurnRecord:
        """One turn on the agent's thread, shown in this cell; `how` goes to CellTurns. Raises as `running.run_turn`."""
        return run_turn(self.shell, self._thread, agent, CellTurns(agent, key, io, **how), io, prompt)

    def _ask(self, prompt: str, typed: TypedCommand | None, key: str, options: CellOptions, io: CellOutput) -> None:
        """The model, unless the person wants to see an answer that is there already."""
        agent = self.agent()
        display = None
        answer = () if options.fresh else answer_in(agent.time.active, key, io.cell_id, edited=options.retry)
        if answer:
            way, display = decide(self.shell, self._thread, io, Rerun(self.settings.rerun), options, answer)
            if way is Rerun.SHOW:
                show(self, agent, answer, display)
                self._bind(options.out, answer[-1])
                return
            if way is Rerun.RETRY:
                undo_from(self, agent, answer[0], display)
                display = None
        if options.fresh:
            self.on_agent_thread(agent.clear_history)
        result = CommandResult(prompt=unescaped(prompt)) if typed is None else result_of(self, typed)
        attached = attach(result.prompt or prompt, self.shell, agent.workspace, agent)
        how: dict[str, Any] = {"display": display, "tools": options.tools, "attached": attached}
        how["through"] = through_recorded
        turns = CellTurns(agent, key, io, carry=partial(carried_by, self.shell, agent), **how)
        with limits(agent, options, self.settings.max_price, self.settings.spent_besides(self)):
            if result.flow is not None:
                run_flow(self.shell, self._thread, agent, turns, io, result.flow, result.prompt or "")
            else:
                run_turn(self.shell, self._thread, agent, turns, io, result.prompt or prompt)
        self._bind(options.out, agent.turns[-1])

    def _bind(self, name: str | None, turn: TurnRecord) -> None:
        """The reply as a value: the last text of the turn."""
        if name is not None:
            texts = [step.content for step in turn.steps if step.content.strip()]
            self.shell.user_ns[name] = texts[-1].strip() if texts else ""

    def replay(self, name: str, source: str | None, body: str | None = None, *, scratch: bool = False) -> None:
        """`%kin replay SESSION@DIGEST`: from here on, cells play the recording. `body`: of a cell that embeds it."""
        from kin_nb.notebook.replay_start import start_replaying  # noqa: PLC0415  (only session notebooks replay)

        # Should this fail, later cells must not turn to a model: that would be a silent live call.
        before, self._replaying = self._replaying, None
        self._not_played, self._replayed = "`%kin replay` failed above", None
        self.settings.begin_again(self)
        if before is not None:
            before.close()
        path, read = Path(source) if source else None, self._read.get(name)
        self._replaying = self._replayed = start_replaying(self, name, path, body, scratch=scratch, before=read)
        self._read[name] = self._replaying.nb
        self._not_played = ""

    def lose_playback(self, why: str) -> None:
        """Until `%kin replay` runs again, or `%kin live`."""
        self._not_played = why

    def play_beside(self, other: KinSession) -> None:
        """A notebook that plays has answers of `other` too, which begins now."""
        if self._replayed is not None and not self._replayed.tools:  # re-executed, nobody sees others
            from kin_nb.notebook.replaying_beside import ReplayingBeside  # noqa: PLC0415  (as in `replay`)

            other._replaying = ReplayingBeside(self._replayed, other.name)

    def go_live(self, what: str = "Prompts go on where the recording ends.") -> None:
        """Leave playback, and say `what` goes on."""
        where = f"session {self.name}" if self.name else "this notebook"
        if self._replaying is None:
            if not self._not_played:
                raise KinError(f"{where[0].upper()}{where[1:]} is live already.")
            self._not_played = ""
            return
        played = self._replaying.recording.turns
        self._replaying.end(self)
        self._replaying = None
        if played:  # a session beside the notebook's own may have nothing to play
            self.show(render_notice(f"Live from here: {where} is in playback no more", [what]))

    def save(self, line: str) -> None:
        """`line`: the path and options that follow `save`."""
        from kin_nb.notebook.saving import save_session  # noqa: PLC0415  (nbformat on first use)

        if self._replaying is not None:
            raise InPlaybackError(
                "This notebook is in playback. To save what it went on with too: `%kin live`, then `%kin save`."
                if self._replaying.went_on
                else "This notebook is in playback: there is nothing new to save. For another form of it: kin-nb save "
                "NOTEBOOK.ipynb OUT.ipynb --portable (or --sidecar, --no-results, --redact PATTERN, --plain)."
            )
        if self._agent is None or not self._agent.turns:
            raise KinError("Nothing to save yet: no %%kin cell has run in this kernel.")
        display = Display(cell_io(self.shell))
        notice = save_session(self.shell, self._agent, line, self.settings.since_written, self.name, display)
        display.draw(notice, settled=True)

    def choose_model(self, alias: str) -> None:
        """Raises KinError, listing the models, when there is none of that name."""
        self.config(active_model=alias)
        self._model = alias

    def choose_mode(self, name: str) -> None:
        """A built-in mode or one of agents/*.toml. Raises KinError, listing the modes, when there is none of that name."""
        self._choose_mode(name, self.config())

    def _choose_mode(self, name: str, config: KinConfig) -> None:
        """The mode is found with `config`, and the agent goes on with that very value: what acts was compared once."""
        try:
            self._switch_mode(
                load_mode(name, config.effective_workdir, trusted=config.project_trusted, may_use=config.is_as_trusted),
                config,
            )
        except (ValueError, ConfigError) as error:
            raise KinError("\n".join(filter(None, [str(error), config.layers.left_out]))) from None

    def _switch_mode(self, mode: AgentMode | CustomMode, config: KinConfig | None = None) -> None:
        if self._agent is not None:
            self._agent.switch_mode(mode, config)
        self.mode, self._begins_in = mode, None

    @contextmanager
    def _applied(self, options: CellOptions) -> Iterator[None]:
        """A cell's model holds from that cell on, its mode for that cell alone. Raises KinError for unknown ones."""
        if options.model is not None:
            self.choose_model(options.model)
        if options.mode is None:
            yield
            return
        self.agent()  # begins in the session's own mode
        before = self.mode
        self.choose_mode(options.mode)
        try:
            yield
        finally:
            self._switch_mode(before)

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
                if self._begins_in is not None:
                    self._choose_mode(self._begins_in, config)
                self._agent = self.at_home(Agent(config, self.mode))
                atexit.register(self.close)  # MCP servers end with the kernel, also those that outlive their pipes
            elif self._agent.configured != config:
                self._agent.switch_config(config)
        except ConfigError as error:
            raise KinError(explain(error, config)) from None
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
        """Or where playback could not begin: then no cell may turn to a model either."""
        return self._replaying is not None or bool(self._not_played)

    @property
    def played(self) -> TurnRecord | None:
        """In playback, the turn that was played last."""
        return self._replaying.last if self._replaying is not None else None

    def undo_as_recorded(self, asked: Undoing) -> None:
        """In playback. Raises NotRecorded."""
        if self._replaying is not None:
            self._replaying.undo(self, asked, cell_io(self.shell))

    def passed_by(self, command: str, error: InPlaybackError | NotRecorded) -> None:
        """Say `error`, why `command` does nothing in playback. Raises it where playback did not begin, or nobody is there."""
        if self._replaying is None:
            raise error
        self._replaying.pass_by(self, command, error, cell_io(self.shell))

    def take(self, agent: Agent) -> None:
        """Go on with `agent`; the one before it is closed, and stays in its log."""
        before, self._agent = self._agent, self.at_home(agent)
        atexit.register(self.close)
        if before is not None:
            self.on_agent_thread(before.aclose)

    def on_agent_thread(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What concerns an agent and is no turn."""
        return run_on_agent_thread(lambda _: work(), self._thread)

    def at_home(self, agent: Agent) -> Agent:
        """`agent` as it is in this notebook: its own file, saved by a front end while commands run, is nobody's change."""
        own = list(surroundings(self.shell).own_files())
        apart = [place for path in own for place in (path, path.parent / ".ipynb_checkpoints")]
        agent.files.close()
        agent.files = watched_files(agent.workspace.root, agent.journal, apart)
        agent.open_files = frozenset(path.resolve() for path in own)
        move_in(agent, self.shell)
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
