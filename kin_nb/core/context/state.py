"""HistoryState: a conversation as it was at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kin_nb.core.messages import LLMMessage


@dataclass(frozen=True)
class HistoryState:
    """The messages themselves, not copies: a mark costs a pointer for each of them. The rest is History's own business."""

    messages: tuple[LLMMessage, ...]
    hidden: tuple[Any, ...]
