from __future__ import annotations

from kin_nb.core.tools.truncation import PRINTED_LIMIT, PrintedTails


def test_of_much_output_the_newest_is_kept_and_it_says_so(subtests):
    for size in [1, 7, 3 * PRINTED_LIMIT]:
        with subtests.test(size=size):
            text = "".join(f"line {n}\n" for n in range(20_000))
            printed = PrintedTails()
            for begin in range(0, len(text), size):
                printed.add("a", text[begin : begin + size])
            first, _, rest = printed.take("a").partition("\n")
            assert first == "[earlier output left out]"
            assert text.rstrip("\n").endswith(rest)
            assert PRINTED_LIMIT - 10 < len(rest) <= PRINTED_LIMIT + size


def test_calls_are_kept_apart_and_taken_once():
    printed = PrintedTails()
    printed.add("a", "one\n")
    printed.add("b", "two")
    printed.add("a", "more\n\n")
    assert [printed.take(call) for call in ("a", "a", "b", "c")] == ["one\nmore", "", "two", ""]
