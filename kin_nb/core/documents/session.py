"""Session: save an agent's conversation as one JSON document, and create an agent from such a document.

The session log is always written; a document is a file to archive, to send, or to read with another program. Its texts
are redacted as records are. A document that is loaded is not trusted: it is validated (`SavedSession`) and becomes turns
that an agent continues after; it sets no policy, no model and no server.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from kin_nb import __version__
from kin_nb.core.bounded_json import read_json
from kin_nb.core.compat.tool_registry import ToolRegistry
from kin_nb.core.context.history import UNANSWERED, History
from kin_nb.core.messages import FunctionCall, ImageContent, LLMMessage, Role, ToolCall
from kin_nb.core.paths import real_path, write_private
from kin_nb.core.records import (
    CallStatus,
    FileChange,
    RecordedCall,
    RecordedDecision,
    RecordedImage,
    RecordedStep,
    TurnRecord,
)
from kin_nb.core.redaction import redact_json
from kin_nb.core.session.errors import SessionDataError, SessionError
from kin_nb.core.session.metadata import config_snapshot
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.truncation import usable_pictures as usable
from kin_nb.core.workspace import read_bytes

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.config import KinConfig


LARGEST = 200_000_000
"""Largest document that is read, in bytes."""
_OURS = ("kin_nb", "mode", "stats")
Redact = Callable[[str], str]
_NO_PROMPT = "[a request that is no longer in the conversation]"
_Count = Annotated[int, Field(ge=-(2**53), le=2**53)]


class Session:
    """A view of an agent. Its only own state is `metadata`, a dict of JSON values that the document stores."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.created_at = _time(agent.log.start_time) or datetime.now().astimezone()
        self.metadata: dict[str, Any] = {}

    @property
    def id(self) -> str:
        return self.agent.session_id

    @property
    def config(self) -> KinConfig:
        return self.agent.config

    @property
    def context(self) -> History:
        """The conversation as the model sees it."""
        return self.agent.history

    @property
    def tools(self) -> ToolRegistry:
        return ToolRegistry(self.agent.tool_manager)

    def to_dict(self) -> dict[str, Any]:
        """id, created_at (ISO 8601), config, messages, tool_history, metadata.

        "config": selected settings, without keys and servers. "messages": the current conversation, as the model would
        see it. "tool_history": every tool call of the session, also of cleared and compacted turns, with its decision,
        status and duration in milliseconds; if its turn was not undone, also the changed files ("files"), other possible
        changes ("uncovered") and the assigned variables ("bound"). Raises SessionDataError for metadata that is not JSON.
        """
        agent, redact = self.agent, self.agent.redact
        try:
            own = json.loads(redact_json(json.dumps(self.metadata, allow_nan=False), redact))
        except (TypeError, ValueError, RecursionError) as error:
            raise SessionDataError(f"metadata: not JSON ({error})") from error
        active = {id(call) for turn in agent.undos.active for call in turn.calls}
        ours = {"kin_nb": __version__, "mode": agent.mode.value, "stats": agent.stats.model_dump()}
        return {
            "id": self.id,
            "created_at": self.created_at.isoformat(timespec="seconds"),
            "config": config_snapshot(agent.config),
            "messages": [self._message(message) for message in agent.messages],
            "tool_history": [
                _entry(turn.turn, call, active=id(call) in active) for turn in agent.turns for call in turn.calls
            ],
            "metadata": {**own, **ours},
        }

    @classmethod
    def from_dict(cls, data: Any, config: KinConfig | None = None, **options: Any) -> Session:
        """Create a session whose agent continues after the conversation in `data`.

        Calls that are in no message become earlier turns, which `undo` reaches after those of the conversation.

        `config`: KinConfig.load() when absent; `options`: arguments of Agent. The session gets a new id, because the log
        of the old one may be in use; `metadata["loaded_from"]` has the old id. Raises SessionDataError for an invalid
        document, ConfigError.
        """
        from kin_nb.core.agent import Agent  # noqa: PLC0415  (it imports this package)
        from kin_nb.core.config import KinConfig  # noqa: PLC0415  (it imports this package)

        saved = SavedSession.read(data)
        agent = Agent(config or KinConfig.load(), **options)
        earlier, turns = saved.turns(agent.redact)
        if earlier:
            agent.continue_from(earlier)
            agent.clear()
        agent.continue_from(turns)
        session = cls(agent)
        session.created_at = _time(saved.created_at) or session.created_at
        kept = {key: value for key, value in saved.metadata.items() if key not in _OURS}
        session.metadata = {**kept, "loaded_from": {"id": saved.id, "created_at": saved.created_at}}
        return session

    def _message(self, message: LLMMessage) -> dict[str, Any]:
        """Return the message, redacted, without the provider's signed reasoning."""
        dump = message.model_dump(mode="json", exclude_none=True, exclude={"reasoning_blocks"})
        for key in {"content", "reasoning_content"} & dump.keys():
            dump[key] = self.agent.redact(dump[key])
        for call in dump.get("tool_calls", ()):
            function = call["function"]
            function["arguments"] = redact_json(function.get("arguments", ""), self.agent.redact)
            if "origin" in call and self.agent.journal.holds_secret(json.dumps(call["origin"])):
                del call["origin"]
        return dump


