"""A turn as it is recorded: pure values, equal when their contents are equal.

The session log, the session notebook, playback and the cards all speak of these. Numbers are integers below 2**53 and
everything else is text, because front ends rewrite other JSON numbers (docs/session-notebook.md).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

CallStatus = Literal["pending", "ok", "error", "refused", "interrupted"]
Outcome = Literal["running", "done", "stopped", "interrupted", "error"]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FileChange(Record):
    """One file that a call changed. Hashes are sha256 of the bytes, None where there was no file.

    `patch` is a unified diff of the text, None for binary files and for contents over 256 KB.
    """

    path: str
    before: str | None = None
    after: str | None = None
    patch: str | None = None


class RecordedDecision(Record):
    """Who let a call run, or did not, and why. `by`: a policy's name, person, callback, recorded, or headless."""

    verdict: Literal["allow", "deny"]
    by: str
    reason: str
    scope: Literal["once", "session", "always"] = "once"
    note: str | None = None


class RecordedImage(Record):
    """A picture that a call gave the model: base64 of the file."""

    media_type: str
    data: str


class RecordedCompaction(Record):
    """The conversation so far gave way to `summary`, before the step or turn that this belongs to.

    `old_tokens`, `new_tokens`: size of the context before and after; the other two are what the summary itself took.
    """

    summary: str
    old_tokens: int = 0
    new_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class RecordedCall(Record):
    """A tool call as it happened: what was asked, who allowed it, what came back."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""
    edited_arguments: str | None = None
    """What ran instead, when the person edited the call before approving."""
    summary: str = ""
    """One line for the card, as the tool described the call."""
    decision: RecordedDecision | None = None
    status: CallStatus = "pending"
    output: str = ""
    """What the model was told."""
    exit: int | None = None
    milliseconds: int | None = None
    files: tuple[FileChange, ...] = ()
    images: tuple[RecordedImage, ...] = ()


class RecordedStep(Record):
    """One request and its reply. `fingerprint` is the sha256 of the messages after the system message.

    `injected`: what middleware added to this one request, and only to it.
    """

    fingerprint: str = ""
    content: str = ""
    reasoning: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: int = 0
    calls: tuple[RecordedCall, ...] = ()
    compaction: RecordedCompaction | None = None
    injected: str = ""


class TurnRecord(Record):
    """One prompt and all that followed. `cost` is USD as text, "" when the price is unknown."""

    type: Literal["turn"] = "turn"
    turn: int
    prompt: str
    sent: str = ""
    """What the model got in its place, when a skill was loaded with it."""
    key: str = ""
    """sha256 of the cell's body and options: which cell plays this turn."""
    cell_id: str | None = None
    model: str = ""
    mode: str = "default"
    fresh: bool = False
    """It began a new conversation in this session: nothing before it was sent along."""
    images: tuple[RecordedImage, ...] = ()
    """Pictures that went with the prompt."""
    compaction: RecordedCompaction | None = None
    """The conversation was compacted before this prompt, by the person."""
    warnings: tuple[str, ...] = ()
    """What could not be used, in the order it was noticed."""
    steps: tuple[RecordedStep, ...] = ()
    outcome: Outcome = "running"
    message: str = ""
    """Why it stopped, when the outcome is not done."""
    cost: str = ""
    milliseconds: int = 0

    @property
    def compactions(self) -> tuple[RecordedCompaction, ...]:
        found = (self.compaction, *(step.compaction for step in self.steps))
        return tuple(compaction for compaction in found if compaction is not None)

    @property
    def prompt_tokens(self) -> int:
        """Those of the replies, and of the summaries that compaction asked for."""
        return sum(s.prompt_tokens for s in self.steps) + sum(c.prompt_tokens for c in self.compactions)

    @property
    def completion_tokens(self) -> int:
        return sum(s.completion_tokens for s in self.steps) + sum(c.completion_tokens for c in self.compactions)

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        return tuple(call for step in self.steps for call in step.calls)


def canonical_json(value: Any) -> str:
    """Sorted keys, no blanks, ASCII: the same text for the same value, whoever wrote the file (lone surrogates too)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sha256(value: Any) -> str:
    """Hex digest of bytes, of text as UTF-8, or of anything else as canonical JSON."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    elif not isinstance(value, bytes):
        value = canonical_json(value).encode()
    return hashlib.sha256(value).hexdigest()
