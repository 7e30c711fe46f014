"""Questions that the agent asks the person (the ask_user tool), and what answers where nobody can be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from kin_nb.core.tool_types import ToolError


@dataclass(frozen=True)
class Question:
    """`text` and `choices` are the model's words. With `own_words` an answer of the person's own is possible; with
    `multiple`, several choices are. `call_id`: the tool call that asks, in whose card the question is shown.

    `code`: pieces of Python that the question is about, all of which is shown; `reason`: why that is asked.
    """

    text: str
    choices: tuple[str, ...] = ()
    multiple: bool = False
    call_id: str = ""
    own_words: bool = True
    reason: str = ""
    code: tuple[str, ...] = ()


AskQuestion: TypeAlias = Callable[[Question], Awaitable[str]]
"""`await ask(question)`: what the person answers, never empty; each chosen choice to the letter, on a line of its own.

Raises ToolError when nobody answers.
"""


async def nobody(question: Question) -> str:  # noqa: ARG001  (an AskQuestion)
    """Never a hang, never an invented answer."""
    raise ToolError("Nobody can be asked here. Decide yourself, and say what you assumed.")
