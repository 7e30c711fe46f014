from __future__ import annotations

import pytest

from kin_nb.render.blocks import cut
from kin_nb.render.markdown import markdown_html

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


def pieces(source: str, step: int) -> list[str]:
    """What a reader is shown of a text that grows by `step` characters: complete pieces, then the rest."""
    found, taken, opener = [], 0, ""
    for size in range(step, len(source) + step, step):
        pending = opener + source[:size][taken:]
        end, next_opener = cut(pending)
        if end > len(opener):
            found.append(pending[:end])
            taken += end - len(opener)
            opener = next_opener
    return [*found, opener + source[taken:]]


@pytest.mark.parametrize("step", [1, 3, 7, 50])
def test_a_text_in_pieces_looks_like_the_whole(step):
    assert "".join(map(markdown_html, pieces(WHOLE, step))) == markdown_html(WHOLE)


@pytest.mark.parametrize("source", ["", "\n", "word", "# half a ti", "```\nx = 1", "| a | b |"])
def test_one_block_is_never_complete(source):
    assert cut(source) == (0, "")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_ending_counts(ending):
    source = f"first{ending}{ending}second"
    end, opener = cut(source)
    assert (source[:end].strip(), source[end:], opener) == ("first", "second", "")


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_a_long_code_block_is_cut_between_its_lines(fence):
    lines = "".join(f"line {n}\n" for n in range(200))
    end, opener = cut(f"{fence}python\n{lines}half a li")
    assert opener == f"{fence}python\n"
    assert f"{fence}python\n{lines}half a li"[end:] == "half a li"


def test_a_long_code_block_that_is_closed_is_not_cut():
    source = "```\n" + "x = 1\n" * 300 + "```"
    assert cut(source) == (0, "")
