"""ToolExecutor: the calls of one reply, decided, run and answered; side by side where they do not conflict.

Contract: when `run` ends, however it ends, every call of the reply has exactly one answer in the history, in call order,
and in the record. An intended call is in the log before it runs; its result is there as soon as it has ended.
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
from kin_nb.core.tools.resolve import FailedToolCall, ResolvedToolCall, what_failed
from kin_nb.core.tools.scheduler import AnyCall, Slot, slots, wait_for_conflicts
from kin_nb.core.tools.truncation import Fitted, PrintedTails, Whole, fits, fitted, usable_pictures, whole_output
from kin_nb.core.tools.watched_files import Changed, WatchedFiles
from kin_nb.core.usage_stats import AgentStats
from kin_nb.core.workspace import decided_paths

if TYPE_CHECKING:
    from kin_nb.core.file_history import Before
    from kin_nb.core.session.journal import SessionStorage
    from kin_nb.core.tools.manager import ToolManager
    from kin_nb.core.workspace import Workspace


T = TypeVar("T")


class ToolExecutor:
    """Made for one reply of a turn.

    `stats` counts the calls; `append` puts an answer into the conversation; `contexts` makes the CallContext of a call from its
    id, its `emit`, `ask` and `record`.
    """

    def __init__(
        self,
        tools: ToolManager,
        workspace: Workspace,
        files: WatchedFiles,
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
    def refused_without_note(self) -> str | None:
        """Name of the tool that a person refused without a word to the agent: the turn stops there."""
        return self._gate.refused_without_note

    async def run(self, calls: list[ToolCall], reply: BaseEvent) -> AsyncGenerator[BaseEvent, None]:
        """`reply` announces the calls, which are in the history already: whoever stops here leaves them answered too."""
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
        """Answer calls that are in the history and the record, and that will not run."""
        self._unanswered = list(calls)
        self._answer_the_rest()

    async def _when_due(
        self, call: AnyCall, slot: Slot, calls: list[AnyCall], earlier: list[asyncio.Task[None]]
    ) -> None:
        awaited = {earlier[i] for i in (*slot.after, *(() if slot.same_as is None else (slot.same_as,)))}
        if awaited:
            await asyncio.wait(awaited)
        if slot.same_as is not None and isinstance(call, ResolvedToolCall):
            await self._tell(self._repeated(call, self._results[calls[slot.same_as].call_id]))
        elif isinstance(call, FailedToolCall):
            await self._tell(self._answer(call, status="error", output=call.error))
        else:
            await self._tell(await self._one(call, dict(zip(earlier, calls, strict=False)) if awaited else {}))

    async def _one(self, call: ResolvedToolCall, before: Mapping[asyncio.Task[None], AnyCall]) -> ToolResultEvent:
        stats = self._stats
        try:
            call = await wait_for_conflicts(call, before, self._workspace)
            call, decided, snapshot = await self._admitted(call)
        except BaseException as error:
            if must_propagate(error) or self._events.is_closed:
                raise
            return self._answer(call, status="error", output=what_failed(call.tool_name, error))
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
        """The call as it may run, whether it may, and the files before it.

        Where no snapshot of them could be kept, that is a reason to ask: the call is decided once more, knowing it.
        """
        files, storage = self._files, self._storage
        if storage.unkept:  # until the last call: there may be room again
            await files.before(call.request)
        known = storage.without_undo
        call, decided = await self._gate.authorize(call, self._tell)
        if not decided.execute:
            return call, decided, None
        before = await files.before(call.request)
        if storage.without_undo and not known and call.request.may_lose_content:
            call, decided = await self._gate.authorize(call, self._tell)
            before = await files.before(call.request) if decided.execute else None
        return call, decided, before

    async def _execute(self, call: ResolvedToolCall, before: Before | None) -> ToolResultEvent:
        started = time.monotonic()
        task = asyncio.create_task(self._run(call))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            ended, seconds = task.done(), time.monotonic() - started
            with suppress(asyncio.CancelledError):  # cancelled once more; this one is raised below
                await cancel_and_wait([task])
            if ended and not task.cancelled():  # the record says how it ended, whoever stopped listening
                self._finished(call, *await finish_shielded(self._outcome(call, task, before)), seconds)
            else:
                await finish_shielded(self._interrupted(call, before))
            raise
        seconds = time.monotonic() - started
        outcome = asyncio.ensure_future(self._outcome(call, task, before))
        try:
            told, changed = await asyncio.shield(outcome)
        except asyncio.CancelledError:
            self._finished(call, *await finish_shielded(outcome), seconds)
            raise
        return self._finished(call, told, changed, seconds)

    async def _run(self, call: ResolvedToolCall) -> BaseModel:
        """The call, in its own task. A tool that leaves the program (sys.exit) only leaves itself."""
        tell = self._events.put

        def emitted(text: str) -> None:
            self._printed.add(call.call_id, text)
            tell(ToolOutputEvent(tool_call_id=call.call_id, text=text))

        decided_paths.set(call.request.resolved)
        tool_output.set(emitted)
        whole_output.set(partial(self._wholes.__setitem__, call.call_id))
        record = partial(self._record_subagent, call.call_id)
        call_context.set(self._contexts(call_id=call.call_id, emit=tell, ask=self._gate.ask_within, record=record))
        try:
            result: BaseModel = await call.run()
        except (SystemExit, KeyboardInterrupt) as error:
            raise ToolError(f"{call.tool_name} ended with {type(error).__name__}.") from error
        return result

    def _record_subagent(self, call_id: str, subagent: RecordedSubagent) -> None:
        self._recorder.run(call_id, subagent=subagent)

    async def _outcome(
        self, call: ResolvedToolCall, task: asyncio.Task[BaseModel], before: Before | None
    ) -> tuple[dict[str, Any], Changed]:
        """What a call that has ended tells, made to fit, with all of it kept; and what it changed."""
        self._printed.take(call.call_id)
        changed = await self._files.since(before)
        fields = self._told(call, task)
        note = self._without_undo(before)
        text = "\n".join(filter(None, (call.edited, note, fields["output"])))
        whole = self._wholes.pop(call.call_id, None)
        fit = partial(fitted, call.call_id, text, whole, self._recorder)
        output = fit() if fits(text, whole) else await asyncio.to_thread(fit)
        return {**fields, "output": output, "no_undo": note}, changed

    async def _interrupted(self, call: ResolvedToolCall, before: Before | None) -> None:
        """What it was seen to print until then is all there is of its result; and what it changed."""
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
        self, call: ResolvedToolCall, told: dict[str, Any], changed: Changed, seconds: float
    ) -> ToolResultEvent:
        if told["status"] == "error":
            self._stats.tool_calls_failed += 1
        else:
            self._stats.tool_calls_succeeded += 1
        result = told.get("result")
        uncovered = _uncovered(call, changed, result) if result is not None else changed[1]
        bound = _bound(call, result) if result is not None else ()
        ended = {"milliseconds": round(seconds * 1000), "files": changed[0]}
        told |= {**ended, "uncovered": uncovered, "bound": bound}
        return self._answer(call, seconds=seconds, **told)

    def _told(self, call: ResolvedToolCall, task: asyncio.Task[BaseModel]) -> dict[str, Any]:
        """What a finished call has to tell: the answer's fields."""
        try:
            result = task.result()
            exit_code = call.tool.exit_code(result)
            if not isinstance(result, BaseModel) or not isinstance(exit_code, int | None):
                raise ToolError(f"{call.tool_name} returned what is no result.")  # noqa: TRY301
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
            return {"status": "error", "output": what_failed(call.tool_name, error)}

    def _not_done(self, call: ResolvedToolCall) -> list[str]:
        """A command that follows a failed edit in the same reply: what it shows is the state without that edit."""
        failed = [name for n, name in sorted(self._failed_edits.items()) if n < self._order[call.call_id]]
        if not failed or not hasattr(call.args, "command"):
            return []
        return [f"[note: {', '.join(failed)} before this did not succeed; nothing was changed by it]"]

    def _repeated(self, call: ResolvedToolCall, first: RecordedCall) -> ToolResultEvent:
        """Asked for twice in one reply, run once. The files that it changed are in the first one's record."""
        why = RecordedDecision(verdict="allow", by=IDENTICAL, reason=f"the same call as {first.id}: run once")
        if first.decision is not None and first.decision.verdict == "deny":
            why = first.decision
        decided = self._recorder.run(
            call.call_id, decision=why, summary=first.summary, edited_arguments=first.edited_arguments
        )
        if first.decision is not None:
            self._gate.audit(call, decided, same_as=first.id)
        fields: dict[str, Any] = {"exit": first.exit, "images": first.images, "bound": first.bound}
        told = self._answers[first.id].content or ""  # as the model had it: the record's has no paths
        output = Fitted(told, first.output, hint=first.hint)
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
        """The one place where a call gets its answer: record, history, event."""
        if isinstance(output, str):
            output = fitted(call.call_id, output, None, self._recorder)
        output, kept, whole, hint = output
        storage = self._storage
        failure = storage.log_failure
        recorded = self._recorder.result(call.call_id, status=status, output=kept, whole=whole, hint=hint, **fields)
        if storage.log_failure != failure and fields.get(
            "files"
        ):  # the record of what it changed was the first that was lost
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
        """What has its turn in call order enters the history; what has ended before its turn waits."""
        while self._unanswered and (answer := self._answers.get(self._unanswered[0].id or "")) is not None:
            del self._unanswered[0]
            self._append(answer)

    def _answer_the_rest(self) -> None:
        """Those that nobody waited for are "interrupted": the next request is valid."""
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
        """The note for the model and the user; "" for a call that changes nothing here, or that undo covers."""
        return self._storage.note(before.unkept) if before is not None else ""

    async def _tell(self, event: BaseEvent) -> None:
        await self._events.told(event)


