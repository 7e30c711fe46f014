"""Run a slash command in a terminal (`kin-nb run -p "/context"`) and print its result as plain text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kin_nb.cli.console import DONE, FAILED, fail, note, warn
from kin_nb.core.commands import CLEARED, CommandError, CommandResult, TypedCommand, run_command
from kin_nb.core.host_facts import COMMAND_LINE

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.config import KinConfig
    from kin_nb.core.config.custom_modes import CustomMode
    from kin_nb.core.host_facts import HostFacts
    from kin_nb.core.modes import AgentMode

T = TypeVar("T")


def run_typed(config: KinConfig, mode: AgentMode | CustomMode, resume: str | None, typed: TypedCommand) -> int:
    """Run the command on the session `resume` (see run_programmatic) and print what it returns.

    Raises ConfigError, SessionError.
    """
    from kin_nb.core.agent import Agent  # noqa: PLC0415  (each command loads its own)
    from kin_nb.render import render_result  # noqa: PLC0415
    from kin_nb.replay.errors import ReplayError  # noqa: PLC0415

    with asyncio.Runner() as runner:
        host = TerminalHost(config, mode, runner)
        if resume is not None:
            host.agent = Agent.resume(config, resume, mode=mode, host=COMMAND_LINE)
        try:
            for output in render_result(run_command(host, typed)):
                print(output.data["text/plain"], flush=True)
        except (CommandError, ReplayError) as error:
            return fail(str(error))
        finally:
            if host.agent is not None:
                runner.run(host.agent.aclose())
                for text in host.agent.new_warnings():
                    warn(text)
    return FAILED if host.agent is not None and host.agent.journal.storage.failed else DONE


class TerminalHost:
    """The CommandHost of a terminal: the session of one command. `agent`: None unless a session was resumed."""

    def __init__(self, config: KinConfig, mode: AgentMode | CustomMode, runner: asyncio.Runner) -> None:
        self.agent: Agent | None = None
        self.mode = mode
        self._config, self._runner = config, runner

    @property
    def facts(self) -> HostFacts:
        return COMMAND_LINE

    def config(self) -> KinConfig:
        return self._config

    def check_live(self, what: str) -> None:
        """Always passes: a terminal plays no recording."""

    def asking_cell(self, command: str) -> dict[str, Any]:
        """Return the key of the cell that holds the command in a saved notebook."""
        from kin_nb.replay.cell_keys import command_key  # noqa: PLC0415  (few commands need it)

        return {"key": command_key(command)}

    def clear_unused(self) -> CommandResult:
        """Without a resumed session nothing is cleared."""
        return CommandResult(CLEARED)

    def up_to_date(self) -> Agent | None:
        """Raise ConfigError if the model's key is missing."""
        self._config.check_api_key()
        return self.agent

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._runner.run(work())

    def choose_model(self, alias: str) -> None:
        raise CommandError(
            f"/model has no effect in a terminal.\nGive it with the prompt: kin-nb run --model {alias} -p TEXT"
        )

    def choose_mode(self, name: str) -> None:
        raise CommandError(
            f"/mode has no effect in a terminal.\nGive it with the prompt: kin-nb run --mode {name} -p TEXT"
        )

    def save(self, line: str) -> CommandResult:
        """Raises CommandError, ReplayError."""
        from kin_nb.replay.commands.save import SaveCommand  # noqa: PLC0415
        from kin_nb.replay.saving.options import parse_save  # noqa: PLC0415

        if self.agent is None or not self.agent.turns:
            raise CommandError(
                "Nothing to save: no session was given.\nAdd --continue (this folder's last one) or --resume ID."
            )
        path, options = parse_save(line)
        target = Path(path or "session.kin.ipynb").expanduser().absolute()
        target = target if target.suffix == ".ipynb" else target.with_name(f"{target.name}.ipynb")
        command = SaveCommand(self.agent.journal.root_id, target, options)
        try:
            first, *said = command.run()
        except OSError as error:
            raise CommandError(f"{target} cannot be written: {error.strerror}.") from None
        return CommandResult(first, lines=tuple(said))

    def notebook(self, path: Path) -> Callable[[Agent], None]:
        """Raises ReplayError."""
        from kin_nb.replay.playback.player import resume_from_file  # noqa: PLC0415

        return resume_from_file(path)

    def take(self, agent: Agent) -> None:
        before, self.agent = self.agent, agent
        if before is not None:
            self._runner.run(before.aclose())
        note("To continue it: kin-nb run --continue -p TEXT")

    def replay(self, name: str, source: str | None, *, scratch: bool) -> None:
        del name, source, scratch
        raise CommandError("/replay works in notebooks only.\nIn a terminal: kin-nb replay NOTEBOOK")

    def go_live(self) -> None:
        raise CommandError("Nothing to leave: a terminal plays no recording. /live is for session notebooks.")

    def record_mode(self) -> str:
        return "live"
