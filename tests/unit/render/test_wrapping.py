"""A reply in a terminal: prose is broken between words, and nothing else is touched."""

from __future__ import annotations

import pytest

from kin_nb.render.terminal import wrapped
from tests.table import each_row


@each_row(
    ("text", "expected"),
    [
        ("one two three four", "one two\nthree four"),
        ("short\n\none two three", "short\n\none two\nthree"),
        ("- one two three", "- one two\n  three"),
        ("  10. one two three", "  10. one\n      two\n      three"),
        ("> one two three", "> one two\n> three"),
        ("> - one two three", "> - one two\n>   three"),
        (">> one two three", ">> one two\n>> three"),
        ("a-word-that-is-too-long here", "a-word-that-is-too-long\nhere"),
        ("- https://example.org/a-long-one", "- https://example.org/a-long-one"),
        ("    - an item below another", "    - an\n      item\n      below\n      another"),
    ],
)
def test_prose_is_broken_between_words_and_stays_under_itself(text, expected):
    assert wrapped(text, 11) == expected


@each_row(
    "text",
    [
        "```python\nprint('a  long  line of code')\n```",
        "~~~~\n```\na  long  line of code\n~~~\na  long  line of code\n~~~~",
        "    an indented  line of code",
        "| name | a long value |\n|---|---|\n| x | a second long value |",
        "> ```python\n> print('a  long  line')\n> ```",
        "> > ~~~\n> > > a  long  line of code\n> > ~~~",
        ">     an indented  line of code",
        "> | name | a long value |",
        "short  line\n\n\n",
        "",
    ],
)
def test_code_tables_and_short_lines_stay_as_they_are(text):
    assert wrapped(text, 12) == text


def test_after_a_code_block_prose_is_broken_again():
    assert wrapped("```\ncode that is long\n```\none two three", 8) == "```\ncode that is long\n```\none two\nthree"


@pytest.mark.parametrize("end", ["> ```\n", ""])
def test_after_a_quotation_with_code_prose_is_broken_again_also_where_the_code_has_no_end(end):
    text = f"> ```\n> code that is long\n{end}one two three\n> one two"
    assert wrapped(text, 9) == f"> ```\n> code that is long\n{end}one two\nthree\n> one two"


def test_no_word_is_lost_at_any_width():
    text = "A paragraph of `some code` and **words**, then\n\n- an item\n- another  one with two blanks\n\n> said so"
    for width in range(1, 60):
        assert wrapped(text, width).replace(">", "").split() == text.replace(">", "").split(), width
