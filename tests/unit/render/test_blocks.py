from __future__ import annotations

import itertools
import re

import pytest

from kin_nb.render.markdown import complete_length, markdown_html, split_point
from tests.table import each_row

WHOLE = """# Title

One paragraph,
on two lines.

* a list
* of two

| a | b |
|---|---|
| 1 | 2 |

```python
def f():
    return 1

x = f()
```

> quoted

The end."""

CODE = "```python\n" + "".join(f"line_{n} = 1\n" for n in range(200)) + "```"
TABLE = "| a | b |\n|:-:|---|\n" + "".join(f"| {n} | of a row |\n" for n in range(100))
BULLETS = "".join(f"- item {n}\n  - and a part of it\n" for n in range(60))
NUMBERED = "".join(f"{n}. item\n" for n in range(7, 150))
LOOSE = "".join(f"* item {n}\n\n  with a second paragraph\n\n" for n in range(40))
QUOTED = "".join(f"> A paragraph\n> of number {n}.\n>\n" for n in range(60))
PARAGRAPH = " ".join(f"Sentence {n} has an **end. Or** two." for n in range(60))
LINES = "\n".join(f"line {n} of `code` and *more*" for n in range(100))
LONG = {
    "code": CODE,
    "table": TABLE,
    "bullets": BULLETS,
    "numbered": NUMBERED,
    "loose": LOOSE,
    "quoted": QUOTED,
    "paragraph": PARAGRAPH,
    "lines": LINES,
}


def pieces(source: str, step: int, enough: int) -> list[str]:
    """What a reader is shown of a text that grows by `step` characters: complete pieces, then the rest."""
    found, taken, opener = [], 0, ""
    for size in range(step, len(source) + step, step):
        pending = opener + source[:size][taken:]
        end, next_opener = split_point(pending, enough + len(opener))
        if end:
            found.append(pending[:end])
            taken += end - len(opener)
            opener = next_opener
    return [*found, opener + source[taken:]]


def words(html: str) -> str:
    return "".join(re.sub(r"<thead>.*?</thead>|<[^>]*>", "", html, flags=re.DOTALL).split())


def tags(html: str) -> list[str]:
    return re.findall(r"<(?:li|td|code|strong|em)\b", html)


@pytest.mark.parametrize("step", [1, 3, 7, 50])
def test_complete_blocks_look_as_they_do_in_the_whole(step):
    ends = sorted({complete_length(WHOLE[:size]) for size in range(0, len(WHOLE) + step, step)})
    parts = [WHOLE[begin:end] for begin, end in itertools.pairwise([*ends, len(WHOLE)])]
    assert len(parts) > 3
    assert "".join(map(markdown_html, parts)) == markdown_html(WHOLE)


@each_row("step", [9, 50])
@each_row("source", LONG.values(), ids=LONG)
def test_a_long_block_is_shown_in_pieces_and_nothing_of_it_is_read_otherwise(source, step):
    whole, shown = markdown_html(source), pieces(source, step, enough=300)
    drawn = "".join(map(markdown_html, shown))
    assert len(shown) > 3
    assert max(map(len, shown)) < 800
    assert words(drawn) == words(whole)
    if "<pre" not in whole:
        assert tags(drawn) == tags(whole)


def test_numbers_continue_in_the_next_piece():
    second = markdown_html(pieces(NUMBERED, 10, enough=300)[1])
    first = markdown_html(pieces(NUMBERED, 10, enough=300)[0])
    assert f'<ol start="{7 + first.count("<li>")}">' in second


def test_a_list_that_repeats_its_number_stays_whole():
    assert split_point("1. item\n" * 100, 300) == (0, "")


def test_a_tables_rows_have_its_head_above_them_in_every_piece():
    assert all(piece.startswith("| a | b |\n|:-:|---|\n| ") for piece in pieces(TABLE, 20, enough=300)[1:])


@each_row("source", ["", "\n", "word", "# half a ti", "```\nx = 1", "| a | b |", "- a\n- b"])
def test_one_block_is_never_complete(source):
    assert complete_length(source) == 0
    assert split_point(source, 20) == (0, "")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_ending_counts(ending):
    source = f"first{ending}{ending}second"
    end = complete_length(source)
    assert (source[:end].strip(), source[end:]) == ("first", "second")
    assert split_point(source, 1) == (end, "")


def test_what_would_be_less_than_enough_is_not_cut_off():
    assert split_point("first\n\nsecond", 8) == (0, "")


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_a_long_code_block_is_cut_between_its_lines(fence):
    lines = "".join(f"line {n}\n" for n in range(200))
    end, opener = split_point(f"{fence}python\n{lines}half a li", 300)
    assert opener == f"{fence}python\n"
    assert f"{fence}python\n{lines}half a li"[end:] == "half a li"


def test_a_long_code_block_that_is_closed_is_not_cut():
    source = "```\n" + "x = 1\n" * 300 + "```"
    assert split_point(source, 300) == (0, "")


@pytest.mark.parametrize("last", ["-", "- b", "-\tb"])
def test_a_line_that_may_still_become_something_else_begins_no_piece(last):
    items = "- an item that goes on\n" * 20
    end, _ = split_point(items + last, 300)
    assert items[end:] == "- an item that goes on\n"


@pytest.mark.parametrize(
    "source", ["**bold. " * 100, "`code. " * 101, "[text. " * 50 + "](https://example.org)", "a. # b. - c. " * 60]
)
def test_a_sentence_within_an_emphasis_code_or_link_does_not_end_a_piece(source):
    end, _ = split_point(source, 300)
    assert words(markdown_html(source[:end])) + words(markdown_html(source[end:])) == words(markdown_html(source))
