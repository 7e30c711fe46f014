"""One simple command of a shell line: its input, its output, the files that it writes, and the shell state that it changes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from types import MappingProxyType


@dataclass(eq=False, slots=True)
class SimpleCommand:
    """`words`: without quotes and redirections; variables with a known value are expanded.

    Without words it represents a group or a single redirection, whose output is its input.
    """

    words: list[str] = field(default_factory=list)
    has_input: bool = False
    """It reads from a pipe, a file or a here-document."""
    inputs: list[SimpleCommand] = field(default_factory=list)
    """The commands whose output it reads: the command before the pipe, or one that represents a file or a text."""
    writes: list[str] = field(default_factory=list)
    """Files that its output is redirected to."""
    producers: dict[int, list[SimpleCommand]] = field(default_factory=dict)
    """Index of a word -> the commands that produce it: a substitution, or the writers of the file that it names."""
    level: int = 0
    """Number of parentheses around it. A `cd` ends with them."""
    function: str = ""
    """The function whose body holds it."""
    background: bool = False
    """It runs in the background (`&`)."""


def program(command: SimpleCommand) -> str:
    """Its program's name, without the folder."""
    return command.words[0].rpartition("/")[2] if command.words else ""


def is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.removesuffix("+").isidentifier()


DOWNLOADERS = frozenset(("curl", "wget", "aria2c", "http", "https", "fetch"))
_WRITERS = frozenset((*DOWNLOADERS, "tee", "dd", "cp", "mv", "install", "ln"))
LONGEST_TEXT = 10_000
"""Most characters of a text that are kept."""
_MOST_ASKED = 30
_PASS_ON = frozenset(("", "cat", "tee", "sort", "uniq", "head", "tail", "tac"))
_NARROWS = re.compile(
    r"-(i?(name|path|regex|lname)|wholename|[amc](time|min)|newer\w*|empty|size|user|group|perm|inum)$"
)

_OWN_NAME = re.compile(r"-[^-AbcCdDeEFhHKmoPQrtTuUwxXyYz]*O|--remote-name")
"""Of curl: `-O` in a bundle, but not in the value of another option (`-XPOST`)."""


def predicted_output(commands: Iterable[SimpleCommand], seen: set[int] | None = None) -> str:
    """Return the predicted output of the commands; "" when unknown. `seen`: ids of commands that are already included."""
    seen = set() if seen is None else seen
    texts: list[str] = []
    for command in commands:
        if id(command) not in seen and len(seen) < _MOST_ASKED:
            seen.add(id(command))
            texts.append(_printed(command, seen))
    return "\n".join(text for text in texts if text)[:LONGEST_TEXT]


def _printed(command: SimpleCommand, seen: set[int]) -> str:
    name, words = program(command), command.words[1:]
    if name in ("echo", "yes"):
        return " ".join(words[1:] if words[:1] in (["-n"], ["-e"], ["-ne"], ["-en"]) else words)
    if name == "printf" and words:
        return _formatted(words[0], words[1:])
    if name == "pwd":
        return "$PWD"
    if name == "find":
        return "\n".join(find_roots(command))
    if name in _PASS_ON:
        files = [made for writers_of in command.producers.values() for made in writers_of]
        return predicted_output([*command.inputs, *files], seen)
    return ""


def _formatted(pattern: str, values: list[str]) -> str:
    rest = iter(values)
    text = re.sub(r"%[-\d.]*[a-z]", lambda _: next(rest, ""), pattern)
    return "\n".join([text.replace("\\n", "\n").replace("\\0", "\n"), *rest])


def find_roots(command: SimpleCommand) -> list[str]:
    """The folders that a `find` covers completely; none when it filters files."""
    words = command.words[1:]
    begin = next((at for at, word in enumerate(words) if word not in ("-H", "-L", "-P")), len(words))
    end = next((at for at, word in enumerate(words) if at >= begin and word.startswith(("-", "(", "!"))), len(words))
    narrowed = any(_NARROWS.match(word) and after.strip("*") for word, after in pairwise([*words, "x"]))
    return [] if narrowed else words[begin:end] or ["."]


def written_files(command: SimpleCommand) -> Iterator[str]:
    """The files that it writes its input, a download or a copy to."""
    yield from command.writes
    begin = next((at for at, word in enumerate(command.words) if word.rpartition("/")[2] in _WRITERS), None)
    if begin is None:
        return
    name, words = command.words[begin].rpartition("/")[2], command.words[begin + 1 :]
    if name in DOWNLOADERS:
        yield from _fetched(name, words)
    elif name == "tee":
        yield from (word for word in words if not word.startswith("-"))
    elif name == "dd":
        yield from (word.removeprefix("of=") for word in words if word.startswith("of="))
    elif command.producers:
        yield from words[-1:]


