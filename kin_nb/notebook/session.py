"""NotebookSession: one conversation of a notebook. It owns a LiveAgent and a CellMode, and alone changes the mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.agent import Agent
from kin_nb.core.records import TurnRecord
from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.commands import NotebookHost, command_of, show_command
from kin_nb.notebook.live_agent import LiveAgent
from kin_nb.notebook.modes.live import LiveMode
from kin_nb.notebook.modes.mode import BlockedMode, CellMode, GoLive, PromptCell
from kin_nb.notebook.modes.playback import PlaybackMode
from kin_nb.notebook.modes.rerun import RerunMode
from kin_nb.notebook.options import CellOptions, InPlaybackError, KinError
from kin_nb.notebook.recorded_answers import RecordedAnswers, RecordMode, record_mode
from kin_nb.notebook.streaming.display import Display
from kin_nb.render import Output, render_notice
from kin_nb.replay.cell_keys import cell_key, normalize_prompt

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.live_agent import Budget, LiveAgent
    from kin_nb.notebook.notebook_file import NotebookFileWatch

StartReplay = Callable[..., None]
"""`%kin replay`, which concerns all sessions: (name, path or None, body or None, scratch=)."""


class NotebookSession:
    """`name`: "" for the notebook's own. Its mode is chosen with its first prompt or command."""

    def __init__(
        self,
        recorded: RecordedAnswers,
        since_written: NotebookFileWatch,
        budget: Budget,
        live: LiveAgent,
        name: str,
        replays: StartReplay,
    ) -> None:
        self.recorded, self.live, self.name = recorded, live, name
        self._since_written, self._budget, self._replays = since_written, budget, replays
        self._host = NotebookHost(self)
        self._mode: CellMode | None = None

    @property
    def shell(self) -> InteractiveShell:
        return self.recorded.shell

    @property
    def host(self) -> NotebookHost:
        """Return the session's interface for commands."""
        return self._host

    @property
    def mode(self) -> CellMode:
        """Return the current mode. Raises KinError for an unknown record mode."""
        if self._mode is None:
            self._mode = self._first_mode()
        return self._mode

    def run_cell(self, body: str, options: CellOptions) -> None:
        """Run a %%kin cell. Raises KinError (one or two lines) if it cannot be answered, ReplayError if it cannot be played."""
        prompt = normalize_prompt(body).strip("\n")
        if not prompt:
            raise KinError("The prompt is empty. Write it below the %%kin line.")
        typed = command_of(prompt)
        if typed is not None and not typed.command.asks:
            show_command(self, typed)
            return
        cell = PromptCell(cell_io(self.shell), cell_key(body, options.text), body, prompt, options, typed)
        found = self.mode.run(cell)
        if isinstance(found, GoLive):
            if options.model is not None:
                self.live.choose_model(options.model)
            self._leave(found)
            found = self.mode.run(cell)
        if isinstance(found, TurnRecord):
            self._bind(options.out, found)

    def replay(self, name: str, source: str | None, body: str | None = None, *, scratch: bool = False) -> None:
        """Handle `%kin replay SESSION@DIGEST`: the notebook's cells play the recording from here on."""
        self._replays(name, Path(source) if source else None, body, scratch=scratch)

    def go_live(self) -> None:
        """Handle `%kin live`: ask the model, also if an answer is recorded. Raises KinError, and then changes nothing."""
        if record_mode() is RecordMode.NONE:
            raise KinError("No model may be asked: KIN_RECORD is `none`.\nUnset it, then run `%kin live` again.")
        if isinstance(self.mode, LiveMode) and self.mode.always:
            where = f"session {self.name}" if self.name else "this notebook"
            raise KinError(f"Nothing to leave: {where} does not play a recording. Prompts ask the model.")
        if self.mode.is_live:
            self._mode = self._live_mode(always=True)
            self.show(render_notice("Live: each prompt asks the model", ["Cells with a saved answer too."]))
            return
        self._leave(GoLive("The conversation continues from the end of the recording."), always=True)

    def save(self, line: str) -> None:
        """Handle `%kin save`. `line`: the path and options. Raises KinError, ReplayError."""
        from kin_nb.notebook.saving import save_notebook  # noqa: PLC0415  (nbformat on first use)

        if not self.mode.is_live and self.recorded.is_saved:
            raise InPlaybackError(
                "Nothing new to save: this notebook plays a recording. "
                "To convert it, in a terminal: `kin-nb save NOTEBOOK.ipynb OUT.ipynb --portable` (or --sidecar, --no-results, "
                "--redact PATTERN, --plain)."
            )
        display = Display(cell_io(self.shell))
        display.draw(save_notebook(self.recorded, self._since_written, self.live, line, display), settled=True)

    def take(self, agent: Agent) -> None:
        """Continue live with `agent`. The previous one is closed; its session log stays."""
        self.live.replace(agent)
        self.recorded.know(agent, self.name)
        self._mode = self._live_mode()

    def reset(self) -> None:
        """Close the agent and choose the mode again. The conversation stays in its session log."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.close()
        self.live.close()

    def show(self, output: Output) -> None:
        cell_io(self.shell).display(output.data, output.metadata)

    def _first_mode(self) -> CellMode:
        recorded, wanted = self.recorded, record_mode()
        plays = recorded.plays(self.name) and self.live.agent_or_none is None
        if recorded.blocked:
            return BlockedMode(recorded.blocked, self.name)
        if recorded.environment is not None:
            return RerunMode(self.shell, self.live, recorded.book, recorded.environment, self.name)
        if wanted is RecordMode.ALL:
            return self._live_mode(always=True, new=True)
        return PlaybackMode(recorded, self.live, self.name) if plays else self._live_mode()

    def _live_mode(self, *, always: bool = False, new: bool = False) -> LiveMode:
        self.recorded.goes_live()
        return LiveMode(self.recorded, self.live, self.name, self._host, self._budget, always=always, new=new)

    def _leave(self, leave: GoLive, *, always: bool = False) -> None:
        """Go live, with a notice. Raises KinError, and changes nothing, if the agent cannot continue from the recording."""
        before, continues = self.mode, self.recorded.book.head(self.name) is not None
        live = LiveMode(self.recorded, self.live, self.name, self._host, self._budget, always=always)
        if continues:
            with self.recorded.outside_scratch():
                live.agent()
        before.close()
        if isinstance(before, BlockedMode):
            self.recorded.blocked = ""
        self.recorded.goes_live()
        self._mode = live
        if always or (leave.why and continues):
            where = f"session {self.name}" if self.name else "this notebook"
            lines = [leave.why] if continues else []
            self.show(render_notice(f"Playback left: {where} asks the model from here on", lines))

    def _bind(self, name: str | None, turn: TurnRecord) -> None:
        """Bind the reply, the last text of the turn, to a variable."""
        if name is not None:
            texts = [step.content for step in turn.steps if step.content.strip()]
            self.shell.user_ns[name] = texts[-1].strip() if texts else ""
