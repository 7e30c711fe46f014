"""Middleware: what may stop, compact or remind around each step (seeds 000, 002), and the five built-in ones (seed 003).

Where the seeds differ, 000's pipeline is the one: STOP and COMPACT end it, INJECT_MESSAGE accumulates, before and after.
A "turn" in these names is one request to the model, which the rest of the code calls a step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any, Protocol, Self

from kin_nb.core.callback_errors import failure, guarded, must_propagate, unless_cancelled
from kin_nb.core.config import ConfigError
from kin_nb.core.context.compaction import CompactionError
from kin_nb.core.context.context_window import check_room
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import StopReason
from kin_nb.core.usage_stats import AgentStats

if TYPE_CHECKING:
    from kin_nb.core.config import KinConfig


SHORTEST = 2
"""Messages of a conversation that nothing can be taken from: the system message and the prompt."""
WARN_AT = (50, 75, 90)
"""Per cent of the model's window; each is said once until the conversation is compacted or cleared."""

PLAN_REMINDER = (
    "plan mode is on. Read, search and think; change nothing: write tools are refused, and commands unless they are "
    "proven to change nothing. A question gets its answer as usual. Where a change is asked for, answer with a plan: what you "
    "would change, where, in which order, how you would check it; name open choices at its end, with your default. Only "
    "the person can leave plan mode."
)


class MiddlewareAction(StrEnum):
    CONTINUE = auto()
    STOP = auto()
    COMPACT = auto()
    INJECT_MESSAGE = auto()


class ResetReason(StrEnum):
    """STOP: the conversation was cleared. COMPACT: it gave way to a summary."""

    STOP = auto()
    COMPACT = auto()


@dataclass
class ConversationContext:
    """What middleware may look at. `messages` is the agent's own list: look, do not change.

    `uncounted`: tokens, estimated, of what came after the last measure of the context.
    """

    messages: list[LLMMessage]
    stats: AgentStats
    config: KinConfig
    uncounted: int = 0

    @property
    def tokens(self) -> int:
        """The size of the conversation now, as far as it is known; a single prompt is not estimated."""
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
    """Of a session: requests to the model, and USD; None: no limit. `steps_before`, `cost_before`: what does not count."""

    max_turns: int | None = None
    max_price: float | None = None
    steps_before: int = 0
    cost_before: float = 0.0

    def changed(self, max_turns: int | None, max_price: float | None) -> Limits:
        """Return these with other limits; None: as before."""
        turns, price = (self.max_turns if max_turns is None else max_turns), max_price
        return replace(self, max_turns=turns, max_price=self.max_price if price is None else price)


class MiddlewareError(Exception):
    """A program's middleware failed. The text names it: a limit that cannot be checked ends the turn."""


