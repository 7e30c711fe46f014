"""CallContext: the parts of the session that a tool may use while it runs a call."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig
    from kin_nb.core.dmail import DenwaRenji
    from kin_nb.core.events import BaseEvent
    from kin_nb.core.questions import AskQuestion
    from kin_nb.core.records import RecordedSubagent, TurnRecord
    from kin_nb.core.safety.approvals import Ask
    from kin_nb.core.tools.manager import ToolManager
    from kin_nb.core.tools.subagent_profiles import Profile


class Spawn(Protocol):
    """Run a subagent inside the call of `context`, and return its one turn."""

    async def __call__(
        self, context: CallContext, profile: Profile, *, title: str, prompt: str, max_steps: int
    ) -> TurnRecord: ...


@dataclass(frozen=True, kw_only=True)
class CallContext:
    """One call of one turn. `config`: the effective settings. `tools`: all tools of the model.

    `emit` shows an event inside this call. `ask` asks for approval, in one queue with other calls; `ask_question` asks the user
    anything else. `mailbox` receives a rewind request; None if rewind is not possible. `spawn` runs a subagent, and `record`
    stores its work, once, at its end.
    """

    call_id: str
    config: KinConfig
    tools: ToolManager
    emit: Callable[[BaseEvent], None]
    ask: Ask
    ask_question: AskQuestion
    mailbox: DenwaRenji | None
    spawn: Spawn
    record: Callable[[RecordedSubagent], object]


call_context: ContextVar[CallContext | None] = ContextVar("call_context", default=None)
"""Set by the executor for the call's task and the tasks that it starts; None outside a call."""
