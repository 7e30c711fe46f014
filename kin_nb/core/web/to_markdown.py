"""HTML on stdin, `{"title": ..., "text": ...}` on stdout: a program of its own, started by pages.py and killed by it.

Some pages make any HTML parser slow, and a thread that does not end cannot be stopped, but a process can.
This program imports nothing of kin_nb.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from contextlib import suppress
from typing import Any

from bs4 import BeautifulSoup, Tag
from markdownify import ATX, MarkdownConverter

SECONDS = 15
"""Seconds of processor time, a limit in case kin_nb is gone and cannot end this program."""
_MEMORY = 2_000_000_000
_ENOUGH = 300
"""Characters that a part of the page needs to count as its main content."""
_UNREAD = ("script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "head", "title")
_AROUND = ("nav", "footer", "aside")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_NO_PAGES = ("#", "javascript:", "data:", "mailto:", "tel:")
_PERMALINKS = {"¶", "#", "§", "🔗", ""}


class _Converter(MarkdownConverter):
    """Keep of a link its text and address; of a link within the page, and of a picture, only the text."""

    def convert_a(self, el: Any, text: str, parent_tags: set[str]) -> str:
        target = str(el.get("href") or "").strip()
        if target.lower().startswith(_NO_PAGES) or not target:
            return "" if text.strip() in _PERMALINKS and target else text
        if "_noformat" in parent_tags or not text.strip():
            return text
        return f"[{text.strip()}]({target})"

    def convert_img(self, el: Any, text: str, parent_tags: set[str]) -> str:
        del text, parent_tags
        return str(el.get("alt") or "")


def page(html: str) -> dict[str, str]:
    """Return the title, and the main part as Markdown: <main>, or the only <article>, else all except the page's frame."""
    soup = BeautifulSoup(html, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for element in soup.find_all(_is_unread):
        element.decompose()
    return {"title": title, "text": _text(_main(soup))}


def _is_unread(element: Tag) -> bool:
    return (
        element.name in _UNREAD or element.has_attr("hidden") or bool(_HIDDEN.search(str(element.get("style") or "")))
    )


def _main(soup: BeautifulSoup) -> Tag:
    articles = soup.find_all("article", limit=2)
    parts = [soup.find("main"), soup.find(None, {"role": "main"}), articles[0] if len(articles) == 1 else None]
    for part in parts:
        if isinstance(part, Tag) and len(part.get_text(strip=True)) >= _ENOUGH:
            return part
    frame = soup.find_all(_AROUND)
    if len(soup.get_text(strip=True)) - sum(len(part.get_text(strip=True)) for part in frame) >= _ENOUGH:
        for part in frame:
            part.decompose()
    return soup


def _text(part: Tag) -> str:
    converter = _Converter(heading_style=ATX, bullets="-", escape_asterisks=False, escape_underscores=False)
    try:
        text = str(converter.convert_soup(part))
    except RecursionError:  # nested deeper than any page that is meant to be read
        text = part.get_text("\n")
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


def main() -> None:
    for limit, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, _MEMORY)):
        with suppress(ValueError, OSError):  # a lower limit is in force; macOS has none on memory
            resource.setrlimit(limit, (most, most))
    json.dump(page(sys.stdin.buffer.read().decode("utf-8", "replace")), sys.stdout)


if __name__ == "__main__":
    main()
