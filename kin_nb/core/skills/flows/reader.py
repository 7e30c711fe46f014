"""Read a Flow from a SKILL.md: find the one diagram in its text, and check that it is a flow.

Each error names the line and says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.skills.flows.d2 import draw_d2
from kin_nb.core.skills.flows.mermaid import draw_mermaid
from kin_nb.core.skills.flows.model import Flow, FlowError, FlowNode, Source
from kin_nb.core.skills.models import read_parts
from kin_nb.core.text import shorten

_LANGUAGES = {"mermaid": draw_mermaid, "d2": draw_d2}
_FENCES = ("```", "~~~")


def read_flow(path: Path, may_use: MayUse = anything) -> Flow:
    """Read and check a flow. Raises SkillError or FlowError with the file and the line; also if `may_use` refuses the file."""
    skill, body, first = read_parts(path, may_use)
    if not skill.is_flow:
        raise FlowError(f"{path}: it is not a flow. To make it one, add the line `type: flow` to its frontmatter.")
    diagrams = [(language, line, text) for language, line, text in _blocks(body, first) if language in _LANGUAGES]
    if not diagrams:
        raise FlowError(f"{path}:{first}: a flow has a diagram in its text, between ```mermaid (or ```d2) and ```.")
    if len(diagrams) > 1:
        raise FlowError(f"{path}:{diagrams[1][1]}: a second diagram; a flow has exactly one (line {diagrams[0][1]}).")
    language, line, text = diagrams[0]
    source = Source(path, text, line + 1)
    _LANGUAGES[language](source)
    return checked(skill.name, source)


def _blocks(body: str, first: int) -> Iterator[tuple[str, int, str]]:
    """Yield language, line and text of each fenced block. A block inside another one is part of its text."""
    opened, language, line, lines = "", "", first, list[str]()
    for number, text in enumerate(body.split("\n"), first):
        stripped = text.strip()
        if not opened:
            if stripped.startswith(_FENCES):
                rest = stripped.lstrip(stripped[0])
                opened = stripped[: len(stripped) - len(rest)]
                language, line, lines = (rest.split() or [""])[0].lower(), number, []
        elif stripped.startswith(opened) and not stripped.strip(opened[0]):
            yield language, line, "\n".join(lines)
            opened = ""
        else:
            lines.append(text)


_SHOWN = 40


def checked(name: str, drawn: Source) -> Flow:
    """Check a diagram, and return it as the flow `name`. Raises FlowError."""
    nodes = {
        key: FlowNode(key, key if node.label is None else node.label, node.line, tuple(node.edges))
        for key, node in drawn.nodes.items()
    }
    for node in nodes.values():
        if not node.label.strip():
            raise drawn.error(f"the node {node.id} has an empty label; write what is to be done there.", node.line)
    begin, end = (_only(drawn, nodes.values(), word) for word in ("BEGIN", "END"))
    flow = Flow(name, nodes, begin.id, end.id)
    _check_ends(drawn, flow)
    for node in nodes.values():
        _check_edges(drawn, flow, node)
    _check_ways(drawn, flow)
    return flow


def _only(drawn: Source, nodes: Iterable[FlowNode], word: str) -> FlowNode:
    found = [node for node in nodes if word in (node.id, node.label.strip().upper())]
    if not found:
        raise drawn.error(f"no node is {word}; a flow has exactly one, with {word} as its label.", drawn.first)
    if len(found) > 1:
        raise drawn.error(f"a second node is {word}; a flow has exactly one (line {found[0].line}).", found[1].line)
    return found[0]


def _check_ends(drawn: Source, flow: Flow) -> None:
    begin, end = flow.nodes[flow.begin], flow.nodes[flow.end]
    if len(begin.edges) != 1:
        count = len(begin.edges)
        raise drawn.error(f"{count} edges lead away from BEGIN; draw one, to what is done first.", begin.line)
    if end.edges:
        raise drawn.error("an edge leads away from END; nothing comes after it.", end.edges[0].line)
    if begin.edges[0].target == end.id:
        raise drawn.error("nothing is done between BEGIN and END; draw a node for it.", begin.line)


def _check_edges(drawn: Source, flow: Flow, node: FlowNode) -> None:
    if not node.edges and node.id != flow.end:
        raise drawn.error(f"no edge leads away from {_shown(node)}; draw one, to another node or to END.", node.line)
    seen: dict[str, int] = {}
    for edge in node.edges:
        if edge.target == flow.begin:
            raise drawn.error("an edge leads back to BEGIN; let it lead to the node after it.", edge.line)
        if not node.is_decision:
            continue
        label = " ".join(edge.label.split())
        if not label:
            raise drawn.error(
                f"{_shown(node)} has several edges, and this one has no label to choose it by.", edge.line
            )
        if label in seen:
            what = f"two edges of {_shown(node)} say “{label}” (line {seen[label]}); they must differ."
            raise drawn.error(what, edge.line)
        seen[label] = edge.line


def _check_ways(drawn: Source, flow: Flow) -> None:
    back: dict[str, list[str]] = {}
    for node in flow.nodes.values():
        for edge in node.edges:
            back.setdefault(edge.target, []).append(node.id)
    reached = _all_from(flow.begin, lambda key: [edge.target for edge in flow.nodes[key].edges])
    leading = _all_from(flow.end, lambda key: back.get(key, []))
    for node in flow.nodes.values():
        if node.id not in reached:
            raise drawn.error(f"no way leads from BEGIN to {_shown(node)}; draw an edge to it, or drop it.", node.line)
        if node.id not in leading and node.id != flow.begin:  # BEGIN is omitted: the error is at a later node
            raise drawn.error(f"no way leads from {_shown(node)} to END; draw one.", node.line)


def _all_from(start: str, following: Callable[[str], Iterable[str]]) -> set[str]:
    found, open_ = {start}, [start]
    while open_:
        new = [key for key in following(open_.pop()) if key not in found]
        found.update(new)
        open_.extend(new)
    return found


def _shown(node: FlowNode) -> str:
    return f"“{shorten(' '.join(node.label.split()), _SHOWN)}”"
