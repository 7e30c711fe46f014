"""Questions from the agent to the user (the ask_user tool), and the answer when there is no user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from kin_nb.core.tool_types import ToolError


@dataclass(frozen=True)
class Question:
    """A question. The model wrote `text` and `choices`.

    `own_words`: the user may type another answer. `multiple`: the user may select several choices. `call_id`: the tool
    call in whose card the question is shown. `code`: Python code that the question is about, shown in full; `reason`: why
    the user is asked about it.
    """

    text: str
    choices: tuple[str, ...] = ()
    multiple: bool = False
    call_id: str = ""
    own_words: bool = True
    reason: str = ""
    code: tuple[str, ...] = ()


AskQuestion: TypeAlias = Callable[[Question], Awaitable[str]]
"""`await ask(question)` returns the user's answer, which is never empty. Selected choices are verbatim, one on each line.

Raises ToolError if there is no answer.
"""


async def no_user(question: Question) -> str:  # noqa: ARG001  (an AskQuestion)
    """Answer where no user can: raise ToolError, so that the model neither waits nor gets an invented answer."""
    raise ToolError("No one can be asked here. Decide yourself, and say what you assumed.")
