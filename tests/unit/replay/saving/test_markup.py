"""Cleaning HTML as it reads: seen by a parser it is free of what goes, and verbatim where nothing does."""

from __future__ import annotations

import html
import random
import re
from html.parser import HTMLParser

from kin_nb.replay.saving.markup import clean_markup
from tests.table import each_row

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


@each_row("rounds", [200], long=[2000])
def test_of_any_page_a_reader_sees_all_but_what_goes_and_where_nothing_does_it_is_the_same_verbatim(rounds):
    changed = 0
    for seed in range(rounds):
        before = page(random.Random(seed))
        after = clean_markup(clean(before), clean)
        seen = Reader(before).seen
        wanted = "".join(clean(text) for text in seen)
        assert "".join(Reader(after).seen) == wanted, (seed, before, after)
        assert (after == before) == (wanted == "".join(seen)), (seed, before, after)
        changed += after != before
    assert rounds / 4 < changed < rounds


@each_row(
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


@each_row("times", [2_000], long=[20_000])
@each_row(
    "piece",
    [
        *("<a ", '<a b="', "<a b='\"", "<", "<!--", "<script>", "<a =", "</", "&lt;p q=&quot;", "&#3"),
        *("<!-- --!>", "<![x[", "<![CDATA[", "<?", "\n<a/", "<textarea>", '<a b=x"y '),
    ],
)
def test_long_broken_markup_is_cleaned_to_its_end(piece, times):
    assert "O'Brien" not in html.unescape(clean_markup("&amp;" + piece * times + "O&#39;Brien", clean))


def test_pages_within_pages_have_an_end():
    page = "R&amp;D"
    for _ in range(12):
        page = f'<iframe srcdoc="{html.escape(page)}">'
    assert clean_markup(page, clean) == page


SECRET = "hunter22"


def without_secret(text: str) -> str:
    return text.replace(SECRET, "-")


@each_row(
    ("page", "text"),
    [
        ("log<i>in</i>: hun<b>ter22</b> now", "login: - now"),
        ("<p>hun<b>ter</b><i></i>22</p><p>more</p>", "-\nmore"),
        ("hun<!-- a > b -->ter22", "-"),
        ("hun<!-->ter22", "-"),
        ("hun<!-- --!>ter22", "-"),
        ("hun<script>if (a < b) {}</script>ter22", "-"),
        ("hun&shy;ter22", "-"),
        ("h&#117;n&#8203;ter22", "-"),
        ("hun<wbr>ter22", "-"),
        ("hun</>ter22", "-"),
        ("hun</b x='>'>ter22", "-"),
        ("hun<?php?>ter22", "-"),
        ("hun<!x>ter22", "-"),
        ("hun<![x[ ]>ter22", "-"),
        ("<text>hun<tspan>ter22</tspan></text>", "-"),
        ("<text>hun<![CDATA[ter22]]></text>", "-"),
        ("<b title='>'>hun</b>ter22", "-"),
        ("<div style='display:inline'>hun</div>ter22", "-"),
        ("hun<B\nCLASS=x>ter22", "-"),
        ("<b>hun</b>&#x74;er22 &amp; &lt;b&gt;", "- &amp; &lt;b&gt;"),
        ('hun<b "x">ter22', "-"),
    ],
)
def test_a_page_in_which_markup_splits_what_goes_becomes_its_text(page, text):
    assert clean_markup(page, without_secret) == text


@each_row(
    ("page", "cleaned"),
    [
        ("<i TITLE=hunter&#50;2 Title='x&amp;hunter22'>x</i>", '<i TITLE="-" Title="x&amp;-">x</i>'),
        ("<svg viewBox='0 0 1 1' data-x=&#104;unter22/>", "<svg viewBox='0 0 1 1' data-x=\"-/\">"),
        ('<i a=1 b = "hunter&#x32;2" c>x</i>', '<i a=1 b = "-" c>x</i>'),
        ("<iframe srcdoc='hun<b>ter22</b>'></iframe>", '<iframe srcdoc="-"></iframe>'),
        ("<iframe srcdoc='&lt;p title=hunter2&amp;#50;&gt;'></iframe>", None),
        ("<!DOCTYPE x &#104;unter22><p>", "<!DOCTYPE x -><p>"),
        ("<?x &#104;unter22?><p>", "<?x -?><p>"),
        ("<svg><![CDATA[&#104;unter22]]></svg>", None),
        ("<p &#104;unter22>x</p>", None),
        ("</p &#104;unter22>", None),
        ("<script>x = '&#104;unter22'</script>", None),
        ("<style>&#104;unter22</style>", None),
        ("<textarea><b title=&#104;unter22</textarea>", None),
        ('<a title="&#104;unter22>x', None),
        ("<a b='\"c=&#104;unter22", None),
        ("<!-- &#104;unter22", None),
        ("<![x[ &#104;unter22 ]]>", None),
        ("<![CDATA[ &#104;unter22", None),
        ("<script>&#104;unter22", None),
        ("<title>&#104;unter22", None),
        ("<p =&#104;unter22>", None),
        ("<p title=&#104unter22&amp>", None),
    ],
)
def test_nothing_that_goes_is_left_in_attributes_comments_programs_and_broken_markup(page, cleaned):
    after = clean_markup(page, without_secret)
    assert SECRET not in html.unescape(html.unescape(after))
    assert cleaned is None or after == cleaned


@each_row(
    "page",
    [
        "<table><tr><td>hun</td><td>ter22</td></tr></table>",
        "<p>hun</p>ter22",
        "hun<br/>ter22",
        "<ul><li>hun<li>ter22</ul>",
        "<i title=hun alt=ter22>x</i>",
        "<!--hun--><!--ter22-->",
        "<script>hun</script><script>ter22</script>",
    ],
)
def test_what_no_one_reads_together_stays_as_it_is(page):
    assert clean_markup(page, without_secret) == page


PIECES = (
    *(
        "<b>",
        "</b>",
        "<b",
        "<i title=",
        '"',
        "'",
        ">",
        "<",
        "/>",
        "<!--",
        "-->",
        "--!>",
        "<!-->",
        "<script>",
        "</script>",
    ),
    *(
        "<style>",
        "</style >",
        "<textarea>",
        "</textarea>",
        "<title>",
        "<![CDATA[",
        "]]>",
        "<![x[",
        "<!x",
        "<?php",
        "?>",
    ),
    *("</", "</>", "=", "&", "&amp;", " ", "\n", "a", "<td>", "<svg viewBox=1>", "<p data-x=", "&#39", "<!doctype "),
    *('<iframe srcdoc="', "\x00", "\u0130", "/"),
)


def readings(page: str) -> list[str]:
    """A page as it may be read: with and without its tags, the values of its attributes, and what is between brackets."""
    try:
        seen = Reader(page).seen
    except AssertionError:  # html.parser's way to say that it does not know a declaration
        seen = []
    between = "\n".join(map(html.unescape, re.findall("[^<>\"']+", page)))
    return ["".join(seen), html.unescape(page), html.unescape(re.sub("<[^>]*>", "", page)), between]


@each_row("rounds", [300], long=[3000])
def test_whatever_is_put_together_no_reader_finds_what_goes_and_without_it_every_byte_stays(rounds):
    changed = 0
    for seed in range(rounds):
        chance = random.Random(seed)
        parts = chance.choices(PIECES, k=chance.randint(1, 8))
        parts.insert(chance.randrange(len(parts) + 1), escaped(chance.choice(("hunter22", "hunt", "er22")), "", chance))
        page = "".join(parts)
        after = without_secret(clean_markup(page, without_secret))
        assert not any(SECRET in text for text in readings(after)), (seed, page, after)
        if not any(SECRET in text for text in readings(page)):
            assert after == page, seed
        changed += after != page
    assert rounds / 6 < changed < rounds
