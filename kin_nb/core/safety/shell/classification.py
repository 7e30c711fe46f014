"""The class of a command line, and how its reason shows parts of the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Classification:
    """`reason`: one line for the user, naming the deciding part. `reads`: paths, relative to the workspace or absolute.

    `reads` is filled for read-only commands: each file whose content is printed, each folder that is listed or searched, and the
    sensitive files below a folder that is searched.
    """

    kind: Literal["read-only", "unknown", "dangerous"]
    reason: str
    reads: tuple[str, ...] = ()


class UnprovenError(Exception):
    """A part of the line is not proven read-only. The text becomes the reason."""


_SHOWN = 40


_LONGEST_WORD = 200


_SHELL_WORD = re.compile(r"""\s*(?:[^\s'"\\]|\\.?|'[^']*'?|"(?:\\.|[^"\\])*"?)+""", re.DOTALL)
"""A word with the blanks before it. An open quotation extends to the end."""


def shown(text: str) -> str:
    """Format a part of the line for a reason: one line, cut between words.

    Reasons are recorded, and the redaction does not recognize a part of a secret.
    """
    flat = " ".join(text.split())
    if len(flat) <= _SHOWN:
        return f"`{flat}`"
    begin = whole_words(flat, _SHOWN) or whole_words(flat, _LONGEST_WORD)
    return f"`{begin}{'' if begin == flat else '…' if not begin else ' …'}`"


def shown_word(text: str) -> str:
    """Format one word, without quotes, for a reason: whole, or only `…`."""
    return f"`{' '.join(text.split()) if len(text) <= _LONGEST_WORD else '…'}`"


def whole_words(text: str, longest: int) -> str:
    """Return the text up to the last word that ends within `longest` characters. A quotation is never cut."""
    end = 0
    for word in _SHELL_WORD.finditer(text):
        if word.end() > longest:
            break
        end = word.end()
    return text[:end]
