"""Flows as values. A Flow that exists is sound: checks.py made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kin_nb.core.skills.models import SkillError


class FlowError(SkillError):
    """A flow can't be used: file, line, what is wrong, and what to do."""


@dataclass(frozen=True)
class FlowEdge:
    """`label`: "" where none is written. `line`: of the file."""

    target: str
    label: str
    line: int


@dataclass(frozen=True)
class FlowNode:
    """`label`: the prompt of its turn."""

    id: str
    label: str
    line: int
    edges: tuple[FlowEdge, ...]

    @property
    def is_decision(self) -> bool:
        return len(self.edges) > 1


@dataclass(frozen=True)
class Flow:
    """`begin`, `end`: ids in `nodes`. Whatever is decided, END can still be reached."""

    name: str
    nodes: Mapping[str, FlowNode]
    begin: str
    end: str

    @property
    def first(self) -> FlowNode:
        return self.after(self.nodes[self.begin].edges[0])

    def after(self, edge: FlowEdge) -> FlowNode:
        return self.nodes[edge.target]
