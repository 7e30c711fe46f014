"""What running calls were seen to print: all that there is of a result when one is interrupted."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

MOST = 40_000
"""Characters that are kept of one call, the newest."""


@dataclass
class _Tail:
    pieces: deque[str] = field(default_factory=deque)
    size: int = 0
    cut: bool = False

    def add(self, text: str) -> None:
        self.cut = self.cut or len(text) > MOST
        self.pieces.append(text[-MOST:])
        self.size += len(self.pieces[-1])
        while self.size - len(self.pieces[0]) >= MOST:
            self.size -= len(self.pieces.popleft())
            self.cut = True


class Printed:
    """By call id."""

    def __init__(self) -> None:
        self._tails: defaultdict[str, _Tail] = defaultdict(_Tail)

    def add(self, call_id: str, text: str) -> None:
        self._tails[call_id].add(text)

    def take(self, call_id: str) -> str:
        """What there is of it, which is not kept any longer. "" for none."""
        tail = self._tails.pop(call_id, _Tail())
        text = "".join(tail.pieces).rstrip("\n")
        return f"[earlier output left out]\n{text}" if tail.cut else text
