"""A plain line as bash runs it: lists of pipelines of commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.syntax import shown
from kin_nb.core.safety.shell.tokens import Token

_ENDS_LIST = frozenset((";", "\n"))
_RESERVED = frozenset(
    (
        *("!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function"),
        *("if", "in", "select", "then", "time", "until", "while"),
    )
)


@dataclass
class PlainCommand:
    """`words`: as they are written, one at the least. `redirections`: (operator with its descriptor, target)."""

    words: list[str] = field(default_factory=list)
    redirections: list[tuple[str, str]] = field(default_factory=list)

    @property
    def shown(self) -> str:
        return " ".join(self.words)


@dataclass
class Pipeline:
    """`operator`: what joins it to the one before in its list: `&&`, `||`, or "" for the first."""

    operator: str = ""
    commands: list[PlainCommand] = field(default_factory=list)


def lists(tokens: Sequence[Token]) -> list[list[Pipeline]]:
    """Raises UnprovenError where there is no command between two operators, or a reserved word where one begins."""
    return [list(_pipelines(part)) for part in _split(tokens, _ENDS_LIST) if part]


def _pipelines(tokens: Sequence[Token]) -> Iterator[Pipeline]:
    for part in _split(tokens, frozenset(("&&", "||")), keep=True):
        joined = bool(part) and part[0].kind == "operator"
        operator = part[0].text if joined else ""
        yield Pipeline(operator, [_command(each) for each in _split(part[joined:], frozenset(("|",)))])


def _command(tokens: Sequence[Token]) -> PlainCommand:
    command, waiting = PlainCommand(), ""
    for token in tokens:
        if waiting and token.kind == "word":
            command.redirections.append((waiting, token.text))
            waiting = ""
        elif waiting or token.kind == "operator":
            raise UnprovenError(f"{shown(token.text)} cannot be read for certain")
        elif token.kind == "redirection":
            waiting = token.text
        else:
            command.words.append(token.text)
    if waiting or not command.words:
        raise UnprovenError("there is an operator without its command")
    if command.words[0] in _RESERVED:
        raise UnprovenError(f"{shown(command.shown)} begins with a word of the shell's own")
    return command


def _split(tokens: Sequence[Token], operators: frozenset[str], *, keep: bool = False) -> list[list[Token]]:
    """The parts between `operators`; `keep`: each of them begins the part after it."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind == "operator" and token.text in operators:
            parts.append([token] if keep else [])
        else:
            parts[-1].append(token)
    return parts
