"""Which Claude takes what: the API refuses a request that a model of another generation wants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_NAME = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_NEWEST = (99, 0)
_ADAPTIVE = (4, 6)  # decides by itself how much to think; takes an effort instead of a budget
_NO_TEMPERATURE = (4, 7)  # and no budget either
_KNOWS_XHIGH = (4, 7)
_UNASKED = (5, 0)
_BOUND = (5, 1)  # checks that nothing before a thinking block has changed since it was made

_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 20_480, "max": 24_576}
"""Tokens."""
_LEAST_BUDGET = 1_024
_MOST_OUTPUT, _OLD_MOST_OUTPUT = 32_000, 8_192  # tokens that every model of the generation can write


@dataclass(frozen=True)
class Abilities:
    """Of one model. Other makers' models at a server that speaks this API count as Claude's old ones."""

    version: tuple[int, int]

    @property
    def takes_temperature(self) -> bool:
        return self.version < _NO_TEMPERATURE

    @property
    def thinks_manually(self) -> bool:
        """With a budget, from a prompt on: not in the middle of tool calls that were made without."""
        return self.version < _ADAPTIVE

    @property
    def thinks_unasked(self) -> bool:
        return self.version >= _UNASKED

    @property
    def max_tokens(self) -> int:
        return _MOST_OUTPUT if self.version >= (4, 0) else _OLD_MOST_OUTPUT

    @property
    def headers(self) -> dict[str, str]:
        return {"anthropic-beta": "thinking-binding-controls-2026-08-01"} if self.version >= _BOUND else {}

    def thinking(self, level: str, max_tokens: int) -> dict[str, Any]:
        """The request's fields for a thinking level; "off" leaves it to the model: many cannot be kept from thinking.

        Thinking that the model finds changed is dropped, rather than the request refused: what middleware adds to one
        request is not in the next.
        """
        if self.thinks_manually:
            budget = min(_BUDGETS.get(level, 0), max_tokens - _LEAST_BUDGET)
            return {} if budget < _LEAST_BUDGET else {"thinking": {"type": "enabled", "budget_tokens": budget}}
        if level == "xhigh" and self.version < _KNOWS_XHIGH:
            level = "max"
        thinking: dict[str, Any] = {}
        if self.version >= _BOUND:
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        if level != "off":
            thinking["display"] = "summarized"
        effort = {} if level == "off" else {"output_config": {"effort": level}}
        return {"thinking": {"type": "adaptive", **thinking}, **effort} if thinking else {}


@lru_cache(maxsize=64)
def abilities(model: str) -> Abilities:
    if "claude" not in model:
        return Abilities((0, 0))
    found = _NAME.search(model)
    return Abilities((int(found[1]), int(found[2] or 0)) if found else _NEWEST)
