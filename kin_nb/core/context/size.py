"""How large messages are, as far as that can be said without asking the server."""

from __future__ import annotations

from collections.abc import Iterable

from kin_nb.core.messages import LLMMessage

_PER_TOKEN = 4
"""Characters of a token, about: English prose has more, code and other scripts fewer."""
_MOST_PER_TOKEN = 6
"""Characters that no tokenizer gets into a token, on the average of a whole prompt."""
_MOST_SHARE = 0.33
_PICTURE = 6_000
"""Characters that a picture counts as: servers take 1,000 to 1,600 tokens for one, however long its base64 is."""


def size_of(message: LLMMessage) -> int:
    """Characters."""
    calls = sum(len(c.function.name or "") + len(c.function.arguments or "") for c in message.tool_calls or ())
    said = len(message.content or "") + len(message.reasoning_content or "")
    return said + calls + _PICTURE * len(message.images or ())


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
