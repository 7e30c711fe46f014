"""History: the messages of one conversation. It only appends, so each message is encoded and hashed once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from kin_nb.core.session.records import RecordedCall, TurnRecord, canonical_json
from kin_nb.core.types import FunctionCall, LLMMessage, Role, ToolCall


class History:
    """`messages[0]` is the system message. `fingerprint()` is the sha256 of the messages after it.

    The fingerprint is taken over canonical JSON with `redact` applied, so that the same conversation in another folder
    has the same fingerprint; it is kept incrementally, so its cost does not grow with the history.
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
        self.call_ids: set[str] = set()
        """The ids of every tool call so far."""
        self.append(LLMMessage(role=Role.system, content=system_prompt))

    def append(self, message: LLMMessage) -> None:
        self.messages.append(message)
        self.call_ids.update(call.id for call in message.tool_calls or () if call.id)
        if message.role is not Role.system:
            self._hash.update(self._redact(canonical_json(fingerprinted(message))).encode() + b"\n")
        if self._observer is not None:
            self._observer(message)

    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def extend_from(self, turns: Iterable[TurnRecord], expand: Callable[[str], str]) -> None:
        """Go on from recorded turns (resume, continue a session notebook); `expand` puts this machine's paths in."""
        for turn in turns:
            for message in messages_of(turn, expand):
                self.append(message)


def fingerprinted(message: LLMMessage) -> dict[str, object]:
    calls = [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls or ()]
    return {"role": message.role, "content": message.content or "", "calls": calls, "of": message.tool_call_id}


def messages_of(turn: TurnRecord, expand: Callable[[str], str] = str) -> list[LLMMessage]:
    """A turn as the model saw it: valid for a strict server, every call answered exactly once."""
    messages = [LLMMessage(role=Role.user, content=expand(turn.prompt))]
    for step in turn.steps:
        messages.append(assistant_message(step.content, step.reasoning, step.calls, expand))
        messages += [tool_message(call.id, call.name, expand(call.output)) for call in step.calls]
    return messages


def assistant_message(
    content: str, reasoning: str, calls: Iterable[RecordedCall], expand: Callable[[str], str] = str
) -> LLMMessage:
    tool_calls = [
        ToolCall(id=c.id, index=i, function=FunctionCall(name=c.name, arguments=expand(c.arguments)))
        for i, c in enumerate(calls)
    ]
    return LLMMessage(
        role=Role.assistant,
        content=expand(content) or None,
        reasoning_content=expand(reasoning) or None,
        tool_calls=tool_calls or None,
    )


def tool_message(call_id: str, name: str, output: str) -> LLMMessage:
    return LLMMessage(role=Role.tool, content=output, name=name, tool_call_id=call_id)
