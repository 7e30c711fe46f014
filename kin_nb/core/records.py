"""The records of a session: a turn and everything in it, as pure values that are equal when their contents are equal.

The session log, the session notebook, playback and the cards use them. Numbers are integers below 2**53 and everything
else is text, because front ends rewrite other JSON numbers (docs/reference/format.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kin_nb.core.text import listed

CallStatus = Literal["pending", "ok", "error", "refused", "interrupted"]
Outcome = Literal["running", "done", "stopped", "interrupted", "error"]
StopReason = Literal["", "max_steps", "max_turns", "price", "loop", "cut_off", "refused", "middleware", "crash"]
"""What ended a turn early, "" where that is not known.

"max_steps", "max_turns", "price": the limit on steps in the turn, on steps in the session, on the price. "loop": the model
repeated the same calls. "cut_off": the reply reached its limit of tokens. "refused": the user refused a call and gave no
reason. "middleware": a program's own middleware. "crash": an error in kin_nb itself.
"""
IDENTICAL = "identical"
"""`by` of a call that repeats an earlier call of the same reply. No decision was needed: the call ran once for both."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FileChange(Record):
    """One file that a call changed.

    `before`, `after`: sha256 of the bytes (of a link: its target), None where no file existed. `patch`: a unified diff of
    the text, None for binary files and for contents over 256 KB. The modes are git's: 100644, 100755, 120000 for a link,
    040000 for an empty folder; "" where no file existed, and in old records.
    """

    path: str
    before: str | None = None
    after: str | None = None
    patch: str | None = None
    before_mode: str = ""
    after_mode: str = ""

    def redacted(self, redact: Callable[[str], str]) -> FileChange:
        """Return the change with a redacted path and patch; the hashes stay."""
        return self.model_copy(update={"path": redact(self.path), "patch": self.patch and redact(self.patch)})


class RecordedDecision(Record):
    """Who allowed or denied a call, and why. `by`: a policy's name, person, callback, recorded, or headless."""

    verdict: Literal["allow", "deny"]
    by: str
    reason: str
    scope: Literal["once", "session", "always"] = "once"
    note: str | None = None

    def redacted(self, redact: Callable[[str], str]) -> RecordedDecision:
        """Return the decision with a redacted reason and note."""
        return self.model_copy(update={"reason": redact(self.reason), "note": self.note and redact(self.note)})


class RecordedImage(Record):
    """An image that a call returned to the model, or that was sent with a prompt. `data`: base64 of the file."""

    media_type: str
    data: str


class RecordedCompaction(Record):
    """A compaction: `summary` replaced the conversation so far, before the step or turn that has this field.

    `kept`: how many of the last messages were kept; `summarised`: how many messages the summary replaced. Both are 0 in
    old records, where no message was kept. `words`: the limit, in characters, on the user's earlier words that are kept
    next to the summary; the last request does not count. `old_tokens`, `new_tokens`: size of the context before and after.
    `prompt_tokens`, `completion_tokens`: what the request for the summary used.
    """

    summary: str
    kept: int = 0
    summarised: int = 0
    words: int = 0
    old_tokens: int = 0
    new_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def joined_to(self, earlier: RecordedCompaction | None) -> RecordedCompaction:
        """Merge with an earlier compaction that no reply followed: keep this summary, and add up the tokens of both."""
        if earlier is None:
            return self
        both = {
            "old_tokens": earlier.old_tokens or self.old_tokens,
            "summarised": self.summarised + max(earlier.summarised - 1, 0),
            "prompt_tokens": earlier.prompt_tokens + self.prompt_tokens,
            "completion_tokens": earlier.completion_tokens + self.completion_tokens,
        }
        return self.model_copy(update=both)


class RecordedSubagentCall(Record):
    """A call that a subagent made, with what its line on the card shows."""

    name: str
    summary: str = ""
    status: CallStatus = "pending"


