"""TurnRecorder: write the record of one turn, line by line to the log and complete in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kin_nb.core.records import (
    Outcome,
    RecordedCall,
    RecordedCompaction,
    RecordedDecision,
    RecordedDMail,
    RecordedStep,
    TurnRecord,
)
from kin_nb.core.redaction import redact_json
from kin_nb.core.session.full_outputs import limited
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.state import INTERRUPTED
from kin_nb.core.stopping import Stop

_RARE = {"bound", "hint", "no_undo"}
"""Fields that few calls have: a log line has them only when they are not empty."""


class TurnRecorder:
    """Owns the turn's record while the turn runs. `redact` removes secrets and paths of this machine from every text.

    `without_secrets`: the same for the model, which needs the paths. A provider's own data stays verbatim, because a
    changed signature is invalid; it is not recorded when `holds_secret` finds a secret in it.

    A log line holds only what is new, so that its size depends on that line alone.
    """

    def __init__(
        self,
        log: SessionLog,
        redact: Callable[[str], str],
        turn: TurnRecord,
        without_secrets: Callable[[str], str] = str,
        *,
        holds_secret: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._log, self._redact, self._holds_secret = log, redact, holds_secret
        self.redact, self.without_secrets = redact, without_secrets
        texts = {"prompt": redact(turn.prompt), "sent": redact(turn.sent)}
        self.record = turn.model_copy(update=texts)
        log.append("turn", record=self.record.model_dump(mode="json", exclude={"steps"}))

    def reply(self, step: RecordedStep) -> RecordedStep:
        """Record a complete reply; its calls are pending. Return the step as recorded."""
        text = self._redact
        calls = tuple(self._redacted_call(call) for call in step.calls)
        texts = {"content": text(step.content), "reasoning": text(step.reasoning), "injected": text(step.injected)}
        texts["reminder"] = text(step.reminder)
        texts["provider_data"] = self._without_secret(step.provider_data)
        compaction = self.record.compaction
        dmail = step.dmail and step.dmail.model_copy(update={"message": text(step.dmail.message)})
        step = step.model_copy(update={**texts, "calls": calls, "compaction": compaction, "dmail": dmail})
        self.record = self.record.model_copy(
            update={"steps": (*self.record.steps, step), "dmail": None, "compaction": None}
        )
        self._log.append("reply", step=step.model_dump(mode="json", exclude_defaults=True))
        return step

    def dmail(self, dmail: RecordedDMail) -> None:
        """Record a delivered D-Mail: the next step holds it, if there is one."""
        redacted = dmail.model_copy(update={"message": self._redact(dmail.message)})
        self.record = self.record.model_copy(update={"dmail": redacted})
        self._log.append("dmail", dmail=redacted.model_dump(mode="json"))

    def compaction(self, compaction: RecordedCompaction) -> None:
        """Record a compaction: the next step holds it, if there is one, else the turn."""
        new = self._redacted_compaction(compaction)
        self.record = self.record.model_copy(update={"compaction": new.joined_to(self.record.compaction)})
        self._log.append("compaction", compaction=new.model_dump(mode="json"))

    def warn(self, message: str) -> None:
        """Record a warning."""
        self.record = self.record.model_copy(update={"warnings": (*self.record.warnings, self._redact(message))})
        self._log.append("warning", message=self.record.warnings[-1])

    def run(self, call_id: str, **fields: Any) -> RecordedCall:
        """Record that a call is about to run, or is refused: decision, summary, edited_arguments."""
        return self._update("run", call_id, fields)

    def result(self, call_id: str, *, whole: str = "", **fields: Any) -> RecordedCall:
        """Record the result: status, output, exit, milliseconds, files. `whole`: the name from `save_output`, only logged."""
        return self._update("result", call_id, fields, {"whole": whole} if whole else {})

    @property
    def session_id(self) -> str:
        """The log's session id, which `kin-nb sessions` lists."""
        return self._log.session_id

    @property
    def saves_outputs(self) -> bool:
        """Whether full outputs are saved. False when no log is written."""
        return self._log.is_written

    def save_output(self, redacted: str, more: int = 0) -> str:
        """Save a full output; `more`: bytes after it that are not saved. Return the file's name, "" when not written."""
        return self._log.save_output(limited(redacted, more))

    def interrupt_open_calls(self) -> list[RecordedCall]:
        """Record every pending call of the last step as interrupted, and return these calls."""
        if not self.record.steps:
            return []
        return [self.interrupt(call.id) for call in self.record.steps[-1].calls if call.status == "pending"]

    def interrupt(self, call_id: str, output: str = INTERRUPTED, **fields: Any) -> RecordedCall:
        """Record that a call was stopped before it had a result. `output`: what it printed until then."""
        return self.result(call_id, status="interrupted", output=output, **fields)

    def end(
        self,
        outcome: Outcome,
        why: Stop = Stop(),  # noqa: B008  (a value)
        *,
        cost: str = "",
        milliseconds: int = 0,
        begun: int | None = None,
    ) -> TurnRecord:
        """Close the turn; a second call changes nothing. `begun`: the number of steps that had started."""
        if self.record.outcome == "running":
            ending = {
                "outcome": outcome,
                "message": self._redact(why.message),
                "cost": cost,
                "milliseconds": milliseconds,
            }
            ending |= {"stop_reason": why.reason} if why.reason else {}
            if outcome != "done" and begun is not None:
                ending["no_reply"] = begun > len(self.record.steps)
            self.record = self.record.model_copy(update=ending)
            self._log.append("end", turn=ending)
            self._log.sync()
        return self.record

    def _update(
        self, type_: str, call_id: str, fields: dict[str, Any], extra: Mapping[str, Any] | None = None
    ) -> RecordedCall:
        for key in ("output", "summary", "uncovered", "hint", "no_undo"):
            if isinstance(fields.get(key), str):
                fields[key] = self._redact(fields[key])
        if "bound" in fields:
            fields["bound"] = tuple(map(self._redact, fields["bound"]))
        for key in _RARE & {key for key, value in fields.items() if not value}:
            del fields[key]
        if isinstance(fields.get("edited_arguments"), str):
            fields["edited_arguments"] = redact_json(fields["edited_arguments"], self._redact)
        if isinstance(fields.get("decision"), RecordedDecision):
            fields["decision"] = fields["decision"].redacted(self._redact)
        if "files" in fields:
            fields["files"] = tuple(change.redacted(self._redact) for change in fields["files"])
        step = self.record.steps[-1]
        calls = tuple(call.model_copy(update=fields) if call.id == call_id else call for call in step.calls)
        self.record = self.record.model_copy(
            update={"steps": (*self.record.steps[:-1], step.model_copy(update={"calls": calls}))}
        )
        call = next(call for call in calls if call.id == call_id)
        self._log.append(type_, call=call.model_dump(mode="json", include={"id", *fields}), **(extra or {}))
        return call

    def _redacted_call(self, call: RecordedCall) -> RecordedCall:
        return call.model_copy(
            update={
                "arguments": redact_json(call.arguments, self._redact),
                "provider_data": self._without_secret(call.provider_data),
            }
        )

    def _without_secret(self, provider_data: str) -> str:
        return "" if provider_data and self._holds_secret(provider_data) else provider_data

    def _redacted_compaction(self, compaction: RecordedCompaction) -> RecordedCompaction:
        return compaction.model_copy(update={"summary": self._redact(compaction.summary)})
