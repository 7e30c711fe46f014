"""Cleaning HTML as it reads: seen by a parser it is free of what goes, and to the letter where nothing does."""

from __future__ import annotations

import html
import random
from html.parser import HTMLParser

import pytest

from kin_nb.replay.saving.markup import clean_markup

WORDS = ("R&D's key", "O'Brien", 'x<y "z" 7')
OTHERS = ("", " ", "a &b ", " < ", "> ", "it's ", '"q" ', "&amp;", "x=")
MARKUP = (
    "<b>",
    "</b>",
    "<br/>",
    "<!-- a'b -->",
    "<script>if (a<b && c) {x='&amp;'}</script>",
    "a < b & c",
    "&nbsp;",
    "\n",
)


class Reader(HTMLParser):
    """What a person can see of a page: its texts, the values of attributes, the pages in them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.feed(page)
        self.close()

    def handle_data(self, data: str) -> None:
        self.seen.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.seen += Reader(value or "").seen if name == "srcdoc" else [value or ""]


def clean(text: str) -> str:
    for word in WORDS:
        text = text.replace(word, "-")
    return text


def escaped(text: str, also: str, chance: random.Random) -> str:
    """Each of `&<` and `also`, and some other letters, in one of the ways in which HTML writes them."""
    ways = (html.escape, lambda c: f"&#{ord(c)};", lambda c: f"&#x{ord(c):x};", lambda c: f"&#{ord(c):05};")
    return "".join(
        chance.choice(ways if c in "&<>" else ways[1:])(c) if c in f"&<{also}" or chance.random() < 0.2 else c
        for c in text
    )


def part(chance: random.Random, within: int) -> str:
    said = chance.choice(OTHERS) + chance.choice((*WORDS, "nobody")) + chance.choice(OTHERS)
    form = chance.randrange(7 if within < 3 else 6)
    if form < 2:
        return escaped(said, "", chance)
    if form == 2:
        return f'<td id=x title="{escaped(said, chr(34), chance)}" hidden>'
    if form == 3:
        return f"<A HREF = '{escaped(said, chr(39), chance)}'>"
    if form == 4:
        return f"<p data-x=x{escaped(said, ' <>=' + chr(34) + chr(39), chance)} b>"
    if form == 5:
        return chance.choice(MARKUP)
    return f'<iframe srcdoc="{html.escape(page(chance, within + 1))}"></iframe>'


def page(chance: random.Random, within: int = 0) -> str:
    return "".join(part(chance, within) for _ in range(chance.randint(1, 4)))


def test_of_any_page_a_reader_sees_all_but_what_goes_and_where_nothing_does_it_is_the_same_to_the_letter():
    changed = 0
    for seed in range(2000):
        before = page(random.Random(seed))
        after = clean_markup(clean(before), clean)
        seen = Reader(before).seen
        wanted = "".join(clean(text) for text in seen)
        assert "".join(Reader(after).seen) == wanted, (seed, before, after)
        assert (after == before) == (wanted == "".join(seen)), (seed, before, after)
        changed += after != before
    assert 500 < changed < 2000


@pytest.mark.parametrize(
    ("page", "cleaned"),
    [
        ("<td>R&amp;D's key</td>", "<td>-</td>"),
        ('<td>x&lt;y "z" 7 &amp; more</td>', "<td>- &amp; more</td>"),
        ('a < b, <i title="R&amp;D\'s key">x</i>', 'a < b, <i title="-">x</i>'),
        ("<i title=R&amp;D&#39;s&#32;key>x</i>", '<i title="-">x</i>'),
        ("<textarea><b O&#39;Brien</textarea>", "<textarea>&lt;b -</textarea>"),
        ("<svg><title/><text>O&#39;Brien</text></svg>", "<svg><title/><text>-</text></svg>"),
        ("<!-- R&amp;D's key -->", "<!-- - -->"),
        ('<script>a<b; c>d; x = "R&D\'s key &amp;"</script>', '<script>a<b; c>d; x = "- &amp;"</script>'),
        ("<td title=O&#39;Brien", '<td title="-"'),
        ("<p a=\"it's\" b='>'>O&apos;Brien", "<p a=\"it's\" b='>'>-"),
    ],
)
def test_what_reads_as_a_match_goes_and_the_markup_around_it_stays(page, cleaned):
    assert clean_markup(clean(page), clean) == cleaned


@pytest.mark.parametrize(
    "piece", ["<a ", '<a b="', "<a b='\"", "<", "<!--", "<script>", "<a =", "</", "&lt;p q=&quot;", "&#3"]
)
def test_long_broken_markup_is_cleaned_to_its_end(piece):
    assert "O'Brien" not in html.unescape(clean_markup("&amp;" + piece * 20_000 + "O&#39;Brien", clean))


def test_pages_within_pages_have_an_end():
    page = "R&amp;D"
    for _ in range(12):
        page = f'<iframe srcdoc="{html.escape(page)}">'
    assert clean_markup(page, clean) == page
