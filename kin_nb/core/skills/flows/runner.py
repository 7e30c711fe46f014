"""FlowRunner: from BEGIN to END, a turn for each node (seed 001)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kin_nb.core.events import BaseEvent, ErrorEvent, FlowStepEvent, TurnEndEvent
from kin_nb.core.records import TurnRecord
from kin_nb.core.skills.flows.choice import choice, question, question_again
from kin_nb.core.skills.flows.model import Flow, FlowNode

MAX_MOVES = 100
_ASKED_AGAIN = 3

Events = AsyncGenerator[BaseEvent, None]
Act = Callable[[str], Events]


class FlowRunner:
    """`act` runs one turn of a prompt (`Agent.act`). `max_moves`: nodes that may be visited, END not counted."""

    def __init__(self, flow: Flow, act: Act, max_moves: int = MAX_MOVES) -> None:
        self._flow, self._act, self._max_moves = flow, act, max_moves
        self._following: FlowNode | None = None
        self._problem = ""

    async def run(self, request: str = "") -> Events:
        """The events of all turns, each node announced by a FlowStepEvent. `request` goes with the first prompt.

        Ends with the step to END, or with an ErrorEvent that says where it stopped and why: a turn that did not end
        well, a choice that is none after four tries, too many moves. Raises whatever `act` raises.
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
        """The node's turn, and those in which it is asked again. Then it is known what follows, or the problem."""
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
