"""What a save took out: compared as text that may be anything, and from its first cell on no text of a run is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kin_nb.core.redaction import REDACTED, SECRET
from kin_nb.replay.format.storage import is_recording_cell, stored_texts

REDACTED_TAG = "kin-redacted"
"""The tag of an ordinary cell whose saved output has something taken out; saving sets it, and removes it."""
COLOR = re.compile(r"\x1b\[[0-9;:]*[mK]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")
_MARK = re.compile(f"{re.escape(SECRET)}|{re.escape(REDACTED)}")


def has_redaction_marks(text: str) -> bool:
    """Whether a save redacted something in `text`."""
    return _MARK.search(text) is not None


def matches_redacted(saved: str, now: str) -> bool:
    """Whether `now` matches `saved`, where each redaction mark stands for one or more characters, also across lines.

    Linear: the text between two marks is looked for once, where it comes first.
    """
    if saved == now or not has_redaction_marks(saved):
        return saved == now
    if "\x1b" not in saved:  # a text from which something goes loses its colours
        now = COLOR.sub("", now)
    first, *between, last = _MARK.split(saved)
    if not now.startswith(first):
        return False
    at = len(first)
    for part in between:
        found = now.find(part, at + 1)
        if found < 0:
            return False
        at = found + len(part)
    return len(now) - len(last) > at and now.endswith(last)


@dataclass(frozen=True)
class HiddenText:
    """The cell from which on the text of a run is hidden.

    `first`: the index of the first cell of which a save took something out, None: no cell.
    """

    first: int | None = None

    @classmethod
    def of(cls, nb: Any) -> HiddenText:
        """Check the cells of a session notebook, their outputs and the records of their turns."""
        return cls(min(_marked(nb), default=None))

    def __bool__(self) -> bool:
        return self.first is not None

    def covers(self, index: int) -> bool:
        return self.first is not None and index >= self.first

    @property
    def number(self) -> int:
        """Return the number of that cell, from 1; 0 for none."""
        return 0 if self.first is None else self.first + 1

    @property
    def reason(self) -> str:
        return f"text hidden, because this notebook was saved with redactions (cell {self.number})"

    def failure(self, index: int, name: str, text: str) -> str:
        """Describe how the cell at `index` failed: the exception's class and text. A class that is not a plain name is text too."""
        if not self.covers(index):
            return f"{name}: {text}"
        return f"{name}, {self.reason}" if name.isidentifier() else self.reason

    def line(self, number: int) -> str:
        """Describe the line where a hidden text differs; `number` 0: no line."""
        return f"line {number}, {self.reason}" if number else self.reason


NOTHING_HIDDEN = HiddenText()


def _marked(nb: Any) -> Iterator[int]:
    """Yield the indexes of cells with redaction marks; 0 for a text that belongs to no cell."""
    for index, cell in enumerate(nb["cells"]):
        own = [cell.get("outputs"), cell.get("attachments"), cell["metadata"].get("kin")]
        if has_redaction_marks(json.dumps([None if is_recording_cell(cell) else cell["source"], *own])):
            yield index
    if has_redaction_marks(json.dumps(stored_texts(nb["metadata"].get("kin")))):
        yield 0
