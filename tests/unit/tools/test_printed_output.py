from __future__ import annotations

import pytest

from kin_nb.core.tools.printed import MOST, Printed


@pytest.mark.parametrize("size", [1, 7, 3 * MOST])
def test_of_much_output_the_newest_is_kept_and_it_says_so(size):
    text = "".join(f"line {n}\n" for n in range(20_000))
    printed = Printed()
    for begin in range(0, len(text), size):
        printed.add("a", text[begin : begin + size])
    first, _, rest = printed.take("a").partition("\n")
    assert first == "[earlier output left out]"
    assert text.rstrip("\n").endswith(rest)
    assert MOST - 10 < len(rest) <= MOST + size


def test_calls_are_kept_apart_and_taken_once():
    printed = Printed()
    printed.add("a", "one\n")
    printed.add("b", "two")
    printed.add("a", "more\n\n")
    assert [printed.take(call) for call in ("a", "a", "b", "c")] == ["one\nmore", "", "two", ""]
