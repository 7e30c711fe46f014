"""Files of drift rules: the built-in rules.toml, and those that a user names with `kin-nb replay --rules FILE`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.toml_file import KeyPath, key_lines, parse_toml
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.patterns import Compare, Pattern, compile_pattern
from kin_nb.replay.rerun.rules import Rule

BUILT_IN = Path(__file__).with_name("rules.toml")
_UNLIKE = ("ab cd", "ef gh")
"""Texts that no rule may make equal."""


class _Table(BaseModel):
    """A `[[rule]]`, as docs/reexecution.md describes it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    description: str = Field(pattern=r"^[^\n]{1,200}$")
    pattern: str | list[str]
    compare: Compare = "groups"
    commands: list[str] = []
    tools: list[str] = []
    signature: str | None = None


def load_rules(files: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """The built-in rules, then those of `files`. Raises ReplayError: the file, the line, the rule, what is wrong."""
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
    """The rules of rules.toml."""
    return tuple(_File.of(BUILT_IN, BUILT_IN.read_text(encoding="utf-8")).rules("", {}))


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
            raise ReplayError(f"{path}:{line}: {other!r} is not known. A file of rules holds [[rule]] tables only.")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ReplayError(f"{path}: there is no rule in it. Each rule is a [[rule]] table.")
        return cls(path, tables, lines)

    def rules(self, file: str, names: Mapping[str, str]) -> Iterator[Rule]:
        """The rules, as of `file`. `names`: of other rules, and where those are. Raises ReplayError."""
        taken = dict(names)
        for number, table in enumerate(self.tables):
            rule = self._rule(number, table, file)
            if rule.name in taken:
                raise self._error(number, "name", f"a rule of {taken[rule.name]} has this name")
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
            raise self._error(number, "pattern", "it matches the empty text, so everywhere")
        first, second = map(pattern.hide, _UNLIKE)
        if first == second:
            raise self._error(number, "pattern", "it lets any text differ. Say more of what stands around it")

    def _error(self, number: int, field: str, reason: str) -> ReplayError:
        keys = ("rule", str(number))
        line = self.lines.get((*keys, field)) or self.lines.get(keys) or 1
        name = self.tables[number].get("name")
        which = name if isinstance(name, str) and name.isprintable() else f"number {number + 1}"
        return ReplayError(f"{self.path}:{line}: rule {which}: {field}: {reason}.")
