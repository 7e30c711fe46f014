"""Session (seed 004): an agent's conversation as one JSON document, and an agent made of such a document again.

The log is what survives by itself; this is for who wants a file to keep, to send or to read with another program. What is
in it is redacted as records are. Nothing in it is believed when it is read: it sets no policy, no model and no server.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb import __version__
from kin_nb.core.bounded_json import read_json
from kin_nb.core.context.history import History
from kin_nb.core.documents.saved import SavedSession
from kin_nb.core.messages import LLMMessage
from kin_nb.core.paths import real_path, write_private
from kin_nb.core.records import RecordedCall
from kin_nb.core.redaction import redact_json
from kin_nb.core.session.config_snapshot import config_snapshot
from kin_nb.core.session.errors import SessionDataError, SessionError
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.manager import ToolRegistry
from kin_nb.core.workspace import read_bytes

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.config import KinConfig

LARGEST = 200_000_000
"""Bytes of the largest document that is read."""
_OURS = ("kin_nb", "mode", "stats")


class Session:
    """A view of an agent: what it is, nothing of its own but `metadata`, a dict of JSON values that the document keeps."""

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

        "config": chosen settings, for a reader; no key, no server. "messages": what the model would see if the session
        went on. "tool_history": every call of the session, also of what was cleared or compacted, with its decision, its
        outcome, its time in milliseconds, and, where that was not undone, the files that it changed ("files") and what
        else it may have changed ("uncovered"), variables by name ("bound"). Raises SessionDataError for metadata that is no JSON.
        """
        agent, redact = self.agent, self.agent.redact
        try:
            own = json.loads(redact_json(json.dumps(self.metadata, allow_nan=False), redact))
        except (TypeError, ValueError, RecursionError) as error:
            raise SessionDataError(f"metadata: not JSON ({error})") from error
        standing = {id(call) for turn in agent.undos.active for call in turn.calls}
        ours = {"kin_nb": __version__, "mode": agent.mode.value, "stats": agent.stats.model_dump()}
        return {
            "id": self.id,
            "created_at": self.created_at.isoformat(timespec="seconds"),
            "config": config_snapshot(agent.config),
            "messages": [self._message(message) for message in agent.messages],
            "tool_history": [
                _entry(turn.turn, call, stands=id(call) in standing) for turn in agent.turns for call in turn.calls
            ],
            "metadata": {**own, **ours},
        }

    @classmethod
    def from_dict(cls, data: Any, config: KinConfig | None = None, **options: Any) -> Session:
        """A new session whose agent goes on after the conversation in `data`: its messages, with what became of each call.

        Calls that no message holds any more are turns before it, which `undo` reaches after those of the conversation.

        `config`: KinConfig.load() when absent; `options`: what Agent takes. The id is a new one, for the old one's log
        may be in use; `metadata["loaded_from"]` has it. Raises SessionDataError for what is no such document, ConfigError.
        """
        from kin_nb.core.agent import Agent  # noqa: PLC0415  (it imports this package)
        from kin_nb.core.config import KinConfig  # noqa: PLC0415  (likewise)

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
        """Redacted, and without a provider's own signed reasoning."""
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
    """Write the agent's session to `path`, readable by its owner only; an older session there is replaced at once.

    Raises SessionError, also for a file that is anything else.
    """
    if path.exists() and not _is_session(path):
        raise SessionError(f"{path} exists and is no saved session: nothing was written. Choose another name.")
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
    """An agent that goes on after the session in the file. Raises SessionError, naming the file, and ConfigError."""
    try:
        data = json.loads(read_bytes(real_path(path), LARGEST, str(path)))
    except ToolError as error:
        raise SessionError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise SessionDataError(f"{path}: no JSON document: {error}") from error
    try:
        return Session.from_dict(data, config, **options).agent
    except SessionDataError as error:
        raise SessionDataError(f"{path}: {error}") from error


def _entry(turn: int, call: RecordedCall, *, stands: bool) -> dict[str, Any]:
    """`stands`: its turn was not undone, so that its files may be."""
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
        "files": [change.model_dump(mode="json") for change in call.files] if stands else [],
        "uncovered": call.uncovered if stands else "",
        "bound": list(call.bound) if stands else [],
    }


def _time(text: str) -> datetime | None:
    """None for what is no time; one without an offset is local."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
