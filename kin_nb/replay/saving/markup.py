"""Taking something out of HTML and SVG as they read: `R&amp;D's` is `R&D's` there."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

_PARTS = re.compile(
    r"""(?xsi)
    <!--(?P<hidden>.*?)(?:-->|\Z)
    | (?P<tag>
        <(?:(?P<bare>script|style|textarea|title)(?![^\s/>]) | [a-z])
        (?:[^>=]++ | =\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))*  >?
      )
      (?(bare) (?: (?<=/>) | (?P<inner>.*?)(?=</(?P=bare)(?![^\s/>])|\Z)))
    | <[/!?][^>]*+>?
    | (?P<text>(?:[^<]++ | <(?![a-z/!?]))+)
    """
)
"""A comment, a tag (with what is in it where no tag can be), the end of one, what stands between."""
_PROGRAMS = frozenset({"script", "style"})
_VALUE = re.compile(r"""=(?P<gap>\s*+)(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<word>[^\s>]++))""")
_RUN = re.compile(r"""[^<>"']+""")
_DEEPEST = 4


def clean_markup(text: str, clean: Callable[[str], str], deepest: int = _DEEPEST) -> str:
    """`text` with what `clean` changes where something is escaped; the rest, to the letter, is for the caller to clean afterwards.

    `clean` gets what a reader sees: the text between two tags, and the values of attributes. These may be pages (`srcdoc`),
    `deepest` within each other. Then, as in scripts and broken markup, what stands between any two brackets or quotes.
    """
    if "&" not in text:
        return text

    def value(found: re.Match[str]) -> str:
        before = found["double"] or found["single"] or found["word"] or ""
        after = _reading(before, page)
        return found[0] if after == before else f'={found["gap"]}"{after}"'

    def page(plain: str) -> str:
        plain = clean(plain)
        return clean_markup(plain, clean, deepest - 1) if deepest else plain

    def part(found: re.Match[str]) -> str:
        if found["tag"]:
            inner = found["inner"] or ""
            reads = inner if found["bare"] and found["bare"].lower() in _PROGRAMS else _reading(inner, clean)
            return _VALUE.sub(value, found["tag"]) + reads
        between = found["hidden"] or found["text"] or ""
        return found[0].replace(between, _reading(between, clean))

    return _RUN.sub(lambda run: _reading(run[0], clean), _PARTS.sub(part, text))


def _reading(escaped: str, clean: Callable[[str], str]) -> str:
    """What `clean` makes of a text, unescaped, and escaped again; to the letter where that is nothing."""
    plain = html.unescape(escaped)
    return escaped if plain == escaped or (new := clean(plain)) == plain else html.escape(new)
