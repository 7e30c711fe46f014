r"""Untrusted text made safe to look at: terminal sequences out, hidden characters in sight, HTML escaped.

Two readings of a text. `clean` is for what a program printed: colours and titles are removed, as a terminal would.
`reveal_hidden` is for what a user decides about (commands, arguments, paths, patches): nothing is removed, ESC shows as ⟨U+001B⟩.
The ranges are written out because `unicodedata` differs between Pythons, and a card must not (playback compares bytes).

`Html` is a type: a text becomes one by `escape`, and several become one by `fill` and `join`, whose templates are literals.
So mypy proves that nothing is drawn that was not escaped; tests/unit/render/test_html_type.py lists the few exceptions.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import NewType

from kin_nb.core.text import shorten

Html = NewType("Html", str)
"""Markup, safe to draw: whatever was text in it has been escaped."""
Attribute = NewType("Attribute", str)
"""The value of an attribute, between double quotes: only constants of kin_nb, never untrusted text."""
NOTHING = Html("")

WRAPPED = Attribute("white-space:pre-wrap;word-break:break-word")
"""For text in a <pre>. JupyterLab alone would break a line in the middle of a word."""
CARD_LIMIT = 2_000
"""Most characters of one result on a card."""

# No body runs over the start of another sequence: the search stays linear in hostile output.
_TERMINAL = re.compile(
    r"""(?:\x1b\]|\x9d) [^\x07\x1b\x80-\x9f\n]* (?:\x07|\x1b\\|\x9c)       # OSC: titles, hyperlinks
      | (?:\x1b[PX^_]|[\x90\x98\x9e\x9f]) [^\x1b\x80-\x9f\n]* (?:\x1b\\|\x9c)  # DCS, SOS, PM, APC
      | (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]                                # CSI: colours, cursor
      | \x1b [ -/]* [0-OQ-WYZ\\`-~]                                        # two-character sequences
    """,
    re.VERBOSE,
)

# Letters between which a joiner is spelling, and symbols between which it makes one emoji.
_JOINED = "\u0600-\u06ff\u0900-\u0dff\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_SYMBOL = "#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # controls, fillers
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # bidi
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # lone surrogates, tags
    f"|(?<![{_JOINED}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])"
    f"|(?<![{_SYMBOL}])[\ufe0e\ufe0f]"
)


def reveal_hidden(text: str) -> str:
    """Replace invisible and reordering characters by their code, such as ⟨U+202E⟩. Tab and newline stay."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def clean(text: str) -> str:
    """Clean the output of a program: remove ANSI, OSC and DCS sequences, normalize line ends, then `reveal_hidden`."""
    return reveal_hidden(_TERMINAL.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, limit: int = 160) -> str:
    """Return `text`, with hidden characters revealed, on one line of at most `limit` characters."""
    line = reveal_hidden(text.strip().replace("\n", " ⏎ ").replace("\t", " "))
    return shorten(line, limit)


def clip(text: str, limit: int = CARD_LIMIT) -> str:
    """Cut a long text in the middle: keep at most `limit` characters of head and tail, cut between lines if possible."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[-(limit // 2) :]
    if "\n" in head[-200:]:
        head = head[: head.rindex("\n")]
    if "\n" in tail[:200]:
        tail = tail[tail.index("\n") + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n… {left_out:,} more characters; the session log has all of it …\n{tail}"


def line_count(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def indent(text: str) -> str:
    """Indent for text/plain: only the first line of a card starts at the margin, so output cannot imitate one."""
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))


def escape(text: str) -> Html:
    """Escape for element content. Untrusted text is never put into an attribute."""
    return Html(html.escape(text, quote=False))


def inline_code_html(text: str) -> Html:
    """Escape `text`, and format the parts between backticks as code."""
    parts = enumerate(re.split("`([^`]+)`", text))
    return join("", (fill("<code>{}</code>", escape(part)) if n % 2 else escape(part) for n, part in parts))


def escape_quotes(text: str) -> Html:
    """Escape like `escape`, and quotes too."""
    return Html(html.escape(text))


def fill(template: str, *content: Html | int, **attributes: Attribute) -> Html:
    """Fill a literal template: `content` for each `{}`, and `attributes` by their names inside of tags."""
    return Html(template.format(*content, **attributes))


def join(separator: str, pieces: Iterable[Html]) -> Html:
    """Join the pieces with a literal separator."""
    return Html(separator.join(pieces))


def styles(*declarations: Attribute) -> Attribute:
    """Join the declarations that are not empty to the value of a style attribute."""
    return Attribute(";".join(filter(None, declarations)))


def pre(text: str) -> Html:
    """Format text from `clean` or `reveal_hidden` as a block. Lines wrap, so that spaces push nothing out of sight."""
    return pre_html(escape(text))


def pre_html(html: Html, style: Attribute = Attribute("")) -> Html:
    """Format HTML as a block. `style`: more declarations, each after a semicolon.

    <code>, because pages of nbconvert set a <pre> alone in their text's font.
    """
    return fill(
        '<pre style="{wrapped};margin:4px 0{style}"><code>{}</code></pre>\n', html, wrapped=WRAPPED, style=style
    )
