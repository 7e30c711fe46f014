"""One turn: the loop of steps (a request, its reply, its tools) until the model asks for no more. Read this first.

Contract: every tool call in the history gets a result, however `run` ends. Middleware is called before and after each
step; the text that it injects becomes a note of the last message, which later requests have too.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import get_args

from kin_nb.core.config import ConfigError
from kin_nb.core.context.compaction import CompactionError
from kin_nb.core.context.history import user_message
from kin_nb.core.dmail import BackToTheFuture, DenwaRenji
from kin_nb.core.event_stream import Emit
from kin_nb.core.events import (
    AssistantEvent,
    BaseEvent,
    CheckpointEvent,
    DMailEvent,
    ErrorEvent,
    StepReplyEvent,
    StepStartEvent,
    TurnEndEvent,
    TurnStartEvent,
    WarningEvent,
)
from kin_nb.core.llm.errors import BackendError, ContextTooLongError, IncompleteReplyError
from kin_nb.core.messages import ImageContent, Role
from kin_nb.core.middleware import SHORTEST, ConversationContext, MiddlewareAction, MiddlewareError, MiddlewareResult
from kin_nb.core.model_response import ModelResponse
from kin_nb.core.records import (
    BEFORE_PROMPT,
    END,
    Outcome,
    RecordedDMail,
    RecordedImage,
    RecordedStep,
    StopReason,
    TurnRecord,
)
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.skills.models import SkillError
from kin_nb.core.stopping import CUT_OFF, Stop, crashed, refused, too_many_steps
from kin_nb.core.turn_context import TurnContext
from kin_nb.core.usage import cost_of, count_reply


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt. `sent`: the text that the model gets in place of `text`, if any; `attached` names attachments for the card.

    `key`, `cell_id`: the cell of the prompt, for the record.
    """

    text: str
    images: tuple[ImageContent, ...] = ()
    key: str = ""
    cell_id: str | None = None
    attached: tuple[str, ...] = ()
    sent: str = ""


