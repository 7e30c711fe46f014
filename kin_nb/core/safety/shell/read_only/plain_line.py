"""A plain line, as two readers agree on it: its words and operators, and the lists of pipelines of commands that they make.

One reader follows the rules of the POSIX shell (2.3 Token Recognition), the other is tree-sitter's grammar of bash. Where one
of them divides a line otherwise than bash does (a digit before `>`, a `#`, the end of a line), the other does not make the
same mistake, and nothing is proven.

Plain: words with quotes and escapes, `|`, `&&`, `||`, `;`, ends of lines, redirections, comments. Whatever else the shell
has is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple

from kin_nb.core.safety.shell.classification import UnprovenError, shown

if TYPE_CHECKING:
    from tree_sitter import Language, Node


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
        if self._newline and not (last.kind == "operator" and last.text in _CONTINUES):
            self.found.append(Token("operator", "\n"))
        self._newline = False
        self.found.append(Token(kind, text))


def agreed_tokens(line: str) -> list[Token]:
    """What both readers see. Raises UnprovenError at the first word or operator where they differ, or that is not plain."""
    tree = _TreeReader(line.encode())
    root = parse(line)
    tree.read(root, root.type)
    found = tokens(line)
    for own, other in zip_longest(found, tree.tokens.found):
        if own != other:
            text = (own or other or Token("word", "")).text
            raise UnprovenError(f"{shown(text)} can be read in two ways")
    return found


_BLANKS = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||&>>|&>|>>|>&|>\||[;|<>]")
_MORE = frozenset("&|<>();")
"""What would make another operator of one: `<<`, `|&`, `;;`, `>(`, `<&`. None is ever proven."""
_WORD = re.compile(
    r"""(?:[^ \t\n'"\\$`;&|<>()]|\\[^\n]|'[^']*+'|"(?:[^"\\$`]|\\[^\n]|\$(?![({\[]))*+"|\$(?![({'"\[]))++"""
)
_CONTINUES = frozenset(("&&", "||", "|", ";"))


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
    """Whether a word directly before `<` or `>` is its descriptor, as in bash."""
    if not word.isascii() or not (word.isdigit() or word.endswith("}")):
        return False
    after_redirection = bool(found.found) and found.found[-1].kind == "redirection"
    if len(word) > 1 or after_redirection:  # no number that bash knows, or `>&1>x`
        raise UnprovenError(f"{shown(word)} before a redirection can be read in two ways")
    return True


LONGEST = 10_000
"""Characters of the longest line that is read."""
DEEPEST = 100
"""Levels of the deepest tree that is walked."""
_MOST_NODES = 5_000
PLAIN_WORDS = frozenset(
    ("word", "number", "string", "raw_string", "concatenation", "simple_expansion", "brace_expression", "regex")
)
"""Kinds of nodes that are words, which WordReader reads, or refuses."""
_SETS = frozenset(("variable_assignment", "variable_assignments", "declaration_command"))

NOT_PLAIN = {
    "function_definition": "defines a function",
    "for_statement": "is a loop",
    "if_statement": "may do one thing or another",
    "subshell": "is a group",
    "compound_statement": "is a group",
    "negated_command": "is negated",
    "command_substitution": "gives words that are not known before it runs",
    "expansion": "is known only when it runs",
    "while_statement": "may never end",
    "variable_assignment": "sets a variable",
    "variable_assignments": "sets a variable",
    "declaration_command": "sets a variable",
    "unset_command": "unsets a variable",
    "heredoc_redirect": "is a here-document",
    "herestring_redirect": "is a here-string",
    "process_substitution": "is a process substitution",
    "case_statement": "may do one thing or another",
    "c_style_for_statement": "may never end",
    "ansi_c_string": "is known only when it runs",
    "translated_string": "is known only when it runs",
    "&": "runs something in the background",
}
"""Kinds of nodes that are never proven, and why."""


def parse(command: str) -> Node:
    """The root of the tree. Raises UnprovenError for what is too long, too deep, malformed or holds unseen characters."""
    if len(command) > LONGEST:
        raise UnprovenError(f"it is longer than {LONGEST:,} characters")
    if not command.strip(" \t\n"):
        raise UnprovenError("it contains no command")
    unseen = next((c for c in command if not c.isprintable() and c not in "\n\t"), None)
    if unseen is not None:
        raise UnprovenError(f"it holds a character that cannot be seen, U+{ord(unseen):04X}")
    from tree_sitter import Parser  # noqa: PLC0415  (on first use)

    root = Parser(_language()).parse(command.encode()).root_node
    if root.has_error:
        raise UnprovenError("it is not well-formed, or not in a way that is known here")
    _check_size(root)
    return root


@cache
def _language() -> Language:
    import tree_sitter_bash  # noqa: PLC0415  (on first use)
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())


def _check_size(root: Node) -> None:
    if root.descendant_count > _MOST_NODES:
        raise UnprovenError("it has too many parts to prove")
    level, depth = [root], 0
    while level:
        level = [child for node in level for child in node.children]
        depth += 1
        if depth > DEEPEST:
            raise UnprovenError("it is nested too deeply to prove")


def text_of(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode()


def refused(node: Node, source: bytes) -> UnprovenError:
    """For a kind of node that is never proven. Of a variable that is set, the name is shown and not the value."""
    text = text_of(node, source)
    if node.type in _SETS and "=" in text:
        text = text[: text.index("=")] + "=…"
    return UnprovenError(f"{shown(text)} {NOT_PLAIN.get(node.type, 'is of a kind that is not proven here')}")


_JOINED = frozenset(("program", "list", "pipeline", "redirected_statement"))
_WITHIN_A_LINE = frozenset(("command", "file_redirect", "test_command"))
_EXPRESSIONS = frozenset(("test_command", "unary_expression", "binary_expression", "negation_expression"))
_OPERATORS = frozenset((";", "|", "&&", "||"))


class _TreeReader:
    """Reads the same from the tree's leaves. It knows the parts of a plain line, and refuses any other."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._at = 0
        self._descriptor = ""
        self.tokens = Tokens()

    def read(self, node: Node, parent: str) -> None:
        if parent in _JOINED and b"\n" in self._source[self._at : node.start_byte]:
            self.tokens.newline()
        if node.type in PLAIN_WORDS or node.type == "comment" or not node.children:
            self._check_plain(node)
            self._leaf(node, parent)
            self._at = node.end_byte
        elif node.type in _JOINED | _WITHIN_A_LINE | _EXPRESSIONS or node.type == "command_name":
            for child in node.children:
                self.read(child, node.type)
        else:
            raise refused(node, self._source)

    def _check_plain(self, node: Node) -> None:
        """For the reason: the other reader refuses such words without a name for them."""
        for child in node.children:
            if child.type in NOT_PLAIN:
                raise refused(child, self._source)
            self._check_plain(child)

    def _leaf(self, node: Node, parent: str) -> None:
        text = text_of(node, self._source)
        if node.type == "\n":
            self.tokens.newline()
        elif node.type == "file_descriptor":
            self._descriptor = text
        elif parent == "file_redirect" and not node.is_named:
            self.tokens.add("redirection", self._descriptor + text)
            self._descriptor = ""
        elif node.type in PLAIN_WORDS or (parent in _EXPRESSIONS and text not in _OPERATORS):
            self.tokens.add("word", text)
        elif parent in _JOINED and text in _OPERATORS:
            self.tokens.add("operator", text)
        elif node.type != "comment":
            raise refused(node, self._source)


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
            raise UnprovenError(f"{shown(token.text)} is ambiguous")
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
