"""Programs that come from the network: by a pipe, as `sh -c "$(curl ...)"`, or as a file that the line fetches and runs."""

from __future__ import annotations

import posixpath
import re

from kin_nb.core.safety.shell.carried import carried
from kin_nb.core.safety.shell.printed import FETCHERS, written
from kin_nb.core.safety.shell.protected import CwdTracker
from kin_nb.core.safety.shell.scripts import SHELLS, SOURCES, STANDARD_INPUT, only_checks, program_word
from kin_nb.core.safety.shell.simple_command import SimpleCommand, is_assignment, program
from kin_nb.core.safety.shell.syntax import shown

_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|php|lua)[\d.]*$")


class FetchedPrograms:
    """For the commands of one line: what brings nothing from the network is looked at once only."""

    def __init__(self) -> None:
        self._bring_nothing: set[SimpleCommand] = set()

    def why(self, command: SimpleCommand, place: CwdTracker) -> str:  # noqa: ARG002  (a rule like the others)
        fetcher = self._fetcher(_behind_the_program(command))
        by = "" if 0 in command.made_by else f", with {shown(program(command))}"
        return f"it would run what {shown(fetcher)} brings from the network{by}" if fetcher else ""

    def _fetcher(self, commands: list[SimpleCommand]) -> str:
        """The program that brings what they print or write, through whatever pipes and files; "" when none does."""
        waiting = list(commands)
        while waiting:
            command = waiting.pop()
            if command in self._bring_nothing:
                continue
            inner = command
            while inner.words:
                if program(inner) in FETCHERS:
                    return program(inner)
                inner = carried(inner)
            self._bring_nothing.add(command)
            waiting += command.inputs
            waiting += [made for behind in command.made_by.values() for made in behind]
        return ""


def _behind_the_program(command: SimpleCommand) -> list[SimpleCommand]:
    """The commands that print, or write, the program that this one runs."""
    name, words = program(command), command.words
    if name in SOURCES or name == "eval":
        return command.inputs if STANDARD_INPUT & set(words[1:2]) else command.made_by.get(1, [])
    if only_checks(command):
        return []
    if name in SHELLS or _INTERPRETER.match(name):
        index = program_word(command)
        return command.inputs if index is None else command.made_by.get(index, [])
    if not words or is_assignment(words[0]):
        return []
    made = command.made_by.get(0, [])
    if "/" in words[0] or "$" in words[0]:
        return made
    return [maker for maker in made if any(_is_searched(file) for file in written(maker))]


def _is_searched(file: str) -> bool:
    """Whether it lies where programs are looked for: `curl x > test; test -s test` runs none that was fetched."""
    return posixpath.dirname(file).endswith("bin")
