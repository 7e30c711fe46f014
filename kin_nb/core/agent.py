"""The agent: a session with a model that has tools (seed 000). turn.py has the steps of one turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from types import MappingProxyType
from typing import Any

from kin_nb.core.agent_parts import AgentParts
from kin_nb.core.callback_errors import guarded
from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.context.compaction import CompactionStrategy
from kin_nb.core.context.loop_detector import LoopDetector
from kin_nb.core.event_stream import event_stream
from kin_nb.core.events import BaseEvent, ToolResultEvent
from kin_nb.core.host_facts import A_PROGRAM, HostFacts
from kin_nb.core.llm.model_client import ModelClient
from kin_nb.core.llm.types import BackendLike
from kin_nb.core.messages import ImageContent, LLMMessage
from kin_nb.core.middleware import ConversationMiddleware, Limits, MiddlewarePipeline
from kin_nb.core.modes import AgentMode
from kin_nb.core.observability import Observer, Observers
from kin_nb.core.records import TURNS_BEFORE, ClearRecord, Sent, SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.resume import SessionReplay, resumed
from kin_nb.core.safety.approvals import Approvals
from kin_nb.core.safety.audit import AuditLog
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.lineage import with_ids
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.session_toolset import SessionToolset
from kin_nb.core.settings import Settings
from kin_nb.core.subagent import run_subagent
from kin_nb.core.system_prompt.changes import compare_prompt
from kin_nb.core.tools.call_context import CallContext
from kin_nb.core.tools.file_tracker import FileTracker
from kin_nb.core.tools.subagent_profiles import Profile
from kin_nb.core.turn import Prompt, Turn
from kin_nb.core.turn_context import Services, compose, run_single_call, safety_context
from kin_nb.core.turn_hooks import TurnHooks


class Agent(AgentParts):
    """One session. `act` runs one turn: it yields events, and records the turn in `turns`.

    `backend` defaults to the provider of the active model. `max_turns` limits the model requests of the session,
    `max_price` its cost in USD. Without an approval callback, a call that needs approval is refused, and the model is
    shown how the user can allow it. An error in `message_observer` becomes a warning; an error in the approval callback
    refuses the call.

    `middleware` replaces the built-in middleware. `compaction`: the strategy that summarizes a conversation. `loops`
    detects repeated calls. `observers` receive each event, in addition to the observers in the settings. `host`: facts about
    the program that runs this agent.
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
        middleware: Sequence[ConversationMiddleware] | None = None,
        compaction: CompactionStrategy | None = None,
        loops: LoopDetector | None = None,
        observers: Iterable[Observer] = (),
        host: HostFacts = A_PROGRAM,
    ) -> None:
        settings = Settings(config, mode)
        toolset, approvals = SessionToolset(settings.config, host), Approvals()
        journal = SessionJournal(settings.config, settings.workspace.root, session_id, log)
        services = Services(
            model=ModelClient(backend, streaming=enable_streaming),
            files=FileTracker(settings.workspace.root, journal.root_id, journal.storage),
            audit=AuditLog(warn=lambda text: journal.warnings.append(text)),  # noqa: PLW0108  (a resume has another list)
        )
        parts = compose(
            settings=settings,
            services=services,
            journal=journal,
            toolset=toolset,
            system_prompt=toolset.system_prompt(),
            middleware=MiddlewarePipeline(Limits(max_turns, max_price), only=middleware, warn=journal.warn),
            approvals=approvals,
            detector=loops,
            strategy=compaction,
            observer=message_observer and guarded(message_observer, journal.warn, "The message observer"),
            safety=lambda: safety_context(settings, approvals, journal),
            turn_hooks=TurnHooks(),
            spawn=self._spawn,
            new_warnings=self.new_warnings,
        )
        super().__init__(parts, toolset)
        self.observers = Observers(self, observers)

    @classmethod
    def resume(cls, config: KinConfig, name: str = "latest", **options: Any) -> Agent:
        """Continue a stored session in its log. `name`: an id, the beginning of an id, or "latest" of this folder.

        `options`: arguments of the constructor. Raises SessionError, ConfigError; the log is unlocked in that case.
        """
        agent = resumed(partial(cls, config, **options), config, name)
        agent.keep_system_prompt()
        return agent

    def continue_from(
        self,
        records: Iterable[Sent],
        *,
        known: Iterable[SessionRecord] = (),
        last: int = 0,
        header: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Continue a conversation of another session, from its records in a notebook or a document, the oldest first.

        New records get a higher `seq` than all `known` records, and new turns a higher number than `last`. `header`:
        fields of the other session's header that also apply to this session.
        """
        records = with_ids(records, after=self.conversation.lineage.seq)
        self.journal.header = {**self.header, **header, **({TURNS_BEFORE: last} if last else {})}
        self._begin_log()
        self.log.append("continued", records=[record.model_dump(mode="json") for record in records])
        SessionReplay(self.parts, self.undos).replay(records)
        self.conversation.lineage.see(known)

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

        `sent`: the text that the model gets in place of `msg`, with the prompt's attachments; `attached` names them for
        the card. `key`, `cell_id`: the cell of the prompt, for the record.

        Contract: each tool call in the history gets a result, and the turn's record is completed, also when this
        generator is cancelled or closed early. An error of the model server is an ErrorEvent, not an exception.
        Raises TurnRunningError while another turn runs, and SessionError, for example when another process has
        continued the log.
        """
        prompt = Prompt(text=msg, images=tuple(images), key=key, cell_id=cell_id, attached=attached, sent=sent)
        with self.conversation.exclusive():
            turn = Turn(self.parts, prompt, self._begin_turn)
            try:
                async with aclosing(event_stream(turn.run)) as events:
                    async for event in events:
                        self.observers.on_event(event)
                        yield event
            finally:
                self.observers.turn_over(self.turns[-1])

    async def aclose(self) -> None:
        """Close the backend and the log, in any event loop. A later turn opens both again.

        Closes all parts, and then raises the error of one that failed.
        """
        files = self.parts.services.files
        async with AsyncExitStack() as stack:
            stack.callback(self.log.close)
            stack.push_async_callback(self.observers.aclose)
            stack.callback(files.close)
            stack.callback(self._forget_calls)
            stack.push_async_callback(self.toolset.aclose)
            stack.push_async_callback(self.parts.services.model.aclose)

    # Actions between turns.

    async def clear_history(self, *, key: str = "", cell_id: str | None = None) -> None:
        """Begin a new conversation: only the system message is kept. Raises TurnRunningError, SessionError as `undo` does."""
        self.clear(key=key, cell_id=cell_id)

    def clear(self, *, key: str = "", cell_id: str | None = None) -> None:
        """Do the same as `clear_history`, without an event loop."""
        self.undos.check_between_turns()
        self.conversation.clear()
        self.journal.learn_secrets(self.config)
        self.history.set_system_prompt(self.system_prompt())  # it has the memories that were written since
        self.toolset.reset()
        made = self.conversation.lineage.next()
        del made["ancestors"]
        record = ClearRecord(**made, key=key, cell_id=cell_id)
        self.conversation.take(record)
        self.journal.rename("clear")
        self.journal.append_move(record)
        self.journal.write_system_prompt(self.messages[0].content or "")

    async def compact(self, *, key: str = "", cell_id: str | None = None) -> str:
        """Summarize the older part of the conversation. Returns the model's summary, "" when there was nothing to summarize.

        The session gets a new id, and keeps its log and notebook. Raises CompactionError, BackendError, and as `undo`
        does; nothing is changed in that case.
        """
        with self.undos.exclusive():
            compactor = self.parts.compactor
            return await compactor.compact_between_turns(key=key, cell_id=cell_id, compacted=self.observers.compacted)

    async def undo(self, turns: int = 1, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Undo the last turns: restore the conversation, and the files that their tools changed (undo.py).

        `key`, `cell_id`: the cell that asked, for the record, as in `act`. Raises UndoError, TurnRunningError, and SessionError
        when another process has continued the log; nothing is changed in that case.
        """
        return await self.undos.undo(turns, key=key, cell_id=cell_id)

    async def redo(self, *, key: str = "", cell_id: str | None = None) -> UndoRecord:
        """Restore what the last undo reverted. Raises as `undo` does."""
        return await self.undos.redo(key=key, cell_id=cell_id)

    async def revert_to(self, checkpoint_id: int) -> UndoRecord:
        """Restore the conversation and the files to a checkpoint (CheckpointEvent). Raises as `undo` does."""
        return await self.undos.revert_to(checkpoint_id)

    async def run_tool(self, name: str, arguments: dict[str, Any], *, call_id: str, turn: int) -> ToolResultEvent:
        """Run one tool call outside of a turn, with the same approval and audit log as in a turn."""
        return await run_single_call(self.parts, name, arguments, call_id=call_id, turn=turn)

    # Changes of settings between turns.

    def switch_mode(self, mode: AgentMode | CustomMode, config: KinConfig | None = None) -> None:
        """Switch to another mode and its settings. Messages, grants and the state of the tools are kept.

        `config`: the new settings, from which the mode comes; None: unchanged.
        """
        config = self.base_config if config is None else config
        if mode != self.mode or config != self.base_config:
            self._change(config, mode)

    def switch_config(self, config: KinConfig) -> None:
        """Use other settings (or model) from the next request on. Raises ConfigError, and then nothing is changed."""
        self._change(config, self.mode)

    async def reload_with_initial_messages(
        self, config: KinConfig | None = None, max_turns: int | None = None, max_price: float | None = None
    ) -> None:
        """Reload settings, tools and system prompt; messages and session id are kept (seed 000). None: unchanged."""
        self.middleware_pipeline.limits = self.middleware_pipeline.limits.changed(max_turns, max_price)
        self.switch_config(config or self.base_config)
        self._rebuild_system_prompt()

    def limit(self, limits: Limits) -> None:
        """Set other limits from the next step on."""
        self.middleware_pipeline.limits = limits
        self.middleware_pipeline.set_builtin(self.config, self.parts.settings.base_mode)

    def override(self, **settings: Any) -> None:
        """Set single settings from the next step on, until settings or mode are switched."""
        self.parts.settings.override(**settings)

    def system_prompt(self) -> str:
        """Return the system prompt without secrets: file names, branch names and instructions may contain some."""
        return self.journal.without_secrets(self.toolset.system_prompt())

    def new_warnings(self, found: Iterable[str] = ()) -> list[str]:
        """Return `found` and the session's new warnings. Each warning is returned only once in a session."""
        return self.journal.unreported([*found, *self.journal.warnings, *self.observers.warnings])

    def _change(self, config: KinConfig, mode: AgentMode | CustomMode) -> None:
        settings = self.parts.settings
        settings.change(config, mode)
        self.toolset.reconfigure(settings.config)
        self.middleware_pipeline.set_builtin(settings.config, settings.base_mode)
        self.conversation.usage.set_prices()
        if len(self.messages) > 1:
            self._note_changes()
        else:
            self.history.set_system_prompt(self.system_prompt())

    def keep_system_prompt(self) -> None:
        """Take the system prompt of the session's log, so that requests begin as before, and note what has changed since."""
        stored = self.journal.stored_system_prompt(self.parts.settings.expand_paths)
        if stored:
            self.history.set_system_prompt(self.journal.without_secrets(stored))
            self._note_changes()

    def _note_changes(self) -> None:
        """Note for the next request what has changed; build the system prompt again where instructions were taken away."""
        notes = [*(message.note for message in self.messages), *self.conversation.notes]
        sections = map(self.journal.without_secrets, self.toolset.prompt_sections(with_state=False))
        change = compare_prompt(self.messages[0].content or "", notes, list(sections))
        if change.rebuild:
            self._rebuild_system_prompt()
        if change.note:
            self.conversation.notes.append(change.note)

    def _rebuild_system_prompt(self) -> None:
        self.history.set_system_prompt(self.system_prompt())
        self.journal.write_system_prompt(self.messages[0].content or "")

    def _begin_log(self) -> None:
        """Write the log's first line; later, check that no other process has continued the log. Raises SessionError."""
        prompt, auto = self.messages[0].content or "", self.mode.auto_approve
        self.journal.begin(self.header, self.config, prompt, auto_approve=auto)

    def _begin_turn(self, turn: TurnRecord) -> TurnRecorder:
        """Number the turn, and begin to record it. Raises SessionError."""
        self.parts.learn_secrets()
        self._begin_log()
        self.turn_hooks.start(self.journal.warnings.append)
        # the numbers of a notebook's earlier turns are not used again
        number = max(self.turns[-1].turn if self.turns else 0, self.header.get(TURNS_BEFORE, 0)) + 1
        self.undos.begin_turn()
        return self.parts.begin(turn, number)

    def _forget_calls(self) -> None:
        """Forget the states of files before calls, unless another process has continued the session and needs them."""
        if self.log.is_exclusive:
            self.parts.services.files.forget()

    async def _spawn(self, call: CallContext, profile: Profile, **task: Any) -> TurnRecord:
        return await run_subagent(self.parts, call, profile, **task)
