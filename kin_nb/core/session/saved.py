"""A session's document as seed 004 has it, read back: checked, and as the turns that an agent can go on after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from kin_nb.core.context.repair import UNANSWERED
from kin_nb.core.safety.secrets import redact_json
from kin_nb.core.session.errors import SessionDataError
from kin_nb.core.session.records import (
    CallStatus,
    RecordedCall,
    RecordedDecision,
    RecordedImage,
    RecordedStep,
    TurnRecord,
)
from kin_nb.core.tools.images import usable
from kin_nb.core.types import ImageContent, LLMMessage, Role, ToolCall

Redact = Callable[[str], str]
_Count = Annotated[int, Field(ge=-(2**53), le=2**53)]


class SavedCall(BaseModel):
    """An entry of `tool_history`. Its name, arguments and output are in the messages too, and those count."""

    id: str = ""
    decision: RecordedDecision | None = None
    status: CallStatus = "ok"
    exit: _Count | None = None
    milliseconds: _Count | None = None


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

    def turns(self, redact: Redact) -> list[TurnRecord]:
        """A turn for each message of the person, with the replies and tool results after it; texts pass `redact`.

        The system message is left out: a session has its own. A call without an answer counts as interrupted. Raises
        SessionDataError for a reply before anything was asked, and for an answer to no call of the reply before it.
        """
        history: dict[str, list[SavedCall]] = {}
        for call in self.tool_history:
            history.setdefault(call.id, []).append(call)
        turns: list[TurnRecord] = []
        for number, message in enumerate(self.messages):
            try:
                if message.role is Role.user:
                    turns.append(_turn(message, len(turns) + 1, redact))
                elif message.role is Role.assistant:
                    turns[-1] = _replied(turns[-1], message, history, redact)
                elif message.role is Role.tool:
                    turns[-1] = _answered(turns[-1], message, redact)
            except IndexError:
                raise SessionDataError(f"messages.{number}: comes before anything that the person said") from None
            except ValueError as error:
                raise SessionDataError(f"messages.{number}: {error}") from error
        return turns


def _turn(message: LLMMessage, number: int, redact: Redact) -> TurnRecord:
    images = _images(message.images)
    return TurnRecord(turn=number, prompt=redact(message.content or ""), images=images, outcome="done")


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
    step = RecordedStep(content=content, reasoning=reasoning, calls=recorded)
    return turn.model_copy(update={"steps": (*turn.steps, step)})


def _call(call: ToolCall, known: list[SavedCall], redact: Redact) -> RecordedCall:
    """Not answered yet. Ids that come again are told apart by their order."""
    saved = known.pop(0) if known else SavedCall()
    return RecordedCall(
        id=call.id or "",
        name=call.function.name or "",
        arguments=redact_json(call.function.arguments or "{}", redact),
        decision=saved.decision and _redacted(saved.decision, redact),
        status="interrupted" if saved.status == "pending" else saved.status,
        output=UNANSWERED,
        exit=saved.exit,
        milliseconds=saved.milliseconds,
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
    kept, _ = usable(images or ())
    return tuple(RecordedImage(**image.model_dump()) for image in kept)


def _redacted(decision: RecordedDecision, redact: Redact) -> RecordedDecision:
    note = redact(decision.note) if decision.note else decision.note
    return decision.model_copy(update={"reason": redact(decision.reason), "note": note})
