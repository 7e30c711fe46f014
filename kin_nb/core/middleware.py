"""Middleware: stop, compact or add a message before and after each step; the pipeline and the five built-in ones.

STOP and COMPACT end the pipeline, INJECT_MESSAGE accumulates. A "turn" in these names is one request to the model, which
the rest of the code calls a step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any, Protocol, Self

from kin_nb.core.callback_errors import failure, guarded, must_propagate, unless_cancelled
from kin_nb.core.config import ConfigError
from kin_nb.core.context.compaction import CompactionError
from kin_nb.core.context.context_window import check_fits
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import StopReason
from kin_nb.core.usage_stats import AgentStats

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig


SHORTEST = 2
"""Messages of the shortest conversation: the system message and the prompt."""
WARN_AT = (50, 75, 90)
"""Percent of the context window; each warning is given once until the conversation is compacted or cleared."""

PLAN_REMINDER = (
    "plan mode is on. Read, search and think; change nothing: write tools are refused, and commands unless they are "
    "proven to change nothing. A question gets its answer as usual. Where a change is asked for, answer with a plan: what you "
    "would change, where, in which order, how you would check it; name open choices at its end, with your default. Only "
    "the person can leave plan mode."
)
PLAN_OVER = "plan mode is off: change what the task needs."


class MiddlewareAction(StrEnum):
    CONTINUE = auto()
    STOP = auto()
    COMPACT = auto()
    INJECT_MESSAGE = auto()


class ResetReason(StrEnum):
    """STOP: the conversation was cleared. COMPACT: it was replaced by a summary."""

    STOP = auto()
    COMPACT = auto()


@dataclass
class ConversationContext:
    """The conversation as middleware sees it. `messages` is the agent's own list: read it, do not change it.

    `uncounted`: tokens, estimated, of what came after the last measure of the context. `is_new`: no request was made since
    the turn began, or since the conversation was compacted in it.
    """

    messages: list[LLMMessage]
    stats: AgentStats
    config: KinConfig
    uncounted: int = 0
    is_new: bool = True

    @property
    def tokens(self) -> int:
        """Size of the conversation in tokens: the last measure, and an estimate of what came after it."""
        return self.stats.context_tokens + (self.uncounted if len(self.messages) > SHORTEST else 0)


@dataclass
class MiddlewareResult:
    """`message` for INJECT_MESSAGE, `reason` for STOP, `metadata` {"old_tokens", "threshold"} for COMPACT.

    `stop_reason`: for STOP too, what kind of reason it is.
    """

    action: MiddlewareAction = MiddlewareAction.CONTINUE
    message: str | None = None
    reason: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    stop_reason: StopReason = "middleware"


class ConversationMiddleware(Protocol):
    async def before_turn(self, context: ConversationContext) -> MiddlewareResult: ...

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult: ...

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None: ...


@dataclass(frozen=True)
class Limits:
    """Limits of a session: model requests, and USD; None: no limit. `steps_before`, `cost_before`: not counted."""

    max_turns: int | None = None
    max_price: float | None = None
    steps_before: int = 0
    cost_before: float = 0.0

    def changed(self, max_turns: int | None, max_price: float | None) -> Limits:
        """Return a copy with other limits; None keeps a limit."""
        turns, price = (self.max_turns if max_turns is None else max_turns), max_price
        return replace(self, max_turns=turns, max_price=self.max_price if price is None else price)


class MiddlewareError(Exception):
    """A program's middleware failed. The text names it. Ends the turn, because the middleware may be a limit."""


