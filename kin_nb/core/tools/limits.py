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
