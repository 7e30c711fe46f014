"""Parts of a change: each chosen or left out, to the byte."""

from __future__ import annotations

import random

import pytest

from kin_nb.core.tools.builtins.text_file import unified_diff
from kin_nb.core.tools.edited import split_patch, with_hunks

ENDINGS = [("\n", "\n"), ("\n", ""), ("\r\n", "\r\n"), ("\r\n", "")]
WORDS = ["x = 1", "", "    return x", "@@ -1 +1 @@", "--- a/f", "+++ b/f", "\x0cform feed", "a\rb", "é 🐢"]


def texts(seed: int, newline: str, last: str) -> tuple[str, str]:
    """A text of up to 120 lines, many of them alike, and what a few edits make of it."""
    rng = random.Random(seed)
    lines = [rng.choice([*WORDS, f"line {n}"]) for n in range(rng.randrange(120))]
    changed = list(lines)
    for _ in range(rng.randrange(9)):
        place = rng.randrange(len(changed) + 1)
        changed[place : place + rng.randrange(4)] = [f"new {rng.randrange(99)}" for _ in range(rng.randrange(3))]
    return tuple(newline.join(side) + (rng.choice([last, newline]) if side else "") for side in (lines, changed))


@pytest.mark.parametrize("rounds", [30, pytest.param(150, marks=pytest.mark.long)])
def test_any_choice_of_hunks_leaves_exactly_the_others_out(subtests, rounds):
    for newline, last in ENDINGS:
        with subtests.test(newline=newline, last=last):
            several = 0
            for seed in range(rounds):
                before, after = texts(seed, newline, last)
                _, patches = split_patch(unified_diff("f", before, after))
                count = len(patches)
                several += count > 1
                assert with_hunks(before, after, range(count)) == after
                assert with_hunks(before, after, ()) == before
                chosen = [n for n in range(count) if random.Random(seed).random() < 0.5]
                between = with_hunks(before, after, chosen)
                left_out = [n for n in range(count) if n not in chosen]
                assert changes(before, between) == [changes_of(patches[n]) for n in chosen], seed
                assert changes(between, after) == [changes_of(patches[n]) for n in left_out], seed
            assert several > rounds // 3


def changes(before: str, after: str) -> list[list[str]]:
    return [changes_of(patch) for patch in split_patch(unified_diff("f", before, after))[1]]


def changes_of(patch: str) -> list[str]:
    return sorted(line for line in patch.split("\n")[1:] if line.startswith(("+", "-")))


def test_a_patch_is_split_where_its_hunks_begin_and_nowhere_else():
    lines = [f"{n}\n" for n in range(30)]
    changed = ["@@ -1 +1 @@\n", *lines[1:20], "--- a/x\n", *lines[21:]]
    patch = unified_diff("dir/f", "".join(lines), "".join(changed))
    header, parts = split_patch(patch)
    assert header == "--- a/dir/f\n+++ b/dir/f\n"
    assert len(parts) == 2
    assert header + "".join(parts) == patch


def test_line_endings_that_no_diff_shows_change_with_the_whole_only():
    before = "".join(f"{n}\n" for n in range(30))
    after = before.replace("\n", "\r\n").replace("2\r\n", "two\r\n", 1).replace("29\r\n", "nine\r\n")
    assert with_hunks(before, after, (0, 1)) == after
    assert with_hunks(before, after, (0,)) == before.replace("2\n", "two\r\n", 1)


def test_a_hunk_that_there_is_not_is_an_error(subtests):
    for wrong in [(2,), (-1,), (0, 7)]:
        with subtests.test(wrong=wrong), pytest.raises(ValueError, match="does not exist"):
            with_hunks("a\n", "b\n", wrong)
