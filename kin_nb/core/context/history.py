"""History: the messages of one conversation. It only appends, so each message is encoded and hashed once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable

from kin_nb.core.context.compaction import compacted
from kin_nb.core.context.repair import repaired
from kin_nb.core.safety.secrets import WORKSPACE, redact_json
from kin_nb.core.session.records import RecordedCall, RecordedImage, RecordedStep, TurnRecord, canonical_json, sha256
from kin_nb.core.types import FunctionCall, ImageContent, LLMMessage, Role, ToolCall

Expand = Callable[[str], str]


class History:
    """`messages[0]` is the system message. `fingerprint()` is the sha256 of the messages after it.

    The fingerprint is taken over canonical JSON with `redact` applied, so that the same conversation in another folder
    has the same fingerprint; it is kept incrementally, so its cost does not grow with the history. A conversation that
    is cleared or compacted begins again; nothing else takes messages away.
    """

    def __init__(
        self,
        system_prompt: str,
        redact: Callable[[str], str],
        observer: Callable[[LLMMessage], None] | None = None,
    ) -> None:
        self.messages: list[LLMMessage] = []
        self._redact, self._observer = redact, observer
        self._hash = hashlib.sha256()
        self._known = 0
        self.last_request = ""
        """What the person asked last, in their words; a compaction keeps it."""
        self.call_ids: set[str] = set()
        """The ids of every tool call so far, compacted ones too."""
        self.append(LLMMessage(role=Role.system, content=system_prompt))

    def append(self, message: LLMMessage) -> None:
        """A message that keeps the history valid: the agent's own."""
        self._take(message)
        if self._observer is not None:
            self._observer(message)

    def add(self, message: LLMMessage) -> None:
        """Somebody else's message, whatever it says: `repair` looks at it before the next request."""
        self.messages.append(message)
        if self._observer is not None:
            self._observer(message)

    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def set_system_prompt(self, text: str) -> None:
        """Nothing when it is the same: the prefix that providers cache stays the same object."""
        if self.messages[0].content != text:
            self.messages[0] = LLMMessage(role=Role.system, content=text)

    def restart(self, *messages: LLMMessage) -> None:
        """Only the system message stays, then `messages`: the conversation was cleared, or compacted to these."""
        self._rebuild([self.messages[0]])
        for message in messages:
            self.append(message)

    def repair(self) -> None:
        """Make the history valid again when somebody else wrote into `messages`; otherwise it costs nothing."""
        if len(self.messages) != self._known:
            self._rebuild(repaired(self.messages))

    def compact(self, summary: str) -> None:
        """Begin again with `summary` and the last request, in one message."""
        request = self.last_request
        self.restart(compacted(summary, request))
        self.last_request = request

    def extend_from(self, turns: Iterable[TurnRecord], expand: Expand) -> None:
        """Go on from recorded turns (resume, continue a session notebook); `expand` puts this machine's paths in."""
        for turn in turns:
            if turn.fresh:
                self.restart()
            if turn.compaction:
                self.compact(expand(turn.compaction.summary))
            self.append(user_message(expand(turn.sent or turn.prompt), images_of(turn.images)))
            for step in turn.steps:
                if step.compaction:
                    self.compact(expand(step.compaction.summary))
                for message in messages_of_step(step, expand):
                    self.append(message)

    def _take(self, message: LLMMessage) -> None:
        self.messages.append(message)
        self._known += 1
        self.call_ids.update(call.id for call in message.tool_calls or () if call.id)
        if message.role is Role.user:
            self.last_request = message.content or ""
        if message.role is not Role.system:
            self._hash.update(canonical_json(fingerprinted(message, self._redact)).encode() + b"\n")

    def _rebuild(self, messages: list[LLMMessage]) -> None:
        self._known = 0
        self.messages[:] = []  # the same list: whoever holds it sees the change
        self._hash = hashlib.sha256()
        for message in messages:
            self._take(message)


def fingerprinted(message: LLMMessage, redact: Callable[[str], str]) -> dict[str, object]:
    calls = [[c.id, c.function.name, redact_json(c.function.arguments or "", redact)] for c in message.tool_calls or ()]
    seen: dict[str, object] = {"images": [sha256(image.data) for image in message.images]} if message.images else {}
    return {
        "role": message.role,
        "content": redact(message.content or ""),
        "calls": calls,
        "of": message.tool_call_id,
        **seen,
    }


def messages_of_step(step: RecordedStep, expand: Expand = str) -> list[LLMMessage]:
    answers = [tool_message(c.id, c.name, expand(c.output), images_of(c.images)) for c in step.calls]
    return [assistant_message(step.content, step.reasoning, step.calls, expand), *answers]


def user_message(text: str, images: Iterable[ImageContent] = ()) -> LLMMessage:
    return LLMMessage(role=Role.user, content=text, images=list(images) or None)


def assistant_message(content: str, reasoning: str, calls: Iterable[RecordedCall], expand: Expand = str) -> LLMMessage:
    tool_calls = [
        ToolCall(id=c.id, index=i, function=FunctionCall(name=c.name, arguments=_expanded_json(c.arguments, expand)))
        for i, c in enumerate(calls)
    ]
    return LLMMessage(
        role=Role.assistant,
        content=expand(content) or None,
        reasoning_content=expand(reasoning) or None,
        tool_calls=tool_calls or None,
    )


def tool_message(call_id: str, name: str, output: str, images: Iterable[ImageContent] = ()) -> LLMMessage:
    return LLMMessage(role=Role.tool, content=output, name=name, tool_call_id=call_id, images=list(images) or None)


def images_of(recorded: Iterable[RecordedImage]) -> list[ImageContent]:
    return [ImageContent(media_type=image.media_type, data=image.data) for image in recorded]


def _expanded_json(arguments: str, expand: Expand) -> str:
    """Inside JSON text a path is written as JSON writes it."""
    return arguments.replace(WORKSPACE, json.dumps(expand(WORKSPACE))[1:-1])
