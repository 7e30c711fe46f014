"""The context window: estimates of tokens, the check that a prompt fits, and pruning of old tool results.

Pruning replaces a result by a stub that says what was there and how to get it again. A resumed session makes the same stubs
from its records, in another folder and with other secrets: they are made of redacted text. Their words are part of recorded
fingerprints: to change them is to change the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.messages import FunctionCall, LLMMessage, Role
from kin_nb.core.records import without_hint
from kin_nb.core.redaction import redact_json

if TYPE_CHECKING:
    from kin_nb.core.config import ModelConfig


_PER_TOKEN = 4
"""Characters of a token, about: English prose has more, code and other scripts fewer."""
_MOST_PER_TOKEN = 6
"""Characters that no tokenizer gets into a token, on the average of a whole prompt."""
_MOST_SHARE = 0.33
_CHARACTERS_OF_A_PICTURE = 6_000
"""Characters that a picture counts as: servers take 1,000 to 1,600 tokens for one, however long its base64 is."""


def size_of(message: LLMMessage) -> int:
    """Characters."""
    calls = sum(len(c.function.name or "") + len(c.function.arguments or "") for c in message.tool_calls or ())
    said = len(message.content or "") + len(message.reasoning_content or "")
    return said + calls + _CHARACTERS_OF_A_PICTURE * len(message.images or ())


def about_tokens(messages: Iterable[LLMMessage]) -> int:
    return sum(map(size_of, messages)) // _PER_TOKEN


def tokens_of(text: str) -> int:
    """About as many as `text` takes."""
    return len(text) // _PER_TOKEN


def share_of_each(messages: Iterable[LLMMessage], tokens: int) -> float:
    """Tokens that a character of `messages` takes, by the server's own figure; no more than is likely.

    The figure holds the tools too, and what the server adds: in a short conversation they would make it too large.
    """
    return min(tokens / max(1, sum(map(size_of, messages))), _MOST_SHARE)


def characters(tokens: int) -> int:
    """About as many as `tokens` hold."""
    return tokens * _PER_TOKEN


def fewest_tokens(messages: Iterable[LLMMessage]) -> int:
    """What a request takes at the least, so that none is held back that the server would have taken."""
    return sum(len(message.content or "") for message in messages) // _MOST_PER_TOKEN


AIM = 60
"""Per cent of the window that pruning and compaction leave filled at most, where they can: well below where they begin,
since each of them makes a prompt that no cache knows."""
LARGER_WINDOW = "Choose a model with a larger window (%kin model NAME, --model NAME), or correct its context_window."


def check_room(messages: Sequence[LLMMessage], model: ModelConfig) -> None:
    """`messages`: what cannot be taken away. Raises ContextTooLongError when they alone do not fit the window.

    The estimate is a low one, and tools are not in it: where it is in doubt, the server says.
    """
    least = fewest_tokens(messages)
    if least > model.context_window:
        raise ContextTooLongError(
            f"The prompt alone takes at least {least:,} tokens (system prompt and your request), "
            f"more than the {model.context_window:,} of {model.alias}'s window.",
            f"{LARGER_WINDOW} A shorter request helps too.",
            model=model.name,
        )


KEPT = 10
"""The last messages, which nothing is taken from (seed 004)."""
_WORTH_IT = 400
"""Characters below which a result stays: its stub would not be much shorter."""
_LEAST_GAIN = 20
"""Less than a 20th of the context is not worth a prompt that no cache knows."""
_READING = frozenset({"read_file", "list_dir", "grep", "glob", "web_fetch", "web_search", "skill"})
"""Tools of which a second call does no harm; how the others ended stays to be read."""
_MAIN_ARGUMENTS = ("path", "file_path", "command", "pattern", "query", "url", "name")
_LONGEST_LINE = 80
"""Characters of the argument, and of each line that stays."""


def prunable(messages: Sequence[LLMMessage], tokens: int, target: int) -> tuple[str, ...]:
    """The calls whose results should go, oldest first, for `messages` of `tokens` to come below `target`.

    As many as there are when that is not enough, none when they are too small to be worth it.
    """
    share = share_of_each(messages, tokens)
    left, calls = float(tokens), []
    for message in messages[:-KEPT]:
        if left < target:
            break
        size = size_of(message)
        if message.role is Role.tool and message.tool_call_id and size >= _WORTH_IT and not message.is_stub:
            left -= share * (size - _LONGEST_LINE)
            calls.append(message.tool_call_id)
    return tuple(calls) if (tokens - left) * _LEAST_GAIN >= tokens else ()


def stub(
    message: LLMMessage, call: FunctionCall, redact: Callable[[str], str], expand: Callable[[str], str]
) -> LLMMessage:
    """What stays of a tool's answer to `call`: its hint, where all of it is, too. `expand` puts this machine's paths in."""
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
    """The first and the last line that say something: what failed says why in one of them."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = lines[:1] + lines[1:][-1:]
    return [_short(line) for line in ends]


def _main_argument(arguments: str) -> str:
    """Of the call's JSON: the argument that says what it was about, "" when there is none."""
    try:
        given: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return _short(arguments)
    if not isinstance(given, dict):
        return ""
    texts = {name: value for name, value in given.items() if isinstance(value, str) and value.strip()}
    return _short(next((texts[name] for name in (*_MAIN_ARGUMENTS, *texts) if name in texts), ""))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
