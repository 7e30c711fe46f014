"""A piece of a card's body."""

from __future__ import annotations

from typing import NamedTuple

from kin_nb.render.text import pre


class Part(NamedTuple):
    """HTML and text of the same thing."""

    html: str
    text: str

    @staticmethod
    def block(text: str) -> Part:
        """`text` has been through `clean` or `literal`."""
        return Part(pre(text), text)
