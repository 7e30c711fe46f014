"""A session's document as seed 004 has it, read back: checked, and as the turns that an agent can go on after."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Annotated, Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from kin_nb.core.context.history import UNANSWERED
from kin_nb.core.messages import FunctionCall, ImageContent, LLMMessage, Role, ToolCall
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
from kin_nb.core.session.errors import SessionDataError
from kin_nb.core.tools.truncation import usable_pictures

Redact = Callable[[str], str]
_NO_PROMPT = "[a request that is no longer in the conversation]"
_Count = Annotated[int, Field(ge=-(2**53), le=2**53)]


class SavedCall(BaseModel):
    """An entry of `tool_history`. Where its name, arguments and output are in the messages too, those count."""

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
    """What `Session.to_dict` gives. Only the messages must be there: another program may have written it."""

    id: str = ""
    created_at: str = ""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    messages: list[LLMMessage]
    tool_history: list[SavedCall] = Field(default_factory=list)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @classmethod
    def read(cls, data: Any) -> SavedSession:
        """Raises SessionDataError, which says where the first mistake is."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise SessionDataError(f"{where}: {first['msg']}") from error
        except RecursionError as error:
            raise SessionDataError("it is nested too deeply") from error

    def turns(self, redact: Redact) -> tuple[list[TurnRecord], list[TurnRecord]]:
        """(those of calls that no message holds any more, those of the messages); texts pass `redact`.

        Of the messages: a turn for each of the person's, with the replies and tool results after it; they are a
        conversation of their own. The system message is left out: a session has its own. A call without an answer counts as
        interrupted. Raises SessionDataError for a reply before anything was asked, and for an answer to no call of the
        reply before it.
        """
        gone, history = self._told_apart()
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
                raise SessionDataError(f"messages.{number}: comes before anything that the person said") from None
            except ValueError as error:
                raise SessionDataError(f"messages.{number}: {error}") from error
        return earlier, turns

    def _told_apart(self) -> tuple[list[SavedCall], dict[str, list[SavedCall]]]:
        """The calls that no message holds, and those of the messages by their ids: of one id, the last ones."""
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
    """What was said around them was cleared or summed up. Their ids are made unlike those of the messages."""
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
    """Raises ValueError for calls that no answer could be told to belong to."""
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
    """Not answered yet. Ids that come again are told apart by their order."""
    saved = known.pop(0) if known else SavedCall()
    return RecordedCall(
        id=call.id or "",
        name=call.function.name or "",
        arguments=redact_json(call.function.arguments or "{}", redact),
        provider_data=call.origin.to_text() if call.origin is not None else "",
        decision=saved.decision and _redacted(saved.decision, redact),
        status="interrupted" if saved.status == "pending" else saved.status,
        output=UNANSWERED,
        exit=saved.exit,
        milliseconds=saved.milliseconds,
        files=tuple(_redacted_file(change, redact) for change in saved.files),
        uncovered=redact(saved.uncovered),
        bound=tuple(map(redact, saved.bound)),
    )


def _answered(turn: TurnRecord, message: LLMMessage, redact: Redact) -> TurnRecord:
    calls = turn.steps[-1].calls if turn.steps else ()
    if message.tool_call_id not in {call.id for call in calls}:
        raise ValueError("answers no tool call of the reply before it")
    answer = {"output": redact(message.content or ""), "images": _images(message.images)}
    answered = tuple(c.model_copy(update=answer) if c.id == message.tool_call_id else c for c in calls)
    step = turn.steps[-1].model_copy(update={"calls": answered})
    return turn.model_copy(update={"steps": (*turn.steps[:-1], step)})


def _images(images: list[ImageContent] | None) -> tuple[RecordedImage, ...]:
    """Those that a model can be sent: one that is broken would have every later request refused."""
    kept, _ = usable_pictures(images or ())
    return tuple(RecordedImage(**image.model_dump()) for image in kept)


def _redacted(decision: RecordedDecision, redact: Redact) -> RecordedDecision:
    note = redact(decision.note) if decision.note else decision.note
    return decision.model_copy(update={"reason": redact(decision.reason), "note": note})


def _redacted_file(change: FileChange, redact: Redact) -> FileChange:
    return change.model_copy(update={"path": redact(change.path), "patch": change.patch and redact(change.patch)})
