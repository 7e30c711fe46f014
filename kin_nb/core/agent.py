"""The agent: one conversation with a model that has tools (seed 000). The loop, and only the loop."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from functools import cached_property
from typing import Any

from kin_nb.core.config import ConfigError, KinConfig
from kin_nb.core.context.history import History
from kin_nb.core.events import (
    AssistantEvent,
    BaseEvent,
    ErrorEvent,
    StepReplyEvent,
    StepStartEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from kin_nb.core.llm.errors import BackendError, IncompleteReplyError
from kin_nb.core.llm.types import BackendLike
from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.reply import Reply
from kin_nb.core.safety.callbacks import Ask, from_callback, refuse
from kin_nb.core.safety.context import SafetyContext
from kin_nb.core.safety.grants import Grants
from kin_nb.core.safety.secrets import WORKSPACE, Redactor, secret_values
from kin_nb.core.safety.workspace import Workspace
from kin_nb.core.session.log import LOG_FORMAT, SessionLog, new_session_id
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.core.session.records import Outcome, RecordedStep, TurnRecord, sha256
from kin_nb.core.session.workspace_commit import head_commit
from kin_nb.core.system_prompt import system_prompt
from kin_nb.core.tools.executor import ToolExecutor
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.types import AgentStats, ApprovalCallback, LLMMessage, Role


class Agent:
    """One session. `act` is one turn; everything that happens in it is yielded as events and kept in `turns`.

    `backend` defaults to the provider of the active model. Without an approval callback every call that would ask is
    refused with a sentence that says how to allow it.
    """

    def __init__(
        self,
        config: KinConfig,
        mode: AgentMode = AgentMode.DEFAULT,
        message_observer: Callable[[LLMMessage], None] | None = None,
        backend: BackendLike | None = None,
        *,
        session_id: str | None = None,
        log: SessionLog | None = None,
    ) -> None:
        self.config, self.mode = config, mode
        self.session_id = session_id or new_session_id()
        self.stats = AgentStats()
        self.turns: list[TurnRecord] = []
        self.tool_manager = ToolManager(config)
        self.workspace = Workspace(config.effective_workdir)
        self._secrets: list[str] = []
        self._redactor = Redactor((), self.workspace.root)
        self._learn_secrets()
        self.history = History(system_prompt(config), self.redact, message_observer)
        self.log = log or SessionLog(self.session_id)
        self._given_backend = backend
        self._backends: dict[str, BackendLike] = {}
        self._grants = Grants()
        self._ask: Ask = refuse
        self._logged_header = False
        self._set_prices()

    def redact(self, text: str) -> str:
        """`text` without secrets and without paths of this machine: what may be recorded and shown."""
        return self._redactor.text(text)

    @property
    def messages(self) -> list[LLMMessage]:
        return self.history.messages

    @property
    def backend(self) -> BackendLike:
        """What answers: the backend that was given, else the active provider's, one for the agent's life."""
        if self._given_backend is not None:
            return self._given_backend
        provider = self.config.get_provider_for_model(self.config.get_active_model())
        key = f"{self.config.api_timeout} {provider.model_dump_json()}"
        if key not in self._backends:
            from kin_nb.core.llm.backend.factory import BACKEND_FACTORY  # noqa: PLC0415  (httpx on first use)

            self._backends[key] = BACKEND_FACTORY[provider.backend](provider, self.config.api_timeout)
        return self._backends[key]

    @backend.setter
    def backend(self, backend: BackendLike) -> None:
        self._given_backend = backend

    def set_approval_callback(self, callback: ApprovalCallback) -> None:
        self._ask = from_callback(callback)

    def set_ask(self, ask: Ask) -> None:
        """The fuller way to be asked: ApprovalRequest in, ApprovalDecision out."""
        self._ask = ask

    def switch_config(self, config: KinConfig) -> None:
        """Another model or other settings from the next request on; the conversation stays."""
        self.config = config
        self._set_prices()

    def continue_from(self, turns: Iterable[TurnRecord]) -> None:
        """Go on after recorded turns (resume, or a session notebook continued live)."""
        turns = list(turns)
        self._log_header()
        self.log.append("continued", turns=[turn.model_dump(mode="json") for turn in turns])
        self.history.extend_from(turns, lambda text: text.replace(WORKSPACE, str(self.workspace.root)))
        self.turns.extend(turns)

    async def aclose(self) -> None:
        """Close the clients that this agent made, and the log. It can act again: they open anew when needed."""
        for backend in self._backends.values():
            await backend.__aexit__(None, None, None)
        self._backends.clear()
        self.log.close()

    def switch_mode(self, mode: AgentMode) -> None:
        """Messages, grants and tools stay; only what runs unasked changes."""
        self.mode = mode

    @cached_property
    def header(self) -> dict[str, Any]:
        """What the log and the session notebook say about this session as a whole, as it was at the first prompt."""
        schemas = [tool.model_dump() for tool in self.tool_manager.schemas()]
        return {
            "format": LOG_FORMAT,
            "session": self.session_id,
            "model": self.config.get_active_model().alias,
            "workspace": str(self.workspace.root),
            "commit": head_commit(self.workspace.root),
            "system_prompt": sha256(self.redact(self.messages[0].content or "")),
            "tools": sha256(schemas),
        }

    async def act(self, msg: str, *, key: str = "", cell_id: str | None = None) -> AsyncGenerator[BaseEvent, None]:
        """One turn: the prompt, then steps until the model asks for no more tools.

        Contract: every tool call that enters the history leaves it answered, and the turn's record is closed, also
        when this generator is cancelled or closed early. A failing model server is an ErrorEvent, not an exception.
        """
        recorder = self._begin(msg, key, cell_id)
        started = time.monotonic()
        outcome: Outcome = "interrupted"
        message = ""
        try:
            yield TurnStartEvent(turn=recorder.record.turn, prompt=msg)
            self.history.append(LLMMessage(role=Role.user, content=msg))
            async with aclosing(self._steps(recorder)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, AssistantEvent) and event.stopped_by_middleware:
                        outcome, message = "stopped", event.content
            if outcome != "stopped":
                outcome, message = "done", ""
        except (BackendError, ConfigError) as error:
            outcome, message = "error", str(error)
            yield ErrorEvent(message=message)
        except Exception as error:
            outcome, message = "error", f"kin_nb failed: {type(error).__name__}: {error}"
            raise
        finally:
            elapsed = time.monotonic() - started
            self.stats.last_turn_duration = elapsed
            record = recorder.end(
                outcome, message=message, cost=self._cost_of(recorder), milliseconds=round(elapsed * 1000)
            )
            self.turns[-1] = record
        yield TurnEndEvent(record=record)

    async def _steps(self, recorder: TurnRecorder) -> AsyncGenerator[BaseEvent, None]:
        for number in itertools.count(1):
            self.stats.steps += 1
            yield StepStartEvent(step=number)
            reply = Reply(self.history.fingerprint(), self.history.call_ids)
            try:
                async with aclosing(reply.stream(self._request())) as events:
                    async for event in events:
                        yield event
            except BaseException:
                if reply.cut():
                    self._keep(reply, recorder)
                raise
            if reply.says_nothing:
                raise IncompleteReplyError("The model's reply was empty.", "Run the prompt again, or say it otherwise.")
            yield StepReplyEvent(step=self._keep(reply, recorder))
            if reply.is_cut_off:
                cut_off = (
                    "the reply was cut off at the model's limit of output tokens; ask it to go on, or raise max_tokens"
                )
                yield AssistantEvent(content=cut_off, stopped_by_middleware=True)
            if not reply.calls:
                return
            executor = ToolExecutor(self.tool_manager, self._safety, self.stats, self.history, recorder, self._ask)
            async with aclosing(executor.run(reply.calls)) as events:
                async for event in events:
                    self.turns[-1] = recorder.record
                    yield event
            if executor.refused_without_note:
                reason = f"you refused {executor.refused_without_note}; write what to do instead in the next cell"
                yield AssistantEvent(content=reason, stopped_by_middleware=True)
                return

    def _begin(self, prompt: str, key: str, cell_id: str | None) -> TurnRecorder:
        self._learn_secrets()
        self._log_header()
        turn = TurnRecord(
            turn=len(self.turns) + 1,
            prompt=prompt,
            key=key,
            cell_id=cell_id,
            model=self.config.get_active_model().alias,
            mode=self.mode.value,
        )
        recorder = TurnRecorder(self.log, self.redact, turn)
        self.turns.append(recorder.record)
        return recorder

    def _learn_secrets(self) -> None:
        """A key may have been set since the last turn."""
        secrets = secret_values(self.config)
        if secrets != self._secrets:
            self._secrets, self._redactor = secrets, Redactor(secrets, self.workspace.root)

    def _log_header(self) -> None:
        if not self._logged_header:
            self.log.append("session", **self.header)
            self._logged_header = True

    def _request(self) -> AsyncGenerator[Any, None]:
        model = self.config.get_active_model()
        return self.backend.complete_streaming(
            model=model,
            messages=self.messages,
            temperature=model.temperature,
            tools=self.tool_manager.schemas(),
            max_tokens=model.max_tokens,
            tool_choice="auto",
            extra_headers={"x-affinity": self.session_id},
        )

    def _safety(self) -> SafetyContext:
        policy = self.mode.policy(Policy(self.config.policy))
        return SafetyContext(self.mode, policy, self.workspace, self._grants)

    def _keep(self, reply: Reply, recorder: TurnRecorder) -> RecordedStep:
        """The reply enters the history and the record."""
        self.history.append(reply.message)
        step = recorder.reply(reply.step)
        self.turns[-1] = recorder.record
        self._account(step)
        return step

    def _account(self, step: RecordedStep) -> None:
        stats = self.stats
        stats.session_prompt_tokens += step.prompt_tokens
        stats.session_completion_tokens += step.completion_tokens
        stats.last_turn_prompt_tokens, stats.last_turn_completion_tokens = step.prompt_tokens, step.completion_tokens
        stats.context_tokens = step.prompt_tokens + step.completion_tokens
        if step.milliseconds:
            stats.tokens_per_second = step.completion_tokens * 1000 / step.milliseconds

    def _set_prices(self) -> None:
        model = self.config.get_active_model()
        self.stats.input_price_per_million = model.input_price
        self.stats.output_price_per_million = model.output_price

    def _cost_of(self, recorder: TurnRecorder) -> str:
        """USD, "" when the model has no prices: an unknown cost is not a cost of nothing."""
        prices = self.stats.input_price_per_million, self.stats.output_price_per_million
        if not any(prices):
            return ""
        turn = recorder.record
        return f"{(turn.prompt_tokens * prices[0] + turn.completion_tokens * prices[1]) / 1_000_000:.6f}"
