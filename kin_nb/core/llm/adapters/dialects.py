"""Which model and which server take what: generations of Claude, and the servers that speak OpenAI's format.

The Anthropic API refuses a request that a model of another generation wants. Servers of OpenAI's format differ in the limit's
name, in models that fix their temperature and in thinking levels; a server is known by its address, or by its provider's name
when it is reached through another address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from kin_nb.core.config import Backend, KinConfig, ModelConfig, ProviderConfig, Thinking
from kin_nb.core.llm.errors import BackendError
from kin_nb.core.urls import is_local

_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
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
    found = _CLAUDE.search(model)
    return Abilities((int(found[1]), int(found[2] or 0)) if found else _NEWEST)


_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?!.*chat)")
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
    """Without a level, models since gpt-5.6 need an explicit "none", or they refuse tools.

    With a level, these and some older models may still refuse tools (400). It is sent; the backend handles the refusal and warns.
    """
    gpt = _GPT.match(model)
    version = (int(gpt[1]), int(gpt[2] or 0)) if gpt else (0, 0)
    if level == "off" or not _OPENAI_REASONS.match(model):
        return {"reasoning_effort": "none"} if tools and version >= _TOOLS_NEED_NO_EFFORT else {}
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


def _effort(model: str, level: Thinking, *, tools: bool) -> dict[str, Any]:
    """OpenAI's own field, with the levels that all who know it know."""
    del model, tools
    return {} if level == "off" else {"reasoning_effort": "high" if level in {"xhigh", "max"} else level}


OTHERS = Dialect("others", thinking=_effort)
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


_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "reasoning_effort": lambda level: {"reasoning_effort": level},
    "reasoning": lambda level: {"reasoning": {"effort": level}},
    "chat_template_kwargs": lambda level: {
        "chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": level}
    },
    "enable_thinking": lambda _: {"enable_thinking": True},
    "thinking": lambda _: {"thinking": {"type": "enabled"}},
    "none": lambda _: {},
}
"""A request's fields by the provider's `thinking_field`."""
_REFUSED = re.compile(r"reasoning|thinking|effort|chat_template_kwargs")
_OF_THE_REPLY_OR_HISTORY = re.compile(r"(thinking|reasoning)\W{0,3}(block|_?content|_?details|_?parser)")
_REFUSING = frozenset({400, 422, 500})  # 500: a local server whose template knows the level not


def thinking_fields(
    provider: ProviderConfig, dialect: Dialect, model: str, level: Thinking, *, tools: bool
) -> dict[str, Any]:
    """The request's fields for a thinking level: those that the provider names, else those of its dialect.

    A local server of no known kind gets the template's variables too: llama.cpp ignores the other field in silence.
    """
    if level != "off" and provider.thinking_field:
        return _FIELDS[provider.thinking_field](level)
    fields = dialect.thinking(model, level, tools=tools)
    if dialect is OTHERS and is_local(provider.api_base) and (effort := fields.get("reasoning_effort")):
        return fields | _FIELDS["chat_template_kwargs"](effort)
    return fields


def thinking_warnings(config: KinConfig, models: Iterable[ModelConfig]) -> list[str]:
    """Return a warning for each thinking level that is not sent to the server, and for each unused `thinking_field`."""
    found = []
    for model in models:
        provider = next((p for p in config.providers if p.name == model.provider), None)
        if provider is None:
            continue
        if provider.api_style == "anthropic" and provider.thinking_field:
            place = config.layers.place(("providers", provider.name, "thinking_field"))
            found.append(
                f'{place}thinking_field = "{provider.thinking_field}" has no effect on {provider.name}: '
                'api_style = "anthropic" has a field of its own for it. Remove the line. To turn thinking off, set '
                'thinking = "off" of the model.'
            )
        if model.thinking != "off" and not _takes_a_level(provider, model):
            place = config.layers.place(("models", model.alias, "thinking"))
            why = _why_no_level(provider, model)
            found.append(f'{place}thinking = "{model.thinking}" has no effect on {model.alias}: {why}')
    return list(dict.fromkeys(found))


def _why_no_level(provider: ProviderConfig, model: ModelConfig) -> str:
    if provider.api_style == "anthropic" and model.max_tokens is not None:
        limit = f"its replies are limited to {model.max_tokens:,} tokens (max_tokens)"
        return f'{limit}. Raise that, or set thinking = "off".'
    known = f"no field for it is known at {provider.name} for {model.name}"
    return f'{known}. Set thinking_field of the provider, or thinking = "off".'


def _takes_a_level(provider: ProviderConfig, model: ModelConfig) -> bool:
    """True for an adapter of the user's own: what it sends is not known."""
    if provider.api_style == "anthropic":
        able = abilities(model.name)
        return bool(able.thinking(model.thinking, model.max_tokens or able.max_tokens))
    if provider.api_style not in {"openai", "mistral"}:
        return True
    is_mistral = provider.api_style == "mistral" or provider.backend is Backend.MISTRAL
    dialect = MISTRAL if is_mistral else dialect_of(provider)
    fields = thinking_fields(provider, dialect, model.name, model.thinking, tools=False)
    return fields.get("reasoning_effort") != "none" and bool(fields)


def refuses_thinking(error: BackendError) -> bool:
    """Whether the server says that it is the thinking level that it cannot take."""
    if error.status not in _REFUSING or type(error) is not BackendError:
        return False
    if _OF_THE_REPLY_OR_HISTORY.search(error.body):
        return False  # thoughts of before, or the reading of new ones: the level is not what is wrong
    return _REFUSED.search(error.body) is not None


def thinking_refused(model: ModelConfig, provider: ProviderConfig, error: BackendError) -> str:
    field = "" if provider.api_style == "anthropic" else " thinking_field of the provider,"
    return (
        f'{model.alias} is asked without thinking = "{model.thinking}", which {provider.name} refused: {error.what}\n'
        f'Set thinking = "off" for {model.alias},{field} or choose another model.'
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
