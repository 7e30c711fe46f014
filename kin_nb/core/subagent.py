"""A subagent: one task, in a conversation of its own, inside a call of its parent.

It shares the parent's connection to the model, its safety context (mode, policy, grants), its history of files and whoever
answers; it has messages, tools, a loop detector and statistics of its own. Its turn is in no log: the parent's call
records what it did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kin_nb.core.config import ObservabilityConfig
from kin_nb.core.events import (
    AssistantEvent,
    BaseEvent,
    CheckpointEvent,
    ReasoningEvent,
    SubagentEvent,
    ToolOutputEvent,
)
from kin_nb.core.messages import LLMUsage
from kin_nb.core.middleware import (
    BuiltinMiddleware,
    ConversationContext,
    MiddlewarePipeline,
    MiddlewareResult,
    PriceLimitMiddleware,
)
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedSubagent, RecordedSubagentCall, TurnRecord
from kin_nb.core.safety.approvals import Approvals, Ask
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.safety.policies import SafetyContext
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.log import UnwrittenLog
from kin_nb.core.settings import Settings
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.call_context import CallContext
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.subagent_profiles import Profile
from kin_nb.core.tools.toolset import Toolset
from kin_nb.core.turn import Prompt, Turn
from kin_nb.core.turn_context import TurnContext, compose
from kin_nb.core.turn_hooks import TurnHooks
from kin_nb.core.usage import cost_of, count_aside

MOST_CALLS = 50
"""Calls of one subagent that the record names."""
_NOT_TOLD = (AssistantEvent, ReasoningEvent, ToolOutputEvent, CheckpointEvent)
"""Pieces of what comes whole later, and checkpoints that nobody can go back to."""


async def run_subagent(
    parent: TurnContext, call: CallContext, profile: Profile, *, title: str, prompt: str, max_steps: int
) -> TurnRecord:
    """Run the subagent's one turn, and return its record, however it ended.

    What it used is counted and recorded, also when this is cancelled.
    """
    context = _context(parent, call, profile, title, max_steps)
    number = parent.conversation.transcript.turns[-1].turn  # it is the parent's turn, in the audit log too
    turn = Turn(context, Prompt(text=prompt), lambda record: context.begin(record, number))
    turns, charged = context.conversation.transcript.turns, _Charged(parent, context)

    async def emit(event: BaseEvent) -> None:
        charged.count()
        if not isinstance(event, _NOT_TOLD):
            call.emit(SubagentEvent(tool_call_id=call.call_id, event=event))

    try:
        await turn.run(emit)
    finally:
        charged.count()
        call.record(_recorded(context, profile))
    return turns[-1]


def _context(parent: TurnContext, call: CallContext, profile: Profile, title: str, max_steps: int) -> TurnContext:
    """Compose what the subagent works with. It owns nothing that has to be closed."""
    settings = Settings(parent.settings.config, parent.settings.mode)
    settings.override(
        max_steps_per_turn=min(max_steps, settings.config.max_steps_per_turn),
        dmail=False,
        observability=ObservabilityConfig(),  # the parent's observers hear of it
    )
    journal = _journal(parent, settings)
    middleware = MiddlewarePipeline(warn=journal.warn)
    approvals = Approvals()
    approvals.ask = _asking(call, title)
    context = compose(
        settings=settings,
        services=parent.services,
        journal=journal,
        toolset=SubagentTools(parent, profile),
        # begins as the parent's does: prompt caches know it
        system_prompt=f"{parent.conversation.history.messages[0].content}\n\n{profile.instructions}",
        middleware=middleware,
        approvals=approvals,
        strategy=parent.compactor.strategy,
        safety=_safety(parent, profile),
        turn_hooks=TurnHooks(),
        spawn=_no_subagent,
        new_warnings=lambda _: [],  # the parent reports them
    )
    limits = [limit for limit in parent.middleware.middlewares if isinstance(limit, PriceLimitMiddleware)]
    middleware.middlewares[:0] = [_ParentsLimit(limit, parent) for limit in reversed(limits)]
    return context


def _journal(parent: TurnContext, settings: Settings) -> SessionJournal:
    """Return one that writes nothing: its warnings are the parent's, and what could not be kept is told there."""
    log = UnwrittenLog(parent.journal.root_id)
    log.has_header = True  # no header: nobody reads it
    journal = SessionJournal(settings.config, settings.workspace.root, parent.journal.root_id, log)
    journal.warnings, journal.storage = parent.journal.warnings, parent.journal.storage
    return journal


