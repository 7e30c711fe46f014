"""A session as the one JSON document of seed 000: "metadata", "messages", "stats", "config_snapshot". From its log alone.

InteractionLogger (seed 003) is the log of an agent's session, seen as that document.
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
    """Nothing need be saved through it: the log is written line by line while the agent acts (docs/project/seed-differences.md)."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log

    @property
    def enabled(self) -> bool:
        """Whether the session reaches a file: `[session_logging] enabled`, and a disk that takes it."""
        return self.log.is_written

    @property
    def save_dir(self) -> Path:
        """The session's folder. It is made with the first prompt."""
        return self.log.folder

    def session_info(self, session_id: str, messages: Sequence[LLMMessage], stats: AgentStats) -> SessionInfo:
        """`session_id`: the agent's, which changes on clear and compact. `start_time` is "" before the first prompt."""
        return SessionInfo(
            session_id=session_id,
            start_time=self.log.start_time,
            message_count=len(messages),
            stats=stats,
            save_dir=str(self.save_dir) if self.enabled else "",
        )

    def save_interaction(self, path: Path | None = None) -> Path | None:
        """Write the session so far as one JSON document, by default beside its log. None when there is no log.

        Raises SessionError when the log cannot be read, OSError when the document cannot be written.
        """
        if not self.enabled or not self.log.begun:
            return None
        return write_document(self.log.folder, path or self.log.folder / DOCUMENT_NAME)


def session_document(folder: Path, keys: SessionKeys | None = None) -> dict[str, Any]:
    """The document of the session in `folder`. Raises UnreadableSessionError, EncryptedSessionError.

    "messages" is everything that was said, in order, not what the model would see if the session went on: what was
    cleared stays, and each compaction is the message that took the conversation's place. Texts are as recorded:
    `{workspace}` and `~` stand for this machine's folders. What old logs do not say is None, "" or 0.
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
        raise UnreadableSessionError(folder / LOG_NAME, f"its header holds no usable {field}") from error


def write_document(folder: Path, path: Path) -> Path:
    """Write the session's document to `path`, readable by its owner only; an older one is replaced at once."""
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
    """USD, at the prices of each record's time; None when no cost is known."""
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
    """Without what it does not have, but for an assistant's `tool_calls`, as the seed shows them.

    What a server sent for itself alone is left out: nobody reads it, and it is long.
    """
    servers_own: Any = {"origin": True, "tool_calls": {"__all__": {"origin"}}}
    dump = message.model_dump(mode="json", exclude_none=True, exclude=servers_own)
    return {**dump, "tool_calls": dump.get("tool_calls")} if message.role is Role.assistant else dump


def _stats(stored: StoredSession, marks: Checkpoints) -> dict[str, Any]:
    """AgentStats over the whole log, its three sums with them. `session_cost` is None when no price was known."""
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
    """USD per million tokens, by the model's alias; empty for old logs and for what is no such snapshot."""
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
