"""ToolExecutor: decide, run and answer the calls of one reply, in parallel if they do not conflict.

Contract: when `run` ends, in any way, every call of the reply has exactly one answer in the history, in call order, and one in
the record. The log has a call before it runs, and its result as soon as it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from kin_nb.core.callback_errors import must_propagate
from kin_nb.core.context.history import images_of, tool_message
from kin_nb.core.events import BaseEvent, ToolCallEvent, ToolOutputEvent, ToolResultEvent
from kin_nb.core.messages import LLMMessage, ToolCall
from kin_nb.core.records import IDENTICAL, RecordedCall, RecordedDecision, RecordedImage, RecordedSubagent
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.session.state import INTERRUPTED
from kin_nb.core.tool_types import ToolDecision, ToolError
from kin_nb.core.tools.approval_gate import NOT_RUN, ApprovalGate
from kin_nb.core.tools.base import tool_output
from kin_nb.core.tools.call_context import CallContext, call_context
from kin_nb.core.tools.cancellation import cancel_and_wait, finish_shielded
from kin_nb.core.tools.file_tracker import Changed, FileTracker
from kin_nb.core.tools.resolve import FailedToolCall, ResolvedToolCall, failure_message
from kin_nb.core.tools.scheduler import AnyCall, Slot, slots, wait_for_conflicts
from kin_nb.core.tools.truncation import Fitted, PrintedTails, Whole, fits, fitted, usable_pictures, whole_output
from kin_nb.core.usage_stats import AgentStats
from kin_nb.core.workspace import decided_paths

if TYPE_CHECKING:
    from kin_nb.core.file_history import Before
    from kin_nb.core.session.journal import SessionStorage
    from kin_nb.core.tools.manager import ToolManager
    from kin_nb.core.workspace import Workspace


T = TypeVar("T")


class ToolExecutor:
    """Runs the calls of one reply.

    `stats` counts the calls; `append` adds an answer to the conversation; `contexts` creates a call's CallContext from its id,
    `emit`, `ask` and `record`.
    """

    def __init__(
        self,
        tools: ToolManager,
        workspace: Workspace,
        files: FileTracker,
        recorder: TurnRecorder,
        gate: ApprovalGate,
        *,
        storage: SessionStorage,
        stats: AgentStats,
        append: Callable[[LLMMessage], None],
        resolve: Callable[[list[ToolCall]], list[AnyCall]],
        contexts: Callable[..., CallContext],
    ) -> None:
        self._tools, self._workspace, self._files = tools, workspace, files
        self._recorder, self._gate, self._storage = recorder, gate, storage
        self._stats, self._append, self._resolve, self._contexts = stats, append, resolve, contexts
        self._events = EventQueue()
        self._unanswered: list[ToolCall] = []
        self._answers: dict[str, LLMMessage] = {}
        self._results: dict[str, RecordedCall] = {}
        self._wholes: dict[str, Whole] = {}
        self._printed = PrintedTails()
        self._order: dict[str, int] = {}
        self._failed_edits: dict[int, str] = {}

    @property
    def stopped_by_refusal(self) -> str | None:
        """The name of the tool that the user refused without a note. The turn stops there."""
        return self._gate.stopped_by_refusal

    async def run(self, calls: list[ToolCall], reply: BaseEvent) -> AsyncGenerator[BaseEvent, None]:
        """Run the calls and yield their events, after `reply`, the event that announces them.

        The calls must be in the history. Closing this generator early leaves them answered too.
        """
        tasks: list[asyncio.Task[None]] = []
        self._unanswered = list(calls)
        try:
            yield reply
            resolved = self._resolve(calls)
            self._order = {call.call_id: n for n, call in enumerate(resolved)}
            for call in resolved:
                if isinstance(call, ResolvedToolCall):
                    yield ToolCallEvent(
                        tool_name=call.tool_name, tool_class=type(call.tool), args=call.args, tool_call_id=call.call_id
                    )
            for call, slot in zip(resolved, slots(resolved), strict=True):
                tasks.append(asyncio.create_task(self._when_due(call, slot, resolved, tasks[:])))
            async with aclosing(self._events.until_done(tasks)) as events:
                async for event in events:
                    yield event
        finally:
            self._events.close()
            try:
                await cancel_and_wait(tasks)
            finally:
                self._answer_the_rest()

    def interrupt(self, calls: list[ToolCall]) -> None:
        """Answer calls that are in the history and the record but will not run."""
        self._unanswered = list(calls)
        self._answer_the_rest()

    async def _when_due(
        self, call: AnyCall, slot: Slot, calls: list[AnyCall], earlier: list[asyncio.Task[None]]
    ) -> None:
        awaited = {earlier[i] for i in (*slot.after, *(() if slot.same_as is None else (slot.same_as,)))}
        if awaited:
            await asyncio.wait(awaited)
        if slot.same_as is not None and isinstance(call, ResolvedToolCall):
            await self._emit(self._repeated(call, self._results[calls[slot.same_as].call_id]))
        elif isinstance(call, FailedToolCall):
            await self._emit(self._answer(call, status="error", output=call.error))
        else:
            await self._emit(await self._one(call, dict(zip(earlier, calls, strict=False)) if awaited else {}))

    async def _one(self, call: ResolvedToolCall, before: Mapping[asyncio.Task[None], AnyCall]) -> ToolResultEvent:
        stats = self._stats
        self._set_context(call)  # the preview needs it too
        try:
            call = await wait_for_conflicts(call, before, self._workspace)
            call, decided, snapshot = await self._admitted(call)
        except BaseException as error:
            if must_propagate(error) or self._events.is_closed:
                raise
            return self._answer(call, status="error", output=failure_message(call.tool_name, error))
        if decided is NOT_RUN:
            return self._answer(call, status="refused", output=decided.reason or "")
        if not decided.execute:
            stats.tool_calls_rejected += 1
            return self._answer(call, status="refused", output=decided.reason or "")
        stats.tool_calls_agreed += 1
        try:
            return await self._execute(call, snapshot)
        finally:
            self._files.answered(call.call_id)

    async def _admitted(self, call: ResolvedToolCall) -> tuple[ResolvedToolCall, ToolDecision, Before | None]:
        """Decide the call and take a snapshot of the files before it.

        If no snapshot can be stored, undo is not possible. That is a reason to ask, so the call is decided once more.
        """
        files, storage = self._files, self._storage
        if storage.unkept:  # the last snapshot failed; there may be space again
            await files.before(call.request)
        known = storage.without_undo
        call, decided = await self._gate.authorize(call, self._emit)
        if not decided.execute:
            return call, decided, None
        before = await files.before(call.request)
        if storage.without_undo and not known and call.request.may_lose_content:
            call, decided = await self._gate.authorize(call, self._emit)
            before = await files.before(call.request) if decided.execute else None
        return call, decided, before

    async def _execute(self, call: ResolvedToolCall, before: Before | None) -> ToolResultEvent:
        started = time.monotonic()
        task = asyncio.create_task(self._run(call))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            ended, seconds = task.done(), time.monotonic() - started
            with suppress(asyncio.CancelledError):  # a second cancellation; the first one is raised below
                await cancel_and_wait([task])
            if ended and not task.cancelled():  # the call ended before the cancellation: record its result
                self._finished(call, *await finish_shielded(self._outcome(call, task, before)), seconds)
            else:
                await finish_shielded(self._interrupted(call, before))
            raise
        seconds = time.monotonic() - started
        outcome = asyncio.ensure_future(self._outcome(call, task, before))
        try:
            fields, changed = await asyncio.shield(outcome)
        except asyncio.CancelledError:
            self._finished(call, *await finish_shielded(outcome), seconds)
            raise
        return self._finished(call, fields, changed, seconds)

    async def _run(self, call: ResolvedToolCall) -> BaseModel:
        """Run the call in its own task. A tool that calls sys.exit fails, and the program continues."""
        emit = self._events.put

        def emitted(text: str) -> None:
            self._printed.add(call.call_id, text)
            emit(ToolOutputEvent(tool_call_id=call.call_id, text=text))

        decided_paths.set(call.request.resolved)
        tool_output.set(emitted)
        whole_output.set(partial(self._wholes.__setitem__, call.call_id))
        try:
            result: BaseModel = await call.run()
        except (SystemExit, KeyboardInterrupt) as error:
            raise ToolError(f"{call.tool_name} failed: it raised {type(error).__name__}.") from error
        return result

    def _set_context(self, call: ResolvedToolCall) -> None:
        record = partial(self._record_subagent, call.call_id)
        emit, ask = self._events.put, self._gate.ask_within
        call_context.set(self._contexts(call_id=call.call_id, emit=emit, ask=ask, record=record))

    def _record_subagent(self, call_id: str, subagent: RecordedSubagent) -> None:
        self._recorder.run(call_id, subagent=subagent)

    async def _outcome(
        self, call: ResolvedToolCall, task: asyncio.Task[BaseModel], before: Before | None
    ) -> tuple[dict[str, Any], Changed]:
        """The answer's fields, with the text truncated and the full text stored; and the changed files."""
        self._printed.take(call.call_id)
        changed = await self._files.since(before)
        fields = self._result_fields(call, task)
        note = self._without_undo(before)
        text = "\n".join(filter(None, (call.edited, note, fields["output"])))
        whole = self._wholes.pop(call.call_id, None)
        fit = partial(fitted, call.call_id, text, whole, self._recorder)
        output = fit() if fits(text, whole) else await asyncio.to_thread(fit)
        return {**fields, "output": output, "no_undo": note}, changed

    async def _interrupted(self, call: ResolvedToolCall, before: Before | None) -> None:
        """Record an interrupted call: its result is the output so far. Also record the changed files."""
        changed = await self._files.since(before)
        printed = self._printed.take(call.call_id)
        fit = Fitted(INTERRUPTED, INTERRUPTED)
        note = self._without_undo(before)
        if printed or note:
            text = "\n".join(filter(None, (note, printed, f"[{INTERRUPTED}]")))
            fit = await asyncio.to_thread(fitted, call.call_id, text, None, self._recorder)
        more = {"hint": fit.hint, "no_undo": note, "files": changed[0], "uncovered": _uncovered(call, changed)}
        self._recorder.interrupt(call.call_id, fit.recorded, whole=fit.whole, **more)

    def _finished(
        self, call: ResolvedToolCall, fields: dict[str, Any], changed: Changed, seconds: float
    ) -> ToolResultEvent:
        if fields["status"] == "error":
            self._stats.tool_calls_failed += 1
        else:
            self._stats.tool_calls_succeeded += 1
        result = fields.get("result")
        uncovered = _uncovered(call, changed, result) if result is not None else changed[1]
        bound = _bound(call, result) if result is not None else ()
        ended = {"milliseconds": round(seconds * 1000), "files": changed[0]}
        fields |= {**ended, "uncovered": uncovered, "bound": bound}
        return self._answer(call, seconds=seconds, **fields)

    def _result_fields(self, call: ResolvedToolCall, task: asyncio.Task[BaseModel]) -> dict[str, Any]:
        """The answer's fields of a finished call."""
        try:
            result = task.result()
            exit_code = call.tool.exit_code(result)
            if not isinstance(result, BaseModel) or not isinstance(exit_code, int | None):
                raise ToolError(f"{call.tool_name} returned {type(result).__name__}, not a result.")  # noqa: TRY301
            images, left_out = usable_pictures(call.tool.images(result))
            return {
                "status": "ok",
                "result": result,
                "output": "\n".join([*self._not_done(call), call.tool.to_model(result), *left_out]),
                "exit": exit_code,
                "images": tuple(RecordedImage(**image.model_dump()) for image in images),
            }
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (a tool's own code, and nothing is awaited here)
            return {"status": "error", "output": failure_message(call.tool_name, error)}

    def _not_done(self, call: ResolvedToolCall) -> list[str]:
        """A note for a command that follows a failed edit in the same reply: its output shows the state without that edit."""
        failed = [name for n, name in sorted(self._failed_edits.items()) if n < self._order[call.call_id]]
        if not failed or not hasattr(call.args, "command"):
            return []
        return [f"[note: an earlier call in this reply failed and changed nothing: {', '.join(failed)}]"]

    def _repeated(self, call: ResolvedToolCall, first: RecordedCall) -> ToolResultEvent:
        """Answer a repeated call of one reply, which ran only once. The first call's record has the changed files."""
        why = RecordedDecision(verdict="allow", by=IDENTICAL, reason=f"the same call as {first.id}: run once")
        if first.decision is not None and first.decision.verdict == "deny":
            why = first.decision
        decided = self._recorder.run(
            call.call_id, decision=why, summary=first.summary, edited_arguments=first.edited_arguments
        )
        if first.decision is not None:
            self._gate.audit(call, decided, same_as=first.id)
        fields: dict[str, Any] = {"exit": first.exit, "images": first.images, "bound": first.bound}
        shown = self._answers[first.id].content or ""  # the model's text: in the record's, paths are redacted
        output = Fitted(shown, first.output, hint=first.hint)
        return self._answer(call, status=first.status, output=output, no_undo=first.no_undo, **fields)

    def _answer(
        self,
        call: AnyCall,
        *,
        status: str,
        output: str | Fitted,
        result: BaseModel | None = None,
        seconds: float | None = None,
        **fields: object,
    ) -> ToolResultEvent:
        """Answer a call in the record, in the history and as an event. Every answer is created here."""
        if isinstance(output, str):
            output = fitted(call.call_id, output, None, self._recorder)
        output, kept, whole, hint = output
        storage = self._storage
        failure = storage.log_failure
        recorded = self._recorder.result(call.call_id, status=status, output=kept, whole=whole, hint=hint, **fields)
        # the log failed with this record: undo cannot revert this call's changes, so its answer says so
        if storage.log_failure != failure and fields.get("files"):
            note = storage.note("")
            output = f"{note}\n{output}"
            recorded = self._recorder.result(call.call_id, output=f"{note}\n{kept}", no_undo=note)
        self._results[call.call_id] = recorded
        images = images_of(recorded.images)
        self._answers[call.call_id] = tool_message(call.call_id, call.tool_name, output, images, hint=hint)
        self._append_answers()
        if status != "ok" and (isinstance(call, FailedToolCall) or _edits(call)):
            self._failed_edits[self._order[call.call_id]] = call.tool_name
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

    def _append_answers(self) -> None:
        """Append finished answers to the history in call order; answers of later calls wait."""
        while self._unanswered and (answer := self._answers.get(self._unanswered[0].id or "")) is not None:
            del self._unanswered[0]
            self._append(answer)

    def _answer_the_rest(self) -> None:
        """Answer all other calls with "interrupted", so that the next model request is valid."""
        if not self._unanswered:
            return
        self._recorder.interrupt_open_calls()
        recorded = {call.id: call for call in self._recorder.record.steps[-1].calls}
        for call in self._unanswered:
            known = recorded.get(call.id or "")
            output, hint = (known.output, known.hint) if known is not None else ("interrupted", "")
            answer = tool_message(call.id or "", call.function.name or "", output, hint=hint)
            self._answers.setdefault(call.id or "", answer)
        try:
            self._append_answers()
        finally:
            self._answer_the_rest()  # an observer of messages may be interrupted at any of them

    def _without_undo(self, before: Before | None) -> str:
        """The note that undo cannot revert this call; "" if it can, or if the call changes no files."""
        return self._storage.note(before.unkept) if before is not None else ""

    async def _emit(self, event: BaseEvent) -> None:
        await self._events.put_and_wait(event)


def _uncovered(call: ResolvedToolCall, changed: Changed, result: BaseModel | None = None) -> str:
    """The changes that undo cannot revert: to files, and those that the tool reports."""
    try:
        own = call.tool.uncovered(result)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a tool's own code)
        own = "its other changes are not known"
    return "; ".join(part for part in (changed[1], own) if part and isinstance(part, str))


def _bound(call: ResolvedToolCall, result: BaseModel) -> tuple[str, ...]:
    """The variables that the call changed; none if the tool fails to report them."""
    try:
        return tuple(name for name in call.tool.bound(result) if isinstance(name, str))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a tool's own code)
        return ()


def _edits(call: ResolvedToolCall) -> bool:
    return bool(call.request.write_paths) and not call.request.accesses.everything


class EventQueue:
    """Merges the events of several running calls into one stream, in order of arrival. Belongs to one event loop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[BaseEvent, asyncio.Future[None] | None] | None] = asyncio.Queue()
        self.is_closed = False

    def close(self) -> None:
        """Stop: there is no reader any more, and `put_and_wait` raises CancelledError from now on."""
        self.is_closed = True

    def put(self, event: BaseEvent) -> None:
        """Add an event without waiting, such as live output."""
        self._queue.put_nowait((event, None))

    async def put_and_wait(self, event: BaseEvent) -> None:
        """Add an event and wait until the reader has processed it. Raises CancelledError if the queue is closed."""
        if self.is_closed:
            raise asyncio.CancelledError
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((event, taken))
        await taken

    async def until_done(self, tasks: Sequence[asyncio.Task[None]]) -> AsyncGenerator[BaseEvent, None]:
        """Yield the events until all `tasks` have ended, then raise the first error of a task."""
        for task in tasks:
            task.add_done_callback(lambda _: self._queue.put_nowait(None))
        running = len(tasks)
        while running:
            item = await self._queue.get()
            if item is None:
                running -= 1
                continue
            event, taken = item
            yield event
            if taken is not None and not taken.done():
                taken.set_result(None)
        for task in tasks:
            task.result()
