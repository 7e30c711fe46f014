"""What the part of a line that is read tells about the rest: the values of variables, functions, and files it writes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

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
class Known:
    """`values`: of a variable, one after another as a loop gives them. `made`: the commands whose output it holds."""

    values: dict[str, list[str]] = field(default_factory=dict)
    made: dict[str, list[SimpleCommand]] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    """The text of each one's body."""
    files: dict[str, list[SimpleCommand]] = field(default_factory=dict)
    """The commands that write to it."""
    _budget: Iterator[int] = field(default_factory=_budget)

    def goes_on(self) -> bool:
        """Whether one more command is looked at: functions and scripts in scripts could make it go on for ever."""
        return next(self._budget, None) is not None

    def called_with(self, words: list[str]) -> Known:
        """What is known inside a function or a script that is given `words`; the first is its own name."""
        given = {str(index): [word] for index, word in enumerate(words[:10])}
        rest = {"@": words[1:], "*": words[1:]} if words[1:] else {}
        return replace(self, values={**self.values, **given, **rest})

    def behind(self, word: str) -> list[SimpleCommand]:
        """The commands that write to the file of that name."""
        return self.files.get(posixpath.normpath(word), []) if self.files else []

    def learn(self, command: SimpleCommand) -> None:
        for file in written(command):
            if file not in ("", "-") and not file.startswith("/dev/"):
                path = posixpath.normpath(file)
                self.files[path] = [*self.files.get(path, []), command][-_MOST_WRITERS:]
        words = command.words
        if not words:
            return
        first = words[0]
        if first == "for" and words[2:3] == ["in"]:
            self._set(words[1], words[3:], [made for commands in command.made_by.values() for made in commands])
        elif first == "read":
            for name in (word for word in words[1:] if word.isidentifier()):
                self._set(name, printed(command.inputs).split(), command.inputs)
        elif first == "set" and "--" in words:
            given = words[words.index("--") + 1 :]
            self.values = self.called_with(["$0", *given]).values
        elif first in _DECLARE or is_assignment(first):
            self._assign(command, 1 if first in _DECLARE else 0)

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