def _fetched(name: str, words: list[str]) -> Iterator[str]:
    letter, long = ("O", "--output-document") if name == "wget" else ("o", "--output")
    named = False
    for word, after in pairwise([*words, ""]):
        is_cluster = word.startswith("-") and not word.startswith("--")
        if is_cluster and letter in word:
            named = True
            yield word.partition(letter)[2] or after
        elif word == long or word.startswith(f"{long}="):
            named = True
            yield word.partition("=")[2] or after
    own_name = name == "wget" or any(_OWN_NAME.match(word) for word in words)
    if own_name and not named:
        yield from (word.partition("?")[0].rpartition("/")[2] for word in words if not word.startswith("-"))


MOST_VALUES = 50
"""Most values of a variable in a loop."""
_LONGEST_VALUE = 1_000
_MOST_COMMANDS = 30_000
_MOST_WRITERS = 10
_DECLARE = frozenset(("export", "local", "declare", "typeset", "readonly"))


def _budget() -> Iterator[int]:
    return iter(range(_MOST_COMMANDS))


@dataclass
class ShellState:
    """Variables, functions, aliases and written files. `values`: several in a loop. `made`: the commands that produced
    them."""

    values: dict[str, list[str]] = field(default_factory=dict)
    made: dict[str, list[SimpleCommand]] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    """Name -> text of the body."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Name -> text. A non-interactive shell knows only the aliases of the line."""
    files: dict[str, dict[str, list[SimpleCommand]]] = field(default_factory=dict)
    """File name without folder -> path -> the commands that write it."""
    _budget: Iterator[int] = field(default_factory=_budget)

    def within_budget(self) -> bool:
        """Whether one more command may be parsed: functions and nested scripts could repeat endlessly."""
        return next(self._budget, None) is not None

    def for_call(self, words: list[str], values: Mapping[str, list[str]] = MappingProxyType({})) -> ShellState:
        """Return the state inside a function or script called with `words` (the first is its name).

        `values`: variables that are set for this call only. Without words the arguments of the caller stay.
        """
        if not words:
            return replace(self, values={**self.values, **values})
        given = {str(index): [word] for index, word in enumerate(words[:10])}
        rest = {"@": words[1:], "*": words[1:]} if words[1:] else {}
        kept = {name: value for name, value in self.values.items() if not name.isdigit() and name not in ("@", "*")}
        return replace(self, values={**kept, **values, **given, **rest})

    def writers_of(self, word: str) -> list[SimpleCommand]:
        """The commands that write a file of that name. Without folder it matches any folder: `cd` is not tracked."""
        if not self.files:
            return []
        path = posixpath.normpath(word)
        return [
            command
            for file, commands in self.files.get(posixpath.basename(path), {}).items()
            if path == file or "/" not in path or "/" not in file
            for command in commands
        ]

    def update(self, command: SimpleCommand) -> None:
        for file in written_files(command):
            if file not in ("", "-") and not file.startswith("/dev/"):
                self._writes(posixpath.normpath(file), command)
        words = command.words
        if not words:
            return
        first = words[0]
        if first == "for" and words[2:3] == ["in"]:
            self._set(words[1], words[3:], [made for commands in command.producers.values() for made in commands])
        elif first == "read":
            for name in (word for word in words[1:] if word.isidentifier()):
                self._set(name, predicted_output(command.inputs).split(), command.inputs)
        elif (first == "set" and "--" in words) or first == "shift":
            by = int(words[1][:3]) if first == "shift" and words[1:] and words[1].isdecimal() else 1
            given = self.values.get("@", [])[by:] if first == "shift" else words[words.index("--") + 1 :]
            self.values = self.for_call(["$0", *given]).values
        elif first == "alias":
            self.aliases |= {name: text for name, _, text in (word.partition("=") for word in words[1:]) if text}
        elif first in _DECLARE or is_assignment(first):
            self._assign(command, 1 if first in _DECLARE else 0)

    def _writes(self, path: str, command: SimpleCommand) -> None:
        same_name = self.files.setdefault(posixpath.basename(path), {})
        if path in same_name or len(same_name) < _MOST_WRITERS:
            same_name[path] = [*same_name.get(path, []), command][-_MOST_WRITERS:]

    def _assign(self, command: SimpleCommand, begin: int) -> None:
        """Assign variables. `x=1 command` sets x for that command only, and is ignored."""
        words = command.words[begin:]
        if not all(is_assignment(word) for word in words if begin == 0):
            return
        for index, word in enumerate(words, begin):
            name, equals, value = word.partition("=")
            if name.endswith("+"):
                name = name[:-1]
                value = "".join(islice(self.values.get(name, []), 1)) + value
            if equals:
                self._set(name, [value], command.producers.get(index, []))

    def _set(self, name: str, values: list[str], made: list[SimpleCommand]) -> None:
        self.made[name] = made
        self.values[name] = [value[:_LONGEST_VALUE] for value in values[:MOST_VALUES]]
        if not values:
            del self.values[name]
