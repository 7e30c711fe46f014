"""How alike two texts are."""

from __future__ import annotations

import pytest

from kin_nb.core.context.call_signatures import EmbeddingSimilarity, ShingleSimilarity
from kin_nb.core.context.loop_detector import LoopDetector

LINES = "\n".join(f"line {number}" for number in range(10))
LOCAL = ShingleSimilarity()


class Counting:
    """An embedding by length and vowels, and how often it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> list[float]:
        self.asked.append(text)
        return [float(len(text)), float(sum(text.count(vowel) for vowel in "aeiou"))]


def test_equal_texts_are_wholly_alike_and_others_by_what_they_share():
    assert LOCAL.of("", "") == LOCAL.of(LINES, LINES) == 1.0
    assert LOCAL.of("", "abc") == LOCAL.of("abcdefgh", "12345678") == 0.0
    assert LOCAL.of(LINES, LINES.replace("line 0", "other")) == pytest.approx(9 / 11)
    assert 0.5 < LOCAL.of("the quick brown fox", "the quick brown dog") < 1.0


def test_it_does_not_matter_which_comes_first():
    assert LOCAL.of("abcdefghij", "cdefghijkl") == LOCAL.of("cdefghijkl", "abcdefghij")


def test_an_embedding_is_asked_for_once_while_it_is_remembered():
    embed = Counting()
    similarity = EmbeddingSimilarity(embed, size=2)
    for _ in range(3):
        assert similarity.of("a text", "an other text") > 0.9
    assert embed.asked == ["a text", "an other text"]
    similarity.of("a third", "a fourth")
    similarity.of("a text", "an other text")
    assert embed.asked == ["a text", "an other text", "a third", "a fourth", "a text", "an other text"]


def test_an_embedding_is_asked_for_a_bounded_text():
    embed = Counting()
    EmbeddingSimilarity(embed).of("a" * 100_000, "b" * 100_000)
    assert [len(text) for text in embed.asked] == [4_000, 4_000]


def broken(_: str) -> list[float]:
    raise OSError("no service")


@pytest.mark.parametrize(
    "embed", [broken, lambda _: [0.0, 0.0], lambda text: [1.0] * len(text), lambda _: [float("nan")]]
)
def test_where_embeddings_fail_the_local_measure_answers(embed):
    assert EmbeddingSimilarity(embed).of(LINES, f"{LINES}\nmore") == LOCAL.of(LINES, f"{LINES}\nmore")


def test_a_measure_of_ones_own_decides_about_near_repeats():
    class Never:
        def of(self, a: str, b: str) -> float:
            return 0.0

    def loops(detector: LoopDetector) -> list[object]:
        result = "\n".join(f"the {number}th line of a long text" for number in range(20))
        return [detector.observe("t", f'{{"n": {n}}}', f"{result}\n{n}", ok=True) for n in range(5)]

    assert any(loops(LoopDetector()))
    assert any(loops(LoopDetector(EmbeddingSimilarity(Counting()))))
    assert not any(loops(LoopDetector(Never())))


def near_repeats(threshold: float) -> int:
    """How many loops are found in calls whose results share 17 of 23 lines, a likeness of about 0.74."""
    detector = LoopDetector(threshold=threshold)
    text = "\n".join(f"the {number}th line of a long text" for number in range(17))
    results = [f"{text}\n" + "\n".join(f"{n}: {word}" for word in ("one", "two", "three")) for n in range(5)]
    found = [detector.observe("t", f'{{"n": {n}}}', result, ok=True) for n, result in enumerate(results)]
    return sum(loop is not None for loop in found)


def test_the_threshold_decides_how_alike_near_repeats_are():
    assert (near_repeats(0.7), near_repeats(0.8)) == (1, 0)


@pytest.mark.parametrize("threshold", [0, -1, 1.01, float("nan")])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        LoopDetector(threshold=threshold)