class Turn:
    """The next turn of a conversation. The constructor gives it a number and a record; `run` does everything else."""

    def __init__(self, context: TurnContext, prompt: Prompt, begin: Callable[[TurnRecord], TurnRecorder]) -> None:
        """`begin` numbers the turn and creates its record. Raises what `begin` raises."""
        self._context, self._prompt = context, prompt
        self._conversation, self._history = context.conversation, context.conversation.history
        self._sent = prompt.sent or prompt.text
        self._wrong: SkillError | None = None
        try:
            self._sent = context.toolset.expand(self._sent)
        except SkillError as error:
            self._wrong = error
        self._recorder = begin(self._record_of_prompt())
        config = context.settings.config
        self._mailbox = DenwaRenji(config.max_dmails_per_turn) if config.dmail else None
        self._checkpoint = self._conversation.mark(self._recorder.record.id, BEFORE_PROMPT)
        self._position = len(self._conversation.transcript.turns) - 1
        self._stopped: Stop | None = None
        self._dmail: RecordedDMail | None = None
        """The rewind that the next step begins with."""
        self._is_new = True
        """Whether no request was made since the turn began, or since the conversation was compacted in it."""
        self._reminders: list[str] = []
        """The notes of middleware before this step."""

    async def run(self, emit: Emit) -> None:
        """Run the whole turn. Its record is closed when this ends, however it ends."""
        self._emit = emit
        context, recorder = self._context, self._recorder
        started = time.monotonic()
        outcome: Outcome = "interrupted"
        why = Stop()
        try:
            self._history.append(user_message(self._sent, self._prompt.images))  # it is recorded: a resume has it too
            await emit(TurnStartEvent(turn=recorder.record.turn, prompt=self._prompt.text))
            await emit(CheckpointEvent(checkpoint_id=self._checkpoint.id, kind="turn"))
            for warning in self._recorded(await context.ready_for_turn()):
                await emit(warning)
            self._check_prompt()
            await self._run_steps()
            outcome, why = ("done", why) if self._stopped is None else ("stopped", self._stopped)
        except (BackendError, ConfigError, CompactionError, MiddlewareError, SkillError) as error:
            outcome, why = "error", Stop(str(error))
            status = getattr(error, "status", None)
            await emit(ErrorEvent(message=why.message, kind=type(error).__name__, status=status))
        except Exception as error:
            outcome, why = "error", crashed(error)
            raise
        finally:
            late = self._recorded(context.new_warnings(()))
            self._end(outcome, why, started)
            late += self._recorded(context.new_warnings(()))  # the end itself may be what cannot be written
            self._publish()
        for warning in late:
            await emit(warning)
        await emit(TurnEndEvent(record=recorder.record))

    def _check_prompt(self) -> None:
        if self._wrong is not None:
            raise self._wrong

    async def _run_steps(self) -> None:
        """Return after a reply without tools, or once the turn was stopped."""
        conversation, stats = self._conversation, self._conversation.usage.stats
        most = self._context.settings.config.max_steps_per_turn
        for number in itertools.count(1):
            if number > most:
                await self._stop(too_many_steps(most))
                return
            checkpoint = conversation.mark(self._recorder.record.id, number)
            stats.steps += 1
            await self._tell(CheckpointEvent(checkpoint_id=checkpoint.id, kind="step"))
            await self._before_step()
            if self._stopped is not None:
                stats.steps -= 1
                return
            if number > 1:
                await self._warn(self._context.new_warnings(await self._context.toolset.refresh()))
            await self._tell(StepStartEvent(step=number))
            try:
                await self._step()
            except BackToTheFuture as mail:
                await self._rewind(mail)
            over = self._stopped is not None or (
                self._dmail is None and self._history.messages[-1].role is not Role.tool
            )
            await self._after_step(over=over)
            if over or self._stopped is not None:
                return

    async def _before_step(self) -> None:
        """Prune old results, and let middleware stop the turn, compact the conversation (once), or add to the request."""
        compacted = False
        self._reminders.clear()
        if (pruned := self._context.compactor.prune()) is not None:
            await self._tell(pruned)
        while True:
            result = await self._context.middleware.run_before_turn(self._looked_at())
            match result.action:
                case MiddlewareAction.COMPACT if compacted:
                    tokens = self._conversation.usage.stats.context_tokens
                    raise CompactionError(_STILL_TOO_LONG.format(tokens=tokens))
                case MiddlewareAction.COMPACT:
                    await self._compact(result.metadata.get("threshold", 0))
                    compacted = True
                    continue
                case MiddlewareAction.STOP:
                    await self._stop(_stop_of(result))
                case MiddlewareAction.INJECT_MESSAGE:
                    self._reminders.append(result.message or "")
            return

    async def _after_step(self, *, over: bool) -> None:
        """Let middleware stop or compact, or add to the next request: of the next turn if this one is over."""
        result = await self._context.middleware.run_after_turn(self._looked_at())
        if result.action is MiddlewareAction.INJECT_MESSAGE:
            self._conversation.notes.append(result.message or "")
        elif result.action is MiddlewareAction.STOP and not over:
            await self._stop(_stop_of(result))
        elif result.action is MiddlewareAction.COMPACT:
            await self._compact(result.metadata.get("threshold", 0))

    async def _step(self) -> None:
        """Make a request, and run the tools that its reply asks for. A conversation that no longer fits is compacted, once."""
        try:
            await self._request()
        except ContextTooLongError:
            if len(self._history.messages) <= SHORTEST:
                raise
            await self._compact(self._context.settings.config.get_active_model().context_window)
            await self._request()

    async def _request(self, again: str = "") -> None:
        """Make one request. After an empty reply, ask once more, with the text `again`."""
        self._history.repair()
        reply = ModelResponse(self._history.fingerprint(), self._history.call_ids)
        notes = [*self._conversation.notes, *self._reminders, self._checkpoints_to_show(), again]
        injected = "\n\n".join(filter(None, notes))
        await self._receive(reply, injected)
        if self._stopped is not None:
            return
        if reply.says_nothing and again:
            raise IncompleteReplyError(
                "The model's reply was empty, twice.", "Run the prompt again, or say it otherwise."
            )
        if reply.answers_nothing and not again:
            await self._request(_SAY_SOMETHING)
        else:
            await self._run_calls(reply, injected)

    async def _receive(self, reply: ModelResponse, injected: str) -> None:
        """Emit the reply while it streams. Of a broken or endless reply, only the text is kept."""
        self._is_new = False
        chunks = self._context.chunks(self._history.with_note(injected))
        try:
            async with aclosing(reply.stream(chunks)) as events:
                async for event in events:
                    await self._tell_warned(event)
                    if loop := self._context.loop_guard.repeating_text(event):
                        await self._tell(loop)
                        await self._stop(Stop(loop.message, "loop"))
                        break
        except BaseException:
            if reply.cut():
                self._keep(reply, injected)
            raise
        if self._stopped is not None and reply.cut():
            self._keep(reply, injected)

    async def _run_calls(self, reply: ModelResponse, injected: str) -> None:
        """Keep the reply, and run its tools. May raise BackToTheFuture when they have ended."""
        executor = self._context.executor(self._recorder, self._mailbox)
        try:
            step = self._keep(reply, injected)
        except BaseException:
            executor.interrupt(reply.calls)
            raise
        complete = StepReplyEvent(step=step, finish_reason=reply.finish_reason)
        async with aclosing(executor.run(reply.calls, complete)) as events:
            async for event in events:
                await self._tell(event)
        if reply.is_cut_off:
            await self._stop(CUT_OFF)
        if executor.stopped_by_refusal:
            await self._stop(refused(executor.stopped_by_refusal))
        if self._stopped is None and reply.calls:
            loop = await self._context.loop_guard.after_step(self._recorder.record.steps[-1], self._tell)
            if loop is not None:
                await self._stop(Stop(loop.message, "loop"))
        if self._mailbox is not None and self._stopped is None:
            self._mailbox.deliver()

    async def _rewind(self, mail: BackToTheFuture) -> None:
        self._dmail = RecordedDMail(step=mail.checkpoint.place.step, message=mail.message)
        self._conversation.rewind(mail.checkpoint, mail.message)
        self._recorder.dmail(self._dmail)
        await self._tell(DMailEvent(checkpoint_id=mail.checkpoint.id, message=mail.message))

    def _checkpoints_to_show(self) -> str:
        """Return the text for the model about its checkpoints; "" if D-Mails are off."""
        if self._mailbox is None:
            return ""
        self._mailbox.offer(self._conversation.checkpoints.of_steps(self._recorder.record.id))
        return self._mailbox.shown()

    async def _compact(self, threshold: int) -> None:
        await self._context.compactor.compact_in_turn(threshold, self._recorder, self._tell_warned)
        self._is_new = True

    def _looked_at(self) -> ConversationContext:
        return self._conversation.context(self._context.settings.config, is_new=self._is_new)

    # What is reported and recorded.

    async def _tell(self, event: BaseEvent) -> None:
        """Emit `event`, after the warnings that came before it."""
        for warning in self._recorded(self._context.new_warnings(())):
            await self._emit(warning)
        self._publish()
        await self._emit(event)

    async def _tell_warned(self, event: BaseEvent) -> None:
        """Emit `event`; a warning is also recorded."""
        if isinstance(event, WarningEvent):
            self._recorder.warn(event.message)
        await self._tell(event)

    async def _warn(self, warnings: list[str]) -> None:
        for warning in self._recorded(warnings):
            await self._tell(warning)

    def _recorded(self, warnings: list[str]) -> list[WarningEvent]:
        for warning in warnings:
            self._recorder.warn(warning)
        return [WarningEvent(message=warning) for warning in warnings]

    async def _stop(self, why: Stop) -> None:
        self._stopped = why
        await self._tell(AssistantEvent(content=why.message, stopped_by_middleware=True))

    def _publish(self) -> None:
        """Update the turn's record in the transcript."""
        self._conversation.transcript.turns[self._position] = self._recorder.record

    def _keep(self, reply: ModelResponse, injected: str) -> RecordedStep:
        """Put the reply into the history and the record: both, even if an observer of the first is interrupted."""
        reminder = self._conversation.take_notes()
        self._history.add_note(injected)
        try:
            self._history.append(reply.message)
        finally:
            step = self._record(reply, injected, reminder)
        return step

    def _record(self, reply: ModelResponse, injected: str, reminder: str) -> RecordedStep:
        pruned = self._history.take_pruned()
        more = {"injected": injected, "reminder": reminder, "pruned": pruned, "dmail": self._dmail}
        self._dmail = None
        step = self._recorder.reply(reply.step.model_copy(update=more))
        count_reply(self._conversation.usage.stats, step)
        if step.prompt_tokens:
            self._history.measured()
        return step

    def _record_of_prompt(self) -> TurnRecord:
        prompt = self._prompt
        return TurnRecord(
            turn=0,
            prompt=prompt.text,
            sent=self._sent if self._sent != prompt.text else "",
            key=prompt.key,
            cell_id=prompt.cell_id,
            images=tuple(RecordedImage(**image.model_dump()) for image in prompt.images),
            attached=prompt.attached,
        )

    def _end(self, outcome: Outcome, why: Stop, started: float) -> None:
        """Close the record. `started`: of time.monotonic()."""
        recorder, conversation = self._recorder, self._conversation
        files = [change for call in recorder.record.calls for change in call.files]
        for note in self._context.turn_hooks.end(files, self._context.journal.redact):
            recorder.warn(note)
        # each step has had a checkpoint
        begun = conversation.mark(recorder.record.id, END).id - self._checkpoint.id - 1
        elapsed = time.monotonic() - started
        cost = cost_of(conversation.usage.stats, recorder.record)
        recorder.end(outcome, why, cost=cost, milliseconds=round(elapsed * 1000), begun=begun)


_SAY_SOMETHING = "your reply had no text and no tool call; answer the user, or continue with a tool call"
_STILL_TOO_LONG = (
    "The conversation was compacted and still takes {tokens:,} tokens, more than this model is given.\n"
    "Choose a model with a larger window (%kin model NAME, --model NAME), or raise context_window or auto_compact_threshold."
)


def _stop_of(result: MiddlewareResult) -> Stop:
    """Return the reason for the record, which has only known reasons: a program's middleware may return any."""
    reason = result.stop_reason if result.stop_reason in get_args(StopReason) else "middleware"
    return Stop(result.reason or "stopped by middleware", reason)
