"""What a decision asks, and what was answered."""

from __future__ import annotations

import re

from kin_nb.core.skills.flows.model import FlowEdge, FlowNode

_TAG = re.compile(r"<(/?)choice>", re.IGNORECASE)
_SHOWN = 80


def question(node: FlowNode, request: str = "") -> str:
    """The node's prompt; of a decision, its branches and how one of them is chosen."""
    task = f"{node.label}\n\n{request}" if request else node.label
    return (
        f"{task}\n\nEnd your reply with the one of these lines that applies:\n{_lines(node)}"
        if node.is_decision
        else task
    )


def question_again(node: FlowNode, reply: str) -> str:
    answer = answered(reply)
    what = "names no choice" if answer is None else f"chooses “{answer[:_SHOWN]}”, which is none of the choices"
    return f"Your reply {what}. End it with exactly one of these lines:\n{_lines(node)}"


def choice(node: FlowNode, reply: str) -> FlowEdge | None:
    """The edge to follow: the only one, or the one whose label the reply chose, in other case too if that is clear."""
    if not node.is_decision:
        return node.edges[0]
    answer = answered(reply)
    if answer is None:
        return None
    exact = [edge for edge in node.edges if _plain(edge.label) == answer]
    alike = [edge for edge in node.edges if _plain(edge.label).casefold() == answer.casefold()]
    return next((found[0] for found in (exact, alike) if len(found) == 1), None)


def answered(reply: str) -> str | None:
    """What stands between the last `<choice>` and the `</choice>` after it."""
    found: str | None = None
    opened: int | None = None
    for tag in _TAG.finditer(reply):
        if not tag[1]:
            opened = tag.end()
        elif opened is not None:
            found, opened = _plain(reply[opened : tag.start()]), None
    return found


def _plain(text: str) -> str:
    return " ".join(text.split())


def _lines(node: FlowNode) -> str:
    return "\n".join(f"<choice>{_plain(edge.label)}</choice>" for edge in node.edges)
