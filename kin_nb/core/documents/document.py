"""The session document made from a session log: "metadata", "messages", "stats", "config_snapshot".

InteractionLogger is the API through which a program saves the document of a running session.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kin_nb.core.context.checkpoints import Checkpoints
from kin_nb.core.context.history import History
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.records import CompactRecord, Sent, SessionRecord, TurnRecord
from kin_nb.core.session.encryption import SessionKeys
from kin_nb.core.session.errors import UnreadableSessionError
from kin_nb.core.session.log import LOG_NAME, SessionLog
from kin_nb.core.session.store import StoredSession
from kin_nb.core.usage import count_aside, count_turn
from kin_nb.core.usage_stats import AgentStats

DOCUMENT_NAME = "session.json"


class SessionMetadata(BaseModel):
    session_id: str
    start_time: str
    end_time: str | None
    git_commit: str | None
    git_branch: str | None
    environment: dict[str, str | None]
    auto_approve: bool = False
    username: str


class SessionInfo(BaseModel):
    session_id: str
    start_time: str
    message_count: int
    stats: AgentStats
    save_dir: str


class InteractionLogger:
    """Saves the session document on demand. The session log itself is always written: docs/project/seed-differences.md."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log

    @property
    def enabled(self) -> bool:
        """Whether the session log is written: `[session_logging] enabled`, and no write failed."""
        return self.log.is_written

    @property
    def save_dir(self) -> Path:
        """The session's folder, created with the first prompt."""
        return self.log.folder

    def session_info(self, session_id: str, messages: Sequence[LLMMessage], stats: AgentStats) -> SessionInfo:
        """Describe the session. `session_id`: the agent's, which changes on clear and compact.

        `start_time` is "" before the first prompt.
        """
        return SessionInfo(
            session_id=session_id,
            start_time=self.log.start_time,
            message_count=len(messages),
            stats=stats,
            save_dir=str(self.save_dir) if self.enabled else "",
        )

    def save_interaction(self, path: Path | None = None) -> Path | None:
        """Write the session as one JSON document, by default next to its log. Return its path, or None without a log.

        Raises SessionError when the log cannot be read, OSError when the document cannot be written.
        """
        if not self.enabled or not self.log.has_header:
            return None
        return write_document(self.log.folder, path or self.log.folder / DOCUMENT_NAME)


def session_document(folder: Path, keys: SessionKeys | None = None) -> dict[str, Any]:
    """Return the document of the session in `folder`. Raises UnreadableSessionError, EncryptedSessionError.

    "messages" has all messages in order, not only those of the current conversation: cleared ones stay, and each
    compaction is the message that replaced the conversation. Texts are as recorded: `{workspace}` and `~` replace
    this machine's folders. Values that an old log does not have are None, "" or 0.
    """
    stored = StoredSession.read(folder, keys)
    marks = Checkpoints()
    try:
        return {
            "metadata": _metadata(stored).model_dump(),
            "messages": [_dump(message) for message in _messages(stored, marks)],
            "stats": _stats(stored, marks),
            "config_snapshot": stored.header.get("config") or {"active_model": stored.header.get("model", "")},
        }
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UnreadableSessionError(folder / LOG_NAME, f"{field} in its header is not valid") from error


def write_document(folder: Path, path: Path) -> Path:
    """Write the session's document to `path` atomically, readable by its owner only."""
    text = json.dumps(session_document(folder), indent=2)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{text}\n")
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return path


def total_cost(records: Iterable[SessionRecord]) -> float | None:
    """Return the cost in USD, at the prices when each record was made; None when no cost is known."""
    costs = [cost for record in records if isinstance(record, Sent) and (cost := _number(record.cost)) is not None]
    return sum(costs) if costs else None


def _metadata(stored: StoredSession) -> SessionMetadata:
    header = stored.header
    return SessionMetadata(
        session_id=stored.session_id,
        start_time=header.get("start_time") or _iso(stored.started) or "",
        end_time=_iso(stored.last_activity),
        git_commit=header.get("git_commit") or header.get("commit"),
        git_branch=header.get("git_branch"),
        environment=header.get("environment") or {"working_directory": header.get("workspace")},
        auto_approve=bool(header.get("auto_approve")) or any(turn.mode == "auto_approve" for turn in stored.turns),
        username=header.get("username") or "",
    )


def _messages(stored: StoredSession, marks: Checkpoints) -> list[LLMMessage]:
    history = History(stored.header.get("system_prompt_text") or "", str)
    sent = (record for record in stored.records if isinstance(record, Sent))
    asked = [each.model_copy(update={"sent": ""}) if isinstance(each, TurnRecord) else each for each in sent]
    return [history.messages[0], *history.replayed(asked, str, marks)]


def _dump(message: LLMMessage) -> dict[str, Any]:
    """Return the message without empty fields; an assistant message always has `tool_calls`.

    Data that only the provider reads (`origin`) is left out: it is long.
    """
    servers_own: Any = {"origin": True, "tool_calls": {"__all__": {"origin"}}}
    dump = message.model_dump(mode="json", exclude_none=True, exclude=servers_own)
    return {**dump, "tool_calls": dump.get("tool_calls")} if message.role is Role.assistant else dump


def _stats(stored: StoredSession, marks: Checkpoints) -> dict[str, Any]:
    """Return AgentStats of the whole log, with its three totals. `session_cost` is None when no price was known."""
    stats = AgentStats()
    prices = _prices(stored.header)
    for record in stored.records:
        if isinstance(record, Sent):
            stats.set_prices(*prices.get(record.model, (0.0, 0.0)))
        if isinstance(record, TurnRecord):
            count_turn(stats, record)
        elif isinstance(record, CompactRecord):
            count_aside(stats, record.compaction)
    if stored.turns:
        stats.context_tokens = marks.at(stored.turns[-1].head).tokens
    return {
        **stats.model_dump(),
        "session_total_llm_tokens": stats.session_total_llm_tokens,
        "last_turn_total_tokens": stats.last_turn_total_tokens,
        "session_cost": total_cost(stored.records),
    }


def _prices(header: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return USD per million tokens (input, output) by model alias; empty for old logs and invalid snapshots."""
    try:
        models = header["config"]["models"]
        return {m["alias"]: (float(m["input_price"]), float(m["output_price"])) for m in models}
    except (LookupError, TypeError, ValueError):
        return {}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _iso(time: datetime | None) -> str | None:
    return time.isoformat(timespec="seconds") if time is not None else None
