"""Taking something out of HTML and SVG as they read: `R&amp;D's` is `R&D's` there, and so is `R&amp;<b>D's</b>`.

The page is read by html.parser, whose versions differ in broken markup. So no result rests on it alone: a page that may
still show, read in another way, what should go is replaced by its text. What shows nothing of it stays byte for byte.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from html.parser import HTMLParser
from itertools import accumulate, pairwise

Clean = Callable[[str], str]

_DEEPEST = 4
_PROGRAMS = frozenset({"script", "style"})
_TEXT_ONLY = frozenset({"textarea", "title"})
"""Elements without tags in them. html.parser knows them since Python 3.13.6 and 3.14."""
_APART = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog"),
        *("dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "head", "header", "hr", "html", "iframe", "legend", "li", "main", "menu", "nav", "ol"),
        *("optgroup", "option", "p", "pre", "section", "select", "summary", "table", "tbody", "td", "text"),
        *("textarea", "tfoot", "th", "thead", "title", "tr", "ul"),
    }
)
"""Elements whose text is not read together with what is before and after them."""
_RUN = re.compile(r"""[^<>"']+""")
_UNSEEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
"""Characters that show nothing between two others."""
_OPEN_VALUE = re.compile(r"""=\s*+(["'])(?:(?!\1).)*+\Z""", re.DOTALL)
"""At the end of a tag that was taken to end in the middle of an attribute's value."""
_COMMENT_ENDS = re.compile("--!?>")
_BLANKS = " \t\n\r\f"


def clean_markup(text: str, clean: Clean, deepest: int = _DEEPEST, look: Clean | None = None) -> str:
    """Apply `clean` to the parts of `text` with escapes; the caller cleans the rest, which is unchanged.

    `clean` gets what a reader sees: the text between two tags, and the values of attributes. These may be pages (`srcdoc`),
    `deepest` within each other. Then, as in scripts and broken markup, the text between any two brackets or quotes.
    Where a match is left that tags, comments or unseen characters split, the result is the page's text without markup.
    `look` is asked first: `clean`, for who counts what that finds.
    """
    if "<" not in text and "&" not in text:
        return text
    page = _Page(clean, look or clean, deepest)
    parts = _parts(text)
    sources = list(map(page.cleaned, parts))
    shown = "".join(source for part, source in zip(parts, sources, strict=True) if part.kind is not _Kind.PROGRAM)
    for runs in (_seen(parts), _seen_between_brackets(shown)):
        if any(map(page.is_split, runs)):
            return page.as_text(runs)
    cleaned = _RUN.sub(lambda run: page.reading(run[0], clean), "".join(sources))
    return page.as_text(_seen(parts)) if page.shows_more_unescaped(cleaned) else cleaned


class _Kind(Enum):
    TEXT = auto()
    PROGRAM = auto()
    TAG = auto()
    END = auto()
    OTHER = auto()
    """Comments, declarations, and what no parser knows."""


@dataclass(frozen=True)
class _Part:
    """A part of a page. `raw`: its source; all parts joined are the page.

    `said`: the text as it reads; the inside of a comment, as it is written; the name of a tag.
    """

    kind: _Kind
    at: int
    said: str
    attributes: Sequence[tuple[str, str | None]] = ()
    raw: str = ""
    end: str = ""
    """What a tag lacks at the end of the page."""


