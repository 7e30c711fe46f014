"""A line's words and operators by the rules of the POSIX shell (2.3 Token Recognition), as far as plain lines need them.

Plain: words with quotes and escapes, `|`, `&&`, `||`, `;`, ends of lines, redirections, comments. Whatever else the shell
has is refused.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.syntax import shown

_BLANKS = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||&>>|&>|>>|>&|>\||[;|<>]")
_MORE = frozenset("&|<>();")
"""What would make another operator of one: `<<`, `|&`, `;;`, `>(`, `<&`. None is ever proven."""
_WORD = re.compile(
    r"""(?:[^ \t\n'"\\$`;&|<>()]|\\[^\n]|'[^']*+'|"(?:[^"\\$`]|\\[^\n]|\$(?![({\[]))*+"|\$(?![({'"\[]))++"""
)
_GOES_ON = frozenset(("&&", "||", "|", ";"))


class Token(NamedTuple):
    """`text`: as it is written; of a redirection with its descriptor: `2>`."""

    kind: Literal["word", "redirection", "operator"]
    text: str


class Tokens:
    """Those found so far. An end of line counts where it ends a command."""

    def __init__(self) -> None:
        self.found: list[Token] = []
        self._newline = False

    def newline(self) -> None:
        self._newline = True

    def add(self, kind: Literal["word", "redirection", "operator"], text: str) -> None:
        last = self.found[-1] if self.found else Token("operator", ";")
        if self._newline and not (last.kind == "operator" and last.text in _GOES_ON):
            self.found.append(Token("operator", "\n"))
        self._newline = False
        self.found.append(Token(kind, text))


def tokens(line: str) -> list[Token]:
    """Raises UnprovenError where the line is not plain."""
    found, at = Tokens(), 0
    while at < len(line):
        if blanks := _BLANKS.match(line, at) or _COMMENT.match(line, at):
            at = blanks.end()
        elif line[at] == "\n":
            found.newline()
            at += 1
        elif word := _WORD.match(line, at):
            at = word.end()
            if line[at : at + 1] in ("<", ">") and _is_descriptor(word[0], found):
                at = _operator(line, at, found, word[0])
            else:
                found.add("word", word[0])
        else:
            at = _operator(line, at, found)
    return found.found


def _operator(line: str, at: int, found: Tokens, descriptor: str = "") -> int:
    """Where it ends."""
    operator = _OPERATOR.match(line, at)
    end = operator.end() if operator else at
    if operator is None or line[end : end + 1] in _MORE:
        raise UnprovenError(f"{shown(line[at:])} is more than a plain command")
    found.add("redirection" if set(operator[0]) & {"<", ">"} else "operator", descriptor + operator[0])
    return end


def _is_descriptor(word: str, found: Tokens) -> bool:
    """Whether a word directly before `<` or `>` is that one's descriptor, as bash has it."""
    if not word.isascii() or not (word.isdigit() or word.endswith("}")):
        return False
    after_redirection = bool(found.found) and found.found[-1].kind == "redirection"
    if len(word) > 1 or after_redirection:  # no number that bash knows, or `>&1>x`
        raise UnprovenError(f"{shown(word)} before a redirection can be read in two ways")
    return True
