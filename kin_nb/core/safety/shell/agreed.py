"""Two readers agree: the line's words and operators by the shell's own rules are those in the tree, one after another.

Where tree-sitter divides a line otherwise than bash does (a digit before `>`, a `#`, the end of a line), a proof of its tree
proves nothing. So the line is read once more, from its first byte, by the rules of the POSIX shell (2.3 Token Recognition).
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.syntax import WORDS, shown, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 20
"""Levels of `$(...)` in one another."""
_BLANKS = re.compile(rb"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(rb"#[^\n]*")
_OPERATOR = re.compile(rb"&&|\|\||\|&|&>>|&>|>>|>&|>\||<&|[;&|()<>]")
_PLAIN = re.compile(rb"(?:[^ \t\n'\"\\$`;&|<>()]|\\[\s\S]|'[^']*'|\$\{[A-Za-z_]\w*\}|\$(?![({'\"\[\\]))+")
"""A piece of a word outside of double quotes."""
_QUOTED = re.compile(rb"(?:[^\"\\$`]|\\[\s\S]|\$\{[A-Za-z_]\w*\}|\$(?![({\[\\]))+")
_TWO_READINGS = re.compile(rb";[;&]|\(\(|<<|<>|[<>]\(")
"""Here-documents, arithmetic and the like: none is ever proven."""
_JOINED = re.compile(rb"(?:\\\n)+[;&|()<>-]")
"""After an operator: to bash `|`, a line's end behind a backslash, and `|` are one."""
_KEYWORDS = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "for", "do", "done", "{", "}", "!", "[["),
        *("case", "esac", "while", "until", "select", "function", "coproc"),
    )
)
_ENDS_COMMAND = frozenset(("", "\n", ";", "&", "|", "|&", "&&", "||", "(", ")", "$("))
_NO_COMMAND_AFTER = frozenset(("for", "[[", "]]", "in", "case", "select", "function"))
_NO_NEWLINE_AFTER = _ENDS_COMMAND - {")"} | {"then", "do", "else", "if", "elif", "{"}
_EXPRESSIONS = frozenset(("unary_expression", "binary_expression", "negation_expression"))
_ONE_LINE = frozenset(("command", "file_redirect", "test_command"))


class Token(NamedTuple):
    """`kind`: word, keyword, redirection (`text`: with its descriptor, `2>`), or operator, to which a line's end belongs."""

    kind: str
    text: str


def check_agreement(root: Node, source: bytes) -> None:
    """Raises UnprovenError at the first word or operator that the two readers do not both see."""
    tree = _TreeReader(source)
    tree.read(root)
    for own, other in zip_longest(tokens(source), tree.found.tokens):
        if own != other:
            text = (own or other or Token("", "")).text
            raise UnprovenError(f"{shown(text)} can be read in two ways")


def tokens(source: bytes) -> list[Token]:
    """As bash divides it; what is in a `$(...)` comes before the word that holds it. Raises UnprovenError."""
    reader = _Reader(source)
    reader.commands(0)
    return reader.found.tokens


class _Tokens:
    """The tokens so far, without the ends of lines that mean nothing."""

    def __init__(self) -> None:
        self.tokens: list[Token] = []
        self.after_newline = False

    @property
    def last(self) -> Token:
        return self.tokens[-1] if self.tokens else Token("operator", "")

    def add(self, kind: str, text: str) -> None:
        goes_on = self.last.kind in ("operator", "keyword") and self.last.text in _NO_NEWLINE_AFTER
        if self.after_newline and not goes_on:
            self.tokens.append(Token("operator", "\n"))
        self.after_newline = False
        self.tokens.append(Token(kind, text))


