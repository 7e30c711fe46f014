"""The room of a window: how much of it is filled at most when something gives way, and a prompt that does not fit it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kin_nb.core.context.size import fewest_tokens
from kin_nb.core.llm.errors import ContextTooLongError
from kin_nb.core.messages import LLMMessage

if TYPE_CHECKING:
    from kin_nb.core.config import ModelConfig

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