def _safety(parent: TurnContext, profile: Profile) -> Callable[[], SafetyContext]:
    """Return the parent's. Plan mode is what keeps a subagent that reads from all else, whatever is granted or configured."""
    if profile.read_only:
        return lambda: replace(parent.safety(), mode=AgentMode.PLAN)
    return parent.safety


def _asking(call: CallContext, title: str) -> Ask:
    """The user sees the question at the parent's call, the only one that they see."""

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        reason = f'the subagent "{title}": {request.reason}'
        return await call.ask(replace(request, tool_call_id=call.call_id, reason=reason))

    return ask


async def _no_subagent(context: CallContext, profile: Profile, **task: Any) -> TurnRecord:  # noqa: ARG001
    raise ToolError("A subagent starts no other one.")


class SubagentTools(Toolset):
    """The parent's tools, as the profile has them, with a memory of their own; servers are shared, and the parent's to close."""

    def __init__(self, parent: TurnContext, profile: Profile) -> None:
        self.format_handler = parent.toolset.format_handler
        tools = parent.toolset.manager
        self.manager: ToolManager = tools.with_only(profile.tools(tools.available_tools()))
        parent.toolset.attach_skills(self.manager)

    def expand(self, prompt: str) -> str:
        """Return it as it is: a model wrote it."""
        return prompt

    async def connect(self) -> list[str]:
        """The parent's are."""
        return []

    async def refresh(self) -> list[str]:
        """Its tools are those that it began with."""
        return []

    def attach_skills(self, manager: ToolManager) -> None:
        """It has no skills to give."""


class _ParentsLimit(BuiltinMiddleware):
    """What the session may cost, subagents and all."""

    def __init__(self, limit: PriceLimitMiddleware, parent: TurnContext) -> None:
        self._limit, self._parent = limit, parent

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return await self._limit.before_turn(self._parent.conversation.context(self._parent.settings.config))


class _Charged:
    """Counts what the subagent used into the parent's statistics."""

    def __init__(self, parent: TurnContext, subagent: TurnContext) -> None:
        self._parent, self._own = parent.conversation.usage, subagent.conversation.usage
        self._counted = LLMUsage()

    def count(self) -> None:
        """Add what was used since the last time."""
        stats, before = self._own.stats, self._counted
        self._counted = LLMUsage(
            prompt_tokens=stats.session_prompt_tokens, completion_tokens=stats.session_completion_tokens
        )
        new = LLMUsage(
            prompt_tokens=self._counted.prompt_tokens - before.prompt_tokens,
            completion_tokens=self._counted.completion_tokens - before.completion_tokens,
        )
        count_aside(self._parent.stats, new)


def _recorded(context: TurnContext, profile: Profile) -> RecordedSubagent:
    turn = context.conversation.transcript.turns[-1]
    calls = [RecordedSubagentCall(name=c.name, summary=c.summary, status=c.status) for c in turn.calls]
    return RecordedSubagent(
        profile=profile.name,
        steps=len(turn.steps),
        calls=tuple(calls[:MOST_CALLS]),
        more=max(0, len(calls) - MOST_CALLS),
        unasked=turn.unasked,
        prompt_tokens=turn.prompt_tokens,
        completion_tokens=turn.completion_tokens,
        cost=cost_of(context.conversation.usage.stats, turn),
    )
