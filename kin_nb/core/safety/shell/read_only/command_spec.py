"""What is known of one program: its harmless flags, and which of its words are files. The values are in commands.toml."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from kin_nb.core.safety.shell.classification import UnprovenError
from kin_nb.core.safety.shell.read_only.working_dir import Search, WorkingDir

_TABLE = Path(__file__).with_name("commands.toml")
_NUMBER = re.compile(r"-\d+")
_NAMED = 3
"""Secrets that are named among what a search reads; one is enough to ask."""


@dataclass(frozen=True)
class Invocation:
    """A command of the line. `words`: after its name, all of them known."""

    name: str
    words: Sequence[str]
    working_dir: WorkingDir


@dataclass(frozen=True)
class ParsedArgs:
    """The parsed words of a call. `options`: each with its values, by the name it was given under."""

    options: Mapping[str, list[str]]
    operands: list[str]
    files: list[str]
    """The values of options that name files to read."""

    def has(self, *names: str) -> bool:
        return any(name in self.options for name in names)

    def values(self, *names: str) -> list[str]:
        return [value for name in names for value in self.options.get(name, [])]


Check = Callable[[Invocation, ParsedArgs], Iterable[str]]
SearchOf = Callable[[ParsedArgs], Search | None]


@dataclass(frozen=True)
class CommandSpec:
    """The flags of a program, and what its other words are. commands.toml explains the fields, and has the values.

    `search`: what of a folder among the files is searched, None when none is. `check`: looks at what was found and returns
    more files that are read.
    """

    letters: str = ""
    values: str = ""
    attached: str = ""
    alone: str = ""
    files: str = ""
    long: str = ""
    whole: str = ""
    number: bool = False
    operands: Literal["files", "names", "text", "pattern", "none"] = "files"
    most: int | None = None
    options_first: bool = False
    here: bool = False
    search: SearchOf | None = None
    check: Check | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def prove(self, call: Invocation) -> list[str]:
        """What the call reads, as written or absolute. Raises UnprovenError for a flag or a word that is not known."""
        found = _Reader(self, call).read()
        operands = found.operands
        if self.operands == "pattern" and not found.has("-e", "-f", "--regexp", "--file", "--files", "--type-list"):
            operands = operands[1:]
        if self.operands == "none" and operands:
            raise UnprovenError(f"`{call.name}` with {operands[0]!r} is not known to be read-only")
        if self.most is not None and len(operands) > self.most:
            raise UnprovenError(f"`{call.name}` may write to {operands[self.most]!r}")
        reads = list(found.files)
        if self.operands in ("files", "names", "pattern"):
            search = self.search(found) if self.search else None
            about = operands or (["."] if self.here or search is not None else [])
            shown = [word for word in about if word != "-"]
            reads += [call.working_dir.named(word) for word in shown] if self.operands == "names" else shown
            if search is not None:
                reads += [
                    secret for word in shown for secret in islice(call.working_dir.secrets_below(word, search), _NAMED)
                ]
        return [*reads, *(self.check(call, found) if self.check else ())]


class _Reader:
    """Tells a call's words apart, as getopt does. Long options are known by their whole name only."""

    def __init__(self, program: CommandSpec, call: Invocation) -> None:
        self._program, self._call = program, call
        self._long = {word.rstrip("=?<"): word[-1:] if word[-1:] in "=?<" else "" for word in program.long.split()}
        self._whole = frozenset(program.whole.split())
        self._options: dict[str, list[str]] = {}
        self._operands: list[str] = []
        self._files: list[str] = []
        self._rest = list(call.words)

    def read(self) -> ParsedArgs:
        while self._rest:
            word = self._rest.pop(0)
            if self._operands and word.startswith("-"):
                self._late(word)
            if word == "--":
                self._operands += self._rest
                break
            if word == "-" or not word.startswith("-"):
                self._operands.append(word)
            elif word.startswith("--"):
                self._long_option(word)
            elif word in self._whole or (self._program.number and _NUMBER.fullmatch(word)):
                self._add(word)
            else:
                self._letters(word)
        return ParsedArgs(self._options, self._operands, self._files)

    def _late(self, word: str) -> None:
        """An option, or `--`, after an operand: BSD's getopt takes it for one more."""
        if self._program.options_first and word != "-":
            raise UnprovenError(f"`{self._call.name}` may take {word!r} for a file, so late among its words")
        if self._program.operands in ("files", "pattern") and os.path.lexists(self._call.working_dir.path(word)):
            self._files.append(word)

    def _add(self, name: str, value: str | None = None) -> None:
        self._options.setdefault(name, []).extend([] if value is None else [value])

    def _long_option(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        kind = self._long.get(name)
        if kind is None or (equals and not kind):
            raise self._unknown(f"--{name}")
        if kind in ("=", "<") and not equals:
            value = self._next(word)
        self._add(f"--{name}", value if equals or kind in ("=", "<") else None)
        self._files += [value] if kind == "<" else []

    def _letters(self, word: str) -> None:
        program = self._program
        for index, letter in enumerate(word[1:], 2):
            rest = word[index:]
            if letter in program.letters and not (letter in program.attached and index == 2 and rest):  # noqa: PLR2004
                self._add(f"-{letter}")
            elif letter in program.attached:
                self._add(f"-{letter}", rest)
                return
            elif letter in program.alone:
                if word != f"-{letter}":
                    raise UnprovenError(
                        f"`{self._call.name} {word}` may take another word than it seems: give -{letter} alone"
                    )
                self._add(word, self._next(word))
            elif letter in program.values or letter in program.files:
                value = rest or self._next(f"-{letter}")
                self._add(f"-{letter}", value)
                self._files += [value] if letter in program.files else []
                return
            else:
                raise self._unknown(f"-{letter}")

    def _next(self, option: str) -> str:
        """The value in the next word. One that looks like a flag is refused: not every getopt would take it for a value."""
        if not self._rest or (
            self._rest[0].startswith("-") and self._rest[0] != "-" and option not in ("-e", "--regexp")
        ):
            raise UnprovenError(f"`{self._call.name} {option}` lacks its value")
        value = self._rest.pop(0)
        if (
            self._operands
            and self._program.operands in ("files", "pattern")
            and self._call.working_dir.path(value).exists()
        ):
            self._files.append(value)  # BSD's getopt takes all that follows an operand for files
        return value

    def _unknown(self, option: str) -> UnprovenError:
        why = self._program.why.get(option)
        if why:
            return UnprovenError(f"`{self._call.name} {option}` {why}")
        return UnprovenError(f"`{self._call.name} {option}` is not a known read-only flag")


def section(name: str) -> Mapping[str, Any]:
    """A part of commands.toml, as it is there."""
    part: Mapping[str, Any] = _table()[name]
    return part


def specs(
    name: str,
    *,
    kind: type[CommandSpec] = CommandSpec,
    checks: Mapping[str, Check] = MappingProxyType({}),
    searches: Mapping[str, SearchOf] = MappingProxyType({}),
) -> dict[str, CommandSpec]:
    """The commands in a section of commands.toml, by their names. Raises KeyError, TypeError for what it does not know there."""
    found: dict[str, CommandSpec] = {}
    for command, values in section(name).items():
        given = dict(values)
        names = [command, *given.pop("same", [])]
        shared = [section("options")[each] for each in given.pop("options", [])]
        given |= {"long": " ".join([*shared, given.get("long", "")])} if shared else {}
        given |= {"check": checks[given["check"]]} if "check" in given else {}
        given |= {"search": searches[given["search"]]} if "search" in given else {}
        found |= dict.fromkeys(names, kind(**given))
    return found


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))
