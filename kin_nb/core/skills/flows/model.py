"""Flows as values, and the diagram that a flow is read from.

A Flow is always valid, because reader.py has checked it. A Source is the text of a diagram with a position in it, and the
nodes and edges that mermaid.py or d2.py have read so far, which may be invalid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kin_nb.core.skills.models import SkillError


class FlowError(SkillError):
    """A flow cannot be used. The text has the file, the line, what is wrong, and what to do."""


@dataclass(frozen=True)
class FlowEdge:
    """An arrow to the node `target`. `label`: "" without one. `line`: in the file."""

    target: str
    label: str
    line: int


@dataclass(frozen=True)
class FlowNode:
    """A node, which is run as one turn. `label`: the prompt of that turn."""

    id: str
    label: str
    line: int
    edges: tuple[FlowEdge, ...]

    @property
    def is_decision(self) -> bool:
        return len(self.edges) > 1


@dataclass(frozen=True)
class Flow:
    """A valid flow. `begin`, `end`: ids in `nodes`. END can be reached from every node."""

    name: str
    nodes: Mapping[str, FlowNode]
    begin: str
    end: str

    @property
    def first(self) -> FlowNode:
        return self.after(self.nodes[self.begin].edges[0])

    def after(self, edge: FlowEdge) -> FlowNode:
        return self.nodes[edge.target]


_SHOWN = 40


@dataclass
class Drawn:
    """A node, as far as it has been read. `label`: None while only its id is known."""

    line: int
    label: str | None = None
    edges: list[FlowEdge] = field(default_factory=list)


class Source:
    """A diagram while it is read. `first`: the line of the file where `text` begins.

    The file may come from anyone, so patterns must take linear time.
    """

    def __init__(self, path: Path, text: str, first: int) -> None:
        self.path, self.text, self.first = path, text, first
        self.at = self._counted = 0
        self._line = first
        self.nodes: dict[str, Drawn] = {}

    @property
    def line(self) -> int:
        """The line in the file of the current position, which only moves forward."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    @property
    def over(self) -> bool:
        return self.at >= len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def error(self, what: str, line: int | None = None) -> FlowError:
        return FlowError(f"{self.path}:{line or self.line}: {what}")

    def unreadable(self, hint: str) -> FlowError:
        rest = self.text[self.at : self.at + _SHOWN].partition("\n")[0]
        return self.error(f"“{rest}” can't be read here. {hint}")

    def node(self, name: str, label: str | None = None) -> str:
        """Add a node when it is mentioned. Raises FlowError if it already has another label."""
        drawn = self.nodes.setdefault(name, Drawn(self.line))
        if label is not None:
            if drawn.label not in (None, label):
                raise self.error(f"the node {name} has another label on line {drawn.line}; write it once.")
            drawn.label, drawn.line = label, self.line
        return name

    def edge(self, source: str, target: str, label: str) -> None:
        self.nodes[source].edges.append(FlowEdge(target, label, self.line))
