"""Where servers of OpenAI's format part ways: the limit's name, models that fix their temperature, thinking levels.

A server is known by its address, or by its provider's name when it is reached through another address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from kin_nb.core.config import ProviderConfig, Thinking

_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?!.*chat)")
_EFFORT_NEEDS_NO_TOOLS = (5, 2)
_TOOLS_NEED_NO_EFFORT = (5, 6)
_EFFORT_KNOWS_XHIGH = (5, 2)


def _nothing(model: str, level: Thinking, *, tools: bool) -> dict[str, Any]:
    del model, level, tools
    return {}


@dataclass(frozen=True)
class Dialect:
    """`thinking(model, level, tools=...)` gives the request's fields for a thinking level.

    `fixed_temperature`: the models that refuse any but their own. `reasoning`: the server takes reasoning back.
    """

    name: str
    hosts: tuple[str, ...] = ()
    max_tokens: str = "max_tokens"
    stream_options: bool = True
    fixed_temperature: re.Pattern[str] | None = None
    reasoning: bool = True
    any_tool: str = "required"
    thinking: Callable[..., dict[str, Any]] = _nothing

    def takes_temperature(self, model: str) -> bool:
        return not (self.fixed_temperature and self.fixed_temperature.search(model))


def _openai_thinking(model: str, level: Thinking, *, tools: bool) -> dict[str, Any]:
    """Chat completions take no effort beside tools since gpt-5.2; since 5.6 they want to hear that there is none."""
    gpt = _GPT.match(model)
    version = (int(gpt[1]), int(gpt[2] or 0)) if gpt else (0, 0)
    if tools and version >= _TOOLS_NEED_NO_EFFORT:
        return {"reasoning_effort": "none"}
    if level == "off" or (tools and version >= _EFFORT_NEEDS_NO_TOOLS) or not _OPENAI_REASONS.match(model):
        return {}
    highest = "xhigh" if version >= _EFFORT_KNOWS_XHIGH else "high"
    return {"reasoning_effort": highest if level in {"xhigh", "max"} else level}


def _openrouter_thinking(model: str, level: Thinking, *, tools: bool) -> dict[str, Any]:
    del model, tools
    return {} if level == "off" else {"reasoning": {"effort": "xhigh" if level == "max" else level}}


def _moonshot_thinking(model: str, level: Thinking, *, tools: bool) -> dict[str, Any]:
    """Kimi K3 knows low, high and max; K2 always thinks as it does."""
    del tools
    if level == "off" or not model.startswith("kimi-k3"):
        return {}
    return {"reasoning_effort": {"medium": "high", "xhigh": "max"}.get(level, level)}


def _mistral_thinking(model: str, level: Thinking, *, tools: bool) -> dict[str, Any]:
    """Small and Medium know none and high, Large three levels; Magistral always thinks, Devstral never does."""
    del tools
    if level == "off" or not (size := re.match(r"mistral-(small|medium|large)", model)):
        return {}
    return {"reasoning_effort": level if size[1] == "large" and level in {"low", "medium"} else "high"}


_OPENAI_REASONS = re.compile(r"(o\d|gpt-([5-9]|\d\d))(?!.*chat)")

OTHERS = Dialect("others")
MISTRAL = Dialect("mistral", stream_options=False, any_tool="any", thinking=_mistral_thinking)
KNOWN = (
    Dialect(
        "openai",
        hosts=("api.openai.com",),
        max_tokens="max_completion_tokens",
        fixed_temperature=_OPENAI_REASONS,
        reasoning=False,
        thinking=_openai_thinking,
    ),
    Dialect("openrouter", hosts=("openrouter.ai",), thinking=_openrouter_thinking),
    Dialect(
        "moonshot",
        hosts=("api.moonshot.ai", "api.moonshot.cn"),
        max_tokens="max_completion_tokens",
        fixed_temperature=re.compile(r"kimi-"),
        thinking=_moonshot_thinking,
    ),
)


def dialect_of(provider: ProviderConfig) -> Dialect:
    return _find(provider.name, provider.api_base)


@lru_cache(maxsize=64)
def _find(name: str, api_base: str) -> Dialect:
    try:
        host = urlsplit(api_base).hostname or ""
    except ValueError:
        host = ""
    return next((dialect for dialect in KNOWN if name == dialect.name or host in dialect.hosts), OTHERS)
