"""Drift rules: what may differ when a program runs again, how two results compare without it, and the files that say so.

The built-in rules are in rules.toml; a user names others with `kin-nb replay --rules FILE`. A rule about what a program prints
is for the command lines that name it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.toml_file import KeyPath, key_lines, parse_toml
from kin_nb.core.safety.shell.reader.nested_commands import simple_commands
from kin_nb.core.safety.shell.reader.simple_command import SimpleCommand, program
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.redacted_text import matches_redacted
from kin_nb.replay.rerun import patterns
from kin_nb.replay.rerun.patterns import Compare, Pattern, compile_pattern

OPAQUE = "unseen"
"""Placeholder for the programs that a script, a Makefile or a package's own commands run: the line does not say which."""

_PYTHON = re.compile(r"python(?:\d+(?:\.\d+)?)?")
_LAUNCHERS = frozenset(("npx", "bunx", "uv", "uvx", "poetry", "pdm", "pipenv", "hatch", "coverage", "pipx"))
_RUN_OTHERS = frozenset(
    (
        "make",
        "gmake",
        "just",
        "task",
        "tox",
        "nox",
        "ninja",
        "npm",
        "yarn",
        "pnpm",
        "bun",
        "pre-commit",
        "hatch",
        "pdm",
        "pipenv",
    )
)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "source", "."))
_SYSTEM = ("/usr/", "/bin/", "/opt/")


def command_programs(command: str) -> frozenset[str]:
    """Return the program names, without folders, in a command line; `python3.12` is `python`, and `-m pytest` adds `pytest`."""
    return frozenset(name for found in simple_commands(command) if found.words for name in _names(found))


def _names(command: SimpleCommand) -> Iterator[str]:
    name, words = program(command), command.words[1:]
    path = command.words[0]
    operand = next((word for word in words if not word.startswith("-")), "")
    if _PYTHON.fullmatch(name):
        yield "python"
        yield from _run_by_python(words)
        return
    yield name
    if name in _LAUNCHERS:
        yield from _run_by_launcher(words)
    own = "/" in path and not path.startswith(_SYSTEM) and "/bin/" not in path  # venv/bin/x is a program like any
    if own or name in _RUN_OTHERS or (name in _SHELLS and operand):
        yield OPAQUE


def _run_by_launcher(words: list[str]) -> Iterator[str]:
    """Return all words that may be a program's name: each launcher has its own rules for which of them is."""
    for word in words:
        name = word.rpartition("/")[2]
        if not word.startswith("-"):
            yield "python" if _PYTHON.fullmatch(name) else name
        if name.endswith(".py") or name in _RUN_OTHERS:
            yield OPAQUE


def _run_by_python(words: list[str]) -> Iterator[str]:
    """Return the modules after `-m` (`-m coverage run -m pytest` has two), or a marker if Python runs a file."""
    modules = [after for word, after in pairwise(words) if word == "-m"]
    yield from modules
    if not modules and any(word.endswith(".py") for word in words):
        yield OPAQUE


CPU_SECONDS = 5
"""Of processor time for the rules of users on one result. Python's engine backtracks: an expression may never end."""


@dataclass(frozen=True)
class Rule:
    """A rule about one harmless difference. `description`: what may differ.

    It holds for the results of `tools` (none named: of any tool, and for the outputs of ordinary cells) and for command lines
    that name one of `commands` (none named: any). Where a line names a script, a Makefile or the like, which do not say what
    they run, `commands` counts as named when both results match `signature`; None: never. `file`: where a user wrote it.
    """

    name: str
    description: str
    pattern: re.Pattern[str]
    compare: Compare = "groups"
    commands: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    signature: re.Pattern[str] | None = None
    file: str = ""

    @property
    def label(self) -> str:
        """Return the description for a report, with the place of a user's rule."""
        return f"{self.description} (rule {self.name} of {self.file})" if self.file else self.description

    def pattern_for(self, tool: str, programs: frozenset[str]) -> Pattern | None:
        """Return the pattern for two results of `tool` ("" for an ordinary cell) whose command line names `programs`."""
        if self.tools and tool not in self.tools:
            return None
        if not self.commands or not programs.isdisjoint(self.commands):
            return Pattern(self.pattern, self.compare)
        if OPAQUE in programs and self.signature is not None:
            return Pattern(self.pattern, self.compare, self.signature)
        return None


@dataclass(frozen=True)
class Outcome:
    """The comparison of two results under rules. `used`: rules whose matches differ. `slow`: the rule that took too long."""

    equal: bool
    used: tuple[Rule, ...] = ()
    slow: Rule | None = None

    @property
    def label(self) -> str:
        """Return the labels of the rules that were used."""
        return "; ".join(rule.label for rule in self.used)

    @property
    def warning(self) -> str:
        """Return a warning about rules that were not used; "" for none."""
        if self.slow is None:
            return ""
        what = f"rule {self.slow.name} of {self.slow.file} needs more than {CPU_SECONDS} s of processor time"
        return f"{what}, so no rule from a file was used: "


def compare_under_rules(
    recorded: str, actual: str, rules: Sequence[Rule], *, tool: str = "", programs: frozenset[str] = frozenset()
) -> Outcome:
    """Compare two results without what `rules` let differ. The built-in rules come first."""
    chosen = [(rule, found) for rule in rules if (found := rule.pattern_for(tool, programs)) is not None]
    texts, used = (recorded, actual), []
    for rule, pattern in chosen:
        if not rule.file:
            differed, texts = pattern.apply(texts)
            used += [rule] if differed else []
    of_files = [each for each in chosen if each[0].file]
    if not of_files or matches_redacted(*texts):
        return Outcome(matches_redacted(*texts), tuple(used))
    answers, hidden = _apply_in_process([pattern for _, pattern in of_files], texts)
    if hidden is None:
        return Outcome(False, tuple(used), slow=of_files[len(answers)][0])
    used += [rule for (rule, _), differed in zip(of_files, answers, strict=True) if differed]
    return Outcome(matches_redacted(*hidden), tuple(used))


