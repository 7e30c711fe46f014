"""How alike two texts are: a local measure without dependencies, and one for embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

_FEWEST_LINES = 8
"""From here on lines are compared, below it pieces of five characters."""
_PIECE = 5
_MOST = 4_000
"""Characters that pieces are made of, and that an embedding is asked for; half of them from the end."""


class Similarity(Protocol):
    def of(self, a: str, b: str) -> float:
        """0 for texts that share nothing, 1 for equal ones. Called seldom: after what is cheap to see has been seen."""
        ...


class ShingleSimilarity:
    """The share of distinct pieces that both texts have (Jaccard): linear in their length, blind to their order."""

    def of(self, a: str, b: str) -> float:
        if a == b:
            return 1.0
        first, second = a.splitlines(), b.splitlines()
        if min(len(first), len(second)) >= _FEWEST_LINES:
            return _shared(set(first), set(second))
        return _shared(_pieces(a), _pieces(b))


class EmbeddingSimilarity:
    """The cosine of two embeddings, each asked for once while `size` texts are remembered.

    `embed` is given at most 4,000 characters and is called in the agent's loop: it must be quick. Where it fails, or
    gives vectors that cannot be compared, the local measure answers.
    """

    def __init__(self, embed: Callable[[str], Sequence[float]], size: int = 256) -> None:
        self._embed = lru_cache(maxsize=size)(embed)
        self._local = ShingleSimilarity()

    def of(self, a: str, b: str) -> float:
        if a == b:
            return 1.0
        try:
            return _cosine(self._embed(_cut(a)), self._embed(_cut(b)))
        except Exception:  # noqa: BLE001  (a service of the person's own: no turn ends for it)
            return self._local.of(a, b)


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    cosine = product / lengths
    if not math.isfinite(cosine):
        raise ValueError("the vectors have no direction")
    return min(1.0, max(0.0, cosine))


def _shared(a: set[str], b: set[str]) -> float:
    return len(a & b) / max(1, len(a | b))


def _pieces(text: str) -> set[str]:
    text = _cut(text)
    return {text[start : start + _PIECE] for start in range(max(1, len(text) - _PIECE + 1))}


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}{text[-_MOST // 2 :]}"