class MiddlewarePipeline:
    """Middleware in the order it was added. A hook that one does not have is passed over (seed 000's own examples).

    `run_before_turn` and `run_after_turn` raise MiddlewareError for a hook that fails, and pass on this program's own errors.
    `warn` hears of a `reset` that fails: the others are reset all the same.
    """

    def __init__(
        self,
        limits: Limits = Limits(),
        *,
        only: Sequence[ConversationMiddleware] | None = None,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`only`: these in place of the built-in ones."""
        self.middlewares: list[ConversationMiddleware] = list(only or ())
        self.limits, self.warn = limits, warn
        self._has_builtin = only is None

    def add(self, middleware: ConversationMiddleware) -> Self:
        self.middlewares.append(middleware)
        return self

    def set_builtin(self, config: KinConfig, mode: Callable[[], AgentMode]) -> None:
        """Make the built-in ones again, as the settings and `limits` are now, before those that were added.

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
        """The first STOP or COMPACT at once; else everything injected, joined by a blank line; else CONTINUE."""
        return await _run(self._hooks("before_turn"), context)

    async def run_after_turn(self, context: ConversationContext) -> MiddlewareResult:
        """As before a turn; what is injected here goes into the next request."""
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
        raise TypeError(f"it returned {type(result).__name__}, not a MiddlewareResult")  # noqa: TRY301
    except (BackendError, ConfigError, CompactionError):
        raise
    except BaseException as error:
        if must_propagate(error):
            raise
        raise MiddlewareError(f"Middleware: {failure(hook, error)}") from error


class BuiltinMiddleware:
    """What the five share: CONTINUE to everything, nothing to remember."""

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return MiddlewareResult()

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        return MiddlewareResult()

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        """Nothing to forget."""


class TurnLimitMiddleware(BuiltinMiddleware):
    """Stops before step `max_turns` + 1 of the session, cleared or not; 0 lets nothing through.

    `before`: the session's steps that do not count.
    """

    def __init__(self, max_turns: int, before: int = 0) -> None:
        self.max_turns, self.before = max_turns, before

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        # `steps` counts the step that is about to begin.
        if context.stats.all_steps - 1 - self.before < self.max_turns:
            return MiddlewareResult()
        reason = f"Turn limit of {self.max_turns} reached"
        return MiddlewareResult(MiddlewareAction.STOP, reason=reason, stop_reason="max_turns")


class PriceLimitMiddleware(BuiltinMiddleware):
    """Stops once the session, cleared or not, has cost more than `max_price` USD; a model without prices costs nothing.

    `before`: what of the session's cost does not count; below 0, what counts besides.
    """

    def __init__(self, max_price: float, before: float = 0.0) -> None:
        self.max_price, self.before = max_price, before

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        cost = context.stats.all_cost - self.before
        if cost <= self.max_price:
            return MiddlewareResult()
        reason = f"Price limit exceeded: ${cost:.4f} > ${_usd(self.max_price)}"
        return MiddlewareResult(MiddlewareAction.STOP, reason=reason, stop_reason="price")


def _usd(limit: float) -> str:
    """Two decimals where they are all, else four: $0.00 would be no limit that anyone has set."""
    return f"{limit:.2f}" if round(limit, 2) == limit else f"{limit:.4f}"


class AutoCompactMiddleware(BuiltinMiddleware):
    """Compacts when the context has reached the active model's threshold (KinConfig.compact_at).

    Raises ContextTooLongError for a request that the window is too small for, whatever is taken away before it.
    """

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        model = context.config.get_active_model()
        if _asks_anew(context):
            check_room([context.messages[0], context.messages[-1]], model)
        threshold = context.config.compact_at(model)
        if context.tokens < threshold:
            return MiddlewareResult()
        metadata = {"old_tokens": context.tokens, "threshold": threshold}
        return MiddlewareResult(MiddlewareAction.COMPACT, metadata=metadata)


def _asks_anew(context: ConversationContext) -> bool:
    """The person's request is the last message: not what a compaction has left of all."""
    only_summary = len(context.messages) == SHORTEST and context.stats.context_tokens > 0
    return len(context.messages) >= SHORTEST and context.messages[-1].role is Role.user and not only_summary


class ContextWarningMiddleware(BuiltinMiddleware):
    """Tells the model how full its window is, at 50, 75 and 90 per cent."""

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
    """Reminds the model of plan mode in each request; the safety chain enforces it. `mode`: the mode in force."""

    def __init__(self, mode: Callable[[], AgentMode]) -> None:
        self._mode = mode

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:  # noqa: ARG002
        if self._mode() is not AgentMode.PLAN:
            return MiddlewareResult()
        return MiddlewareResult(MiddlewareAction.INJECT_MESSAGE, message=PLAN_REMINDER)


def builtin_middleware(
    config: KinConfig, mode: Callable[[], AgentMode], limits: Limits
) -> list[ConversationMiddleware]:
    """Those that an agent has from the start. Limits come first: a session that must stop pays for no summary."""
    found: list[ConversationMiddleware] = []
    if limits.max_turns is not None:
        found.append(TurnLimitMiddleware(limits.max_turns, limits.steps_before))
    if limits.max_price is not None:
        found.append(PriceLimitMiddleware(limits.max_price, limits.cost_before))
    found.append(AutoCompactMiddleware())
    if config.context_warnings:
        found.append(ContextWarningMiddleware())
    return [*found, PlanModeMiddleware(mode)]
