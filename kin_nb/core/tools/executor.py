"""ToolExecutor: the calls of one reply, decided, run and answered.

Contract: when `run` ends, however it ends, every call of the reply has exactly one answer in the history and in the
record. An intended call is in the log before it runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kin_nb.core.context.history import History, images_of, tool_message
from kin_nb.core.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    BaseEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
)
from kin_nb.core.safety.callbacks import Ask
from kin_nb.core.safety.chain import ASK, decide
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest, Decision, Grant, Verdict
from kin_nb.core.safety.grants import scopes
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.session.records import RecordedCall, RecordedDecision, RecordedImage
from kin_nb.core.tools.base import Preview, ToolDecision, ToolError, ToolPermission, tool_output
from kin_nb.core.tools.file_changes import changes_since, read_files
from kin_nb.core.tools.images import usable
from kin_nb.core.tools.limits import capped
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import FailedToolCall, ResolvedToolCall, resolve, resolve_args
from kin_nb.core.types import AgentStats, ToolCall


class ToolExecutor:
    def __init__(
        self,
        manager: ToolManager,
        context: Callable[[], SafetyContext],
        stats: AgentStats,
        history: History,
        recorder: TurnRecorder,
        ask: Ask,
    ) -> None:
        self._manager, self._context, self._stats = manager, context, stats
        self._history, self._recorder, self._ask = history, recorder, ask
        self._failed_edits: list[str] = []
        self.refused_without_note: str | None = None
        """Name of the tool that a person refused without a word to the agent: the turn stops there."""

    async def run(self, calls: list[ToolCall], reply: BaseEvent) -> AsyncGenerator[BaseEvent, None]:
        """`reply` announces the calls, which are in the history already: whoever stops here leaves them answered too."""
        answered: set[str] = set()
        try:
            yield reply
            resolved = [resolve(call, self._manager, self._context().workspace) for call in calls]
            for call in resolved:
                if isinstance(call, ResolvedToolCall):
                    yield ToolCallEvent(
                        tool_name=call.tool_name, tool_class=type(call.tool), args=call.args, tool_call_id=call.call_id
                    )
            for call in resolved:
                async with aclosing(self._one(call, answered)) as events:
                    async for event in events:
                        yield event
        finally:
            self._interrupt(calls, answered)

    async def _one(
        self, call: ResolvedToolCall | FailedToolCall, answered: set[str]
    ) -> AsyncGenerator[BaseEvent, None]:
        if isinstance(call, FailedToolCall):
            yield self._answer(call, answered, status="error", output=call.error)
            return
        if self.refused_without_note:
            yield self._answer(call, answered, status="refused", output="not run: the person stopped the turn")
            return
        try:
            decision, preview = self._judged(call)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a custom tool's own code)
            yield self._answer(call, answered, status="error", output=_failure(call.tool_name, error))
            return
        answer: ApprovalDecision | None = None
        if decision.verdict is Verdict.ASK:
            request = self._request(call, decision, preview)
            yield ApprovalRequestEvent(request=request)
            answer = await self._ask(request)
            yield ApprovalDecisionEvent(tool_call_id=call.call_id, decision=answer)
        if answer is not None and answer.edited_args is not None:
            try:
                call = self._edited(call, answer.edited_args)
                again, preview = self._judged(call)
            except (Exception, SystemExit) as error:  # noqa: BLE001  (as above)
                yield self._answer(call, answered, status="error", output=_failure(call.tool_name, error))
                return
            if again.verdict is Verdict.DENY:  # a person may edit, not lift what is forbidden
                decision, answer = again, None
        decided = self._decided(call, self._record_decision(call, decision, answer, preview.summary))
        if not decided.execute:
            self._stats.tool_calls_rejected += 1
            yield self._answer(call, answered, status="refused", output=decided.reason or "")
            return
        self._stats.tool_calls_agreed += 1
        async with aclosing(self._execute(call, answered)) as events:
            async for event in events:
                yield event

    def _judged(self, call: ResolvedToolCall) -> tuple[Decision, Preview]:
        return decide(call.request, self._context_for(call)), _preview(call)

    def _context_for(self, call: ResolvedToolCall) -> SafetyContext:
        """The tool's own word is config: permission always/never, or its allowlist and denylist."""
        rule = call.tool.check_allowlist_denylist(call.args)
        if rule is None and call.tool.config.permission is not ToolPermission.ASK:
            rule = call.tool.config.permission
        reason = call.tool.why_denied(call.args) if rule is ToolPermission.NEVER else ""
        return replace(self._context(), rule=rule, rule_reason=reason)

    def _request(self, call: ResolvedToolCall, decision: Decision, preview: Preview) -> ApprovalRequest:
        return ApprovalRequest(
            tool_name=call.tool_name,
            args=call.args,
            tool_call_id=call.call_id,
            reason=decision.reason,
            preview=preview,
            scopes=_on_offer(call, decision),
        )

    def _edited(self, call: ResolvedToolCall, edited: dict[str, Any]) -> ResolvedToolCall:
        return resolve_args(call.tool_name, call.call_id, call.tool, edited, self._context().workspace)

    def _record_decision(
        self, call: ResolvedToolCall, decision: Decision, answer: ApprovalDecision | None, summary: str
    ) -> RecordedDecision:
        if answer is None:
            allowed = decision.verdict is Verdict.ALLOW
            recorded = RecordedDecision(
                verdict="allow" if allowed else "deny", by=decision.policy, reason=decision.reason
            )
        else:
            offered = _on_offer(call, decision)
            if answer.approved and answer.scope != "once" and offered and answer.edited_args is None:
                self._context().grants.add(offered[0])
            recorded = RecordedDecision(
                verdict="allow" if answer.approved else "deny",
                by=answer.by,
                reason=decision.reason,
                scope=answer.scope,
                note=answer.message,
            )
        edited = call.args.model_dump_json(exclude_none=True) if answer and answer.edited_args is not None else None
        self._recorder.run(call.call_id, decision=recorded, summary=summary, edited_arguments=edited)
        return recorded

    def _decided(self, call: ResolvedToolCall, recorded: RecordedDecision) -> ToolDecision:
        """What the model is told when the call does not run."""
        if recorded.verdict == "allow":
            return ToolDecision(execute=True)
        reason = "The person refused this call."
        if recorded.by == "headless":
            reason = recorded.note or recorded.reason
        elif recorded.by not in {"person", "callback", "recorded"}:
            reason = f"{call.tool_name} was refused: {recorded.reason}"
        elif recorded.note:
            reason = f"The person refused this call and says: {recorded.note}"
        elif recorded.by == "person":
            self.refused_without_note = call.tool_name
        return ToolDecision(execute=False, reason=reason)

    async def _execute(self, call: ResolvedToolCall, answered: set[str]) -> AsyncGenerator[BaseEvent, None]:
        before = read_files(call.request.write_paths)
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        context = contextvars.copy_context()
        context.run(tool_output.set, queue.put_nowait)
        started = time.monotonic()
        task = asyncio.get_running_loop().create_task(_run(call), context=context)
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (text := await queue.get()) is not None:
                yield ToolOutputEvent(tool_call_id=call.call_id, text=text)
        except BaseException:
            if task.done() and not task.cancelled():  # it had ended: the record says how, whoever stopped listening
                self._finished(call, task, answered, before, time.monotonic() - started)
            raise
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        seconds = time.monotonic() - started
        yield self._finished(call, task, answered, before, seconds)

    def _finished(
        self,
        call: ResolvedToolCall,
        task: asyncio.Task[BaseModel],
        answered: set[str],
        before: dict[Path, bytes | None],
        seconds: float,
    ) -> ToolResultEvent:
        files = changes_since(before, self._context().workspace.root)
        milliseconds = round(seconds * 1000)
        told = self._told(call, task)
        if isinstance(told, str):
            self._stats.tool_calls_failed += 1
            fields: dict[str, Any] = {"status": "error", "output": told}
        else:
            self._stats.tool_calls_succeeded += 1
            fields = {"status": "ok", **told}
        return self._answer(call, answered, milliseconds=milliseconds, files=files, seconds=seconds, **fields)

    def _told(self, call: ResolvedToolCall, task: asyncio.Task[BaseModel]) -> dict[str, Any] | str:
        """What a finished call has to tell: the answer's fields, or the text of its error."""
        try:
            result = task.result()
            exit_code = call.tool.exit_code(result)
            if not isinstance(result, BaseModel) or not isinstance(exit_code, int | None):
                raise ToolError(f"{call.tool_name} returned what is no result.")  # noqa: TRY301
            images, left_out = usable(call.tool.images(result))
            return {
                "result": result,
                "output": "\n".join([*self._not_done(call), call.tool.to_model(result), *left_out]),
                "exit": exit_code,
                "images": tuple(RecordedImage(**image.model_dump()) for image in images),
            }
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001  (a tool's own code)
            return _failure(call.tool_name, error)

    def _not_done(self, call: ResolvedToolCall) -> list[str]:
        """A command that follows a failed edit in the same reply: what it shows is the state without that edit."""
        if not (call.request.accesses.everything and self._failed_edits):
            return []
        return [f"[note: {', '.join(self._failed_edits)} before this did not succeed; nothing was changed by it]"]

    def _answer(
        self,
        call: ResolvedToolCall | FailedToolCall,
        answered: set[str],
        *,
        status: str,
        output: str,
        result: BaseModel | None = None,
        seconds: float | None = None,
        **fields: object,
    ) -> ToolResultEvent:
        """The one place where a call gets its answer: record, history, event."""
        # Redacted before it is cut: half a secret is not recognised.
        recorded = self._recorder.result(
            call.call_id, status=status, output=capped(self._recorder.redact(output)), **fields
        )
        output = capped(output)
        self._history.append(tool_message(call.call_id, call.tool_name, output, images_of(recorded.images)))
        answered.add(call.call_id)
        if status != "ok" and (isinstance(call, FailedToolCall) or call.request.write_paths):
            self._failed_edits.append(call.tool_name)
        if isinstance(call, FailedToolCall):
            self._stats.tool_calls_failed += 1
        refused = status == "refused"
        return ToolResultEvent(
            tool_name=call.tool_name,
            tool_class=type(call.tool) if isinstance(call, ResolvedToolCall) else None,
            result=result,
            error=output if status == "error" else None,
            skipped=refused,
            skip_reason=output if refused else None,
            duration=seconds,
            tool_call_id=call.call_id,
            call=recorded,
        )

    def _interrupt(self, calls: list[ToolCall], answered: set[str]) -> None:
        """Cancelled or closed early: the rest is answered too, so that the next request is valid."""
        if len(answered) == len(calls):
            return
        done: dict[str, RecordedCall] = {call.id: call for call in self._recorder.interrupt_open_calls()}
        for call in calls:
            if call.id and call.id not in answered:
                output = done[call.id].output if call.id in done else "interrupted"
                self._history.append(tool_message(call.id, call.function.name or "", output))


def _on_offer(call: ResolvedToolCall, decision: Decision) -> tuple[Grant, ...]:
    """No grant covers a sensitive path or one outside the workspace, so none is offered where one of those asks."""
    return scopes(call.request) if decision.policy == ASK else ()


def _preview(call: ResolvedToolCall) -> Preview:
    """Raises ToolError for a tool that makes none, and whatever its own code raises."""
    preview: object = call.tool.preview(call.args)
    if not isinstance(preview, Preview) or not (isinstance(preview.summary, str) and isinstance(preview.body, str)):
        raise ToolError(f"{call.tool_name} cannot be shown before it runs: its preview is none.")
    return preview


async def _run(call: ResolvedToolCall) -> BaseModel:
    """The call. A tool that leaves the program (sys.exit) only leaves itself."""
    try:
        result: BaseModel = await call.tool.run(call.args)
    except (SystemExit, KeyboardInterrupt) as error:
        raise ToolError(f"{call.tool_name} ended with {type(error).__name__}.") from error
    return result


def _failure(name: str, error: BaseException) -> str:
    return str(error) if isinstance(error, ToolError) else f"{name} failed: {type(error).__name__}: {error}"
