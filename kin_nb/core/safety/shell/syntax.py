"""The line as tree-sitter reads it, and pieces of it in reasons.

Two readers of one text may differ; so the tree is one of two (agreed.py).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from kin_nb.core.safety.shell.judgement import UnprovenError

if TYPE_CHECKING:
    from tree_sitter import Language, Node

LONGEST = 10_000
"""Characters of the longest line that is read."""
DEEPEST = 100
"""Levels of the deepest tree that is walked."""
_MOST_NODES = 5_000
_SHOWN = 40
_LONGEST_WORD = 200
_SHELL_WORD = re.compile(r"""\s*(?:[^\s'"\\]|\\.?|'[^']*'?|"(?:\\.|[^"\\])*"?)+""", re.DOTALL)
"""With the blanks before it; a quotation that is left open goes on to the end."""
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
        raise UnprovenError("there is no command in it")
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


def shown(text: str) -> str:
    """A piece of the line in a reason: one line, cut, though never within a word.

    Reasons are recorded, and what is no whole secret any more is not recognized as one.
    """
    flat = " ".join(text.split())
    if len(flat) <= _SHOWN:
        return f"`{flat}`"
    begin = whole_words(flat, _SHOWN) or whole_words(flat, _LONGEST_WORD)
    return f"`{begin}{'' if begin == flat else '…' if not begin else ' …'}`"


def shown_word(text: str) -> str:
    """One word of the line in a reason, without its quotes: all of it, or nothing."""
    return f"`{' '.join(text.split()) if len(text) <= _LONGEST_WORD else '…'}`"


def whole_words(text: str, longest: int) -> str:
    """The text up to the last word that ends within `longest` characters; what is in quotes is one word, or part of one."""
    end = 0
    for word in _SHELL_WORD.finditer(text):
        if word.end() > longest:
            break
        end = word.end()
    return text[:end]


def refused(node: Node, source: bytes) -> UnprovenError:
    """For a kind of node that is never proven. Of a variable that is set, the name is shown and not the value."""
    text = text_of(node, source)
    if node.type in _SETS and "=" in text:
        text = text[: text.index("=")] + "=…"
    return UnprovenError(f"{shown(text)} {NOT_PLAIN.get(node.type, 'is of a kind that is not proven here')}")
