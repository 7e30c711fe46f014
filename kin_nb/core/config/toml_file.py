"""Read a TOML file: its values, and the line of each key, which tomllib does not provide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.paths import read_settings

KeyPath: TypeAlias = tuple[str, ...]
"""("models", "0", "temperature"): names of tables and keys; an entry of [[models]] is its index."""

_TOKEN = re.compile(
    r"""(?xs)
    (?P<skip> [^\S\n]+ | \#[^\n]* )
    | (?P<string> \"{3} (?:\\.|[^\\])*? \"{3,5} | '{3} .*? '{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' )
    | (?P<newline> \n ) | (?P<sign> [\[\]{}=.,] ) | (?P<word> [^\s\#"'\[\]{}=.,]+ )
    """
)


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return (text, values); ("", {}) if the file does not exist. Raises ConfigError with file and line."""
    try:
        text = read_settings(path) or ""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}.") from error
    return text, parse_toml(text, path) if text else {}


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """Parse TOML. Raises ConfigError with `path` and the line."""
    import tomllib  # noqa: PLC0415  (only when there is a file)

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = found.group(1) if found else str(len(text.splitlines()) or 1)
        what = re.sub(r"\s*\(at .*\)$", "", str(error))
        raise ConfigError(f"{path}:{line}: not valid TOML: {what}.") from error
    except RecursionError:
        raise ConfigError(f"{path}: its values are nested too deeply.") from None


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each table and key of valid TOML, from 1. Parts of an inline value have the line of its key."""
    return _Scan().run(text)


@dataclass
class _Scan:
    """One pass over the tokens, statement by statement: `[table]`, `[[entry]]` or `key = value`."""

    lines: dict[KeyPath, int] = field(default_factory=dict)
    entries: dict[KeyPath, int] = field(default_factory=dict)
    table: KeyPath = ()

    def run(self, text: str) -> dict[KeyPath, int]:
        for line, tokens in _statements(text):
            if tokens[0] == "[":
                self._header(tokens, line)
            else:
                self._note(self.table, _names(tokens[: tokens.index("=")]), line)
        return self.lines

    def _header(self, tokens: list[str], line: int) -> None:
        is_entry = tokens[1] == "["
        names = _names(tokens[: tokens.index("]")])
        table: KeyPath = ()
        for name in names[:-1]:
            table = self._open((*table, name))
        table = (*table, names[-1])
        self.lines.setdefault(table, line)
        if is_entry:
            self.entries[table] = self.entries.get(table, 0) + 1
        self.table = self._open(table)
        self._note((), self.table, line)

    def _open(self, table: KeyPath) -> KeyPath:
        """Add the index of the current entry to a table inside [[models]]."""
        return (*table, str(self.entries[table] - 1)) if table in self.entries else table

    def _note(self, table: KeyPath, names: KeyPath, line: int) -> None:
        for length in range(1, len(names) + 1):
            self.lines.setdefault((*table, *names[:length]), line)


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, tokens) of each statement. It ends with the line, unless a bracket of its value is open."""
    line, begun, depth, in_value = 1, 1, 0, False
    tokens: list[str] = []
    for found in _TOKEN.finditer(text):
        piece = found[0]
        if found.lastgroup == "newline" and depth == 0:
            if tokens:
                yield begun, tokens
            tokens, in_value = [], False
        elif found.lastgroup in {"string", "sign", "word"}:
            begun = begun if tokens else line
            tokens.append(piece)
            if in_value:
                depth += (piece in "[{") - (piece in "]}")
            in_value = in_value or piece == "="
        line += piece.count("\n")
    if tokens:
        yield begun, tokens


def _names(tokens: list[str]) -> KeyPath:
    return tuple(_unquoted(each) for each in tokens if each not in {".", "["})


def _unquoted(name: str) -> str:
    import tomllib  # noqa: PLC0415

    return str(tomllib.loads(f"name = {name}")["name"]) if name[0] in "\"'" else name