class _Reader:
    """Reads by the shell's rules, each byte once."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._at = 0
        self._in_condition = False
        self.found = _Tokens()

    def commands(self, depth: int) -> None:
        """Up to the end, or, within a `$(`, past its `)`."""
        if depth > _DEEPEST:
            raise UnprovenError("it is nested too deeply to prove")
        open_groups = 0
        while self._at < len(self._source):
            character = self._source[self._at : self._at + 1]
            if blanks := _BLANKS.match(self._source, self._at):
                self._at = blanks.end()
            elif character == b"\n":
                self._at += 1
                self.found.after_newline = True
            elif character == b"#":
                if depth:  # where an old bash looks for the `)` in it
                    raise self._unclear()
                self._at = self._end(_COMMENT)
            elif character in b";&|<>()":
                open_groups += {b"(": 1, b")": -1}.get(character, 0)
                self._operator()
                if open_groups < 0:
                    break
            else:
                self._word(depth)
        if (open_groups < 0) != bool(depth) or open_groups > 0:
            raise self._unclear()

    def _operator(self, descriptor: str = "") -> None:
        begin = self._at
        if _TWO_READINGS.match(self._source, begin):
            raise self._unclear()
        self._at = self._end(_OPERATOR)
        text = self._source[begin : self._at].decode()
        if _JOINED.match(self._source, self._at):
            raise self._unclear()
        self.found.add("redirection" if set(text) & {"<", ">"} else "operator", descriptor + text)

    def _word(self, depth: int) -> None:
        begin, last = self._at, self.found.last
        while self._at < len(self._source) and self._source[self._at] not in b" \t\n;&|<>()":
            if self._source.startswith(b'"', self._at):
                self._double_quoted(depth)
            elif not self._substitution(depth):
                self._at = self._end(_PLAIN)
        text = self._source[begin : self._at].decode()
        plain = text.replace("\\\n", "")
        if self._source[self._at : self._at + 1] in (b"<", b">") and self._descriptor(plain, last):
            self._operator(plain)
        else:
            self.found.add("keyword" if self._is_keyword(plain) else "word", text)

    def _descriptor(self, word: str, last: Token) -> bool:
        """Whether a word directly before `<` or `>` is the descriptor of it, as bash has it."""
        if word == "}" or not word.isascii() or not (word.isdigit() or word.endswith("}")):
            return False
        if len(word) > 1 or last.kind == "redirection":  # it may be no number that bash knows; `>&1>x`
            raise self._unclear()
        return True

    def _is_keyword(self, word: str) -> bool:
        if self._in_condition:
            self._in_condition = word != "]]"
            return word == "]]"
        before = self.found.tokens[-2:]
        if word == "in" and len(before) > 1 and before[0] == ("keyword", "for"):
            return True
        last = self.found.last
        if last == ("word", "time"):
            return word in _KEYWORDS
        starts = last.text not in _NO_COMMAND_AFTER if last.kind == "keyword" else last.kind == "operator"
        if not (starts or self.found.after_newline) or word not in _KEYWORDS:
            return False
        self._in_condition = word == "[["
        return True

    def _double_quoted(self, depth: int) -> None:
        self._at += 1
        while not self._source.startswith(b'"', self._at):
            if not self._substitution(depth):
                self._at = self._end(_QUOTED)
        self._at += 1

    def _substitution(self, depth: int) -> bool:
        if not self._source.startswith(b"$(", self._at):
            return False
        if self._source.startswith(b"$((", self._at) or self._in_condition:
            raise self._unclear()
        self._at += 2
        self.found.add("operator", "$(")
        self.commands(depth + 1)
        return True

    def _end(self, pattern: re.Pattern[bytes]) -> int:
        found = pattern.match(self._source, self._at)
        if found is None:
            raise self._unclear()
        return found.end()

    def _unclear(self) -> UnprovenError:
        return UnprovenError(f"{shown(self._source[self._at :].decode(errors='replace'))} can be read in two ways")


class _TreeReader:
    """Reads the same from tree-sitter's leaves."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._at = 0
        self._descriptor = ""
        self.found = _Tokens()

    def read(self, node: Node, parent: str = "", command: str = "") -> None:
        """`command`: the kind of node, which ends with its line, that the node is in."""
        if node.type == "\n":
            return
        if not command and node.type != "file_redirect":
            between = self._source[self._at : node.start_byte].replace(b"\\\n", b"")
            self.found.after_newline = self.found.after_newline or b"\n" in between
        if node.type in WORDS or not node.children:
            if node.type in WORDS:
                self._substitutions(node)
            if node.type != "comment":
                self._leaf(node, parent, command)
            self._at = node.end_byte
            return
        if not command and node.type in _ONE_LINE:
            command = f"{node.type} {node.children[0].type}"
        for child in node.children:
            self.read(child, node.type, command)

    def _leaf(self, node: Node, parent: str, command: str) -> None:
        text = text_of(node, self._source)
        if node.type == "file_descriptor":
            self._descriptor = text
        elif parent == "file_redirect" and not node.is_named:
            self.found.add("redirection", self._descriptor + text)
            self._descriptor = ""
        elif node.is_named:
            self.found.add("word", text)
        elif text in _ENDS_COMMAND:
            self.found.add("operator" if command in ("", "test_command [[") else "within a command", text)
        else:
            self.found.add("word" if parent in _EXPRESSIONS or text in ("[", "]") else "keyword", text)

    def _substitutions(self, node: Node) -> None:
        for child in node.children:
            if child.type != "command_substitution":
                self._substitutions(child)
                continue
            for part in child.children:
                self.read(part)
                self._at = part.end_byte
