"""TurnRecorder: one turn becoming its record, line by line in the log and whole in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kin_nb.core.records import (
    FileChange,
    Outcome,
    RecordedCall,
    RecordedCompaction,
    RecordedDecision,
    RecordedDMail,
    RecordedStep,
    TurnRecord,
)
from kin_nb.core.redaction import redact_json
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.state import INTERRUPTED
from kin_nb.core.session.whole_outputs import limited
from kin_nb.core.stopping import Stop

_RARE = {"bound", "hint", "no_undo"}
"""Fields of few calls: a line of the log has them where there is such."""


class TurnRecorder:
    """Owns the turn's record while it grows. Every text passes `redact` first: no secret and no path of this machine.

    `without_secrets`: the same for the model, which needs the paths. Only a provider's own data stays verbatim, because a
    changed signature is worth nothing; where `holds_secret` finds a secret in it, it is not recorded.

    The log gets what is new only, so a line's size depends on that line alone.
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
        """The reply is complete; its calls are pending. Returns the step as recorded."""
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

    def went_back(self, dmail: RecordedDMail) -> None:
        """A D-Mail was delivered; the next step holds it, if there is one."""
        told = dmail.model_copy(update={"message": self._redact(dmail.message)})
        self.record = self.record.model_copy(update={"dmail": told})
        self._log.append("dmail", dmail=told.model_dump(mode="json"))

    def compacted(self, compaction: RecordedCompaction) -> None:
        """The conversation was compacted; the next step holds it, if there is one, else the turn."""
        new = self._redacted_compaction(compaction)
        self.record = self.record.model_copy(update={"compaction": new.joined_to(self.record.compaction)})
        self._log.append("compaction", compaction=new.model_dump(mode="json"))

    def warn(self, message: str) -> None:
        """Something could not be used in this turn."""
        self.record = self.record.model_copy(update={"warnings": (*self.record.warnings, self._redact(message))})
        self._log.append("warning", message=self.record.warnings[-1])

    def run(self, call_id: str, **fields: Any) -> RecordedCall:
        """The call is decided and about to run (or be refused): decision, summary, edited_arguments."""
        return self._update("run", call_id, fields)

    def result(self, call_id: str, *, whole: str = "", **fields: Any) -> RecordedCall:
        """The call has ended: status, output, exit, milliseconds, files. `whole`: what `keep` gave, for the log alone."""
        return self._update("result", call_id, fields, {"whole": whole} if whole else {})

    @property
    def session_id(self) -> str:
        """Of the log: what `kin-nb sessions` lists."""
        return self._log.session_id

    @property
    def keeps(self) -> bool:
        """Whether whole outputs are kept. False where no log is written."""
        return self._log.is_written

    def keep(self, redacted: str, more: int = 0) -> str:
        """Keep a whole output, and how many bytes came after it. The name of its file, "" when that is not written."""
        return self._log.keep(limited(redacted, more))

    def interrupt_open_calls(self) -> list[RecordedCall]:
        """Answer every pending call of the last step "interrupted"; returns those answered now."""
        if not self.record.steps:
            return []
        return [self.interrupt(call.id) for call in self.record.steps[-1].calls if call.status == "pending"]

    def interrupt(self, call_id: str, output: str = INTERRUPTED, **fields: Any) -> RecordedCall:
        """The call was stopped before it had a result: `output` says what it printed, the other fields what it changed."""
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
        """Close the turn, once; a second call changes nothing. `begun`: how many steps had begun."""
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
        self, type_: str, call_id: str, fields: dict[str, Any], besides: Mapping[str, Any] | None = None
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
            fields["decision"] = self._redacted_decision(fields["decision"])
        if "files" in fields:
            fields["files"] = tuple(self._redacted_change(change) for change in fields["files"])
        step = self.record.steps[-1]
        calls = tuple(call.model_copy(update=fields) if call.id == call_id else call for call in step.calls)
        self.record = self.record.model_copy(
            update={"steps": (*self.record.steps[:-1], step.model_copy(update={"calls": calls}))}
        )
        call = next(call for call in calls if call.id == call_id)
        self._log.append(type_, call=call.model_dump(mode="json", include={"id", *fields}), **(besides or {}))
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

    def _redacted_decision(self, decision: RecordedDecision) -> RecordedDecision:
        note = self._redact(decision.note) if decision.note else decision.note
        return decision.model_copy(update={"note": note, "reason": self._redact(decision.reason)})

    def _redacted_compaction(self, compaction: RecordedCompaction) -> RecordedCompaction:
        return compaction.model_copy(update={"summary": self._redact(compaction.summary)})

    def _redacted_change(self, change: FileChange) -> FileChange:
        patch = self._redact(change.patch) if change.patch else change.patch
        return change.model_copy(update={"patch": patch, "path": self._redact(change.path)})