def save_session(agent: Agent, path: Path, metadata: dict[str, Any] | None = None) -> Path:
    """Write the agent's session to `path` atomically, readable by its owner only. A saved session there is replaced.

    Raises SessionError, also when `path` is another kind of file.
    """
    if path.exists() and not _is_session(path):
        raise SessionError(f"Not saved: {path} exists and is not a saved session.\n  Choose another name.")
    session = Session(agent)
    session.metadata = dict(metadata or {})
    text = json.dumps(session.to_dict(), indent=2)
    try:
        write_private(path, f"{text}\n")
    except OSError as error:
        raise SessionError(f"{path}: the session was not saved: {error.strerror}.") from error
    return path


def _is_session(path: Path) -> bool:
    try:
        data = json.loads(read_bytes(real_path(path), LARGEST, str(path)) or b"{}")
    except (ToolError, ValueError, RecursionError):
        return False
    return data == {} or (isinstance(data, dict) and {"metadata", "messages"} <= data.keys())


def load_session(config: KinConfig, path: Path, **options: Any) -> Agent:
    """Return an agent that continues after the session in the file. Raises SessionError, naming the file, and ConfigError."""
    try:
        data = json.loads(read_bytes(real_path(path), LARGEST, str(path)))
    except ToolError as error:
        raise SessionError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise SessionDataError(f"{path}: not a JSON document: {error}") from error
    try:
        return Session.from_dict(data, config, **options).agent
    except SessionDataError as error:
        raise SessionDataError(f"{path}: {error}") from error


def _entry(turn: int, call: RecordedCall, *, active: bool) -> dict[str, Any]:
    """Return an entry of `tool_history`. `active`: its turn was not undone."""
    try:
        arguments = read_json(call.arguments)
    except ValueError:
        arguments = call.arguments
    return {
        "turn": turn,
        "id": call.id,
        "name": call.name,
        "arguments": arguments,
        "decision": call.decision.model_dump(mode="json") if call.decision else None,
        "status": call.status,
        "output": call.output,
        "exit": call.exit,
        "milliseconds": call.milliseconds,
        "files": [change.model_dump(mode="json") for change in call.files] if active else [],
        "uncovered": call.uncovered if active else "",
        "bound": list(call.bound) if active else [],
    }


def _time(text: str) -> datetime | None:
    """Parse an ISO 8601 time, local without an offset; None for an invalid one."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


class SavedCall(BaseModel):
    """An entry of `tool_history`. Name, arguments and output in the messages take precedence."""

    turn: _Count = 0
    id: str = ""
    name: str = ""
    arguments: JsonValue = ""
    output: JsonValue = ""
    decision: RecordedDecision | None = None
    status: CallStatus = "ok"
    exit: _Count | None = None
    milliseconds: _Count | None = None
    files: tuple[FileChange, ...] = ()
    uncovered: str = ""
    bound: tuple[str, ...] = ()


class SavedSession(BaseModel):
    """The document of `Session.to_dict`. Only "messages" is required: another program may have written it."""

    id: str = ""
    created_at: str = ""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    messages: list[LLMMessage]
    tool_history: list[SavedCall] = Field(default_factory=list)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @classmethod
    def read(cls, data: Any) -> SavedSession:
        """Validate a document. Raises SessionDataError, which names the first invalid field."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise SessionDataError(f"{where}: {first['msg']}") from error
        except RecursionError as error:
            raise SessionDataError("the document is nested too deeply") from error

    def turns(self, redact: Redact) -> tuple[list[TurnRecord], list[TurnRecord]]:
        """Return the turns of calls that are in no message, and the turns of the messages, redacted.

        Each user message is a turn, with the replies and tool results after it. The system message is left out: a session
        has its own. A call without a result counts as interrupted. Raises SessionDataError for a reply before the first
        prompt, and for a result that matches no call of the reply before it.
        """
        gone, history = self._split_calls()
        earlier = [
            _turn_of_calls(list(calls), number, redact)
            for number, (_, calls) in enumerate(groupby(gone, key=lambda call: call.turn), 1)
        ]
        turns: list[TurnRecord] = []
        for number, message in enumerate(self.messages):
            try:
                if message.role is Role.user:
                    turns.append(_turn(message, len(earlier) + len(turns) + 1, redact))
                elif message.role is Role.assistant:
                    turns[-1] = _replied(turns[-1], message, history, redact)
                elif message.role is Role.tool:
                    turns[-1] = _answered(turns[-1], message, redact)
            except IndexError:
                raise SessionDataError(f"messages.{number}: comes before the first message of the user") from None
            except ValueError as error:
                raise SessionDataError(f"messages.{number}: {error}") from error
        return earlier, turns

    def _split_calls(self) -> tuple[list[SavedCall], dict[str, list[SavedCall]]]:
        """Return the calls that are in no message, and those of the messages by id: for a repeated id, the last ones."""
        held = Counter(call.id for message in self.messages for call in message.tool_calls or ())
        gone: list[SavedCall] = []
        history: dict[str, list[SavedCall]] = {}
        for call in reversed(self.tool_history):
            if held[call.id] > 0:
                held[call.id] -= 1
                history.setdefault(call.id, []).insert(0, call)
            else:
                gone.insert(0, call)
        return gone, history