class RecordedSubagent(Record):
    """What a subagent did inside the call that ran it.

    `more`: the number of its calls after those in `calls`. `unasked`: the tools of its calls that were refused because no
    one could approve them, each once. Its tokens count for the turn, but belong to none of the turn's steps. `cost`: its
    part of the turn's cost, USD as text.
    """

    profile: str
    steps: int = 0
    calls: tuple[RecordedSubagentCall, ...] = ()
    more: int = 0
    unasked: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: str = ""


class CallOrigin(Record):
    """What a server sent with a call or a reply that must be sent back to it: its own `id`, and `fields` outside the format.

    The contents are opaque, such as Gemini's `extra_content` with a thought signature, and are never shown. A call's
    `fields` are sent back verbatim to the provider of the same name at the same address. `id`, and a reply's fields, are
    sent back only to the same model there. `id` is "" where the call already has the server's id. `address` is a digest
    of host and port, "" in old records.
    """

    provider: str = ""
    address: str = ""
    model: str = ""
    id: str = ""
    fields: dict[str, Any] = {}

    def to_text(self) -> str:
        """Return JSON text. Front ends do not rewrite the numbers in a text."""
        return json.dumps(self.model_dump(exclude_defaults=True), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> CallOrigin | None:
        """Read what `to_text` returned; None for "" and for a text that cannot be read."""
        try:
            return cls.model_validate_json(text) if text else None
        except ValueError:
            return None


class RecordedCall(Record):
    """A tool call as it happened: its arguments, the decision about it, and its result."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""
    provider_data: str = ""
    """JSON text of a CallOrigin: what the server sent with the call and expects back. Opaque, never shown."""
    edited_arguments: str | None = None
    """The arguments that ran instead, when the user edited the call before approving it."""
    summary: str = ""
    """One line for the card, as the tool described the call."""
    decision: RecordedDecision | None = None
    status: CallStatus = "pending"
    output: str = ""
    """The result text that the model received."""
    withheld: str = ""
    """sha256 of `output` when the notebook was saved without results; `output` is then not stored."""
    exit: int | None = None
    milliseconds: int | None = None
    files: tuple[FileChange, ...] = ()
    uncovered: str = ""
    """A sentence: what else the call may have changed that undo does not restore, except the variables in `bound`."""
    bound: tuple[str, ...] = ()
    """Names of variables that the call set or deleted, which undo does not restore. A repeated call has those of the first."""
    hint: str = ""
    """The last line of `output` when it is advice: how to see all of a shortened output."""
    no_undo: str = ""
    """The line of `output` that says why undo does not cover the call. It too is advice, not part of the result."""
    images: tuple[RecordedImage, ...] = ()
    subagent: RecordedSubagent | None = None

    @property
    def shown_to_model(self) -> str:
        """Return `output`, or a note in its place when it is withheld."""
        return f"[not stored here; its sha256 is {self.withheld}]" if self.withheld else self.output

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier call of the same reply was identical, and ran for both."""
        return self.decision is not None and self.decision.by == IDENTICAL

    @property
    def result(self) -> str:
        """Return `output` without the advice in it, to compare two runs of a call."""
        own = without_hint(self.output, self.hint)
        before, line, after = f"\n{own}\n".partition(f"\n{self.no_undo}\n")
        return f"{before}\n{after}"[1:-1] if self.no_undo and line else own

    @property
    def not_covered(self) -> str:
        """Say in a sentence everything that undo does not restore, including the variables in `bound`."""
        variables = f"variables: {listed(self.bound, MOST_NAMES)}" if self.bound and not self.is_repeated else ""
        return "; ".join(filter(None, (self.uncovered, variables)))


END = -1
BEFORE_PROMPT = 0
NEAREST = 16
"""How many ancestors a record names. When the nearest cannot be found, the conversation continues from the next one."""
TURNS_BEFORE = "turns_before"
"""Field in the header of a session that continues a notebook's: the highest turn number in that notebook."""


class Ref(Record):
    """A place in a conversation: after the whole record `id` (END), or before its step number `step`, counted from 1.

    Records never contain BEFORE_PROMPT: they name the parent's place instead. Checkpoints use it (core/context/checkpoints.py).
    """

    id: str
    step: int = END


class RecordedDMail(Record):
    """A rewind: the model returned to the place before step `step` of this turn; `message` is all that it keeps from since."""

    step: int
    message: str


class RecordedStep(Record):
    """One request and its reply. `fingerprint` is the sha256 of the messages after the system message.

    `injected`: the note below the last message of this request, from middleware. `reminder`: the part of it that warns the model of
    repeated calls, which is shown. `pruned`: ids of calls, in any turn, whose results are stubs from this request on.
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
    reminder: str = ""
    pruned: tuple[str, ...] = ()
    provider_data: str = ""
    """JSON text of a CallOrigin, as in RecordedCall: what the server sent with the reply as a whole."""
    dmail: RecordedDMail | None = None
    """A rewind before this request: it replaced everything from the step that it names."""


class TurnRecord(Record):
    """One turn: a prompt and everything until its answer. `cost` is USD as text, "" when the price is unknown."""

    type: Literal["turn"] = "turn"
    id: str = ""
    """16 hex digits, made when the turn begins. Copies of the record keep it."""
    parent: Ref | None = None
    """The place in the conversation that this turn continues; None: a new conversation begins."""
    seq: int = 0
    """A Lamport counter: 1 + the highest `seq` that was known when the turn began."""
    ancestors: tuple[str, ...] = ()
    """Ids of the NEAREST records before it, the parent first, to continue from the nearest one that can be found."""
    turn: int
    prompt: str
    sent: str = ""
    """The text that the model received in place of `prompt`, for example with the text of a skill."""
    key: str = ""
    """sha256 of the cell's text and options: playback finds the turn of a cell by it."""
    cell_id: str | None = None
    model: str = ""
    mode: str = "default"
    images: tuple[RecordedImage, ...] = ()
    """Images that were sent with the prompt."""
    attached: tuple[str, ...] = ()
    """What the prompt attached with @, each in a few words, such as `df (3 columns, 1.2 KB)`."""
    warnings: tuple[str, ...] = ()
    """Warnings, in order: about what could not be used, and about changes of this turn that the user should know."""
    steps: tuple[RecordedStep, ...] = ()
    dmail: RecordedDMail | None = None
    """A rewind that no reply followed, because the turn ended there."""
    compaction: RecordedCompaction | None = None
    """A compaction that no reply followed; it came after `dmail`, if both are set."""
    outcome: Outcome = "running"
    no_reply: bool | None = None
    """Whether the last step was begun but got no reply; None: the turn was done, or the record is an old one."""
    message: str = ""
    """Why the turn stopped, when the outcome is not "done"."""
    stop_reason: StopReason = ""
    """The reason in `message`, as one of a few values."""
    cost: str = ""
    milliseconds: int = 0

    @property
    def compactions(self) -> tuple[RecordedCompaction, ...]:
        found = (*(step.compaction for step in self.steps), self.compaction)
        return tuple(compaction for compaction in found if compaction is not None)

    @property
    def subagents(self) -> tuple[RecordedSubagent, ...]:
        return tuple(call.subagent for call in self.calls if call.subagent is not None)

    @property
    def paid(self) -> tuple[RecordedStep | RecordedCompaction | RecordedSubagent, ...]:
        """Return everything that used tokens: the replies, the summaries of compaction, and the subagents."""
        return (*self.steps, *self.compactions, *self.subagents)

    @property
    def prompt_tokens(self) -> int:
        return sum(part.prompt_tokens for part in self.paid)

    @property
    def completion_tokens(self) -> int:
        return sum(part.completion_tokens for part in self.paid)

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        return tuple(call for step in self.steps for call in step.calls)

    @property
    def unasked(self) -> tuple[str, ...]:
        """Name each tool, once, that was refused because no one could approve it; with those of subagents."""
        own = [call.name for call in self.calls if call.decision is not None and call.decision.by == "headless"]
        return tuple(dict.fromkeys([*own, *(name for subagent in self.subagents for name in subagent.unasked)]))

    @property
    def head(self) -> Ref:
        """The place of the conversation after this record."""
        return Ref(id=self.id)


class KeptFile(Record):
    """A file that undo or redo left as it was, and why."""

    path: str
    why: str


class UndoRecord(Record):
    """An undo or a redo of turns: the conversation, and the files that their tools changed.

    `turn_ids`: ids of these turns, oldest first. When `head` is before a step, it is a step of the first of them, and that
    turn keeps its steps before it. `turns`: their numbers, to be shown. `files`: the changes that the undo or redo itself
    made in the workspace. `kept`: the files that it left as they were.
    """

    type: Literal["undo", "redo"] = "undo"
    id: str = ""
    """As in TurnRecord, and so is `seq`. `ancestors` begins with the id in `head`, then has the ancestors of that record."""
    parent: Ref | None = None
    """The place of the conversation before the undo or redo."""
    head: Ref | None = None
    """The place of the conversation afterwards; None: it is empty."""
    seq: int = 0
    ancestors: tuple[str, ...] = ()
    key: str = ""
    """As in TurnRecord. When the undo was made to ask a prompt again, it is the key of that prompt."""
    cell_id: str | None = None
    turn_ids: tuple[str, ...] = Field(min_length=1)
    turns: tuple[int, ...] = Field(min_length=1)
    files: tuple[FileChange, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    uncovered: tuple[str, ...] = ()
    """One sentence for each call of these turns that may have changed more than is known."""
    warnings: tuple[str, ...] = ()
    """Other warnings, as in TurnRecord."""


class ClearRecord(Record):
    """A new conversation begins after `parent`: earlier messages are not sent again. Fields as in UndoRecord."""

    type: Literal["clear"] = "clear"
    id: str = ""
    parent: Ref | None = None
    seq: int = 0
    key: str = ""
    cell_id: str | None = None

    @property
    def head(self) -> None:
        """None: the conversation is empty afterwards."""

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Empty: the new conversation continues no record."""
        return ()


class CompactRecord(Record):
    """The conversation up to `parent` is replaced by a summary, which the user asked for. Fields as in TurnRecord."""

    type: Literal["compact"] = "compact"
    id: str = ""
    parent: Ref | None = None
    seq: int = 0
    ancestors: tuple[str, ...] = ()
    key: str = ""
    cell_id: str | None = None
    model: str = ""
    compaction: RecordedCompaction
    cost: str = ""

    @property
    def prompt_tokens(self) -> int:
        return self.compaction.prompt_tokens

    @property
    def completion_tokens(self) -> int:
        return self.compaction.completion_tokens

    @property
    def head(self) -> Ref:
        """The place of the conversation after this record."""
        return Ref(id=self.id)


Sent = TurnRecord | CompactRecord
"""Records whose contents are sent to the model: turns, and summaries that replace what came before them."""
Moved = UndoRecord | ClearRecord | CompactRecord
"""Records of what changes the conversation between turns."""
SessionRecord = TurnRecord | UndoRecord | ClearRecord | CompactRecord
"""Every kind of record in a session; `seq` gives their order."""


MOST_NAMES = 30
"""Most names in a sentence; the others are only counted."""


def without_hint(text: str, hint: str) -> str:
    """Return `text` without its last line if that line is `hint`."""
    return text.removesuffix(f"\n{hint}") if hint else text


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, without spaces, in ASCII: equal values give equal text, also with lone surrogates."""
    return _CANONICAL(value)


def sha256(value: Any) -> str:
    """Hex digest of bytes, of text as UTF-8, or of anything else as canonical JSON."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    elif not isinstance(value, bytes):
        value = canonical_json(value).encode()
    return hashlib.sha256(value).hexdigest()
