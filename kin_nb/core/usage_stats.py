"""AgentStats: the steps, tokens, time and money that a session has used so far (seed 002)."""

from __future__ import annotations

from pydantic import BaseModel, PrivateAttr


class AgentStats(BaseModel):
    """Counters of one session. Tokens are counted by the provider; prices are USD per million tokens."""

    steps: int = 0
    session_prompt_tokens: int = 0
    session_completion_tokens: int = 0
    context_tokens: int = 0
    last_turn_prompt_tokens: int = 0
    last_turn_completion_tokens: int = 0
    last_turn_duration: float = 0.0
    tokens_per_second: float = 0.0
    tool_calls_agreed: int = 0
    tool_calls_rejected: int = 0
    tool_calls_failed: int = 0
    tool_calls_succeeded: int = 0
    input_price_per_million: float = 0.0
    output_price_per_million: float = 0.0

    _settled: tuple[int, int, float] = PrivateAttr(default=(0, 0, 0.0))
    _before: AgentStats | None = PrivateAttr(default=None)

    def for_new_conversation(self) -> AgentStats:
        """Return the counters for a new conversation of the session: all are 0, except `total_steps` and `total_cost`."""
        stats = AgentStats()
        stats._before = self
        return stats

    def rejoined(self) -> AgentStats:
        """Return the counters of the previous conversation, when a clear is undone before the next prompt.

        The tokens and the cost since the clear are added to them.
        """
        if self._before is None:
            return self
        stats = self._before.model_copy()
        stats.session_prompt_tokens += self.session_prompt_tokens
        stats.session_completion_tokens += self.session_completion_tokens
        cost = self._before.session_cost + self.session_cost
        stats._settled = (stats.session_prompt_tokens, stats.session_completion_tokens, cost)  # noqa: SLF001  (its own class)
        return stats

    def set_prices(self, input_price: float, output_price: float) -> None:
        """Set the prices for later tokens. The cost of earlier tokens does not change."""
        if (input_price, output_price) != (self.input_price_per_million, self.output_price_per_million):
            self._settled = (self.session_prompt_tokens, self.session_completion_tokens, self.session_cost)
            self.input_price_per_million, self.output_price_per_million = input_price, output_price

    @property
    def session_total_llm_tokens(self) -> int:
        return self.session_prompt_tokens + self.session_completion_tokens

    @property
    def last_turn_total_tokens(self) -> int:
        return self.last_turn_prompt_tokens + self.last_turn_completion_tokens

    @property
    def session_cost(self) -> float:
        prompt, completion, settled = self._settled
        paid = (self.session_prompt_tokens - prompt) * self.input_price_per_million
        paid += (self.session_completion_tokens - completion) * self.output_price_per_million
        return settled + paid / 1_000_000

    @property
    def total_steps(self) -> int:
        """The steps of the session, including those before a clear."""
        return self.steps + (self._before.total_steps if self._before is not None else 0)

    @property
    def total_cost(self) -> float:
        """The cost of the session, including the cost before a clear."""
        return self.session_cost + (self._before.total_cost if self._before is not None else 0.0)
