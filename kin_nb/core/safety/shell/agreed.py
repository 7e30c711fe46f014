"""Two readers agree: the line's words and operators by the shell's own rules are those in tree-sitter's tree, one after another.

Where one of them divides a line otherwise than bash does (a digit before `>`, a `#`, the end of a line), the other does not
make the same mistake, and nothing is proven.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.syntax import NOT_PLAIN, PLAIN_WORDS, parse, refused, shown, text_of
from kin_nb.core.safety.shell.tokens import Token, Tokens, tokens

if TYPE_CHECKING:
    from tree_sitter import Node

_JOINED = frozenset(("program", "list", "pipeline", "redirected_statement"))
_WITHIN_A_LINE = frozenset(("command", "file_redirect", "test_command"))
_EXPRESSIONS = frozenset(("test_command", "unary_expression", "binary_expression", "negation_expression"))
_OPERATORS = frozenset((";", "|", "&&", "||"))


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
