"""The similarity of two texts, and its threshold."""

from __future__ import annotations

import pytest

from kin_nb.core.context.call_signatures import text_similarity
from kin_nb.core.context.loop_detector import LoopDetector

LINES = "\n".join(f"line {number}" for number in range(10))


def test_similarity_is_the_share_of_common_parts():
    assert text_similarity("", "") == text_similarity(LINES, LINES) == 1.0
    assert text_similarity("", "abc") == text_similarity("abcdefgh", "12345678") == 0.0
    assert text_similarity(LINES, LINES.replace("line 0", "other")) == pytest.approx(9 / 11)
    assert 0.5 < text_similarity("the quick brown fox", "the quick brown dog") < 1.0


def test_the_order_of_the_texts_does_not_matter():
    assert text_similarity("abcdefghij", "cdefghijkl") == text_similarity("cdefghijkl", "abcdefghij")


@pytest.mark.parametrize(("similarity", "is_found"), [(0.0, False), (1.0, True)])
def test_another_similarity_can_be_used(similarity, is_found):
    detector = LoopDetector(lambda *_: similarity)
    loops = [detector.observe("t", f'{{"n": {n}}}', f"{LINES * 3}\n{n}", ok=True) for n in range(5)]
    assert any(loops) is is_found


def near_repeats(threshold: float) -> int:
    """How many loops are found in calls whose results share 17 of 23 lines: a similarity of about 0.74."""
    detector = LoopDetector(threshold=threshold)
    text = "\n".join(f"the {number}th line of a long text" for number in range(17))
    results = [f"{text}\n" + "\n".join(f"{n}: {word}" for word in ("one", "two", "three")) for n in range(5)]
    found = [detector.observe("t", f'{{"n": {n}}}', result, ok=True) for n, result in enumerate(results)]
    return sum(loop is not None for loop in found)


def test_the_threshold_decides_what_near_repeats_are():
    assert (near_repeats(0.7), near_repeats(0.8)) == (1, 0)


def test_a_threshold_that_is_not_a_share_is_refused(subtests):
    for threshold in [0, -1, 1.01, float("nan")]:
        with subtests.test(threshold=threshold), pytest.raises(ValueError, match="above 0 and at most 1"):
            LoopDetector(threshold=threshold)
