"""The context window: token estimates, the check that a prompt fits, and pruning of old tool results.

Pruning replaces a result by a placeholder, which describes it and how to get it again. Placeholders are made from redacted
text, so that a resumed session makes the same ones in another folder. Their text is part of recorded fingerprints: a change
of it is a change of the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.messages import FunctionCall, LLMMessage, Role
from kin_nb.core.records import without_hint
from kin_nb.core.redaction import redact_json
from kin_nb.core.text import shorten

if TYPE_CHECKING:
    from kin_nb.core.config import ModelConfig


_PER_TOKEN = 4
"""Average characters per token: more in English prose, fewer in code and other scripts."""
_MOST_PER_TOKEN = 6
"""Upper bound of the average characters per token of a whole prompt, for any tokenizer."""
_MOST_SHARE = 0.33
_CHARACTERS_OF_A_PICTURE = 6_000
"""Size of a picture, in characters: servers count 1,000 to 1,600 tokens for one, independent of its base64."""


def size_of(message: LLMMessage) -> int:
    """Return the size of a message in characters."""
    calls = sum(len(c.function.name or "") + len(c.function.arguments or "") for c in message.tool_calls or ())
    said = len(message.content or "") + len(message.reasoning_content or "")
    return said + calls + _CHARACTERS_OF_A_PICTURE * len(message.images or ())


def estimate_tokens(messages: Iterable[LLMMessage]) -> int:
    return sum(map(size_of, messages)) // _PER_TOKEN


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return len(text) // _PER_TOKEN


def tokens_per_character(messages: Iterable[LLMMessage], tokens: int) -> float:
    """Return tokens per character of `messages`, from the server's count `tokens`; at most _MOST_SHARE.

    The count includes the tool schemas, which would make the ratio of a short conversation too large.
    """
    return min(tokens / max(1, sum(map(size_of, messages))), _MOST_SHARE)


def characters(tokens: int) -> int:
    """Estimate the characters of so many tokens."""
    return tokens * _PER_TOKEN


def min_tokens(messages: Iterable[LLMMessage]) -> int:
    """Return a lower bound of a request's tokens, so that a request that the server would accept is always sent."""
    return sum(len(message.content or "") for message in messages) // _MOST_PER_TOKEN


TARGET_PERCENT = 60
"""Percent of the window that are filled after pruning or compaction, if possible: well below the thresholds at which these
start, because each of them invalidates the provider's cache."""
LARGER_WINDOW = "Choose a model with a larger window (%kin model NAME, --model NAME), or correct its context_window."


def check_fits(messages: Sequence[LLMMessage], model: ModelConfig) -> None:
    """Raise ContextTooLongError when `messages`, which cannot be shortened, do not fit the window.

    The estimate is a lower bound without the tool schemas; the server decides about sizes near the limit.
    """
    least = min_tokens(messages)
    if least > model.context_window:
        raise ContextTooLongError(
            f"The prompt alone takes at least {least:,} tokens (system prompt and your request), "
            f"more than the {model.context_window:,} of {model.alias}'s window.",
            f"{LARGER_WINDOW} A shorter request helps too.",
            model=model.name,
        )


KEPT = 10
"""Number of last messages that are never pruned."""
_WORTH_IT = 400
"""A result with fewer characters is not pruned: its placeholder would not be much shorter."""
_LEAST_GAIN = 20
"""Pruning must save at least 1/20 of the context, because it invalidates the provider's cache."""
_READING = frozenset({"read_file", "list_dir", "grep", "glob", "web_fetch", "web_search", "skill"})
"""Tools that can be called again without side effects; of other tools, the first and the last line are kept."""
_MAIN_ARGUMENTS = ("path", "file_path", "command", "pattern", "query", "url", "name")
_LONGEST_LINE = 80
"""Most characters of the argument, and of each kept line."""


def prunable(messages: Sequence[LLMMessage], tokens: int, target: int) -> tuple[str, ...]:
    """Return the ids of the calls whose results to prune, oldest first, so that `tokens` falls below `target`.

    All that can be pruned if that is not enough; none if the saving is too small.
    """
    share = tokens_per_character(messages, tokens)
    left, calls = float(tokens), []
    for message in messages[:-KEPT]:
        if left < target:
            break
        size = size_of(message)
        if message.role is Role.tool and message.tool_call_id and size >= _WORTH_IT and not message.is_stub:
            left -= share * (size - _LONGEST_LINE)
            calls.append(message.tool_call_id)
    return tuple(calls) if (tokens - left) * _LEAST_GAIN >= tokens else ()


def placeholder(
    message: LLMMessage, call: FunctionCall, redact: Callable[[str], str], expand: Callable[[str], str]
) -> LLMMessage:
    """Return the placeholder for the result of `call`, with its hint at the full output. `expand` inserts local paths."""
    hint = redact(message.hint)
    text = without_hint(redact(message.content or ""), hint)
    name = " ".join((message.name or call.name or "tool").split())
    head = " ".join(filter(None, [name, _main_argument(redact_json(call.arguments or "", redact))]))
    what = f"{len(text):,} characters"
    if pictures := len(message.images or ()):
        what += f" and {pictures} picture{'s' if pictures > 1 else ''}"
    todo = "to see them" if name in _READING else "only if that does no harm"
    lines = [f"[{head}: {what} were here; call it again {todo}]"]
    if name not in _READING:
        lines += _ends(text)
    lines += filter(None, [hint])
    return message.changed(content=expand("\n".join(lines)), images=None, is_stub=True)


def _ends(text: str) -> list[str]:
    """Return the first and the last line that are not blank: one of them usually has the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = lines[:1] + lines[1:][-1:]
    return [_short(line) for line in ends]


def _main_argument(arguments: str) -> str:
    """Return the main argument of a call, from its JSON; "" without one."""
    try:
        given: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return _short(arguments)
    if not isinstance(given, dict):
        return ""
    texts = {name: value for name, value in given.items() if isinstance(value, str) and value.strip()}
    return _short(next((texts[name] for name in (*_MAIN_ARGUMENTS, *texts) if name in texts), ""))


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), _LONGEST_LINE)
