"""Flows: skills of `type: flow`, whose diagram says what is done in which order (seed 001, `/flow:NAME`).

Owns reading a diagram (mermaid or d2) into a Flow, checking it, and running it: one turn for each node. A turn is known
here only as the events of the function `act`. May import: core.events, core.skills, core.tools.base.
"""

from kin_nb.core.skills.flows.model import Flow, FlowEdge, FlowError, FlowNode
from kin_nb.core.skills.flows.reader import read_flow
from kin_nb.core.skills.flows.runner import MAX_MOVES, FlowRunner

__all__ = ["MAX_MOVES", "Flow", "FlowEdge", "FlowError", "FlowNode", "FlowRunner", "read_flow"]
