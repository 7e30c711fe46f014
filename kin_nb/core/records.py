"""A turn as it is recorded: pure values, equal when their contents are equal.

The session log, the session notebook, playback and the cards all speak of these. Numbers are integers below 2**53 and
everything else is text, because front ends rewrite other JSON numbers (docs/reference/format.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

CallStatus = Literal["pending", "ok", "error", "refused", "interrupted"]
Outcome = Literal["running", "done", "stopped", "interrupted", "error"]
StopReason = Literal["", "max_steps", "max_turns", "price", "loop", "cut_off", "refused", "middleware", "crash"]
"""What ended a turn early, where that is known: a limit on steps in the turn, in the session, on its price; the model went
in circles, or was cut off at its limit of tokens; the person refused a call without a word; a program's own middleware. Of
errors: kin_nb itself failed.
"""
IDENTICAL = "identical"
"""Who decided on a call that was made twice in one reply: nobody, it was run once."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FileChange(Record):
    """One file that a call changed. Hashes are sha256 of the bytes (of a link: its target), None where there was nothing.

    `patch` is a unified diff of the text, None for binary files and for contents over 256 KB. The modes are git's:
    100644, 100755, 120000 for a link, 040000 for a folder that held nothing; "" where there was nothing, and in old records.
    """

    path: str
    before: str | None = None
    after: str | None = None
    patch: str | None = None
    before_mode: str = ""
    after_mode: str = ""


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

    The last `kept` messages stayed as they were, `summarised` gave way; in old records both are 0: nothing stayed.
    `words`: characters, at most, of the person's words that stand beside the summary, their last request not counted.
    `old_tokens`, `new_tokens`: size of the context before and after; the other two are what the summary itself took.
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
        """Return this and an earlier one, with no reply between them, as one: both were paid for, and this has its summary."""
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
    """A call that a subagent made: enough for a line on the card."""

    name: str
    summary: str = ""
    status: CallStatus = "pending"


class RecordedSubagent(Record):
    """What a subagent did inside the call that ran it. `more`: calls that it made after those in `calls`.

    `unasked`: the tools of all its calls that were refused because nobody could be asked, each once.
    Its tokens are paid for like the turn's own; they are in no step. `cost`: of the turn's cost, as a turn has it.
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
    """What a server sent with a call, or with a whole reply: its own `id`, and `fields` that are not in the format.

    Opaque, such as Gemini's `extra_content` with a thought signature. `fields` go back verbatim to the provider of that
    name at the same address, `id` and a reply's fields to the same model of it (`id` is "" where the call's is the server's
    own); nothing of it is ever shown. `address` is a digest of host and port, "" in old records.
    """

    provider: str = ""
    address: str = ""
    model: str = ""
    id: str = ""
    fields: dict[str, Any] = {}

    def to_text(self) -> str:
        """JSON text, in which front ends rewrite no number."""
        return json.dumps(self.model_dump(exclude_defaults=True), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> CallOrigin | None:
        """The origin that `to_text` gave; None for "" and for what cannot be read."""
        try:
            return cls.model_validate_json(text) if text else None
        except ValueError:
            return None


class RecordedCall(Record):
    """A tool call as it happened: what was asked, who allowed it, what came back."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""
    provider_data: str = ""
    """JSON text: what the server sent with the call for itself alone (a CallOrigin). Opaque, never shown."""
    edited_arguments: str | None = None
    """What ran instead, when the person edited the call before approving."""
    summary: str = ""
    """One line for the card, as the tool described the call."""
    decision: RecordedDecision | None = None
    status: CallStatus = "pending"
    output: str = ""
    """What the model was told."""
    withheld: str = ""
    """sha256 of `output` where that is not stored: the notebook was saved without results."""
    exit: int | None = None
    milliseconds: int | None = None
    files: tuple[FileChange, ...] = ()
    uncovered: str = ""
    """What it may have changed besides, that undo does not bring back: a sentence. Without what `bound` says."""
    bound: tuple[str, ...] = ()
    """The names of variables that it bound or deleted, which undo does not bring back either. Of a repeated call: the first's."""
    hint: str = ""
    """The last line of `output` where that is advice: how to see all of an output that was cut."""
    no_undo: str = ""
    """The line of `output` that says why undo does not cover the call, advice as well."""
    images: tuple[RecordedImage, ...] = ()
    subagent: RecordedSubagent | None = None

    @property
    def told(self) -> str:
        """`output`, or what there is to say of it where it is withheld."""
        return f"[not stored here; its sha256 is {self.withheld}]" if self.withheld else self.output

    @property
    def is_repeated(self) -> bool:
        """Whether its reply has the same call before it, which was run for both."""
        return self.decision is not None and self.decision.by == IDENTICAL

    @property
    def result(self) -> str:
        """`output` without advice: what two runs of a call are compared by."""
        own = without_hint(self.output, self.hint)
        before, line, after = f"\n{own}\n".partition(f"\n{self.no_undo}\n")
        return f"{before}\n{after}"[1:-1] if self.no_undo and line else own

    @property
    def not_covered(self) -> str:
        """All that undo does not bring back, `bound` too: a sentence."""
        variables = f"variables: {listed(self.bound)}" if self.bound and not self.is_repeated else ""
        return "; ".join(filter(None, (self.uncovered, variables)))


