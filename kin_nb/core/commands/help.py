"""/help and /exit."""

from __future__ import annotations

from kin_nb.core.commands.registry import help_rows
from kin_nb.core.commands.values import CommandHost, CommandResult, Table


def help(host: CommandHost, words: list[str]) -> CommandResult:  # noqa: A001  (the command's name)
    del host, words
    return CommandResult(
        "Commands: /NAME as a whole prompt, or %kin NAME",
        Table(("command", "what it does"), tuple(help_rows("/"))),
        (
            "%%kin [--mode MODE] [--model ALIAS], then the prompt below it, asks the agent.",
            "A prompt that begins like a command: //NAME.",
        ),
    )


def exit(host: CommandHost, words: list[str]) -> CommandResult:  # noqa: A001
    del host, words
    return CommandResult(
        "There is nothing to leave",
        lines=(
            "A notebook's session ends with its kernel: Kernel > Shut Down. The stop button ends a turn.",
            "kin-nb run ends with its answer. What was said is stored: %kin resume goes on with it.",
        ),
    )