def _turn(message: LLMMessage, number: int, redact: Redact) -> TurnRecord:
    images = _images(message.images)
    return TurnRecord(turn=number, prompt=redact(message.content or ""), images=images, outcome="done")


def _turn_of_calls(calls: Sequence[SavedCall], number: int, redact: Redact) -> TurnRecord:
    """Return a turn for calls whose messages were cleared or compacted. Their new ids differ from those of the messages."""
    recorded = []
    for position, saved in enumerate(calls):
        asked = FunctionCall(name=saved.name, arguments=_text(saved.arguments))
        call = ToolCall(id=f"earlier-{number}-{position}", index=position, function=asked)
        output = redact(_text(saved.output)) or UNANSWERED
        recorded.append(_call(call, [saved], redact).model_copy(update={"output": output}))
    return TurnRecord(turn=number, prompt=_NO_PROMPT, steps=(RecordedStep(calls=tuple(recorded)),), outcome="done")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _replied(turn: TurnRecord, message: LLMMessage, history: dict[str, list[SavedCall]], redact: Redact) -> TurnRecord:
    """Add a reply to the turn. Raises ValueError for calls without a unique id."""
    calls = message.tool_calls or []
    ids = [call.id for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        raise ValueError("each tool call must have an id of its own")
    content, reasoning = redact(message.content or ""), redact(message.reasoning_content or "")
    if not (content or reasoning or calls):
        return turn
    recorded = tuple(_call(call, history.get(call.id or "", []), redact) for call in calls)
    own = message.origin.to_text() if message.origin is not None else ""
    step = RecordedStep(content=content, reasoning=reasoning, calls=recorded, provider_data=own)
    return turn.model_copy(update={"steps": (*turn.steps, step)})


def _call(call: ToolCall, known: list[SavedCall], redact: Redact) -> RecordedCall:
    """Return the call without its result. Calls with the same id are matched by their order."""
    saved = known.pop(0) if known else SavedCall()
    return RecordedCall(
        id=call.id or "",
        name=call.function.name or "",
        arguments=redact_json(call.function.arguments or "{}", redact),
        provider_data=call.origin.to_text() if call.origin is not None else "",
        decision=saved.decision and saved.decision.redacted(redact),
        status="interrupted" if saved.status == "pending" else saved.status,
        output=UNANSWERED,
        exit=saved.exit,
        milliseconds=saved.milliseconds,
        files=tuple(change.redacted(redact) for change in saved.files),
        uncovered=redact(saved.uncovered),
        bound=tuple(map(redact, saved.bound)),
    )


def _answered(turn: TurnRecord, message: LLMMessage, redact: Redact) -> TurnRecord:
    calls = turn.steps[-1].calls if turn.steps else ()
    if message.tool_call_id not in {call.id for call in calls}:
        raise ValueError("does not answer a tool call of the reply before it")
    answer = {"output": redact(message.content or ""), "images": _images(message.images)}
    answered = tuple(c.model_copy(update=answer) if c.id == message.tool_call_id else c for c in calls)
    step = turn.steps[-1].model_copy(update={"calls": answered})
    return turn.model_copy(update={"steps": (*turn.steps[:-1], step)})


def _images(images: list[ImageContent] | None) -> tuple[RecordedImage, ...]:
    """Return the usable images: with a broken one, the provider would refuse every later request."""
    kept, _ = usable(images or ())
    return tuple(RecordedImage(**image.model_dump()) for image in kept)