class _Reader(HTMLParser):
    """Splits a page into parts, with their positions."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[_Part] = []
        self._lines = [0, *accumulate(len(line) + 1 for line in page.split("\n"))]
        self._last_comment_ends = max(page.rfind("-->"), page.rfind("--!>"))
        try:
            self.feed(page)
            self.close()
            self.read = len(page) - len(self.rawdata)
        except AssertionError:  # how html.parser says that it does not know a declaration
            self.read = self._at()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(_Part(_Kind.TAG, self._at(), tag, attrs))
        if tag in _TEXT_ONLY:
            self.set_cdata_mode(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(_Part(_Kind.TAG, self._at(), tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(_Part(_Kind.END, self._at(), tag))

    def handle_data(self, data: str) -> None:
        kind = _Kind.PROGRAM if self.cdata_elem in _PROGRAMS else _Kind.TEXT
        if self.parts and self.parts[-1].kind is kind is _Kind.TEXT:  # `a < b` comes in three
            last = self.parts.pop()
            self.parts.append(replace(last, said=last.said + data))
        else:
            self.parts.append(_Part(kind, self._at(), data))

    def handle_comment(self, data: str) -> None:
        self.parts.append(_Part(_Kind.OTHER, self._at(), data))

    def handle_decl(self, decl: str) -> None:
        self.handle_comment(decl)

    def handle_pi(self, data: str) -> None:
        self.handle_comment(data)

    def unknown_decl(self, data: str) -> None:
        self.handle_comment(data)

    def parse_comment(self, i: int, report: int = 1) -> int:  # noqa: ARG002
        """Find the end of a comment as browsers do; html.parser knows `--!>` and `<!-->` only since Python 3.13.6."""
        end = _COMMENT_ENDS.search(self.rawdata, i + 2) if i < self._last_comment_ends else None
        if end is None:
            return -1
        self.handle_comment(self.rawdata[i + 4 : end.start()])
        return end.end()

    def parse_marked_section(self, i: int, report: int = 1) -> int:  # noqa: ARG002
        """Read `<![CDATA[` up to its end: html.parser knows only the sections of HTML 4, and fails for others."""
        closed = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        end = self.rawdata.find(closed, i)
        if end < 0:
            return -1
        self.unknown_decl(self.rawdata[i + 3 : end])
        return end + len(closed)

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column


def _parts(text: str) -> list[_Part]:
    """Split a page. html.parser never sees the text after the last `>`: it would search for the end of that tag repeatedly."""
    reader = _Reader(text[: text.rfind(">") + 1])
    read, inside = reader.read, reader.cdata_elem
    if inside is None and (begins := re.compile("<[a-zA-Z/!?]").search(text, read)):
        rest = [*_text(text[read : begins.start()]), _unfinished(text[begins.start() :])]
    else:
        rest = _text(text[read:], _Kind.PROGRAM if inside in _PROGRAMS else _Kind.TEXT)
    ends = pairwise([*(part.at for part in reader.parts), read])
    found = [_with_raw(part, text[at:end]) for part, (at, end) in zip(reader.parts, ends, strict=True)]
    return [_Part(_Kind.OTHER, 0, "", raw=text[: reader.parts[0].at if reader.parts else read]), *found, *rest]


def _with_raw(part: _Part, raw: str) -> _Part:
    """A text is as it is written there, unless there is more than the text; versions of html.parser differ in <textarea>."""
    if part.kind is _Kind.TEXT and html.unescape(part.said) == html.unescape(raw):
        return replace(part, raw=raw, said=html.unescape(raw))
    return replace(part, raw=raw)


def _text(raw: str, kind: _Kind = _Kind.TEXT) -> list[_Part]:
    return [_Part(kind, 0, html.unescape(raw), raw=raw)] if raw else []


def _unfinished(raw: str) -> _Part:
    """Complete a tag that the end of the page cuts off."""
    if not raw[1].isalpha():
        return _Part(_Kind.OTHER, 0, raw[4 if raw.startswith("<!--") else 2 :], raw=raw)
    for end in (">", '">', "'>"):
        reader = _Reader(f"{raw}{end}")
        if [(part.kind, part.at) for part in reader.parts] == [(_Kind.TAG, 0)]:
            return replace(reader.parts[0], raw=raw, end=end)
    return _text(raw)[0]


def _values(tag: str, part: _Part) -> list[tuple[int, int]] | None:
    """Return the position of each attribute value in `tag`, with its quotes; None if html.parser read other attributes."""
    found: list[tuple[str, int, int]] = []
    at, end = 1 + len(part.said), len(tag) - (2 if tag.endswith("/>") else 1)
    while (at := _after(tag, at, f"{_BLANKS}/")) < end:
        name = at
        at = _until(tag, at + 1, f"{_BLANKS}/=>")
        named, value = tag[name:at].lower(), _after(tag, at, _BLANKS)
        if tag[value : value + 1] != "=":
            found.append((named, at, at))
            continue
        begin = _after(tag, value, f"{_BLANKS}=")
        quoted = tag[begin : begin + 1] in ("'", '"')
        at = tag.find(tag[begin], begin + 1) + 1 if quoted else _until(tag, begin, f"{_BLANKS}>")
        if not at:
            return None
        found.append((named, begin, at))
    read = [(name, html.unescape(_unquoted(tag[begin:at]))) for name, begin, at in found]
    same = _unescaped(read) == _unescaped([(name, value or "") for name, value in part.attributes])
    return [(begin, at) for _, begin, at in found] if same else None


def _unescaped(attributes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Versions of html.parser differ in `&amp` without its semicolon."""
    return [(name, html.unescape(value)) for name, value in attributes]


def _after(tag: str, at: int, those: str) -> int:
    """Return the first position from `at` on with a character not in `those`."""
    while at < len(tag) and tag[at] in those:
        at += 1
    return at


def _until(tag: str, at: int, those: str) -> int:
    while at < len(tag) and tag[at] not in those:
        at += 1
    return at


def _unquoted(value: str) -> str:
    return value[1:-1] if value[:1] in ("'", '"') else value


def _cdata(part: _Part) -> str | None:
    """Return the text of a CDATA part, which SVG draws verbatim."""
    name, found, inside = part.said.removeprefix("[").partition("[")
    return inside.removesuffix("]]") if part.kind is _Kind.OTHER and found and name == "CDATA" else None


Runs = list[list[str]]
"""What is read together: each text is between two tags or unseen characters."""


