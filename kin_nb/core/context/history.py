"""History: the append-only messages of one conversation. Each message is encoded and hashed once.

Also: messages made from records, the bytes that a fingerprint is computed from, and the repair of a history that another
program has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from kin_nb.core.context.checkpoints import (
    Checkpoint,
    Checkpoints,
    HistoryState,
    NoSuchCheckpointError,
    delivered,
    rewind_targets,
)
from kin_nb.core.context.compaction import compacted, tail_start, truncate_user_text
from kin_nb.core.context.context_window import placeholder
from kin_nb.core.messages import FunctionCall, ImageContent, LLMMessage, Role, ToolCall
from kin_nb.core.records import (
    BEFORE_PROMPT,
    END,
    CallOrigin,
    CompactRecord,
    RecordedCall,
    RecordedCompaction,
    RecordedDMail,
    RecordedImage,
    RecordedStep,
    Ref,
    Sent,
    TurnRecord,
    canonical_json,
    sha256,
    without_hint,
)
from kin_nb.core.redaction import WORKSPACE, redact_json

Expand = Callable[[str], str]


class History:
    """`messages[0]` is the system message. `fingerprint()` is the sha256 of the messages after it.

    The fingerprint is computed from canonical JSON with `redact` applied, so that it is the same in another folder; it is
    updated incrementally, at a constant cost per message. Four methods shorten the history: `restart`, `compact`, `prune`
    and `restore`; the remaining messages are the same objects. The records have what a resume needs to repeat them.
    `expand` inserts this machine's paths into a redacted text.
    """

    def __init__(
        self,
        system_prompt: str,
        redact: Callable[[str], str],
        observer: Callable[[LLMMessage], None] | None = None,
    ) -> None:
        self.messages: list[LLMMessage] = []
        self._redact, self._observer = redact, observer
        self._lines: list[bytes] = []  # of each message, what the fingerprint is taken over: prune needs them again
        self._hashes: list[hashlib._Hash] = []  # after each message; a copy takes 0.4 KB and less than a microsecond
        self._summary: tuple[LLMMessage, list[str]] | None = None  # and the person's words before it, whole
        self._to_record: list[str] = []
        self._unsaid: list[LLMMessage] = []
        self.counted = 0
        """Number of messages in the last measure of the context (AgentStats.context_tokens)."""
        self._recorded_tokens = 0  # that measure, of the turns that are replayed
        self.call_ids: set[str] = set()
        """Ids of all tool calls so far, including the servers' own ids and compacted calls."""
        self.append(LLMMessage(role=Role.system, content=system_prompt))

    @property
    def last_request(self) -> str:
        """The user's last prompt, "" before the first."""
        return (self._said(len(self.messages)) or [""])[-1]

    def append(self, message: LLMMessage, *, said: bool = True) -> None:
        """Append a message of the agent, which keeps the history valid. `said`: a user message is a prompt of the user."""
        if not said:
            self._unsaid.append(message)
        self._take(message)
        if self._observer is not None:
            self._observer(message)

    def add(self, message: LLMMessage) -> None:
        """Append a message of another program, unchecked: `repair` checks it before the next request."""
        self.messages.append(message)
        if self._observer is not None:
            self._observer(message)

    def fingerprint(self) -> str:
        return self._hashes[-1].hexdigest()

    def add_note(self, text: str) -> None:
        """Add a note to the last message. It stays there in all later requests, so that each begins as the one before.

        Fingerprints are without notes: they compare what was said and done.
        """
        if not text:
            return
        plain, self.messages[-1] = self.messages[-1], self.messages[-1].changed(note=text)
        if any(message is plain for message in self._unsaid):
            self._unsaid.append(self.messages[-1])

    def with_note(self, text: str) -> list[LLMMessage]:
        """Return the messages of a request, the last one with a note, which `add_note` keeps once the request is answered."""
        return [*self.messages[:-1], self.messages[-1].changed(note=text)] if text else self.messages

    def set_system_prompt(self, text: str) -> None:
        """Set the system prompt. An equal text changes nothing, so that the cached prefix stays the same object."""
        if self.messages[0].content != text:
            self.messages[0] = LLMMessage(role=Role.system, content=text)

    def measured(self) -> None:
        """Note that the context has just been counted or estimated."""
        self.counted = len(self.messages)

    def restart(self, *messages: LLMMessage) -> None:
        """Remove all messages except the system message, then append `messages`."""
        self._rebuild([self.messages[0]])
        self._to_record.clear()
        self._summary, self.counted = None, 0
        for message in messages:
            self.append(message)

    def repair(self) -> None:
        """Make the history valid again after another program changed `messages`; without a change it costs nothing."""
        if len(self.messages) != len(self._hashes):
            self._rebuild(repaired(self.messages))

    def compact(self, summary: str, kept: int = 0, words: int = 0, expand: Expand = str) -> None:
        """Replace all messages before the last `kept` by one message, as `compacted` returns it."""
        said = self._said(tail_start(self.messages, kept))
        left = self.compacted(summary, kept, words, expand)
        self._rebuild(left)
        self._summary = (left[1], said)
        self.measured()
        if self._observer is not None:
            self._observer(left[1])

    def compacted(self, summary: str, kept: int = 0, words: int = 0, expand: Expand = str) -> list[LLMMessage]:
        """Return the messages after a compaction: system message, `summary` with the user's prompts, last messages.

        `words`: most characters of the user's prompts before the last one. It is 0 in old records; the summary's message
        has the last prompt in that case too.
        """
        cut = tail_start(self.messages, kept)
        tail, said = self.messages[cut:], self._said(cut)
        asked_since = len(self._said(len(self.messages))) > len(said)
        last = said.pop() if said and not asked_since else ""
        return [
            self.messages[0],
            compacted(summary, truncate_user_text(said, words, self._redact, expand), last),
            *tail,
        ]

    def prune(self, call_ids: Iterable[str], expand: Expand = str) -> tuple[str, ...]:
        """Replace the results of these calls by placeholders. Return the changed ones: the next step records them."""
        self.repair()
        if not (wanted := set(call_ids)):
            return ()  # the usual case
        calls = {call.id: call.function for m in self.messages for call in m.tool_calls or () if call.id in wanted}
        changed = {i: m for i, m in enumerate(self.messages) if m.tool_call_id in calls and not m.is_stub}
        if not changed:
            return ()
        first = min(changed)
        old = list(enumerate(zip(self.messages[first:], self._lines[first:], strict=True), first))
        self._rewind(first)
        for position, (message, line) in old:
            if position in changed:
                self._take(placeholder(message, calls[message.tool_call_id or ""], self._redact, expand))
            else:
                self._take(message, line)
        found = tuple(dict.fromkeys(message.tool_call_id or "" for message in changed.values()))
        self._to_record += found
        return found

    def take_pruned(self) -> tuple[str, ...]:
        """Return the calls pruned since the last record, and reset the list."""
        pruned, self._to_record = tuple(dict.fromkeys(self._to_record)), []
        return pruned

    def state(self) -> HistoryState:
        """Return the current state, for `restore`."""
        hidden = (tuple(self._lines), tuple(self._hashes), self._summary, tuple(self._to_record), self.counted)
        return HistoryState(tuple(self.messages), hidden)

    def restore(self, state: HistoryState) -> None:
        """Restore the messages of `state`, except for the current system prompt. Ids of later calls stay reserved."""
        lines, hashes, self._summary, to_record, self.counted = state.hidden
        self.messages[1:] = state.messages[1:]
        self._lines, self._hashes, self._to_record = list(lines), list(hashes), list(to_record)

    def extend_from(self, records: Iterable[Sent], expand: Expand, checkpoints: Checkpoints | None = None) -> None:
        """Append recorded turns (resume, continue a session notebook). `expand` inserts this machine's paths."""
        for _ in self.replayed(records, expand, checkpoints):
            pass

    def replayed(
        self, records: Iterable[Sent], expand: Expand, checkpoints: Checkpoints | None = None
    ) -> Iterator[LLMMessage]:
        """Do what `extend_from` does, and yield each message when it is appended, before it is pruned or compacted.

        A record follows its parent; if the parent is not in `records`, it follows the record before it.
        Raises NoSuchCheckpointError for a parent with a step that its turn does not have.
        """
        marks, records = Checkpoints() if checkpoints is None else checkpoints, list(records)
        is_target = rewind_targets(records)
        targets: dict[Ref, Checkpoint] = {}
        known: set[str] = set()

        def mark(record: Sent, step: int) -> None:
            place = Ref(id=record.id, step=step)
            if is_target(place):
                targets[place] = marks.mark(place, self.state(), self._recorded_tokens)
            else:
                marks.skip(place)

        head: Ref | None = None
        for record in records:
            parent = record.parent
            if parent is None and head is not None:
                self.restart()
                self._recorded_tokens = 0
            elif parent is not None and parent != head and parent.id in known:
                self._return_to(targets.get(parent) or marks.at(parent))
            if isinstance(record, CompactRecord):
                yield from self._replay_compaction(record.compaction, expand)
                mark(record, END)
            else:
                yield from self._replay_turn(record, expand, targets, mark, marks)
            known.add(record.id)
            head = record.head

    def _replay_turn(
        self,
        turn: TurnRecord,
        expand: Expand,
        targets: Mapping[Ref, Checkpoint],
        mark: Callable[[Sent, int], None],
        marks: Checkpoints,
    ) -> Iterator[LLMMessage]:
        mark(turn, BEFORE_PROMPT)
        yield self._enter(user_message(expand(turn.sent or turn.prompt), images_of(turn.images)))
        for number, step in enumerate(turn.steps, 1):
            yield from self._replay_dmail(targets, turn, step.dmail, expand)
            mark(turn, number)
            yield from self._replay_step(step, expand)
        yield from self._replay_dmail(targets, turn, turn.dmail, expand)
        if turn.no_reply:
            mark(turn, len(turn.steps) + 1)
        elif turn.no_reply is None and turn.outcome != "done":  # the target of an undo may be before such a step
            place = Ref(id=turn.id, step=len(turn.steps) + 1)
            marks.mark_uncounted(place, self.state(), self._recorded_tokens)
        yield from self._replay_compaction(turn.compaction, expand)
        mark(turn, END)

    def _return_to(self, mark: Checkpoint) -> None:
        self.restore(mark.state)
        self._recorded_tokens = mark.tokens

    def _replay_step(self, step: RecordedStep, expand: Expand) -> Iterator[LLMMessage]:
        yield from self._replay_compaction(step.compaction, expand)
        self.prune(step.pruned, expand)
        self.take_pruned()
        self.add_note(expand(step.injected))
        reply, *answers = messages_of_step(step, expand)
        yield self._enter(reply)
        if step.prompt_tokens:
            self.measured()
            self._recorded_tokens = step.prompt_tokens + step.completion_tokens
        for answer in answers:
            yield self._enter(answer)

    def _replay_dmail(
        self, targets: Mapping[Ref, Checkpoint], turn: TurnRecord, dmail: RecordedDMail | None, expand: Expand
    ) -> Iterator[LLMMessage]:
        if dmail is not None:
            place = Ref(id=turn.id, step=dmail.step)
            if place not in targets:
                raise NoSuchCheckpointError(
                    f"A D-Mail refers to step {dmail.step}, which turn {turn.turn} does not have."
                )
            self._return_to(targets[place])
            self.append(user_message(delivered(expand(dmail.message))), said=False)
            yield self.messages[-1]

    def _replay_compaction(self, compaction: RecordedCompaction | None, expand: Expand) -> Iterator[LLMMessage]:
        if compaction is not None:
            self.take_compaction(compaction, expand)
            self._recorded_tokens = compaction.new_tokens
            yield self.messages[1]

    def take_compaction(self, compaction: RecordedCompaction, expand: Expand) -> None:
        """Repeat a recorded compaction."""
        self.compact(expand(compaction.summary), compaction.kept, compaction.words, expand)

    def _enter(self, message: LLMMessage) -> LLMMessage:
        self.append(message)
        return message

    def _said(self, end: int) -> list[str]:
        """Return the user's prompts before position `end`, in full, including summarized ones."""
        before: list[str] = []
        messages = self.messages[1:end]
        if self._summary and messages and messages[0] is self._summary[0]:
            before, messages = list(self._summary[1]), messages[1:]
        users = [message for message in messages if message.role is Role.user]
        return before + [m.content or "" for m in users if not any(m is unsaid for unsaid in self._unsaid)]

    def _take(self, message: LLMMessage, line: bytes | None = None) -> None:
        """Append a message. `line`: its entry in `_lines`, if it was in the history before."""
        self.messages.append(message)
        for call in message.tool_calls or ():
            self.call_ids.update(filter(None, (call.id, call.origin.id if call.origin else "")))
        if line is None:
            line = b"" if message.role is Role.system else fingerprinted(message, self._redact)
        so_far = self._hashes[-1].copy() if self._hashes else hashlib.sha256()
        so_far.update(line)
        self._lines.append(line)
        self._hashes.append(so_far)

    def _rewind(self, length: int) -> None:
        del self.messages[length:], self._lines[length:], self._hashes[length:]

    def _rebuild(self, messages: list[LLMMessage]) -> None:
        """Replace the messages in the same list, which other objects hold."""
        self._rewind(0)
        for message in messages:
            self._take(message)
        self.counted = min(self.counted, len(messages))


