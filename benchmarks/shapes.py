"""Replies in the shapes that models write, each of words that can be told apart, to be written at a model's pace."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

from benchmarks.sizes import sized

TOKENS, PER_SECOND = sized(2_000, 100), 200
TOKEN = 4
"""Characters, as in English prose."""
WORDS = ["".join(letters) for letters in itertools.islice(itertools.product("bcdfghjklmnpq", repeat=3), TOKENS)]
"""None of them in English, Python or HTML."""
WORD = "(?<![a-z0-9])[b-dfghj-npq]{3}(?![a-z0-9])"
"""Any of them, in JavaScript."""

_CODE = ("\ndef f(", "\n    if ", "\n        return ", "\n    # ", "\n    x = 'a' + ")


def mixed() -> str:
    """Paragraphs, a list, a code block now and then."""
    before = {0: "\n\n", 60: "\n\n- ", 70: "\n- ", 80: "\n- ", 90: "\n\n", 120: "\n\n```python\n", 150: "\n```\n\n"}
    return "".join(f"{before.get(n % 180, '')}{word} " for n, word in enumerate(WORDS, 1))


def code() -> str:
    """One block."""
    lines = zip(itertools.cycle(_CODE), _by(10))
    return "```python" + "".join(begin + " ".join(words) for begin, words in lines)


def bullets() -> str:
    """One list."""
    return "".join(f"- {' '.join(words)}\n" for words in _by(10))


def table() -> str:
    """One, with three cells of three words in a row."""
    cells = (f"| {' '.join(words)} {end}" for words, end in zip(_by(3), itertools.cycle(["", "", "|\n"])))
    return "| one | two | three |\n|---|---|---|\n" + "".join(cells)


def paragraph() -> str:
    """Sentence after sentence on one line."""
    return ". ".join(" ".join(words) for words in _by(15))


SHAPES = (mixed, code, bullets, table, paragraph)


def _by(count: int) -> Iterator[list[str]]:
    return (WORDS[begin : begin + count] for begin in range(0, len(WORDS), count))


def tokens(text: str) -> list[str]:
    return [text[begin : begin + TOKEN] for begin in range(0, TOKENS * TOKEN, TOKEN)]


def word_ends(text: str) -> dict[str, int]:
    """The token that ends each word of a text."""
    ends = {word: text.find(word) + len(word) for word in WORDS}
    return {word: (end - 1) // TOKEN for word, end in ends.items() if len(word) <= end <= TOKENS * TOKEN}


def paced(tokens: list[str], written: list[float]) -> Iterator[bytes]:
    """The events of a reply, each when it is due; `written`: when that was, milliseconds since the epoch."""
    begun = time.time()
    for number, token in enumerate(tokens):
        time.sleep(max(0.0, begun + number / PER_SECOND - time.time()))  # on the server's thread, which has but this
        written.append(time.time() * 1000)
        yield _event({"content": token}, None)
    yield _event({}, "stop") + b"data: [DONE]\n\n"


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
