"""The agent: one conversation with a model that has tools (seed 000). What happens in one turn is turn.py's business."""

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
from kin_nb.core.tools.call_context import CallContext
from kin_nb.core.tools.file_tracker import FileTracker
from kin_nb.core.tools.subagent_profiles import Profile
from kin_nb.core.turn import Prompt, Turn
from kin_nb.core.turn_context import Services, compose, run_single_call, safety_context
from kin_nb.core.turn_hooks import TurnHooks


class Agent(AgentParts):
    """One session. `act` is one turn; everything that happens in it is yielded as events and kept in `turns`.

    `backend` defaults to the provider of the active model. `max_turns` counts requests to the model, `max_price` USD,
    both over the session. Without an approval callback every call that would ask is refused with a sentence that says
    how to allow it. An error in `message_observer` is a warning; an approval callback that fails has refused.

    `middleware`: in place of the built-in one. `compaction`: how a conversation is summed up. `loops`: finds turns that go
    in circles. `observers` hear of each event, besides those of the settings.
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
    ) -> None:
        settings = Settings(config, mode)
        toolset, approvals = SessionToolset(settings.config), Approvals()
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
        """Continue a stored session in its log. `name`: an id, the beginning of one, or "latest" of this folder.

        `options`: what the constructor takes. Raises SessionError, ConfigError; then no lock is left.
        """
        return resumed(partial(cls, config, **options), config, name)

    def continue_from(
        self,
        records: Iterable[Sent],
        *,
        known: Iterable[SessionRecord] = (),
        last: int = 0,
        header: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Continue after records of another session, in their order: those of one conversation, in a notebook or a document.

        What comes next is made after all that is `known`, and its turns are numbered after `last`. `header`: fields of the
        other session's header that hold for this one too.
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

        `sent`: what the model gets in place of `msg`, with what the prompt attaches; `attached` names that for the card.

        Contract: every tool call that enters the history leaves it answered, and the turn's record is closed, also
        when this generator is cancelled or closed early. A failing model server is an ErrorEvent, not an exception.
        Raises TurnRunningError while another turn has not ended, and SessionError, for one when another process
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
        """Leave the backend, and close the log, in any event loop. The agent can act again: both open again when needed.

        Raises what one of its parts raises, when all are closed.
        """
        files = self.parts.services.files
        async with AsyncExitStack() as stack:
            stack.callback(self.log.close)
            stack.push_async_callback(self.observers.aclose)
            stack.callback(files.close)
            stack.callback(self._forget_calls)
            stack.push_async_callback(self.toolset.aclose)
            stack.push_async_callback(self.parts.services.model.aclose)

    # What may be done between turns.

    async def clear_history(self, *, key: str = "", cell_id: str | None = None) -> None:
        """Begin a new conversation: only the system message stays. Raises TurnRunningError and SessionError, as `undo`."""
        self.clear(key=key, cell_id=cell_id)

    def clear(self, *, key: str = "", cell_id: str | None = None) -> None:
        """Do what `clear_history` does, where there is no event loop."""
        self.undos.check_between_turns()
        self.conversation.clear()
        self.journal.learn_secrets(self.config)
        self.history.set_system_prompt(self.system_prompt())  # what was kept in memory since is in it
        self.toolset.reset()
        made = self.conversation.lineage.next()
        del made["ancestors"]
        record = ClearRecord(**made, key=key, cell_id=cell_id)
        self.conversation.take(record)
        self.journal.rename("clear")
        self.journal.append_move(record)

    async def compact(self, *, key: str = "", cell_id: str | None = None) -> str:
        """Replace what is old in the conversation by the model's summary of it, which is returned; "" when there is none.

        The session id is new, its log and notebook stay. Raises CompactionError, BackendError, and as `undo`: then
        nothing changed.
        """
        with self.undos.exclusive():
            compactor = self.parts.compactor
            return await compactor.compact_between_turns(key=key, cell_id=cell_id, compacted=self.observers.compacted)

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

    async def run_tool(self, name: str, arguments: dict[str, Any], *, call_id: str, turn: int) -> ToolResultEvent:
        """Run one call that belongs to no turn, decided and audited as in one."""
        return await run_single_call(self.parts, name, arguments, call_id=call_id, turn=turn)

    # What may be changed between turns.

    def switch_mode(self, mode: AgentMode | CustomMode, config: KinConfig | None = None) -> None:
        """Messages, grants and what tools remember stay; the mode's settings take the place of the last one's.

        `config`: the settings from now on, those that the mode was found with; None: as before.
        """
        config = self.configured if config is None else config
        if mode != self.mode or config != self.configured:
            self._change(config, mode)

    def switch_config(self, config: KinConfig) -> None:
        """Another model or other settings from the next request on; the conversation stays.

        Raises ConfigError; then nothing changed.
        """
        self._change(config, self.mode)

    async def reload_with_initial_messages(
        self, config: KinConfig | None = None, max_turns: int | None = None, max_price: float | None = None
    ) -> None:
        """Make settings, tools and system prompt again; the messages and the session id stay (seed 000). None: as before."""
        self.middleware_pipeline.limits = self.middleware_pipeline.limits.changed(max_turns, max_price)
        self.switch_config(config or self.configured)

    def limit(self, limits: Limits) -> None:
        """Other limits from the next step on."""
        self.middleware_pipeline.limits = limits
        self.middleware_pipeline.set_builtin(self.config, self.parts.settings.base_mode)

    def override(self, **settings: Any) -> None:
        """Set single settings from the next step on, until settings or mode are switched."""
        self.parts.settings.override(**settings)

    def system_prompt(self) -> str:
        """As the model may have it: file names, branch names and instructions can hold secrets."""
        return self.journal.without_secrets(self.toolset.system_prompt())

    def new_warnings(self, found: Iterable[str] = ()) -> list[str]:
        """Return `found` and what could not be used or written since, each once in a session."""
        return self.journal.unreported([*found, *self.journal.warnings, *self.observers.warnings])

    def _change(self, config: KinConfig, mode: AgentMode | CustomMode) -> None:
        settings = self.parts.settings
        settings.change(config, mode)
        self.toolset.reconfigure(settings.config)
        self.middleware_pipeline.set_builtin(settings.config, settings.base_mode)
        self.conversation.usage.set_prices()
        self.history.set_system_prompt(self.system_prompt())

    def _begin_log(self) -> None:
        """Write the log's first line, once; after that, check that it is still ours. Raises SessionError."""
        prompt, auto = self.messages[0].content or "", self.mode.auto_approve
        self.journal.begin(self.header, self.config, prompt, auto_approve=auto)

    def _begin_turn(self, turn: TurnRecord) -> TurnRecorder:
        """Give `turn` its number, and record what happens in it. Raises SessionError."""
        self.parts.learn_secrets()
        self._begin_log()
        self.turn_hooks.start(self.journal.warnings.append)
        # turns that a notebook has elsewhere keep their numbers
        number = max(self.turns[-1].turn if self.turns else 0, self.header.get(TURNS_BEFORE, 0)) + 1
        self.undos.begin_turn()
        return self.parts.begin(turn, number)

    def _forget_calls(self) -> None:
        """Forget the states of files before calls, unless another process has the session now: they are about its calls."""
        if self.log.is_exclusive:
            self.parts.services.files.forget()

    async def _spawn(self, call: CallContext, profile: Profile, **task: Any) -> TurnRecord:
        return await run_subagent(self.parts, call, profile, **task)
