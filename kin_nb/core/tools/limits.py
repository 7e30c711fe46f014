"""How much of a result the model gets."""

from __future__ import annotations

MODEL_LIMIT = 40_000
"""Characters."""


def capped(text: str) -> str:
    """Both ends of a long text, and how much is left out between them."""
    if len(text) <= MODEL_LIMIT:
        return text
    half = MODEL_LIMIT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def closed(text: str) -> str:
    """A result that holds what looks like a note of ours does not end with it: only ours stand at a message's very end."""
    return f"{text}\n[end of the result]" if "[kin_nb:" in text else text
