"""What answers from the recording when tools run again: the model, a person's approvals, and tools that this place has not.

A subagent's changes of files are made again from their patches.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, TypeAdapter, ValidationError

from kin_nb.core.config import KinConfig, MCPServer
from kin_nb.core.context.compaction import CompactionResult
from kin_nb.core.file_history import BlobStore, FileHistory, StoreError, workspace_store
from kin_nb.core.file_history.file_changes import patched
from kin_nb.core.file_history.plan import CHANGED_SINCE
from kin_nb.core.messages import FunctionCall, LLMChunk, LLMMessage, LLMUsage, Role, ToolCall
from kin_nb.core.records import (
    CallOrigin,
    FileChange,
    RecordedCall,
    RecordedCompaction,
    RecordedDecision,
    RecordedStep,
    TurnRecord,
    sha256,
)
from kin_nb.core.redaction import SECRET, WORKSPACE, Redactor
from kin_nb.core.safety.decision import ApprovalRequest
from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.task import TaskState
from kin_nb.core.tools.call_context import call_context
from kin_nb.core.tools.mcp import MCPArgs
from kin_nb.replay.errors import ReplayEndedError, ReplayError

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


class ReplayBackend:
    """A BackendLike (core.llm.types) whose n-th reply is the turn's n-th recorded step.

    `matched[step]` says whether the request that got that reply was the recorded one; the agent's caller reports it
    with `check_request`, since only the agent knows what it redacted. Steps count from 1.
    """

    def __init__(self, record: TurnRecord) -> None:
        self.record = record
        self.matched: dict[int, bool] = {}
        self._sent = 0
        self._compacted = -1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Do nothing: nothing was opened."""

    async def complete(self, **_request: Any) -> LLMChunk:
        """Return the next recorded reply. Raises ReplayEndedError after the last."""
        return self._next()

    def compacted(self) -> CompactionResult:
        """Return, once, the recorded compaction before the next step or after the last. Raises ReplayEndedError without one."""
        due = self.compaction_due
        if due is None:
            raise ReplayEndedError(_ended(self.record))
        self._compacted = self._sent
        usage = LLMUsage(prompt_tokens=due.prompt_tokens, completion_tokens=due.completion_tokens)
        return CompactionResult(due.summary, due.kept, usage, due.words)

    @property
    def compaction_due(self) -> RecordedCompaction | None:
        """Return the recorded compaction before the next step, if this run has not made it yet."""
        steps = self.record.steps
        if self._compacted == self._sent:
            return None
        return self.record.compaction if self.is_over else steps[self._sent].compaction

    @property
    def pruning_due(self) -> tuple[str, ...]:
        """Return the calls whose results were placeholders from the next step on."""
        return () if self.is_over else self.record.steps[self._sent].pruned

    @property
    def is_over(self) -> bool:
        return self._sent >= len(self.record.steps)

    async def complete_streaming(self, **_request: Any) -> AsyncGenerator[LLMChunk]:
        """Yield the next recorded reply as one chunk, with its finish reason. Raises ReplayEndedError after the last."""
        yield self._next()

    async def count_tokens(self, **_request: Any) -> int:
        """Return the recorded token count of the next request; 0 after the last."""
        steps = self.record.steps
        return steps[self._sent].prompt_tokens if self._sent < len(steps) else 0

    def check_request(self, step: int, fingerprint: str) -> bool:
        """Compare a request with the one recorded for `step`, by fingerprint, and note the result in `matched`."""
        steps = self.record.steps
        self.matched[step] = 0 < step <= len(steps) and steps[step - 1].fingerprint == fingerprint
        return self.matched[step]

    def _next(self) -> LLMChunk:
        steps = self.record.steps
        if self._sent >= len(steps):
            raise ReplayEndedError(_ended(self.record))
        self._sent += 1
        return _chunk(steps[self._sent - 1])


def _chunk(step: RecordedStep) -> LLMChunk:
    calls = [
        ToolCall(
            id=call.id or None,
            index=n,
            function=FunctionCall(name=call.name, arguments=call.arguments),
            origin=CallOrigin.from_text(call.provider_data),
        )
        for n, call in enumerate(step.calls)
    ]
    message = LLMMessage(
        role=Role.assistant,
        content=step.content,
        reasoning_content=step.reasoning or None,
        tool_calls=calls or None,
        origin=CallOrigin.from_text(step.provider_data),
    )
    usage = LLMUsage(prompt_tokens=step.prompt_tokens, completion_tokens=step.completion_tokens)
    return LLMChunk(message=message, usage=usage, finish_reason="tool_calls" if calls else "stop")


def _ended(record: TurnRecord) -> str:
    count = len(record.steps)
    if record.outcome != "done":
        why = f": {record.message}" if record.message else ""
        return f"turn {record.turn} was recorded up to step {count} and ended there ({record.outcome}{why})"
    return f"turn {record.turn} was recorded with {count} model requests, but the agent needs one more: its rules have changed"


def covers_request(decision: RecordedDecision, arguments: str, request: ApprovalRequest, workspace: Path) -> bool:
    """Whether a recorded approval, of a call with `arguments`, also covers `request` for the same tool.

    What was approved for a place in the workspace is not for another one, where a name or a link leads out of it now.
    """
    if decision.verdict != "allow" or not _same(expand_arguments(arguments, workspace), request):
        return False
    return not request.writes_outside or Redactor((), workspace).text(request.reason) == decision.reason


def expand_arguments(arguments: str, workspace: Path) -> str:
    """Replace the workspace placeholder in JSON arguments by this run's folder."""
    return arguments.replace(WORKSPACE, json.dumps(str(workspace))[1:-1])