class MiddlewarePipeline:
    """Middleware, run in the order in which it was added. Missing hooks are skipped.

    `run_before_turn` and `run_after_turn` raise MiddlewareError for a hook that fails; kin_nb's own errors pass through.
    `warn` is called when a `reset` fails; the others are still reset.
    """

    def __init__(
        self,
        limits: Limits = Limits(),
        *,
        only: Sequence[ConversationMiddleware] | None = None,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`only`: replaces the built-in middleware."""
        self.middlewares: list[ConversationMiddleware] = list(only or ())
        self.limits, self.warn = limits, warn
        self._has_builtin = only is None

    def add(self, middleware: ConversationMiddleware) -> Self:
        self.middlewares.append(middleware)
        return self

    def set_builtin(self, config: KinConfig, mode: Callable[[], AgentMode]) -> None:
        """Rebuild the built-in middleware from the current settings and `limits`; added middleware comes after it.

        A context warning that was given is not repeated.
        """
        if not self._has_builtin:
            return
        builtin = builtin_middleware(config, mode, self.limits)
        own = self.middlewares
        added = [middleware for middleware in own if not isinstance(middleware, BuiltinMiddleware)]
        warned = next((middleware for middleware in own if isinstance(middleware, ContextWarningMiddleware)), None)
        self.middlewares[:] = [warned if warned and isinstance(m, ContextWarningMiddleware) else m for m in builtin]
        self.middlewares += added

    def replace(self, middlewares: Sequence[ConversationMiddleware]) -> None:
        """Use only these from now on, also when the settings change."""
        self.middlewares[:] = middlewares
        self._has_builtin = False

    def clear(self) -> None:
        self.middlewares.clear()

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        for reset in self._hooks("reset"):
            guarded(reset, self.warn, "Middleware:")(reset_reason)

    async def run_before_turn(self, context: ConversationContext) -> MiddlewareResult:
        """Return the first STOP or COMPACT; else all injected messages, joined by a blank line; else CONTINUE."""
        return await _run(self._hooks("before_turn"), context)

    async def run_after_turn(self, context: ConversationContext) -> MiddlewareResult:
        """Run the hooks after a step; injected messages are added to the next request."""
        return await _run(self._hooks("after_turn"), context)

    def _hooks(self, name: str) -> list[Callable[..., Any]]:
        return [getattr(middleware, name) for middleware in self.middlewares if hasattr(middleware, name)]


_Hook = Callable[[ConversationContext], Awaitable[MiddlewareResult]]


async def _run(hooks: list[_Hook], context: ConversationContext) -> MiddlewareResult:
    injected = []
    for hook in hooks:
        result = await _result(hook, context)
        if result.action in {MiddlewareAction.STOP, MiddlewareAction.COMPACT}:
            return result
        if result.action is MiddlewareAction.INJECT_MESSAGE and result.message:
            injected.append(result.message)
    if not injected:
        return MiddlewareResult()
    return MiddlewareResult(MiddlewareAction.INJECT_MESSAGE, message="\n\n".join(injected))


async def _result(hook: _Hook, context: ConversationContext) -> MiddlewareResult:
    try:
        result: Any = await unless_cancelled(hook(context))
        if isinstance(result, MiddlewareResult):
            return result
        raise TypeError(f"returned {type(result).__name__}, expected a MiddlewareResult")  # noqa: TRY301
    except (BackendError, ConfigError, CompactionError):
        raise
    except BaseException as error:
        if must_propagate(error):
            raise
        raise MiddlewareError(f"Middleware: {failure(hook, error)}") from error


class BuiltinMiddleware:
    """Base of the built-in middleware: CONTINUE for every hook, no state."""

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return MiddlewareResult()

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return MiddlewareResult()

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        """Do nothing: there is no state."""


class TurnLimitMiddleware(BuiltinMiddleware):
    """Stop before request `max_turns` + 1 of the session, also across clears; 0 allows no request.

    `before`: number of earlier requests that do not count.
    """

    def __init__(self, max_turns: int, before: int = 0) -> None:
        self.max_turns, self.before = max_turns, before

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        # `steps` counts the step that is about to start.
        if context.stats.total_steps - 1 - self.before < self.max_turns:
            return MiddlewareResult()
        reason = f"limit of {self.max_turns} model request{'' if self.max_turns == 1 else 's'} reached"
        return MiddlewareResult(MiddlewareAction.STOP, reason=reason, stop_reason="max_turns")


class PriceLimitMiddleware(BuiltinMiddleware):
    """Stop once the session, also across clears, has cost more than `max_price` USD; a model without prices costs nothing.

    `before`: USD that are subtracted from the session's cost; a negative value is added.
    """

    def __init__(self, max_price: float, before: float = 0.0) -> None:
        self.max_price, self.before = max_price, before

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        cost = context.stats.total_cost - self.before
        if cost <= self.max_price:
            return MiddlewareResult()
        reason = f"Price limit exceeded: ${cost:.4f} > ${_usd(self.max_price)}"
        return MiddlewareResult(MiddlewareAction.STOP, reason=reason, stop_reason="price")


def _usd(limit: float) -> str:
    """Format with two decimals if they are exact, else with four, so that a small limit is not shown as $0.00."""
    return f"{limit:.2f}" if round(limit, 2) == limit else f"{limit:.4f}"


class AutoCompactMiddleware(BuiltinMiddleware):
    """Compacts when the context has reached the active model's threshold (KinConfig.compact_at).

    Raises ContextTooLongError for a request that the window is too small for, whatever is taken away before it.
    """

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        model = context.config.get_active_model()
        if _ends_with_prompt(context):
            check_fits([context.messages[0], context.messages[-1]], model)
        threshold = context.config.compact_at(model)
        if context.tokens < threshold:
            return MiddlewareResult()
        metadata = {"old_tokens": context.tokens, "threshold": threshold}
        return MiddlewareResult(MiddlewareAction.COMPACT, metadata=metadata)


def _ends_with_prompt(context: ConversationContext) -> bool:
    """Return whether the last message is the user's prompt, not the summary of a compaction."""
    only_summary = len(context.messages) == SHORTEST and context.stats.context_tokens > 0
    return len(context.messages) >= SHORTEST and context.messages[-1].role is Role.user and not only_summary


class ContextWarningMiddleware(BuiltinMiddleware):
    """Tell the model how full its context window is, at 50, 75 and 90 percent."""

    def __init__(self) -> None:
        self._said = 0

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult:
        window = context.config.get_active_model().context_window
        used = context.stats.context_tokens * 100 // window if window > 0 else 0
        reached = max((per_cent for per_cent in WARN_AT if used >= per_cent), default=0)
        if reached <= self._said:
            return MiddlewareResult()
        self._said = reached
        message = (
            f"{used} % of the context window is used ({context.stats.context_tokens:,} of {window:,} tokens). "
            "Read less at a time, and finish what you are doing."
        )
        return MiddlewareResult(MiddlewareAction.INJECT_MESSAGE, message=message)

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:  # noqa: ARG002
        self._said = 0


class PlanModeMiddleware(BuiltinMiddleware):
    """Tell the model in each prompt that plan mode is on, and once that it is over; the safety chain enforces it.

    `mode` returns the current mode.
    """

    def __init__(self, mode: Callable[[], AgentMode]) -> None:
        self._mode = mode

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        if not context.is_new:
            return MiddlewareResult()
        if self._mode() is AgentMode.PLAN:
            return MiddlewareResult(MiddlewareAction.INJECT_MESSAGE, message=PLAN_REMINDER)
        if _knows_plan_mode(context.messages):
            return MiddlewareResult(MiddlewareAction.INJECT_MESSAGE, message=PLAN_OVER)
        return MiddlewareResult()


def _knows_plan_mode(messages: Sequence[LLMMessage]) -> bool:
    """Return whether the last note about plan mode says that it is on."""
    notes = (message.note for message in reversed(messages) if message.note)
    return next((PLAN_REMINDER in note for note in notes if PLAN_REMINDER in note or PLAN_OVER in note), False)


def builtin_middleware(
    config: KinConfig, mode: Callable[[], AgentMode], limits: Limits
) -> list[ConversationMiddleware]:
    """Return the built-in middleware. Limits come first, so that a session that must stop does not pay for a summary."""
    found: list[ConversationMiddleware] = []
    if limits.max_turns is not None:
        found.append(TurnLimitMiddleware(limits.max_turns, limits.steps_before))
    if limits.max_price is not None:
        found.append(PriceLimitMiddleware(limits.max_price, limits.cost_before))
    found.append(AutoCompactMiddleware())
    if config.context_warnings:
        found.append(ContextWarningMiddleware())
    return [*found, PlanModeMiddleware(mode)]
