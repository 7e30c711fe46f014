"""Whole outputs, on their way: a tool that cuts what it got hands over all of it, and the session keeps that."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from kin_nb.core.session.whole_outputs import WHOLE_LIMIT

KEPT_UNTIL_REDACTED = WHOLE_LIMIT + 65_536
"""Bytes that a tool keeps of a longer one: the cut is made in redacted text, so that it leaves no half of a secret."""


@dataclass(frozen=True)
class Whole:
    """All of an output, or its beginning and how many bytes came after that."""

    text: str = field(repr=False)
    more: int = 0


whole_output: ContextVar[Callable[[Whole], None] | None] = ContextVar("whole_output", default=None)
"""Who keeps what the running call cuts; set by the executor for the call's own task."""


def keep_whole(text: str, more: int = 0) -> None:
    """Called where a result gets less than `text` (and the `more` bytes that followed): nothing of it is lost."""
    sink = whole_output.get()
    if sink is not None:
        rest = text[KEPT_UNTIL_REDACTED:]
        sink(Whole(text[:KEPT_UNTIL_REDACTED], more + len(rest.encode("utf-8", "surrogatepass"))))
