"""FlowRunner: run a flow from BEGIN to END, with one turn for each node; ask for decisions, and read the chosen branch."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kin_nb.core.events import BaseEvent, ErrorEvent, FlowStepEvent, TurnEndEvent
from kin_nb.core.records import TurnRecord
from kin_nb.core.skills.flows.model import Flow, FlowEdge, FlowNode

MAX_MOVES = 100
_ASKED_AGAIN = 3

Events = AsyncGenerator[BaseEvent, None]
Act = Callable[[str], Events]


class FlowRunner:
    """Runs a flow. `act` runs one turn of a prompt (`Agent.act`). `max_moves`: most visited nodes, without END."""

    def __init__(self, flow: Flow, act: Act, max_moves: int = MAX_MOVES) -> None:
        self._flow, self._act, self._max_moves = flow, act, max_moves
        self._following: FlowNode | None = None
        self._problem = ""

    async def run(self, request: str = "") -> Events:
        """Yield the events of all turns, with a FlowStepEvent before each node. `request` is added to the first prompt.

        The last event is the FlowStepEvent of END, or an ErrorEvent that says where and why the flow stopped: a failed
        turn, four replies without a valid choice, or too many moves. Raises what `act` raises.
        """
        node, request = self._flow.first, request.strip()
        for move in itertools.count(1):
            over = node.id == self._flow.end
            if move > self._max_moves and not over:
                yield self._stopped(node, f"{self._max_moves} moves were made and END was not reached.")
                return
            yield FlowStepEvent(flow=self._flow.name, node=node.label, move=move)
            if over:
                return
            async with aclosing(self._visit(node, request)) as events:
                async for event in events:
                    yield event
            if self._following is None:
                yield self._stopped(node, self._problem)
                return
            node, request = self._following, ""

    async def _visit(self, node: FlowNode, request: str) -> Events:
        """Run the node's turn, and ask again after an invalid choice. Sets the next node, or the problem."""
        self._following = None
        prompt = question(node, request)
        for _ in range(1 + _ASKED_AGAIN):
            record: TurnRecord | None = None
            async with aclosing(self._act(prompt)) as events:
                async for event in events:
                    if isinstance(event, TurnEndEvent):
                        record = event.record
                    yield event
            if record is None or record.outcome != "done":
                self._problem = _why(record)
                return
            reply = record.steps[-1].content if record.steps else ""
            edge = choice(node, reply)
            if edge is not None:
                self._following = self._flow.after(edge)
                return
            prompt = question_again(node, reply)
        labels = ", ".join(f"“{edge.label}”" for edge in node.edges)
        self._problem = f"the model was asked {1 + _ASKED_AGAIN} times and chose none of {labels}."

    def _stopped(self, node: FlowNode, why: str) -> ErrorEvent:
        label = " ".join(node.label.split())
        return ErrorEvent(message=f"The flow {self._flow.name} stopped at “{label}”: {why}")


def _why(record: TurnRecord | None) -> str:
    if record is None:
        return "its turn has no end."
    return f"its turn did not end well ({record.outcome}{': ' if record.message else ''}{record.message})."


_TAG = re.compile(r"<(/?)choice>", re.IGNORECASE)
_LONGEST_ANSWER = 80


def question(node: FlowNode, request: str = "") -> str:
    """Return the node's prompt. For a decision it has the branches and how to choose one."""
    task = f"{node.label}\n\n{request}" if request else node.label
    return (
        f"{task}\n\nEnd your reply with the one of these lines that applies:\n{_lines(node)}"
        if node.is_decision
        else task
    )


def question_again(node: FlowNode, reply: str) -> str:
    answer = answered(reply)
    what = (
        "names no choice" if answer is None else f"chooses “{answer[:_LONGEST_ANSWER]}”, which is none of the choices"
    )
    return f"Your reply {what}. End it with exactly one of these lines:\n{_lines(node)}"


def choice(node: FlowNode, reply: str) -> FlowEdge | None:
    """Return the next edge: the only one, or the one that the reply chose. Case is ignored if that is unambiguous."""
    if not node.is_decision:
        return node.edges[0]
    answer = answered(reply)
    if answer is None:
        return None
    exact = [edge for edge in node.edges if _plain(edge.label) == answer]
    alike = [edge for edge in node.edges if _plain(edge.label).casefold() == answer.casefold()]
    return next((found[0] for found in (exact, alike) if len(found) == 1), None)


def answered(reply: str) -> str | None:
    """Return the text between the last `<choice>` and the `</choice>` after it."""
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