def messages_of_step(step: RecordedStep, expand: Expand = str) -> list[LLMMessage]:
    answers = [
        tool_message(c.id, c.name, expand(c.shown_to_model), images_of(c.images), hint=c.hint) for c in step.calls
    ]
    reply = assistant_message(step.content, step.reasoning, step.calls, expand)
    origin = CallOrigin.from_text(step.provider_data)
    return [reply.changed(origin=origin) if origin is not None else reply, *answers]


def user_message(text: str, images: Iterable[ImageContent] = ()) -> LLMMessage:
    return LLMMessage(role=Role.user, content=text, images=list(images) or None)


def assistant_message(content: str, reasoning: str, calls: Iterable[RecordedCall], expand: Expand = str) -> LLMMessage:
    tool_calls = [
        ToolCall(
            id=c.id,
            index=i,
            function=FunctionCall(name=c.name, arguments=_expanded_json(c.arguments, expand)),
            origin=CallOrigin.from_text(c.provider_data),
        )
        for i, c in enumerate(calls)
    ]
    return LLMMessage(
        role=Role.assistant,
        content=expand(content) or None,
        reasoning_content=expand(reasoning) or None,
        tool_calls=tool_calls or None,
    )


def tool_message(
    call_id: str, name: str, output: str, images: Iterable[ImageContent] = (), hint: str = ""
) -> LLMMessage:
    """`hint`: as in RecordedCall."""
    pictures = list(images) or None
    return LLMMessage(role=Role.tool, content=output, name=name, tool_call_id=call_id, images=pictures, hint=hint)