END = -1
BEFORE_PROMPT = 0
NEAREST = 16
"""How many ancestors a record names: where one of them is in no place that is known, the next is gone on from."""
TURNS_BEFORE = "turns_before"
"""In the header of a session that went on from a notebook: the highest number of a turn there."""


class Ref(Record):
    """A place in a conversation: after the record `id`, whole (END), or before its step `step`, counted from 1.

    A record never names BEFORE_PROMPT, which is its parent's place; checkpoints do (core/context/checkpoints.py).
    """

    id: str
    step: int = END


class RecordedDMail(Record):
    """The model went back to before step `step` of this turn, with `message` for what it knows of the time since."""

    step: int
    message: str


class RecordedStep(Record):
    """One request and its reply. `fingerprint` is the sha256 of the messages after the system message.

    `injected`: what middleware added to this one request, and only to it. `reminder`: what of it told the model that it
    goes in circles, and is shown. `pruned`: ids of calls, of whatever turn, whose results were stubs from this request on.
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
    """As a call's: what came with the reply as a whole."""
    dmail: RecordedDMail | None = None
    """What came before this request, in place of all that had followed the step that it names."""


class TurnRecord(Record):
    """One prompt and all that followed. `cost` is USD as text, "" when the price is unknown."""

    type: Literal["turn"] = "turn"
    id: str = ""
    """16 hex digits, made when the turn begins: the same wherever the record is copied to."""
    parent: Ref | None = None
    """The place that the conversation goes on from; None: it begins here."""
    seq: int = 0
    """A Lamport counter: 1 + the highest that was known when the turn began."""
    ancestors: tuple[str, ...] = ()
    """Ids of the NEAREST records before it, the parent first: what to go on from where some of them are missing."""
    turn: int
    prompt: str
    sent: str = ""
    """What the model got in its place, when a skill was loaded with it."""
    key: str = ""
    """sha256 of the cell's body and options: which cell plays this turn."""
    cell_id: str | None = None
    model: str = ""
    mode: str = "default"
    images: tuple[RecordedImage, ...] = ()
    """Pictures that went with the prompt."""
    attached: tuple[str, ...] = ()
    """What the prompt attached with @, in a few words each: `df (3 columns, 1.2 KB)`."""
    warnings: tuple[str, ...] = ()
    """What could not be used, in the order it was noticed, and what must be known of what the turn has changed."""
    steps: tuple[RecordedStep, ...] = ()
    dmail: RecordedDMail | None = None
    """A D-Mail that no reply has followed: the turn ended there."""
    compaction: RecordedCompaction | None = None
    """A compaction that no reply has followed, after `dmail` where there is one."""
    outcome: Outcome = "running"
    no_reply: bool | None = None
    """Whether a step had begun that has no reply; None: the turn was done, or an old record does not say."""
    message: str = ""
    """Why it stopped, when the outcome is not done."""
    stop_reason: StopReason = ""
    """The same as a value."""
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
        """What took tokens: the replies, the summaries that compaction asked for, and subagents."""
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
        """The tools of calls that were refused because nobody could be asked, a subagent's too; each once."""
        own = [call.name for call in self.calls if call.decision is not None and call.decision.by == "headless"]
        return tuple(dict.fromkeys([*own, *(name for subagent in self.subagents for name in subagent.unasked)]))

    @property
    def head(self) -> Ref:
        """Where the conversation is after it."""
        return Ref(id=self.id)


