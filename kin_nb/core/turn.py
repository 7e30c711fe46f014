"""One turn: the loop of steps (a request, its reply, its tools) until the model asks for no more. Read this first.

Contract: every tool call that enters the history is answered, however `run` ends. Middleware has its word before and
after each step; what it injects belongs to one request and never to the history.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, get_args

from kin_nb.core.compacting import compacting, prune
from kin_nb.core.config import ConfigError
from kin_nb.core.context.compaction import CompactionError
from kin_nb.core.context.history import user_message
from kin_nb.core.dmail import BackToTheFuture
from kin_nb.core.ending import end_turn
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
from kin_nb.core.messages import ImageContent, LLMMessage, Role
from kin_nb.core.middleware import SHORTEST, MiddlewareAction, MiddlewareError, MiddlewareResult
from kin_nb.core.records import (
    BEFORE_PROMPT,
    Outcome,
    RecordedDMail,
    RecordedImage,
    RecordedStep,
    StopReason,
    TurnRecord,
)
from kin_nb.core.reply import Reply
from kin_nb.core.skills.models import SkillError
from kin_nb.core.stopping import CUT_OFF, Stop, crashed, refused, too_many_steps
from kin_nb.core.usage import count_reply

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

Events = AsyncGenerator[BaseEvent, None]


class Turn:
    """The agent's next turn. Made: it has a number and a record. Run: everything else."""

    def __init__(
        self,
        agent: Agent,
        prompt: str,
        *,
        images: tuple[ImageContent, ...],
        key: str,
        cell_id: str | None,
        attached: tuple[str, ...],
        sent: str,
    ) -> None:
        self._agent, self._images = agent, images
        self._wrong: SkillError | None = None
        self._prompt, self._sent = prompt, sent or prompt
        try:
            self._sent = agent.toolbox.expand(self._sent)
        except SkillError as error:
            self._wrong = error
        recorded = tuple(RecordedImage(**image.model_dump()) for image in images)
        turn = TurnRecord(
            turn=0,
            prompt=prompt,
            sent=self._sent if self._sent != prompt else "",
            key=key,
            cell_id=cell_id,
            images=recorded,
            attached=attached,
        )
        self._recorder = agent.begin_turn(turn)
        self._checkpoint = agent.conversation.mark(self._recorder.record.id, BEFORE_PROMPT)
        self._position = len(agent.turns) - 1
        self._stopped: Stop | None = None
        self._dmail: RecordedDMail | None = None
        """What the next step begins with."""
        self._reminders: list[str] = []
        """What middleware said before this step: for its request alone, sent or not."""

    async def run(self) -> Events:
        """The whole turn. Its record is closed when this ends, however it ends."""
        agent, recorder = self._agent, self._recorder
        started = time.monotonic()
        outcome: Outcome = "interrupted"
        why = Stop()
        try:
            agent.history.append(user_message(self._sent, self._images))  # it is recorded: a resume has it too
            yield TurnStartEvent(turn=recorder.record.turn, prompt=self._prompt)
            yield CheckpointEvent(checkpoint_id=self._checkpoint.id, kind="turn")
            for warning in self._recorded(await agent.ready_for_turn()):
                yield warning
            self._check_prompt()
            async with aclosing(self._steps()) as events:
                async for event in events:
                    for warning in self._recorded(agent.new_warnings()):
                        yield warning
                    agent.turns[self._position] = recorder.record
                    yield event
            outcome, why = ("done", why) if self._stopped is None else ("stopped", self._stopped)
        except (BackendError, ConfigError, CompactionError, MiddlewareError, SkillError) as error:
            outcome, why = "error", Stop(str(error))
            yield ErrorEvent(message=why.message, kind=type(error).__name__, status=getattr(error, "status", None))
        except Exception as error:
            outcome, why = "error", crashed(error)
            raise
        finally:
            late = self._recorded(agent.new_warnings())
            end_turn(agent, recorder, outcome, why, first=self._checkpoint.id, started=started)
            late += self._recorded(agent.new_warnings())  # the end itself may be what cannot be written
            agent.turns[self._position] = recorder.record
        for warning in late:
            yield warning
        yield TurnEndEvent(record=agent.turns[self._position])

    def _recorded(self, warnings: list[str]) -> list[WarningEvent]:
        return [self._warn(warning) for warning in warnings]

    def _check_prompt(self) -> None:
        if self._wrong is not None:
            raise self._wrong

    async def _steps(self) -> Events:
        """Ends after a reply without tools, or after an AssistantEvent that is `stopped_by_middleware`."""
        agent = self._agent
        for number in itertools.count(1):
            if number > agent.config.max_steps_per_turn:
                yield self._stop(too_many_steps(agent.config.max_steps_per_turn))
                return
            checkpoint = agent.conversation.mark(self._recorder.record.id, number)
            agent.stats.steps += 1
            yield CheckpointEvent(checkpoint_id=checkpoint.id, kind="step")
            async with aclosing(self._before_step()) as events:
                async for event in events:
                    yield event
            if self._stopped is not None:
                agent.stats.steps -= 1
                return
            for warning in await agent.ready_for_step() if number > 1 else ():
                yield self._warn(warning)
            yield StepStartEvent(step=number)
            try:
                async with aclosing(self._step()) as events:
                    async for event in events:
                        yield event
            except BackToTheFuture as mail:
                self._dmail = RecordedDMail(step=mail.checkpoint.place.step, message=mail.message)
                agent.conversation.rewind(mail.checkpoint, mail.message)
                self._recorder.went_back(self._dmail)
                yield DMailEvent(checkpoint_id=mail.checkpoint.id, message=mail.message)
            over = self._stopped is not None or (self._dmail is None and agent.messages[-1].role is not Role.tool)
            async with aclosing(self._after_step(over=over)) as events:
                async for event in events:
                    yield event
            if over or self._stopped is not None:
                return

    async def _before_step(self) -> Events:
        """Old results may be pruned; middleware may stop the turn, compact the conversation (once), or add to the request."""
        compacted = False
        self._reminders.clear()
        if (pruned := prune(self._agent)) is not None:
            yield pruned
        while True:
            result = await self._agent.middleware_pipeline.run_before_turn(self._agent.context())
            match result.action:
                case MiddlewareAction.COMPACT if compacted:
                    raise CompactionError(_STILL_TOO_LONG.format(tokens=self._agent.stats.context_tokens))
                case MiddlewareAction.COMPACT:
                    async with aclosing(self._compact(result.metadata.get("threshold", 0))) as events:
                        async for event in events:
                            yield event
                    compacted = True
                    continue
                case MiddlewareAction.STOP:
                    yield self._stop(_stop_of(result))
                case MiddlewareAction.INJECT_MESSAGE:
                    self._reminders.append(result.message or "")
            return

    async def _after_step(self, *, over: bool) -> Events:
        """What is injected here goes into the next request, of the next turn if this one is over."""
        result = await self._agent.middleware_pipeline.run_after_turn(self._agent.context())
        if result.action is MiddlewareAction.INJECT_MESSAGE:
            self._agent.conversation.notes.append(result.message or "")
        elif result.action is MiddlewareAction.STOP and not over:
            yield self._stop(_stop_of(result))
        elif result.action is MiddlewareAction.COMPACT:
            async with aclosing(self._compact(result.metadata.get("threshold", 0))) as events:
                async for event in events:
                    yield event

    async def _step(self) -> Events:
        """A request and the tools that its reply asks for. A conversation that no longer fits is compacted, once."""
        try:
            async with aclosing(self._request()) as events:
                async for event in events:
                    yield event
        except ContextTooLongError:
            if len(self._agent.messages) <= SHORTEST:
                raise
            model = self._agent.config.get_active_model()
            for part in (self._compact(model.context_window), self._request()):
                async with aclosing(part) as events:
                    async for event in events:
                        yield event

    async def _request(self, again: str = "") -> Events:
        """One request, its reply and its tools. A reply without a word or a call is asked for once more, with `again`."""
        agent = self._agent
        agent.history.repair()
        reply = Reply(agent.history.fingerprint(), agent.history.call_ids)
        notes = [
            *agent.conversation.notes,
            *self._reminders,
            self._checkpoints_to_show(),
            again,
        ]
        injected = "\n\n".join(filter(None, notes))
        async with aclosing(self._reply(reply, injected)) as events:
            async for event in events:
                yield event
        if self._stopped is not None:
            return
        if reply.says_nothing and again:
            raise IncompleteReplyError(
                "The model's reply was empty, twice.", "Run the prompt again, or say it otherwise."
            )
        rest = self._request(_SAY_SOMETHING) if reply.answers_nothing and not again else self._calls(reply, injected)
        async with aclosing(rest) as events:
            async for event in events:
                yield event

    def _checkpoints_to_show(self) -> str:
        """What the model is told of its checkpoints; "" where no D-Mail can be sent."""
        agent = self._agent
        if agent.denwa_renji is None:
            return ""
        agent.denwa_renji.offer(agent.conversation.checkpoints.of_steps(self._recorder.record.id))
        return agent.denwa_renji.shown()

    async def _reply(self, reply: Reply, injected: str) -> Events:
        """What is said, as it comes. Of a reply that breaks off, or never ends, the text is kept."""
        agent = self._agent
        try:
            async with aclosing(reply.stream(agent.chunks(_with(injected, agent.messages)))) as events:
                async for event in events:
                    if isinstance(event, WarningEvent):
                        self._recorder.warn(event.message)
                    yield event
                    if loop := agent.loop_guard.repeating_text(event):
                        yield loop
                        yield self._stop(Stop(loop.message, "loop"))
                        break
        except BaseException:
            if reply.cut():
                self._keep(reply, injected)
            raise
        if self._stopped is not None and reply.cut():
            self._keep(reply, injected)

    async def _calls(self, reply: Reply, injected: str) -> Events:
        """The reply is kept, and its tools run. May raise BackToTheFuture when they have ended."""
        agent = self._agent
        executor = agent.executor(self._recorder)
        try:
            step = self._keep(reply, injected)
        except BaseException:
            executor.interrupt(reply.calls)
            raise
        complete = StepReplyEvent(step=step, finish_reason=reply.finish_reason)
        async with aclosing(executor.run(reply.calls, complete)) as events:
            async for event in events:
                yield event
        if reply.is_cut_off:
            yield self._stop(CUT_OFF)
        if executor.refused_without_note:
            yield self._stop(refused(executor.refused_without_note))
        if self._stopped is None and reply.calls:
            async with aclosing(agent.loop_guard.after_step(self._recorder.record.steps[-1])) as found:
                async for event in found:
                    yield event
                    if event.action == "stop":
                        yield self._stop(Stop(event.message, "loop"))
        if agent.denwa_renji is not None and self._stopped is None:
            agent.denwa_renji.deliver()

    async def _compact(self, threshold: int) -> Events:
        async with aclosing(compacting(self._agent, threshold, self._recorder)) as events:
            async for event in events:
                if isinstance(event, WarningEvent):
                    self._recorder.warn(event.message)
                yield event

    def _warn(self, warning: str) -> WarningEvent:
        self._recorder.warn(warning)
        return WarningEvent(message=warning)

    def _stop(self, why: Stop) -> AssistantEvent:
        self._stopped = why
        return AssistantEvent(content=why.message, stopped_by_middleware=True)

    def _keep(self, reply: Reply, injected: str) -> RecordedStep:
        """The reply enters the history and the record: both, even if an observer of the first is interrupted."""
        reminder = self._agent.conversation.take_notes()
        try:
            self._agent.history.append(reply.message)
        finally:
            step = self._record(reply, injected, reminder)
        return step

    def _record(self, reply: Reply, injected: str, reminder: str) -> RecordedStep:
        agent = self._agent
        pruned = agent.history.take_pruned()
        texts = {"injected": injected, "reminder": reminder}
        more = {**texts, "pruned": pruned, "dmail": self._dmail}
        self._dmail = None
        step = self._recorder.reply(reply.step.model_copy(update=more))
        count_reply(agent.stats, step)
        if step.prompt_tokens:
            agent.history.measured()
        return step


_SAY_SOMETHING = "your reply had no text and no tool call; answer the person, or go on with a tool call"
_STILL_TOO_LONG = (
    "The conversation was compacted and still takes {tokens:,} tokens, more than this model is given.\n"
    "Choose a model with a larger window (%kin model NAME, --model NAME), or raise context_window or auto_compact_threshold."
)


def _stop_of(result: MiddlewareResult) -> Stop:
    """A program's middleware says what it likes; the record has known reasons only."""
    reason = result.stop_reason if result.stop_reason in get_args(StopReason) else "middleware"
    return Stop(result.reason or "stopped by middleware", reason)


def _with(injected: str, messages: list[LLMMessage]) -> list[LLMMessage]:
    """One request's view of the history: a note after the last message's content, which itself stays to the letter."""
    if not injected:
        return messages
    last = messages[-1]
    note = f"[kin_nb: {injected}]"
    return [*messages[:-1], last.changed(content=f"{last.content}\n\n{note}" if last.content else note)]
