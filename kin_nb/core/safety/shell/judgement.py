"""The values of a judgement, and how pieces of the line are shown in its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Judgement:
    """`reason`: for a person; names the very part that decides. `reads`: paths, relative to the workspace or absolute.

    `reads` is for harmless commands only: every file whose content they print, every folder that they list or search,
    and the sensitive files below a folder that they search.
    """

    kind: Literal["harmless", "unknown", "dangerous"]
    reason: str
    reads: tuple[str, ...] = ()


class UnprovenError(Exception):
    """Something in the line is not proven harmless. The text is the judgement's reason."""


_SHOWN = 40


_LONGEST_WORD = 200


_SHELL_WORD = re.compile(r"""\s*(?:[^\s'"\\]|\\.?|'[^']*'?|"(?:\\.|[^"\\])*"?)+""", re.DOTALL)
"""With the blanks before it; a quotation that is left open goes on to the end."""


def shown(text: str) -> str:
    """A piece of the line in a reason: one line, cut, though never within a word.

    Reasons are recorded, and what is no whole secret any more is not recognized as one.
    """
    flat = " ".join(text.split())
    if len(flat) <= _SHOWN:
        return f"`{flat}`"
    begin = whole_words(flat, _SHOWN) or whole_words(flat, _LONGEST_WORD)
    return f"`{begin}{'' if begin == flat else '…' if not begin else ' …'}`"


def shown_word(text: str) -> str:
    """One word of the line in a reason, without its quotes: all of it, or nothing."""
    return f"`{' '.join(text.split()) if len(text) <= _LONGEST_WORD else '…'}`"


def whole_words(text: str, longest: int) -> str:
    """The text up to the last word that ends within `longest` characters; what is in quotes is one word, or part of one."""
    end = 0
    for word in _SHELL_WORD.finditer(text):
        if word.end() > longest:
            break
        end = word.end()
    return text[:end]
