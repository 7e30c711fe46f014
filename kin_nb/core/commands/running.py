"""Running a command: what goes wrong on the way is one error."""

from __future__ import annotations

from kin_nb.core.commands.typed import TypedCommand
from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult


def run_command(host: CommandHost, typed: TypedCommand) -> CommandResult:
    """Raises CommandError, in a line or two, and whatever the host raises of its own."""
    from kin_nb.core.config import ConfigError  # noqa: PLC0415  (importing the commands stays cheap)
    from kin_nb.core.context.compaction import CompactionError  # noqa: PLC0415
    from kin_nb.core.conversation import TurnRunningError  # noqa: PLC0415
    from kin_nb.core.first_steps import explain  # noqa: PLC0415
    from kin_nb.core.llm.errors import BackendError  # noqa: PLC0415
    from kin_nb.core.session.errors import SessionError  # noqa: PLC0415
    from kin_nb.core.tool_types import ToolError  # noqa: PLC0415
    from kin_nb.core.undo import UndoError  # noqa: PLC0415

    if typed.words and not typed.command.usage:
        raise CommandError(
            f"/{typed.command.name} takes nothing after its name. For a prompt: //{typed.command.name} ..."
        )
    try:
        return typed.command.run(host, typed.words)
    except ConfigError as error:
        raise CommandError(explain(error)) from None
    except (BackendError, CompactionError, SessionError, ToolError, TurnRunningError, UndoError) as error:
        raise CommandError(str(error)) from None
