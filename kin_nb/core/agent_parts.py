"""AgentParts: the parts of an agent, by the names that the seeds and front ends use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from kin_nb.core.compactor import PruneSelector
from kin_nb.core.config import KinConfig
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.context.compaction import CompactionStrategy
from kin_nb.core.context.history import History
from kin_nb.core.conversation import Conversation
from kin_nb.core.documents.document import InteractionLogger
from kin_nb.core.llm.types import BackendLike
from kin_nb.core.messages import LLMMessage
from kin_nb.core.middleware import ConversationMiddleware, MiddlewarePipeline
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import FileChange, Moved, SessionRecord, TurnRecord, UndoRecord
from kin_nb.core.safety.approvals import ApprovalCallback, Approvals, Ask
from kin_nb.core.safety.policies import SafetyContext
from kin_nb.core.session.journal import SessionJournal
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.metadata import session_header
from kin_nb.core.session_toolset import SessionToolset
from kin_nb.core.tools.builtins.text_file import seen_by
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import APIToolFormatHandler
from kin_nb.core.turn_context import TurnContext
from kin_nb.core.turn_hooks import TurnHooks
from kin_nb.core.undo import UndoManager
from kin_nb.core.usage_stats import AgentStats
from kin_nb.core.workspace import Workspace


class AgentParts:
    """Access to an agent's parts. `parts`: what turns use, including `toolset` and `approvals`. `undos` undoes turns."""

    def __init__(self, parts: TurnContext, toolset: SessionToolset) -> None:
        self.parts, self.toolset = parts, toolset
        files, journal, hooks = parts.services.files, parts.journal, parts.turn_hooks
        seen = lambda: seen_by(toolset.manager)  # noqa: E731  (a reset or other settings replace the manager)
        self.undos = UndoManager(parts.conversation, files, journal, hooks, seen=seen)

    # The settings.

    @property
    def mode(self) -> AgentMode | CustomMode:
        return self.parts.settings.mode

    @property
    def config(self) -> KinConfig:
        """The settings in force: `base_config`, overlaid with the settings of the mode."""
        return self.parts.settings.config

    @property
    def base_config(self) -> KinConfig:
        return self.parts.settings.base_config

    @property
    def workspace(self) -> Workspace:
        return self.parts.settings.workspace

    # The session.

    @property
    def session_id(self) -> str:
        return self.journal.session_id

    @property
    def journal(self) -> SessionJournal:
        return self.parts.journal

    @property
    def log(self) -> SessionLog:
        return self.journal.log

    @property
    def interaction_logger(self) -> InteractionLogger:
        """The log, with the interface of seed 003."""
        return InteractionLogger(self.log)

    @property
    def header(self) -> dict[str, Any]:
        """Facts about the whole session for the log and the session notebook, as they were at the first prompt."""
        if not self.journal.header:
            prompt = self.redact(self.messages[0].content or "")
            schemas = self.parts.toolset.schemas(self.config)
            self.journal.header = session_header(self.journal.root_id, self.config, system_prompt=prompt, tools=schemas)
        return self.journal.header

    @property
    def turns(self) -> list[TurnRecord]:
        """The turns of the session. The last one may still run."""
        return self.conversation.transcript.turns

    @property
    def moves(self) -> list[Moved]:
        """Every undo, redo, clear and compaction between turns, oldest first."""
        return self.conversation.transcript.moves

    @property
    def undone(self) -> list[UndoRecord]:
        """Every undo and redo of the session, oldest first."""
        return self.conversation.transcript.undos

    @property
    def records(self) -> list[SessionRecord]:
        """All records of the session, in the order in which they were made."""
        return self.conversation.transcript.records

    # The conversation.

    @property
    def conversation(self) -> Conversation:
        return self.parts.conversation

    @property
    def history(self) -> History:
        return self.conversation.history

    @property
    def messages(self) -> list[LLMMessage]:
        return self.history.messages

    @property
    def stats(self) -> AgentStats:
        return self.conversation.usage.stats

    @property
    def busy(self) -> bool:
        """Whether a turn, an undo or a compaction runs or is still ending."""
        return self.conversation.busy

    def add_message(self, message: LLMMessage) -> None:
        """Add a message without a model request. If it makes the history invalid, that is repaired before the next request."""
        self.history.add(message)

    # The backend and approvals.

    @property
    def backend(self) -> BackendLike:
        """The backend that was given, else the active provider's, which is made once for each agent."""
        return self.parts.services.model.backend(self.config)

    @backend.setter
    def backend(self, backend: BackendLike) -> None:
        self.parts.services.model.given = backend

    @property
    def format_handler(self) -> APIToolFormatHandler:
        """What converts the calls of a reply to tool calls (seed 003). A new value applies from the next reply on."""
        return self.toolset.format_handler

    @format_handler.setter
    def format_handler(self, handler: APIToolFormatHandler) -> None:
        self.toolset.format_handler = handler

    @property
    def approvals(self) -> Approvals:
        return self.parts.approvals

    @property
    def approval_callback(self) -> ApprovalCallback | None:
        """Decides on calls that need approval (seed 002). A new value applies from the next reply on."""
        return self.approvals.callback

    @approval_callback.setter
    def approval_callback(self, callback: ApprovalCallback | None) -> None:
        self.approvals.callback = callback

    def set_approval_callback(self, callback: ApprovalCallback) -> None:
        self.approvals.callback = callback

    def set_ask(self, ask: Ask) -> None:
        """Set the function that asks the user. Unlike a callback, it gets an ApprovalRequest, and returns an ApprovalDecision."""
        self.approvals.ask = ask

    def safety(self) -> SafetyContext:
        """Return the current state that the safety policies decide by."""
        return self.parts.safety()

    # Extension points, and values to inspect.

    @property
    def middleware_pipeline(self) -> MiddlewarePipeline:
        return self.parts.middleware

    @property
    def turn_hooks(self) -> TurnHooks:
        return self.parts.turn_hooks

    @property
    def tool_manager(self) -> ToolManager:
        return self.parts.toolset.manager

    def set_open_files(self, open_files: Collection[Path], around: Collection[Path]) -> None:
        """Set the files that are open in a front end, which may overwrite them: a call that writes one needs approval.

        Changes in them, and in the files and folders `around` them, do not count as changes of a call, and undo skips them.
        """
        self.approvals.open_files = frozenset(path.resolve() for path in open_files)
        self.parts.services.files.leave_out([*open_files, *around])

    def use(
        self,
        *,
        middleware: Sequence[ConversationMiddleware] | None = None,
        compaction: CompactionStrategy | None = None,
        prune_selector: PruneSelector | None = None,
    ) -> None:
        """Replace the middleware, the compaction strategy, or what selects the results to shorten; None: unchanged."""
        if middleware is not None:
            self.middleware_pipeline.replace(middleware)
        compactor = self.parts.compactor
        compactor.strategy = compaction or compactor.strategy
        compactor.prune_selector = prune_selector or compactor.prune_selector

    def fail_last_turn(self, message: str) -> TurnRecord:
        """Mark the last turn as failed, because the flow that it belongs to stopped there. Returns its record."""
        message = self.redact(message)
        if self.conversation.transcript.fail_last(message):
            self.log.append("failed", message=message)
        return self.turns[-1]

    def real_changes(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Return recorded changes with the real file names of this machine."""
        return self.parts.services.files.real_names(changes, self.redact)

    def redact(self, text: str) -> str:
        """Return `text` without secrets and paths of this machine, so that it may be recorded and shown."""
        return self.journal.redact(text)
