"""Subagents: one task in a separate conversation, inside a tool call of the parent agent.

A subagent shares the parent's connection to the model, its safety context (mode, policy, grants), its file history and
its approvals. It has its own messages, tools, loop detector and statistics. Its turn is not logged: the record of the
parent's call says what it did.
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
"""Most calls of one subagent that the record names."""
_NOT_TOLD = (AssistantEvent, ReasoningEvent, ToolOutputEvent, CheckpointEvent)
"""Events that are not forwarded: pieces of a text that comes whole later, and checkpoints, which cannot be used here."""


async def run_subagent(
    parent: TurnContext, call: CallContext, profile: Profile, *, title: str, prompt: str, max_steps: int
) -> TurnRecord:
    """Run the subagent's only turn, and return its record, also when the turn failed.

    The tokens are counted and the calls recorded also when this is cancelled.
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
    """Compose the subagent's parts. None of them has to be closed."""
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
        # the same beginning as the parent's, for the provider's prompt cache
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
    """Return a journal that writes nothing. Warnings and storage failures go to the parent's journal."""
    log = UnwrittenLog(parent.journal.root_id)
    log.has_header = True  # so that no header is made
    journal = SessionJournal(settings.config, settings.workspace.root, parent.journal.root_id, log)
    journal.warnings, journal.storage = parent.journal.warnings, parent.journal.storage
    return journal


def _safety(parent: TurnContext, profile: Profile) -> Callable[[], SafetyContext]:
    """Return the parent's safety context, in plan mode for a read-only profile: no grant or setting overrides that."""
    if profile.read_only:
        return lambda: replace(parent.safety(), mode=AgentMode.PLAN)
    return parent.safety


def _asking(call: CallContext, title: str) -> Ask:
    """Return a function that asks the user at the parent's call, which is the only call with a card."""

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        reason = f'the subagent "{title}": {request.reason}'
        return await call.ask(replace(request, tool_call_id=call.call_id, reason=reason))

    return ask


async def _no_subagent(context: CallContext, profile: Profile, **task: Any) -> TurnRecord:  # noqa: ARG001
    raise ToolError("A subagent starts no other one.")


class SubagentTools(Toolset):
    """The parent's tools that the profile allows, with separate state. MCP servers are shared, and the parent closes them."""

    def __init__(self, parent: TurnContext, profile: Profile) -> None:
        self.format_handler = parent.toolset.format_handler
        tools = parent.toolset.manager
        self.manager: ToolManager = tools.with_only(profile.tools(tools.available_tools()))
        parent.toolset.attach_skills(self.manager)

    def expand(self, prompt: str) -> str:
        """Return the prompt unchanged: the model wrote it, so `/skill` has no meaning in it."""
        return prompt

    async def connect(self) -> list[str]:
        """Do nothing: the parent has connected the servers."""
        return []

    async def refresh(self) -> list[str]:
        """Do nothing: a subagent keeps the tools that it began with."""
        return []

    def attach_skills(self, manager: ToolManager) -> None:
        """Do nothing: the skills are the parent's, attached when the tools were made."""


class _ParentsLimit(BuiltinMiddleware):
    """Applies the parent's price limit, which covers the session with its subagents."""

    def __init__(self, limit: PriceLimitMiddleware, parent: TurnContext) -> None:
        self._limit, self._parent = limit, parent

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return await self._limit.before_turn(self._parent.conversation.context(self._parent.settings.config))


class _Charged:
    """Adds what the subagent used to the parent's statistics."""

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
