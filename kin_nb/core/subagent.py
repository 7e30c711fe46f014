"""Subagent: one task, in a conversation of its own, inside a call of its parent.

It shares the parent's connection to the model, its safety context (mode, policy, grants), its history of files and whoever
answers; it has messages, tools, a loop detector and statistics of its own. Its turn is in no log: the parent's call
records what it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ObservabilityConfig
from kin_nb.core.events import AssistantEvent, CheckpointEvent, ReasoningEvent, SubagentEvent, ToolOutputEvent
from kin_nb.core.messages import LLMUsage
from kin_nb.core.middleware import BuiltinMiddleware, ConversationContext, MiddlewareResult, PriceLimitMiddleware
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedSubagent, RecordedSubagentCall, TurnRecord
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.safety.policies import SafetyContext
from kin_nb.core.session.log import UnwrittenLog
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.toolbox import Toolbox
from kin_nb.core.tools.call_context import CallContext
from kin_nb.core.tools.subagent_profiles import Profile
from kin_nb.core.usage import cost_of, count_aside

MOST_CALLS = 50
"""Calls of one subagent that the record names."""
_NOT_TOLD = (AssistantEvent, ReasoningEvent, ToolOutputEvent, CheckpointEvent)
"""Pieces of what comes whole later, and checkpoints that nobody can go back to."""


async def run_subagent(
    parent: Agent, call: CallContext, profile: Profile, *, title: str, prompt: str, max_steps: int
) -> TurnRecord:
    """The subagent's one turn, however it ended. What it used is counted and recorded, also when this is cancelled."""
    agent = Subagent(parent, call, profile, title, max_steps)
    used = LLMUsage()
    try:
        async with aclosing(agent.act(prompt)) as events:
            async for event in events:
                used = _charged(parent, agent, used)
                if not isinstance(event, _NOT_TOLD):
                    call.emit(SubagentEvent(tool_call_id=call.call_id, event=event))
    finally:
        _charged(parent, agent, used)
        if agent.turns:
            call.record(_recorded(agent, profile))
    return agent.turns[-1]


class Subagent(Agent):
    """Made for one task. It owns nothing that has to be closed."""

    def __init__(self, parent: Agent, call: CallContext, profile: Profile, title: str, max_steps: int) -> None:
        session_id = parent.journal.root_id
        log = UnwrittenLog(session_id)
        log.begun = True  # no header: nobody reads it
        toolbox = SubagentToolbox(parent, profile)
        super().__init__(parent.config, parent.mode, session_id=session_id, log=log, toolbox=toolbox)
        self.configured = self.config = _settings(parent.config, max_steps)
        self._parent, self._call, self._profile, self._title = parent, call, profile, title
        self.link = parent.link  # one HTTP client for both
        self.files, self.compaction_strategy = parent.files, parent.compaction_strategy
        self.audit, self.journal.warnings = parent.audit, parent.journal.warnings
        self.journal.storage = parent.journal.storage
        self.set_ask(self._ask_the_parents)
        for limit in parent.middleware_pipeline.middlewares:
            if isinstance(limit, PriceLimitMiddleware):
                self.middleware_pipeline.middlewares.insert(0, _ParentsLimit(limit, parent))

    def safety(self) -> SafetyContext:
        """The parent's. Plan mode is what keeps a subagent that reads from all else, whatever is granted or configured."""
        context = self._parent.safety()
        return replace(context, mode=AgentMode.PLAN) if self._profile.reads else context

    def begin_turn(self, turn: TurnRecord) -> TurnRecorder:
        """It is the parent's turn, in the audit log too."""
        recorder = super().begin_turn(turn)
        recorder.record = recorder.record.model_copy(update={"turn": self._parent.turns[-1].turn})
        self.turns[-1] = recorder.record
        return recorder

    def new_warnings(self, found: Iterable[str] = ()) -> list[str]:  # noqa: ARG002
        """The parent says them."""
        return []

    async def _ask_the_parents(self, request: ApprovalRequest) -> ApprovalDecision:
        """The person sees the question at the parent's call, the only one that they see."""
        reason = f'the subagent "{self._title}": {request.reason}'
        return await self._call.ask(replace(request, tool_call_id=self._call.call_id, reason=reason))


class SubagentToolbox(Toolbox):
    """The parent's tools, as the profile has them, with a memory of their own; servers are shared, and the parent's to close."""

    def __init__(self, parent: Agent, profile: Profile) -> None:
        self._prompt = f"{parent.messages[0].content}\n\n{profile.told}"
        self.skills = parent.toolbox.skills
        self.manager = parent.tool_manager.with_only(profile.tools(parent.tool_manager.available_tools()))
        self._give_skills()

    def system_prompt(self) -> str:
        """Begins as the parent's does: prompt caches know it."""
        return self._prompt

    def expand(self, prompt: str) -> str:
        """As it is: a model wrote it."""
        return prompt

    async def ready(self) -> list[str]:
        """The parent's are."""
        return []

    async def refresh(self) -> list[str]:
        """Its tools are those that it began with."""
        return []

    async def aclose(self) -> None:
        """Nothing of its own."""


class _ParentsLimit(BuiltinMiddleware):
    """What the session may cost, subagents and all."""

    def __init__(self, limit: PriceLimitMiddleware, parent: Agent) -> None:
        self._limit, self._parent = limit, parent

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return await self._limit.before_turn(self._parent.context())


def _settings(config: KinConfig, max_steps: int) -> KinConfig:
    own = {
        "max_steps_per_turn": min(max_steps, config.max_steps_per_turn),
        "dmail": False,
        "observability": ObservabilityConfig(),  # the parent's observers hear of it
    }
    return config.model_copy(update=own)


def _charged(parent: Agent, agent: Agent, counted: LLMUsage) -> LLMUsage:
    """The parent's statistics have all that the subagent used since `counted`, which becomes what is returned."""
    stats = agent.stats
    now = LLMUsage(prompt_tokens=stats.session_prompt_tokens, completion_tokens=stats.session_completion_tokens)
    new = LLMUsage(
        prompt_tokens=now.prompt_tokens - counted.prompt_tokens,
        completion_tokens=now.completion_tokens - counted.completion_tokens,
    )
    count_aside(parent.stats, new)
    return now


def _recorded(agent: Agent, profile: Profile) -> RecordedSubagent:
    turn = agent.turns[-1]
    calls = [RecordedSubagentCall(name=c.name, summary=c.summary, status=c.status) for c in turn.calls]
    return RecordedSubagent(
        profile=profile.name,
        steps=len(turn.steps),
        calls=tuple(calls[:MOST_CALLS]),
        more=max(0, len(calls) - MOST_CALLS),
        unasked=turn.unasked,
        prompt_tokens=turn.prompt_tokens,
        completion_tokens=turn.completion_tokens,
        cost=cost_of(agent.stats, turn),
    )