def images_of(recorded: Iterable[RecordedImage]) -> list[ImageContent]:
    return [ImageContent(media_type=image.media_type, data=image.data) for image in recorded]


def _expanded_json(arguments: str, expand: Expand) -> str:
    """Inside JSON text a path is written as JSON writes it."""
    return arguments.replace(WORKSPACE, json.dumps(expand(WORKSPACE))[1:-1])


def fingerprinted(message: LLMMessage, redact: Callable[[str], str]) -> bytes:
    """One line of canonical JSON."""
    calls = [[c.id, c.function.name, redact_json(c.function.arguments or "", redact)] for c in message.tool_calls or ()]
    said: dict[str, object] = {
        "role": message.role,
        "content": without_hint(redact(message.content or ""), redact(message.hint)),  # it names a session
        "calls": calls,
        "of": message.tool_call_id,
    }
    if message.images:
        said["images"] = [sha256(image.data) for image in message.images]
    return canonical_json(said).encode() + b"\n"


UNANSWERED = "No result: this call was interrupted or never run."


def repaired(messages: Iterable[LLMMessage]) -> list[LLMMessage]:
    """Each tool call answered exactly once, right after it; no answer without a call; no reply that says nothing.

    What is in order stays the same object, so its bytes need not be encoded again.
    """
    messages = list(messages)
    answers: dict[str, LLMMessage] = {}
    for message in messages:
        if message.role is Role.tool and message.tool_call_id is not None:
            answers.setdefault(message.tool_call_id, message)
    kept: list[LLMMessage] = []
    for message in messages:
        if message.role is Role.tool or _says_nothing(message):
            continue
        kept.append(message)
        for call in message.tool_calls or ():
            answer = answers.pop(call.id or "", None)
            kept.append(
                answer
                or LLMMessage(role=Role.tool, content=UNANSWERED, name=call.function.name, tool_call_id=call.id or "")
            )
    return kept


def _says_nothing(message: LLMMessage) -> bool:
    said = (message.content, message.reasoning_content, message.tool_calls, message.images, message.reasoning_blocks)
    return message.role is Role.assistant and not any(said)