def _apply_in_process(chosen: Sequence[Pattern], texts: tuple[str, str]) -> tuple[list[bool], tuple[str, str] | None]:
    """Return the answer of each pattern, and the resulting texts; None if the pattern after the last answer took too long."""
    asked = [
        {"pattern": each.pattern.pattern, "compare": each.compare, "signature": each.signature.pattern}
        for each in chosen
    ]
    argv = [sys.executable, "-I", patterns.__file__, str(CPU_SECONDS)]
    question = json.dumps({"patterns": asked, "texts": texts})
    done = subprocess.run(argv, input=question, capture_output=True, text=True, encoding="ascii", check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    answers = lines[: len(chosen)]
    return answers, tuple(lines[-1]) if len(lines) > len(chosen) else None


BUILT_IN_FILE = Path(__file__).with_name("rules.toml")
_UNLIKE = ("ab cd", "ef gh")
"""Texts that no rule may make equal."""


class _Table(BaseModel):
    """A `[[rule]]` table (docs/reference/comparing-runs.md)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    description: str = Field(pattern=r"^[^\n]{1,200}$")
    pattern: str | list[str]
    compare: Compare = "groups"
    commands: list[str] = []
    tools: list[str] = []
    signature: str | None = None


def load_rules(files: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """Load the built-in rules and those of `files`. Raises ReplayError with the file, the line, the rule and the error."""
    rules = list(built_in_rules())
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ReplayError(f"{file}: the rules cannot be read: {reason}.") from None
        names = {rule.name: rule.file or "the built-in rules" for rule in rules}
        rules += _File.of(file, text).rules(file.name, names)
    return tuple(rules)


@cache
def built_in_rules() -> tuple[Rule, ...]:
    """Return the rules of rules.toml."""
    return tuple(_File.of(BUILT_IN_FILE, BUILT_IN_FILE.read_text(encoding="utf-8")).rules("", {}))


@dataclass(frozen=True)
class _File:
    """A file of rules as TOML reads it. `lines`: where each key is."""

    path: Path
    tables: Sequence[Mapping[str, Any]]
    lines: Mapping[KeyPath, int]

    @classmethod
    def of(cls, path: Path, text: str) -> _File:
        """Raises ReplayError for what is not TOML, or holds something else than rules."""
        try:
            content, lines = parse_toml(text, path), key_lines(text)
        except ConfigError as error:
            raise ReplayError(str(error)) from None
        tables = content.get("rule")
        other = next((key for key in content if key != "rule"), None)
        if other is not None:
            line = lines.get((other,), 1)
            raise ReplayError(f"{path}:{line}: unknown key {other!r}. A rules file contains only [[rule]] tables.")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ReplayError(f"{path}: it contains no rules. Each rule is a [[rule]] table.")
        return cls(path, tables, lines)

    def rules(self, file: str, names: Mapping[str, str]) -> Iterator[Rule]:
        """The rules, as of `file`. `names`: of other rules, and where those are. Raises ReplayError."""
        taken = dict(names)
        for number, table in enumerate(self.tables):
            rule = self._rule(number, table, file)
            if rule.name in taken:
                raise self._error(number, "name", f"{taken[rule.name]} already has a rule with this name")
            taken[rule.name] = "this file"
            yield rule

    def _rule(self, number: int, table: Mapping[str, Any], file: str) -> Rule:
        try:
            found = _Table.model_validate(table)
        except ValidationError as error:
            first = error.errors()[0]
            raise self._error(number, str(first["loc"][0]), first["msg"]) from None
        alternatives = [found.pattern] if isinstance(found.pattern, str) else found.pattern
        for each in alternatives:
            self._compiled(number, "pattern", each)
        joined = found.pattern if isinstance(found.pattern, str) else "|".join(f"(?:{each})" for each in found.pattern)
        pattern = Pattern(self._compiled(number, "pattern", joined), found.compare)
        self._check(number, pattern)
        return Rule(
            found.name,
            found.description,
            pattern.pattern,
            found.compare,
            tuple(found.commands),
            tuple(found.tools),
            None if found.signature is None else self._compiled(number, "signature", found.signature),
            file,
        )

    def _compiled(self, number: int, field: str, text: str) -> re.Pattern[str]:
        try:
            return compile_pattern(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._error(number, field, f"{text!r} is not a regular expression: {error}") from None

    def _check(self, number: int, pattern: Pattern) -> None:
        """Raises ReplayError for a pattern that would let everything differ, or that compares what it has not."""
        if pattern.compare == "numbered" and pattern.pattern.groups != 1:
            groups = pattern.pattern.groups
            raise self._error(number, "pattern", f'compare = "numbered" needs exactly one group, and it has {groups}')
        if pattern.pattern.search(""):
            raise self._error(number, "pattern", "it matches the empty text, and so everywhere")
        first, second = map(pattern.hide, _UNLIKE)
        if first == second:
            raise self._error(number, "pattern", "it would let any text differ. Include more of the text around it")

    def _error(self, number: int, field: str, reason: str) -> ReplayError:
        keys = ("rule", str(number))
        line = self.lines.get((*keys, field)) or self.lines.get(keys) or 1
        name = self.tables[number].get("name")
        which = name if isinstance(name, str) and name.isprintable() else f"number {number + 1}"
        return ReplayError(f"{self.path}:{line}: rule {which}: {field}: {reason}.")
