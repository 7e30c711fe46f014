"""Every command that a message names exists, with the options that the message gives it.

That following the advice helps is tested where the message appears: cli/test_advice.py, tests/kernel/test_replay_failed.py.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Iterator

from kin_nb.cli.main import _parser
from kin_nb.core.commands.dispatch import ALIASES, COMMANDS
from kin_nb.notebook.options import options_parser
from kin_nb.replay.saving.options import add_save_options
from tests.table import each_row
from tests.unit.messages import collected

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
REST = r"(?P<rest>(?:[^`\n;,().:]|\.\w)*)"
SHELL = re.compile(rf"(?:(?<=`)|(?<=: ))kin-nb (?P<name>[a-z]+){REST}")
LINE_MAGIC = re.compile(rf"(?<!%)%kin (?!x|and )(?P<name>[a-z]+){REST}")  # x: a placeholder
CELL_MAGIC = re.compile(rf"%%kin(?! \[){REST}")


def advised(pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Where each command is named, and the command."""
    for message in collected():
        for match in pattern.finditer(message.plain):
            yield f"{message.file}: {match[0]}", match


def options_of(parser: ArgumentParser) -> set[str]:
    """The options of a command and of its own subcommands."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action.choices, dict):
            found.update(*(options_of(child) for child in action.choices.values()))
    return found


def subcommands(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    (commands,) = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    return commands


def each_command_of_the_terminal_exists() -> None:
    known = subcommands(_parser())
    found = list(advised(SHELL))
    wrong = [
        where
        for where, match in found
        if match["name"] not in known or not set(OPTION.findall(match["rest"])) <= options_of(known[match["name"]])
    ]
    assert wrong == []
    assert len(found) > 20, "the pattern finds the commands"


def each_line_magic_exists() -> None:
    found = list(advised(LINE_MAGIC))
    wrong = [where for where, match in found if match["name"] not in {*COMMANDS, *ALIASES}]
    assert wrong == []
    assert len(found) > 30


def each_option_of_save_exists() -> None:
    parser = ArgumentParser()
    add_save_options(parser)
    wrong = [
        where
        for where, match in advised(LINE_MAGIC)
        if match["name"] == "save" and not set(OPTION.findall(match["rest"])) <= options_of(parser)
    ]
    assert wrong == []


def each_option_of_the_cell_magic_exists() -> None:
    known = options_of(options_parser())
    found = list(advised(CELL_MAGIC))
    wrong = [where for where, match in found if not set(OPTION.findall(match["rest"])) <= known]
    assert wrong == []
    assert sum(bool(OPTION.search(match["rest"])) for _, match in found) > 5


@each_row(
    "check",
    [
        each_command_of_the_terminal_exists,
        each_line_magic_exists,
        each_option_of_save_exists,
        each_option_of_the_cell_magic_exists,
    ],
)
def test_each_command_that_a_message_names_exists(check):
    """One test: each worker that runs one of these would read all messages."""
    check()
