"""Slash commands: what a person says to the session itself, the same in a cell, as `%kin NAME`, and with `kin-nb run -p`.

Owns which commands there are, what counts as one, and what each does to a CommandHost: returns a CommandResult. Never
renders, prints or knows of Jupyter; never asks anybody. Commands that run turns say which. Import is cheap: a command's
module is read when it is run. May import: all of core.
"""

from kin_nb.core.commands.dispatch import (
    COMMANDS,
    Command,
    TypedCommand,
    command_names,
    escaped,
    help_rows,
    is_command,
    magic_help,
    named_command,
    run_command,
    typed_command,
    unescaped,
)
from kin_nb.core.commands.host import CLEARED, CommandError, CommandHost, CommandResult, Table, UnknownCommandError

__all__ = [
    "CLEARED",
    "COMMANDS",
    "Command",
    "CommandError",
    "CommandHost",
    "CommandResult",
    "Table",
    "TypedCommand",
    "UnknownCommandError",
    "command_names",
    "escaped",
    "help_rows",
    "is_command",
    "magic_help",
    "named_command",
    "run_command",
    "typed_command",
    "unescaped",
]