def _uncovered(call: ResolvedToolCall, changed: Changed, result: BaseModel | None = None) -> str:
    """What undo does not bring back: of the files, and what the tool says of itself."""
    try:
        own = call.tool.uncovered(result)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a tool's own code)
        own = "it could not say what else it changed"
    return "; ".join(part for part in (changed[1], own) if part and isinstance(part, str))


def _bound(call: ResolvedToolCall, result: BaseModel) -> tuple[str, ...]:
    """The variables that it changed; none where the tool cannot say."""
    try:
        return tuple(name for name in call.tool.bound(result) if isinstance(name, str))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  (a tool's own code)
        return ()


def _edits(call: ResolvedToolCall) -> bool:
    return bool(call.request.write_paths) and not call.request.accesses.everything


class EventQueue:
    """The events of several running calls as one stream, in the order in which they were put in. Belongs to one event loop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[BaseEvent, asyncio.Future[None] | None] | None] = asyncio.Queue()
        self.is_closed = False

    def close(self) -> None:
        """Nobody reads any more: what is told from now on is not waited for."""
        self.is_closed = True

    def put(self, event: BaseEvent) -> None:
        """For what need not be seen before the caller goes on: live output."""
        self._queue.put_nowait((event, None))

    async def told(self, event: BaseEvent) -> None:
        """Returns when the reader has dealt with `event` and wants the next. Raises CancelledError when nobody reads any more."""
        if self.is_closed:
            raise asyncio.CancelledError
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((event, taken))
        await taken

    async def until_done(self, tasks: Sequence[asyncio.Task[None]]) -> AsyncGenerator[BaseEvent, None]:
        """What is put in until all `tasks` have ended. Raises what the first of them raised, after the last has ended."""
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
