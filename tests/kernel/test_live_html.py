"""What a reply is drawn with while it is written: less than its settled card, and nothing else to read."""

from __future__ import annotations

import re

import pytest

from kin_nb.notebook.streaming.reply_view import live_html, style_sheet, thinking_html
from kin_nb.render.markdown import markdown_html

CODE = '```python\nclass A:\n    x = "a <b> & c"  # one\n```'
TABLE = "| a | b | c |\n|---|:-:|--:|\n| 1 | `x` | **3** |\n| <td> | & | 6 |\n"
LIST = "1. one\n2. two\n   - a\n   - b\n\nThen $x^2$ and [a link](https://example.org/?a=<b>)."


def words(html: str) -> list[str]:
    return re.sub(r"<[^>]*>", " ", html).split()


@pytest.mark.parametrize("text", [CODE, TABLE, LIST])
def test_it_reads_as_the_settled_card_does_and_is_shorter(text):
    live, settled = live_html(text), markdown_html(text)
    assert words(live) == words(settled)
    assert len(live) < len(settled) + len(live_html(""))


def test_text_that_looks_like_a_tag_of_ours_stays_text():
    text = '`<td style="text-align:left">` and <pre style="x"> and </td> and <span style="color:#a852d4">k</span>'
    assert words(live_html(text)) == words(markdown_html(text))
    assert "&lt;td" in live_html(text)
    assert "&lt;/td&gt;" in live_html(text)


def test_each_colour_and_each_side_is_in_the_style_sheet_or_said_at_the_tag():
    names = set(re.findall(r"<i class=(\w+)>", live_html(CODE)))
    assert names
    assert all(f".{name}{{color:" in style_sheet() for name in names)
    assert 'style="text-align:center"' in live_html(TABLE)
    assert "text-align:left" not in live_html(TABLE)
    assert "td{text-align:left}" in style_sheet()


def test_html_in_the_models_text_is_shown_in_a_piece_too():
    hostile = "<style>*{display:none}</style><img src=x onerror=alert(1)> </div></div>"
    for html in (live_html(hostile), thinking_html(hostile)):
        assert "<style" not in html
        assert "<img" not in html
        assert html.count("</div>") == html.count("<div")
