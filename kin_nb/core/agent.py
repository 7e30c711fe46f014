"""The agent: one conversation with a model that has tools (seed 000). What happens in one turn is turn.py's business."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kin_nb.core import compacting
from kin_nb.core.beginning import begin_anew, begin_log, begin_turn
from kin_nb.core.callback_errors import guarded
from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.context.compaction import Compaction, SimpleCompaction
from kin_nb.core.context.context_window import about_tokens
from kin_nb.core.context.history import History
from kin_nb.core.context.loop_detector import LoopDetector
from kin_nb.core.conversation import Conversation
from kin_nb.core.dmail import DenwaRenji
from kin_nb.core.documents.interaction_logger import InteractionLogger
from kin_nb.core.ending import let_go
from kin_nb.core.events import BaseEvent
from kin_nb.core.llm.model_client import ModelClient
from kin_nb.core.llm.types import BackendLike
from kin_nb.core.loop_guard import LoopGuard
from kin_nb.core.messages import ImageContent, LLMChunk, LLMMessage
from kin_nb.core.middleware import ConversationContext, MiddlewarePipeline, ResetReason, builtin_middleware
from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.observability import Observers
from kin_nb.core.records import TURNS_BEFORE, Moved, Sent, SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.redaction import WORKSPACE
from kin_nb.core.resuming import resumed, take_up
from kin_nb.core.safety.approvals import Approvals
from kin_nb.core.safety.audit import AuditLog
from kin_nb.core.safety.callbacks import ApprovalCallback, Ask
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.session.header import session_header
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.lineage import with_ids
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.switching import settled, switch_config, switch_mode
from kin_nb.core.toolbox import Toolbox
from kin_nb.core.tools.approval_gate import ApprovalGate
from kin_nb.core.tools.call_context import CallContext
from kin_nb.core.tools.executor import ToolExecutor
from kin_nb.core.tools.format_handler import APIToolFormatHandler
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.watched_files import watched_files
from kin_nb.core.transcript import Transcript
from kin_nb.core.turn import Turn
from kin_nb.core.turn_hooks import TurnHooks
from kin_nb.core.undo import TurnRunningError, UndoManager
from kin_nb.core.usage import UsageTracker
from kin_nb.core.usage_stats import AgentStats
from kin_nb.core.workspace import Workspace

if TYPE_CHECKING:
    from kin_nb.core.tools.subagent_profiles import Profile


class Agent:
    """One session. `act` is one turn; everything that happens in it is yielded as events and kept in `turns`.

    `backend` defaults to the provider of the active model. `max_turns` counts requests to the model, `max_price` USD,
    both over the session. Without an approval callback every call that would ask is refused with a sentence that says
    how to allow it. An error in `message_observer` is a warning; an approval callback that fails has refused.
    """

    def __init__(
        self,
        config: KinConfig,
        mode: AgentMode | CustomMode = AgentMode.DEFAULT,
        message_observer: Callable[[LLMMessage], None] | None = None,
        max_turns: int | None = None,
        max_price: float | None = None,
        backend: BackendLike | None = None,
        enable_streaming: bool = True,
        *,
        session_id: str | None = None,
        log: SessionLog | None = None,
        toolbox: Toolbox | None = None,
    ) -> None:
        self.mode = mode
        self.workspace = Workspace(config.effective_workdir)
        self.configured = config
        self.config = config = settled(config, mode, self.workspace)
        self.usage = UsageTracker(lambda: self.config.prices_of(self.config.active_model))
        self.transcript = Transcript()
        self.toolbox = toolbox or Toolbox(config)
        self.middleware_pipeline = MiddlewarePipeline()
        self._max_turns, self._max_price, self._before = max_turns, max_price, (0, 0.0)
        self.setup_middleware()
        self.journal = SessionJournal(config, self.workspace.root, session_id, log)
        self.middleware_pipeline.warn = self.journal.warn
        observer = message_observer and guarded(message_observer, self.journal.warn, "The message observer")
        self.history = History(self.system_prompt(), self.redact, observer)
        self.link = ModelClient(backend, streaming=enable_streaming)
        self.approvals = Approvals()
        self.files = watched_files(self.workspace.root, self.journal)
        self.conversation = Conversation(self.history, self.usage, forget=self._forget)
        self.loop_guard = LoopGuard(
            LoopDetector(),
            self.approvals,
            enabled=lambda: self.config.loop_detection,
            remind=self.conversation.remind,
            warn=self.journal.warn,
        )
        self.undos = UndoManager(self)
        self.observers = Observers(self)
        self.turn_hooks = TurnHooks()
        self.audit = AuditLog(warn=lambda text: self.journal.warnings.append(text))  # noqa: PLW0108  (a resume has another list)
        self.denwa_renji: DenwaRenji | None = None  # where this turn's D-Mails go, if there may be any
        self.compaction_strategy: Compaction = SimpleCompaction()
        self.prunes: compacting.Prunes = compacting.prune_when_full
        self._warned: set[str] = set()
        self.busy = False  # a turn is running, or still ending

    # What the session is.

    @property
    def session_id(self) -> str:
        return self.journal.session_id

    @property
    def log(self) -> SessionLog:
        return self.journal.log

    @cached_property
    def interaction_logger(self) -> InteractionLogger:
        return InteractionLogger(self.log)

    @cached_property
    def format_handler(self) -> APIToolFormatHandler:
        return APIToolFormatHandler()

    @property
    def messages(self) -> list[LLMMessage]:
        return self.history.messages

    @property
    def stats(self) -> AgentStats:
        return self.usage.stats

    @property
    def turns(self) -> list[TurnRecord]:
        return self.transcript.turns

    @property
    def moves(self) -> list[Moved]:
        """What moved the conversation between turns, oldest first."""
        return self.transcript.moves

    @property
    def undone(self) -> list[UndoRecord]:
        """Every undo and redo of the session, oldest first."""
        return self.transcript.undos

    @property
    def records(self) -> list[SessionRecord]:
        """All that the session is made of, in the order in which it happened."""
        return self.transcript.records

    @property
    def tool_manager(self) -> ToolManager:
        return self.toolbox.manager

    @property
    def backend(self) -> BackendLike:
        """What answers: the backend that was given, else the active provider's, one for the agent's life."""
        return self.link.backend(self.config)

    @backend.setter
    def backend(self, backend: BackendLike) -> None:
        self.link.given = backend

    @cached_property
    def header(self) -> dict[str, Any]:
        """What the log and the session notebook say about this session as a whole, as it was at the first prompt."""
        prompt = self.redact(self.messages[0].content or "")
        schemas = self.tool_manager.schemas()
        return session_header(self.journal.root_id, self.config, system_prompt=prompt, tools=schemas)

    def system_prompt(self) -> str:
        """As the model may have it: file names, branch names and instructions can hold secrets."""
        return self.journal.without_secrets(self.toolbox.system_prompt())

    def redact(self, text: str) -> str:
        """`text` without secrets and without paths of this machine: what may be recorded and shown."""
        return self.journal.redact(text)

    # What may be changed between turns.

    @property
    def approval_callback(self) -> ApprovalCallback | None:
        """Who decides on calls that ask (seed 002); assigning one has effect from the next reply on."""
        return self.approvals.callback

    @approval_callback.setter
    def approval_callback(self, callback: ApprovalCallback | None) -> None:
        self.approvals.callback = callback

    def set_approval_callback(self, callback: ApprovalCallback) -> None:
        self.approvals.callback = callback

    def set_ask(self, ask: Ask) -> None:
        """The fuller way to be asked: ApprovalRequest in, ApprovalDecision out."""
        self.approvals.ask = ask

    def add_message(self, message: LLMMessage) -> None:
        """Put a message into the conversation without asking the model; the next request mends what it leaves open."""
        self.history.add(message)

    def switch_mode(self, mode: AgentMode | CustomMode, config: KinConfig | None = None) -> None:
        """Messages, grants and what tools remember stay; the mode's settings take the place of the last one's.

        `config`: the settings from now on, those that the mode was found with; None: as before.
        """
        switch_mode(self, mode, config)

    def switch_config(self, config: KinConfig) -> None:
        """Another model or other settings from the next request on; the conversation stays.

        Raises ConfigError; then nothing changed.
        """
        switch_config(self, config)

    @classmethod
    def resume(cls, config: KinConfig, name: str = "latest", **options: Any) -> Agent:
        """An agent that goes on with a stored session, in its log: an id, the beginning of one, or this folder's latest.

        `options`: what the constructor takes. Raises SessionError.
        """
        return resumed(cls, config, name, options)

    def continue_from(self, records: Iterable[Sent], *, known: Iterable[SessionRecord] = (), last: int = 0) -> None:
        """Continue after records of another session, in their order: those of one conversation, in a notebook or a document.

        What comes next is made after all that is `known`, and its turns are numbered after `last`.
        """
        records = with_ids(records, after=self.conversation.lineage.seq)
        if last:
            self.header = {**self.header, TURNS_BEFORE: last}
        begin_log(self)
        self.log.append("continued", records=[record.model_dump(mode="json") for record in records])
        take_up(self, records)
        self.conversation.lineage.know(known)

    async def reload_with_initial_messages(
        self, config: KinConfig | None = None, max_turns: int | None = None, max_price: float | None = None
    ) -> None:
        """Settings, tools and system prompt anew; the messages and the session id stay (seed 000). None: as before."""
        self._max_turns = self._max_turns if max_turns is None else max_turns
        self._max_price = self._max_price if max_price is None else max_price
        self.switch_config(config or self.configured)

    async def clear_history(self, *, key: str = "", cell_id: str | None = None) -> None:
        """Begin a new conversation: only the system message stays. Raises TurnRunningError and SessionError, as `undo`."""
        begin_anew(self, key, cell_id)

    async def compact(self, *, key: str = "", cell_id: str | None = None) -> str:
        """Replace what is old in the conversation by the model's summary of it, which is returned; "" when there is none.

        The session id is new, its log and notebook stay. Raises CompactionError, BackendError, and as `undo`: then
        nothing changed.
        """
        with self.undos.alone():
            return await compacting.compact_between_turns(self, key, cell_id)

    async def undo(self, turns: int = 1, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Take back the last turns: the conversation, and the files that their tools changed (undo.py).

        `key`, `cell_id`: the cell that asks, for the record, as in `act`. Raises UndoError, TurnRunningError, and SessionError
        when the log went on elsewhere; then nothing was changed.
        """
        return await self.undos.undo(turns, key=key, cell_id=cell_id)

    async def redo(self, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Give back what the last undo took. Raises as `undo`."""
        return await self.undos.redo(key=key, cell_id=cell_id)

    async def revert_to(self, checkpoint_id: int) -> UndoRecord:
        """Back to a checkpoint (CheckpointEvent), conversation and files. Raises as `undo`."""
        return await self.undos.revert_to(checkpoint_id)

    async def aclose(self) -> None:
        """Leave the backend, and close the log, in any event loop. It can act again: they open anew when needed."""
        await let_go(self, self.link)

    async def act(
        self,
        msg: str,
        *,
        images: Iterable[ImageContent] = (),
        key: str = "",
        cell_id: str | None = None,
        attached: tuple[str, ...] = (),
        sent: str = "",
    ) -> AsyncGenerator[BaseEvent, None]:
        """One turn: the prompt, then steps until the model asks for no more tools.

        `sent`: what the model gets in place of `msg`, with what the prompt attaches; `attached` names that for the card.

        Contract: every tool call that enters the history leaves it answered, and the turn's record is closed, also
        when this generator is cancelled or closed early. A failing model server is an ErrorEvent, not an exception.
        Raises TurnRunningError while another turn has not ended, and SessionError: for one, when the log went on elsewhere.
        """
        if self.busy:
            raise TurnRunningError
        self.busy = True
        try:
            turn = Turn(self, msg, images=tuple(images), key=key, cell_id=cell_id, attached=attached, sent=sent)
            async with aclosing(turn.run()) as events:
                async for event in events:
                    self.observers.on_event(event)
                    yield event
        finally:
            self.busy = False
            if self.turns:
                self.observers.turn_over(self.turns[-1])

    # What a turn needs (turn.py).

    def chunks(self, messages: list[LLMMessage]) -> AsyncGenerator[LLMChunk, None]:
        schemas = self.tool_manager.schemas()
        return self.link.chunks(self.config, messages, schemas, self.session_id, calls=self.approvals.allows_tools)

    def context(self) -> ConversationContext:
        uncounted = about_tokens(self.messages[self.history.counted :])
        return ConversationContext(self.messages, self.stats, self.config, uncounted)

    def safety(self) -> SafetyContext:
        return SafetyContext(
            self.mode.base,
            Policy(self.config.policy),
            self.workspace,
            self.approvals.grants,
            open_files=self.approvals.open_files,
            without_undo=self.journal.storage.without_undo,
        )

    def executor(self, recorder: TurnRecorder) -> ToolExecutor:
        """Make what runs the calls of one reply."""
        audit = self.audit if self.config.audit else None
        return ToolExecutor(
            self.tool_manager,
            self.workspace,
            self.files,
            recorder,
            ApprovalGate(self.approvals, recorder, audit, context=self.safety, warn=self.journal.warn),
            storage=self.journal.storage,
            stats=self.stats,
            append=self.history.append,
            contexts=self._call_context,
        )

    def _call_context(self, **of_the_call: Any) -> CallContext:
        return CallContext(
            config=self.config,
            tools=self.tool_manager,
            ask_question=self.approvals.ask_question,
            mailbox=self.denwa_renji,
            spawn=self._spawn,
            **of_the_call,
        )

    async def _spawn(
        self, context: CallContext, profile: Profile, *, title: str, prompt: str, max_steps: int
    ) -> TurnRecord:
        from kin_nb.core.subagent import run_subagent  # noqa: PLC0415  (it is an agent, too)

        return await run_subagent(self, context, profile, title=title, prompt=prompt, max_steps=max_steps)

    def begin_turn(self, turn: TurnRecord) -> TurnRecorder:
        """Number `turn` and record from now on what happens in it."""
        return begin_turn(self, turn)

    async def ready_for_turn(self) -> list[str]:
        """Make the tools ready for a turn's first step. Returns what cannot be used, each said once in a session."""
        found = await self.toolbox.ready()
        return self.new_warnings(filter(None, [self.workspace.warning, *found, *self.link.warnings(self.config)]))

    async def ready_for_step(self) -> list[str]:
        """The same for a later step: tools that have come or gone meanwhile."""
        return self.new_warnings(await self.toolbox.refresh())

    def new_warnings(self, found: Iterable[str] = ()) -> list[str]:
        """`found` and what could not be used or written since, each said once in a session."""
        found = [*found, *self.journal.warnings, *self.observers.warnings]
        new = [text for text in dict.fromkeys(found) if text not in self._warned]
        self._warned.update(new)
        return new

    def limit(self, max_turns: int | None, max_price: float | None, before: tuple[int, float] = (0, 0.0)) -> None:
        """Other limits from the next step on; None: no limit. `before`: steps and USD of the session that do not count."""
        self._max_turns, self._max_price, self._before = max_turns, max_price, before
        self.setup_middleware()

    def setup_middleware(self) -> None:
        anew = builtin_middleware(self.config, lambda: self.mode.base, self._max_turns, self._max_price, self._before)
        self.middleware_pipeline.renew(anew)

    def here(self, text: str) -> str:
        """A recorded text with this machine's workspace in it."""
        return text.replace(WORKSPACE, str(self.workspace.root))

    def _forget(self, reason: ResetReason) -> None:
        """The conversation is another one: what middleware and loop detection know of it is past."""
        self.middleware_pipeline.reset(reason)
        self.loop_guard.forget()
