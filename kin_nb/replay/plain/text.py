"""What people and models wrote, as Markdown cells in which nothing runs, wherever they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kin_nb.render import clean, one_line

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINK = re.compile(r"(https?://|mailto:)|(?![\w+.-]*:|//)", re.IGNORECASE)
_ODD = re.compile(r"javascript:|\\(href|class|style|cssId|require|unicode|html)\b", re.IGNORECASE)
"""Also what only some viewers act on: in maths."""


def safe_markdown(text: str) -> str:
    """`text`, which may hold anything: in a fence when it has raw HTML, pictures, or links to other than pages and mail."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  (on first use)

    text = clean(text).strip("\n")
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    # what is no link here may be one to another viewer
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005
    harmless = not _ODD.search(text) and all(map(_is_harmless, _all(parser.parse(text))))
    return text if harmless else fenced(text, "markdown")


def fenced(text: str, language: str = "text") -> str:
    """A block that shows `text` as it is."""
    text = clean(text).strip("\n")
    fence = _ticks(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """One line, as code."""
    text = one_line(text) or " "
    ticks = _ticks(text, 1)
    blank = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def _ticks(text: str, least: int) -> str:
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", text)), least)


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _is_harmless(token: Token) -> bool:
    if token.type == "link_open":
        return bool(_LINK.match(str(token.attrGet("href") or "")))
    return token.type not in {"html_block", "html_inline", "image"}