class _Seen:
    """Collects the runs of a page: texts that are read together."""

    def __init__(self) -> None:
        self._runs: Runs = [[]]
        self._inline: set[str] = set()

    @property
    def runs(self) -> Runs:
        return [run for run in self._runs if run]

    def tag(self, name: str, style: str = "") -> None:
        """Handle a start or end tag. An element with a display style may be within a line."""
        if "display" in style.lower():
            self._inline.add(name)
        if name in _APART and name not in self._inline:
            self._runs.append([])

    def text(self, text: str) -> None:
        self._runs[-1] += _UNSEEN.split(text)


def _seen(parts: Sequence[_Part]) -> Runs:
    seen = _Seen()
    for part in parts:
        if part.kind in (_Kind.TAG, _Kind.END):
            seen.tag(part.said, next((value or "" for name, value in part.attributes if name == "style"), ""))
        elif part.kind is _Kind.TEXT:
            seen.text(part.said)
        elif (cdata := _cdata(part)) is not None:
            seen.text(cdata)
    return seen.runs


def _seen_between_brackets(text: str) -> Runs:
    """As who takes every `<...>` for a tag: a comment that continues for one parser may have an end for another."""
    seen = _Seen()
    before, *pieces = text.split("<")
    seen.text(html.unescape(before))
    for piece in pieces:
        tag, closed, after = piece.partition(">")
        while (value := _OPEN_VALUE.search(tag)) and value[1] in after:
            more, _, after = after.partition(value[1])[2].partition(">")
            tag = f"{value[1]}{more}"
        if closed:
            seen.tag(re.split(r"[\s/>]", piece.lstrip("/"), maxsplit=1)[0].lower(), piece[: len(piece) - len(after)])
        seen.text(html.unescape(after if closed else f"<{piece}"))
    return seen.runs


@dataclass(frozen=True)
class _Page:
    clean: Clean
    look: Clean
    deepest: int

    def cleaned(self, part: _Part) -> str:
        """Return the source of a part with the redactions applied."""
        if part.kind is _Kind.TEXT:
            new = part.said if part.said == part.raw else self.clean(part.said)
            return part.raw if new == part.said else html.escape(new)
        if part.kind is _Kind.TAG:
            return self._cleaned_tag(part)
        if part.kind is _Kind.OTHER and part.said:
            new = self.reading(part.said, self.clean)
            return part.raw.replace(part.said, new) if part.said in part.raw else html.escape(new)
        return part.raw

    def _cleaned_tag(self, part: _Part) -> str:
        if "&" not in part.raw and "<" not in part.raw[1:]:
            return part.raw
        whole = part.raw + part.end
        places = _values(whole, part)
        if places is None:
            return self._written_again(part)
        tag, read = "", 0
        for begin, end in places:
            written = _unquoted(whole[begin:end])
            value = html.unescape(written)
            if (new := self._value(value, written)) != value:
                tag, read = f'{tag}{whole[read:begin]}"{html.escape(new)}"', end
        return f"{tag}{whole[read:]}".removesuffix(">" if part.end else "") if tag else part.raw

    def _written_again(self, part: _Part) -> str:
        """Return a tag with its attributes as html.parser read them, if something in them is redacted."""
        before = [(name, html.unescape(value or "")) for name, value in part.attributes]
        after = [(name, self._value(value, "")) for name, value in before]
        written = (f'{name}="{html.escape(value)}"' for name, value in after)
        return part.raw if after == before else f"<{part.said} {' '.join(written)}>"

    def _value(self, value: str, written: str) -> str:
        """A value, which may be a page; one without anything escaped is the caller's to clean, as long as it is none."""
        plain = value if value == written else self.clean(value)
        return clean_markup(plain, self.clean, self.deepest - 1, self.look) if self.deepest else plain

    def reading(self, escaped: str, clean: Clean) -> str:
        """What `clean` makes of a text, unescaped, and escaped again; unchanged where that is nothing."""
        plain = html.unescape(escaped)
        return escaped if plain == escaped or (new := clean(plain)) == plain else html.escape(new)

    def is_split(self, run: Sequence[str]) -> bool:
        """Whether a match is found in a run, but not in any single text of it."""
        if len(run) < 2:  # noqa: PLR2004  (nothing is between them)
            return False
        cleaned = [self.look(text) if text else text for text in run]
        together = "".join(cleaned)
        return self.look(together) not in {together, "".join(map(self.look, cleaned))}

    def shows_more_unescaped(self, cleaned: str) -> bool:
        """Whether a match is left in a cleaned page when all of it is read as text."""
        if "&" not in cleaned:
            return False
        after = self.look(cleaned)
        plain = html.unescape(after)
        return self.look(plain) != plain and self.look(after) == after

    def as_text(self, runs: Runs) -> str:
        return html.escape(self.clean("\n".join("".join(run) for run in runs)))
