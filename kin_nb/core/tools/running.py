"""The call that the current task runs, for the few tools that need more of the session than their arguments."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.events import BaseEvent
    from kin_nb.core.safety.callbacks import Ask
    from kin_nb.core.session.records import RecordedSubagent


@dataclass(frozen=True)
class RunningCall:
    """`tell` hands an event to whoever shows the turn: it appears inside this call.

    `ask`: for what a subagent in this call may not do unasked, in turn with the other calls' questions. `record` keeps what
    it did, once, at its end.
    """

    call_id: str
    agent: Agent
    tell: Callable[[BaseEvent], None]
    ask: Ask
    record: Callable[[RecordedSubagent], object]


running_call: ContextVar[RunningCall | None] = ContextVar("running_call", default=None)
"""Set by the executor for the call's own task, and inherited by the tasks that it starts."""
