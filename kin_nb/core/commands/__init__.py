"""Slash commands: `/NAME` in a cell, `%kin NAME`, and `kin-nb run -p /NAME`.

Owns the list of commands, their parsing, and what each does with a CommandHost: it returns a CommandResult. Never renders, prints,
asks the user, or knows of Jupyter. Importing the package is cheap: the module of a command is imported when it runs.
May import: all of core.
"""

from kin_nb.core.commands.dispatch import (
    ALIASES,
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
    "ALIASES",
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
