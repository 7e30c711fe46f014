"""What the part of a line that is read tells about the rest: the values of variables, functions, and files it writes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from kin_nb.core.safety.shell.printed import printed, written
from kin_nb.core.safety.shell.simple_command import SimpleCommand, is_assignment

MOST_VALUES = 50
"""Values that a variable may have in turn, as in a loop."""
_LONGEST_VALUE = 1_000
_MOST_COMMANDS = 30_000
_MOST_WRITERS = 10
_DECLARE = frozenset(("export", "local", "declare", "typeset", "readonly"))


def _budget() -> Iterator[int]:
    return iter(range(_MOST_COMMANDS))


@dataclass
class ShellState:
    """`values`: of a variable, one after another as a loop gives them. `made`: the commands whose output it holds."""

    values: dict[str, list[str]] = field(default_factory=dict)
    made: dict[str, list[SimpleCommand]] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    """The text of each one's body."""
    aliases: dict[str, str] = field(default_factory=dict)
    """The text that each stands for; a shell that runs a command knows them only where the line says so."""
    files: dict[str, dict[str, list[SimpleCommand]]] = field(default_factory=dict)
    """The commands that write to a file, by its name without the folder, and by its path."""
    _budget: Iterator[int] = field(default_factory=_budget)

    def goes_on(self) -> bool:
        """Whether one more command is looked at: functions and scripts in scripts could make it go on for ever."""
        return next(self._budget, None) is not None

    def called_with(self, words: list[str], values: Mapping[str, list[str]] = MappingProxyType({})) -> ShellState:
        """What is known inside a function or a script that is given `words`; the first is its own name.

        `values`: of variables that are set for it alone. Without words it has those of what is around it.
        """
        if not words:
            return replace(self, values={**self.values, **values})
        given = {str(index): [word] for index, word in enumerate(words[:10])}
        rest = {"@": words[1:], "*": words[1:]} if words[1:] else {}
        kept = {name: value for name, value in self.values.items() if not name.isdigit() and name not in ("@", "*")}
        return replace(self, values={**kept, **values, **given, **rest})

    def behind(self, word: str) -> list[SimpleCommand]:
        """The commands that write to the file of that name; without its folder it may be one in any: `cd` is not followed."""
        if not self.files:
            return []
        path = posixpath.normpath(word)
        return [
            command
            for file, commands in self.files.get(posixpath.basename(path), {}).items()
            if path == file or "/" not in path or "/" not in file
            for command in commands
        ]

    def learn(self, command: SimpleCommand) -> None:
        for file in written(command):
            if file not in ("", "-") and not file.startswith("/dev/"):
                self._writes(posixpath.normpath(file), command)
        words = command.words
        if not words:
            return
        first = words[0]
        if first == "for" and words[2:3] == ["in"]:
            self._set(words[1], words[3:], [made for commands in command.made_by.values() for made in commands])
        elif first == "read":
            for name in (word for word in words[1:] if word.isidentifier()):
                self._set(name, printed(command.inputs).split(), command.inputs)
        elif (first == "set" and "--" in words) or first == "shift":
            by = int(words[1][:3]) if first == "shift" and words[1:] and words[1].isdecimal() else 1
            given = self.values.get("@", [])[by:] if first == "shift" else words[words.index("--") + 1 :]
            self.values = self.called_with(["$0", *given]).values
        elif first == "alias":
            self.aliases |= {name: text for name, _, text in (word.partition("=") for word in words[1:]) if text}
        elif first in _DECLARE or is_assignment(first):
            self._assign(command, 1 if first in _DECLARE else 0)

    def _writes(self, path: str, command: SimpleCommand) -> None:
        same_name = self.files.setdefault(posixpath.basename(path), {})
        if path in same_name or len(same_name) < _MOST_WRITERS:
            same_name[path] = [*same_name.get(path, []), command][-_MOST_WRITERS:]

    def _assign(self, command: SimpleCommand, begin: int) -> None:
        """`x=1 command` sets a variable for that command only, which is not followed."""
        words = command.words[begin:]
        if not all(is_assignment(word) for word in words if begin == 0):
            return
        for index, word in enumerate(words, begin):
            name, equals, value = word.partition("=")
            if name.endswith("+"):
                name = name[:-1]
                value = "".join(islice(self.values.get(name, []), 1)) + value
            if equals:
                self._set(name, [value], command.made_by.get(index, []))

    def _set(self, name: str, values: list[str], made: list[SimpleCommand]) -> None:
        self.made[name] = made
        self.values[name] = [value[:_LONGEST_VALUE] for value in values[:MOST_VALUES]]
        if not values:
            del self.values[name]
