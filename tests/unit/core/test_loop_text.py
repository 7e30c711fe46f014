"""Endless text is stopped while it streams; text that repeats for a good reason is not."""

from __future__ import annotations

import random

from kin_nb.core.context.loop_detector import Loop, LoopDetector

PARAGRAPH = "Wait, let me think about the structure of this again. Maybe the parser is wrong. "


def streamed(text: str, size: int = 7, detector: LoopDetector | None = None) -> Loop | None:
    """The loop found in `text` when it arrives in pieces of `size` characters (0: of one to twenty)."""
    chance, start = random.Random(1), 0
    detector = detector or LoopDetector()
    while start < len(text):
        end = start + (size or chance.randint(1, 20))
        if loop := detector.observe_text(text[start:end]):
            return loop
        start = end
    return None


def test_words_that_repeat_are_stopped(subtests):
    for size in [0, 1, 7, 100, 100_000]:
        for piece in [
            "I am stuck. ",
            "Let me check it again. ",
            PARAGRAPH,
            PARAGRAPH * 2 + "Or the lexer. ",
            "I will read the file.\n\nThen I will edit it.\n\n",
            "我再检查一下这个文件,看看有没有其他问题。",
            "".join(
                f"{word} the {other}. " for word in ("See", "Read", "Fix") for other in ("file", "test", "tree", "end")
            ),
        ]:
            with subtests.test(size=size, piece=piece):
                loop = streamed("Here is what I found so far, and what I make of it.\n\n" + piece * 500, size)
                assert loop is not None
                assert (loop.kind, loop.action) == ("text", "stop")
                assert loop.count >= 10


def test_it_is_found_early_with_a_short_message():
    detector = LoopDetector()
    fed = next(n for n in range(1, 1_000) if detector.observe_text(PARAGRAPH))
    assert fed <= 13
    loop = streamed(PARAGRAPH * 50)
    assert loop is not None
    assert loop.message.startswith("the model repeats itself: the same words 1")
    assert loop.message.isprintable()
    assert len(loop.message) < 250


def test_text_before_it_and_a_code_block_before_it_do_not_hide_it():
    before = "```python\n" + "\n".join(f"x{n} = {n}" for n in range(50)) + "\n```\n"
    assert streamed(before + PARAGRAPH * 30) is not None


TABLE = "| name | value |\n|---|---|\n"
ALLOWED = {
    "a list": "".join(f"- Check the file number {n} for errors\n" for n in range(400)),
    "a list of equal items": "- Check the file again\n" * 100,
    "a numbered list": "".join(f"{n}. Run the tests\n" for n in range(500)),
    "a numbered list, all ones": "1. Run the tests\n" * 100,
    "a table": TABLE + "".join(f"| row {n} | {n * n} |\n" for n in range(400)),
    "a table of equal rows": TABLE + "| nothing here | nothing here |\n" * 100,
    "a row of dashes": "-" * 5_000,
    "rows of equals signs and text": ("=" * 78 + "\nsection\n") * 50,
    "numbers": " ".join(str(n) for n in range(4_000)),
    "zeros": "0, " * 3_000,
    "hex": "0x00, 0xff, " * 800,
    "dots": "." * 5_000,
    "a bar of progress": "".join(f"\r[{'#' * n}{' ' * (100 - n)}] {n} %" for n in range(100)),
    "empty lines": "\n" * 3_000,
    "generated code": "```python\n"
    + "".join(f"def test_{n}():\n    assert f({n}) == {n}\n\n" for n in range(300))
    + "```\n",
    "code with equal lines": "```c\n" + "    result = update(result);\n" * 200 + "```\n",
    "code in tildes": "~~~\n" + "print('the same line')\n" * 200 + "~~~\n",
    "a code block that never ends": "```\n" + "print('the same line')\n" * 500,
    "an svg": "```svg\n" + '<rect x="0" y="0" width="10" height="10"/>\n' * 300 + "```",
    "headings": "".join(f"## Part {n}\n\nSee above.\n\n" for n in range(300)),
    "equal headings": "## See above\n\n" * 100,
    "quotations": "> said the raven nevermore\n" * 100,
    "dna": "ACGT" * 1_000,
    "laughter": "ha " * 300,
    "a refrain": ("".join(f"{n} green bottles hanging on the wall\n" * 2 for n in range(200, 0, -1))),
    "a word a few times": "really " * 80,
    "a sentence nine times": PARAGRAPH * 9,
    "log lines": "".join(f"2024-05-01 12:{n // 60:02}:{n % 60:02} INFO heartbeat ok\n" for n in range(900)),
    "prose": " ".join(random.Random(n).choice(["the", "a", "of", "it", "is", "to", "we"]) for n in range(9_000)),
}


def test_text_that_may_repeat_is_not_stopped(subtests):
    for size in [0, 1, 100_000]:
        for kind, text in ALLOWED.items():
            with subtests.test(size=size, kind=kind):
                assert streamed(text, size) is None


def test_very_long_repeating_code_is_stopped():
    loop = streamed("```\n" + "print('the same line')\n" * 3_000)
    assert loop is not None


def test_each_reply_is_looked_at_alone():
    detector = LoopDetector()
    for _ in range(20):
        assert streamed(PARAGRAPH * 8, detector=detector) is None
        detector.end_reply()


def test_after_a_report_the_text_begins_again():
    detector = LoopDetector()
    assert streamed(PARAGRAPH * 50, detector=detector) is not None
    assert streamed(PARAGRAPH * 5, detector=detector) is None
