"""The order in which bash runs what `&&`, `||` and `|` join.

It is read from the line: tree-sitter has the right parts, but groups some otherwise than bash. To it `b | c && d` is a list
in `a | b | c && d`, and `a && b 2>x` is one part of the pipeline in `a && b 2>x | c`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kin_nb.core.safety.shell.syntax import parts

if TYPE_CHECKING:
    from tree_sitter import Node

JOINED = frozenset(("list", "pipeline", "negated_command", "redirected_statement"))


@dataclass(frozen=True)
class Part:
    """`redirections`: those that the tree has around a group, whose last part this is."""

    node: Node
    redirections: list[Node] = field(default_factory=list)


@dataclass
class Pipeline:
    """`operator`: what joins it to those before, "" for the first. `negated`: it begins with `!`."""

    operator: str = ""
    negated: bool = False
    parts: list[Part] = field(default_factory=list)


def pipelines(node: Node, source: bytes) -> list[Pipeline]:
    """Those in a node of a kind in JOINED, in order. Raises UnprovenError for what cannot be read for certain."""
    found = [Pipeline()]
    _read(node, source, found)
    return found


def _read(node: Node, source: bytes, found: list[Pipeline]) -> None:
    children = parts(node, source) if node.type in JOINED else []
    if node.type == "redirected_statement" and children[0].type in JOINED:
        _read(children[0], source, found)
        found[-1].parts[-1].redirections.extend(children[1:])
    elif node.type not in JOINED or node.type == "redirected_statement":
        found[-1].parts.append(Part(node))
    else:
        for child in children:
            if child.type in ("&&", "||"):
                found.append(Pipeline(child.type))
            elif child.type == "!":
                found[-1].negated = True
            elif child.type not in ("|", "|&", "\n", "comment"):
                _read(child, source, found)
