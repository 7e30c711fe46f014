"""TurnContext: the parts that a turn works with. An agent has one, and each of its subagents another one of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from kin_nb.core.compactor import Compactor
from kin_nb.core.config.secrets import key_names
from kin_nb.core.context.compaction import CompactionStrategy
from kin_nb.core.context.history import History
from kin_nb.core.context.loop_detector import LoopDetector
from kin_nb.core.conversation import Conversation
from kin_nb.core.dmail import DenwaRenji
from kin_nb.core.environment import hide_secrets
from kin_nb.core.events import StepReplyEvent, ToolResultEvent
from kin_nb.core.llm.model_client import ModelClient
from kin_nb.core.loop_guard import LoopGuard
from kin_nb.core.messages import FunctionCall, LLMChunk, LLMMessage, Role, ToolCall
from kin_nb.core.middleware import MiddlewarePipeline, ResetReason
from kin_nb.core.modes import Policy
from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.core.safety.approvals import Approvals
from kin_nb.core.safety.audit import AuditLog
from kin_nb.core.safety.policies import SafetyContext
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.settings import Settings
from kin_nb.core.tools.approval_gate import ApprovalGate
from kin_nb.core.tools.call_context import CallContext, Spawn
from kin_nb.core.tools.executor import ToolExecutor
from kin_nb.core.tools.file_tracker import FileTracker
from kin_nb.core.tools.toolset import Toolset
from kin_nb.core.turn_hooks import TurnHooks
from kin_nb.core.usage import UsageTracker


@dataclass(frozen=True, kw_only=True)
class Services:
    """Services that a session shares with its subagents: the model client, the file tracker, the audit log."""

    model: ModelClient
    files: FileTracker
    audit: AuditLog


@dataclass(frozen=True, kw_only=True)
class TurnContext:
    """The parts that a turn uses. `safety` returns the current input of the safety policies; `spawn` runs a subagent.

    `new_warnings` returns the warnings, of its argument and of the session, that were not reported yet.
    """

    settings: Settings
    services: Services
    journal: SessionJournal
    conversation: Conversation
    toolset: Toolset
    middleware: MiddlewarePipeline
    loop_guard: LoopGuard
    compactor: Compactor
    approvals: Approvals
    safety: Callable[[], SafetyContext]
    turn_hooks: TurnHooks
    spawn: Spawn
    new_warnings: Callable[[Iterable[str]], list[str]]

    def begin(self, turn: TurnRecord, number: int) -> TurnRecorder:
        """Begin the record of a turn with this number. Raises SessionError."""
        journal, conversation, settings = self.journal, self.conversation, self.settings
        record = turn.model_copy(
            update={
                "turn": number,
                "model": settings.config.get_active_model().alias,
                "mode": settings.mode.value,
                "attached": tuple(journal.redact(label) for label in turn.attached),
                **conversation.lineage.next(),
            }
        )
        recorder = journal.recorder(record)
        conversation.usage.begin_turn()
        conversation.take(recorder.record)
        self.loop_guard.forget()
        return recorder

    def learn_secrets(self) -> None:
        """Redact API keys that were set since the last turn, too. Called before anything is sent or recorded."""
        if self.journal.learn_secrets(self.settings.config):
            history = self.conversation.history
            history.set_system_prompt(self.journal.without_secrets(history.messages[0].content or ""))
        hide_secrets(key_names(self.settings.config))

    def chunks(self, messages: list[LLMMessage]) -> AsyncGenerator[LLMChunk, None]:
        """Send a request to the model, and yield the chunks of its response."""
        config, toolset = self.settings.config, self.toolset
        allowed = self.approvals.allows_tools
        schemas = toolset.schemas(config)
        return self.services.model.chunks(config, messages, schemas, self.journal.session_id, calls=allowed)

    async def ready_for_turn(self) -> list[str]:
        """Prepare the tools for the first step of a turn. Return a warning for each that cannot be used."""
        found = await self.toolset.connect()
        more = self.services.model.warnings(self.settings.config)
        return self.new_warnings(filter(None, [self.settings.workspace.warning, *found, *more]))

    def executor(self, recorder: TurnRecorder, mailbox: DenwaRenji | None = None) -> ToolExecutor:
        """Create the executor for the calls of one reply. `mailbox` receives a D-Mail; None if none can be sent."""
        services, manager, journal = self.services, self.toolset.manager, self.journal
        audit = services.audit if self.settings.config.audit else None

        def call_context(**of_the_call: Any) -> CallContext:
            return CallContext(
                config=self.settings.config,
                tools=manager,
                ask_question=self.approvals.ask_question,
                mailbox=mailbox,
                spawn=self.spawn,
                **of_the_call,
            )

        return ToolExecutor(
            manager,
            self.settings.workspace,
            services.files,
            recorder,
            ApprovalGate(self.approvals, recorder, audit, context=self.safety, warn=journal.warn),
            storage=journal.storage,
            stats=self.conversation.usage.stats,
            append=self.conversation.history.append,
            resolve=partial(self.toolset.resolve, config=self.settings.config),
            contexts=call_context,
        )


def safety_context(settings: Settings, approvals: Approvals, journal: SessionJournal) -> SafetyContext:
    """Return the input of the safety policies, as of now."""
    return SafetyContext(
        settings.mode.base,
        Policy(settings.config.policy),
        settings.workspace,
        approvals.grants,
        open_files=approvals.open_files,
        without_undo=journal.storage.without_undo,
    )


def compose(
    *,
    settings: Settings,
    services: Services,
    journal: SessionJournal,
    toolset: Toolset,
    system_prompt: str,
    middleware: MiddlewarePipeline,
    approvals: Approvals,
    detector: LoopDetector | None = None,
    strategy: CompactionStrategy | None = None,
    observer: Callable[[LLMMessage], None] | None = None,
    **others: Any,
) -> TurnContext:
    """Create the parts of one conversation, and connect them. `others`: the other fields of TurnContext.

    `detector`, `strategy`: loop detection and compaction; None for the defaults. `observer` is called with each message.
    """
    history = History(journal.without_secrets(system_prompt), journal.redact, observer)

    def forget(reason: ResetReason) -> None:
        """Reset middleware and loop detection: the conversation has changed."""
        middleware.reset(reason)
        loop_guard.forget()

    conversation = Conversation(history, UsageTracker(settings.prices), forget=forget)
    loop_guard = LoopGuard(
        detector or LoopDetector(),
        approvals,
        enabled=lambda: settings.config.loop_detection,
        remind=conversation.remind,
        warn=journal.warn,
    )
    compactor = Compactor(
        conversation,
        services.model,
        settings,
        journal,
        schemas=lambda: toolset.schemas(settings.config),
        forget_results=loop_guard.forget_results,
        strategy=strategy,
    )
    middleware.set_builtin(settings.config, settings.base_mode)
    return TurnContext(
        settings=settings,
        services=services,
        journal=journal,
        conversation=conversation,
        toolset=toolset,
        middleware=middleware,
        loop_guard=loop_guard,
        compactor=compactor,
        approvals=approvals,
        **others,
    )


async def run_single_call(
    context: TurnContext, name: str, arguments: dict[str, Any], *, call_id: str, turn: int
) -> ToolResultEvent:
    """Run the call with the settings, the mode, the grants and the approver of `context`. Asks no model.

    `context` must be one that no turn uses, with an UnwrittenLog: the call enters its conversation. `turn`: for the audit
    log. What the tool raises is the result's error, as in a turn.
    """
    text = json.dumps(arguments)
    call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=text))
    step = RecordedStep(calls=(RecordedCall(id=call_id, name=name, arguments=text),))
    recorder = context.journal.recorder(TurnRecord(turn=turn, prompt=""))
    context.conversation.history.append(LLMMessage(role=Role.assistant, tool_calls=[call]))
    executor = context.executor(recorder)
    found: ToolResultEvent | None = None
    async with aclosing(executor.run([call], StepReplyEvent(step=recorder.reply(step)))) as events:
        async for event in events:
            found = event if isinstance(event, ToolResultEvent) else found
    if found is None:
        raise RuntimeError(f"the call of {name} has no result")
    return found