class KeptFile(Record):
    """A file that undo or redo left as it was, and why."""

    path: str
    why: str


class UndoRecord(Record):
    """Turns that were undone, or redone: the conversation, and the files that their tools changed.

    `turn_ids`: of these turns, oldest first; where `head` is before a step, that is a step of the first of them, which keeps
    what came before. `turns`: their numbers, for people. `files`: what was changed in the workspace now, from and to.
    """

    type: Literal["undo", "redo"] = "undo"
    id: str = ""
    """As a turn has it; so are `seq` and `ancestors`, which are those of `head`, itself the first."""
    parent: Ref | None = None
    """Where the conversation was before."""
    head: Ref | None = None
    """Where it is afterwards; None: it is empty."""
    seq: int = 0
    ancestors: tuple[str, ...] = ()
    key: str = ""
    """As a turn has it: which cell plays this. Of an undo that made room for a new answer it is that prompt's."""
    cell_id: str | None = None
    turn_ids: tuple[str, ...] = Field(min_length=1)
    turns: tuple[int, ...] = Field(min_length=1)
    files: tuple[FileChange, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    uncovered: tuple[str, ...] = ()
    """What the calls in question may have changed that is not known: a sentence each."""
    warnings: tuple[str, ...] = ()
    """What must be known besides, as in a turn."""


class ClearRecord(Record):
    """A new conversation begins: what came before `parent` and after it is not sent any more. Fields as in UndoRecord."""

    type: Literal["clear"] = "clear"
    id: str = ""
    parent: Ref | None = None
    seq: int = 0
    key: str = ""
    cell_id: str | None = None

    @property
    def head(self) -> None:
        """The conversation is empty after it."""

    @property
    def ancestors(self) -> tuple[str, ...]:
        """None: nothing is gone on from."""
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
        """Where the conversation is after it."""
        return Ref(id=self.id)


Sent = TurnRecord | CompactRecord
"""What the model is told of: a turn, and a summary in place of all that came before it."""
Moved = UndoRecord | ClearRecord | CompactRecord
"""What moves a conversation between its turns."""
SessionRecord = TurnRecord | UndoRecord | ClearRecord | CompactRecord
"""What a session is made of, in the order of `seq`."""


MOST_NAMES = 30
"""Names in a sentence; the others are counted."""


def listed(names: Sequence[str]) -> str:
    """`x, y and 3 more`."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def without_hint(text: str, hint: str) -> str:
    """`text` without its last line where that is `hint`."""
    return text.removesuffix(f"\n{hint}") if hint else text


def canonical_json(value: Any) -> str:
    """Sorted keys, no blanks, ASCII: the same text for the same value, whoever wrote the file (lone surrogates too)."""
    return _CANONICAL(value)


def sha256(value: Any) -> str:
    """Hex digest of bytes, of text as UTF-8, or of anything else as canonical JSON."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    elif not isinstance(value, bytes):
        value = canonical_json(value).encode()
    return hashlib.sha256(value).hexdigest()