def _same(arguments: str, request: ApprovalRequest) -> bool:
    try:
        return type(request.args).model_validate_json(arguments) == request.args
    except ValidationError:
        return False


OUTSIDE_WORKSPACE = "it is outside the workspace"
NOT_IN_RECORDING = "the recording does not contain its text"
_LARGEST = 2_000_000
"""Bytes: larger files have no patch in a recording."""
_NOT_AS_IT_WAS = dict.fromkeys((CHANGED_SINCE, "you deleted it since"), "it was different when this was recorded")
"""What undo says of a file, in words for a run that does a recording again."""


def apply_changes(root: Path, changes: Sequence[FileChange]) -> dict[str, str]:
    """Apply recorded changes to the workspace at `root`. Return path -> reason for those that the recording cannot restore.

    A file is written only where its content comes out to the byte, by its hash. One that is not now what it was then
    stays as it is, as with undo (core.session.file_history), and is not among those returned.
    """
    return _written(root, changes, workspace_store(root))[0]


def apply_changes_with(root: Path, changes: Sequence[FileChange], store: BlobStore) -> dict[str, str]:
    """Apply changes with contents from `store`. Files with another content than recorded are returned too."""
    missing, kept = _written(root, changes, store)
    return kept | missing


def _written(root: Path, changes: Sequence[FileChange], store: BlobStore) -> tuple[dict[str, str], dict[str, str]]:
    """Return (changes that the recording cannot restore, files that stay as they are), each path -> reason."""
    history = FileHistory(root, store)
    missing: dict[str, str] = {}
    kept: dict[str, str] = {}
    possible = []
    try:
        for change in changes:
            why = _why_not(root, store, change)
            if why:
                missing[change.path] = why
            else:
                possible.append(change)
        kept = {path: _NOT_AS_IT_WAS.get(why, why) for path, why in history.redo(possible).kept}
    except StoreError as error:  # full, or locked: what was not written is drift
        kept = {change.path: f"contents cannot be kept: {error}" for change in changes}
    finally:
        history.close()
    return missing, kept


def _why_not(root: Path, store: BlobStore, change: FileChange) -> str:
    """Return why the new content is not known; "" if `store` has it or can make it. Raises StoreError."""
    if change.path.startswith(("/", "~/")):
        return OUTSIDE_WORKSPACE
    if WORKSPACE in change.path or SECRET in change.path:
        return NOT_IN_RECORDING
    if change.after is None or store.has(change.after):
        return ""
    if change.patch is None:
        return NOT_IN_RECORDING
    before = b"" if change.before is None else store.get(change.before) or _there(root, change)
    if before is None:
        return ""
    after = patched(before.decode(errors="replace"), change.patch).encode(errors="replace")
    if sha256(after) != change.after:
        return NOT_IN_RECORDING
    store.put(after)
    return ""


def _there(root: Path, change: FileChange) -> bytes | None:
    """Return the recorded old content, if the file has it."""
    path = root / change.path
    with suppress(OSError, ValueError):
        if ".." not in path.parts and path.is_file() and path.stat().st_size <= _LARGEST:
            data = path.read_bytes()
            return data if sha256(data) == change.before else None
    return None


SERVERS_VARIABLE = "KIN_REPLAY_SERVERS"
NO_SUCH_TOOL = f"not run: no such tool here, so the recorded result was used. For an MCP server: set {SERVERS_VARIABLE}"


class StubResult(BaseModel):
    """The recorded text for the model."""

    text: str


class StubTool(BaseTool[MCPArgs, StubResult, BaseToolConfig, TaskState]):
    """A tool that returns recorded results (`state.played`, by call id). It asks as every tool does: refusals are repeated."""

    description: ClassVar[str] = "Answered from the recording"
    name: ClassVar[str]

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    async def run(self, args: MCPArgs) -> StubResult:  # noqa: ARG002  (they were another tool's)
        call = call_context.get()
        play = self.state.played.get(call.call_id) if call is not None else None
        recorded = play() if play is not None else None
        if recorded is None or recorded.status != "ok":
            raise ToolError(recorded.output if recorded is not None else "This call is not in the recording.")
        return StubResult(text=recorded.output)

    def to_model(self, result: StubResult) -> str:
        return result.text


def register_stubs(agent: Agent, calls: Iterable[RecordedCall]) -> frozenset[str]:
    """Register stubs for the tools among `calls` that neither `agent` nor its servers have. Return all their names.

    A call without a decision had no tool when it was recorded either.
    """
    manager = agent.tool_manager
    known = manager.available_tools()
    served = tuple(f"{server.name}_" for server in agent.config.mcp_servers if not server.disabled)
    names = {call.name for call in calls if call.decision is not None} - known.keys()
    wanted = sorted(name for name in names if not name.startswith(served))
    manager.register({name: type("StandIn", (StubTool,), {"__module__": __name__, "name": name}) for name in wanted})
    return frozenset(name for name, tool in manager.available_tools().items() if issubclass(tool, StubTool))


def configured_servers(environ: Mapping[str, str]) -> list[MCPServer]:
    """Parse the MCP servers that may run again in a rerun, as JSON. Raises ReplayError for invalid ones."""
    text = environ.get(SERVERS_VARIABLE, "").strip()
    if not text:
        return []
    try:
        named = TypeAdapter(list[dict[str, object]]).validate_json(text)
        return KinConfig.model_validate({"mcp_servers": named}).mcp_servers
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ReplayError(
            f"{SERVERS_VARIABLE} is not a list of MCP servers: {where + ': ' if where else ''}{first['msg']}.\n"
            'Write them as the setting mcp_servers, in JSON: [{"name": "git", "command": "mcp-server-git"}]'
        ) from None
