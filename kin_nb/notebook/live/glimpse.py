"""An object's value, cut short, without its secrets. It may run the object's own code, as describing.py does."""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any

from kin_nb.core.safety.secrets import SECRET, is_secret_name

ROWS = 5
LONGEST = 2_000
"""Characters of one value."""
_MOST_COLUMNS = 30
_ITEMS = 30
_LONGEST_LINE = 120
_NAMED = re.compile(r"""(['"]?)\b([A-Za-z_][\w-]*)\1(\s*[=:]\s*)b?(?:'(?:[^'\\\n]|\\.)*'?|"(?:[^"\\\n]|\\.)*"?)""")


def glimpse(value: Any, rows: int = ROWS) -> str:
    """A table's or series' first rows, what is said of an array, the beginning of anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        text = _rows(value, rows)
    elif pandas is not None and isinstance(value, pandas.Series):
        text = value.head(rows).to_string()
    elif type(value).__module__ == "numpy":  # it cuts itself short
        text = repr(value)
    else:
        text = _Short().repr(value)
    text = without_named_secrets(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[… {len(text) - LONGEST:,} characters left out …]"


def without_named_secrets(text: str) -> str:
    """`password='hunter2'` and `"api_key": "abc"` without what follows the name."""
    return _NAMED.sub(lambda m: f"{m[1]}{m[2]}{m[1]}{m[3]}{SECRET}" if is_secret_name(m[2]) else m[0], text)


def one_line(text: str) -> str:
    """For names and labels, which are anybody's: on one line, cut short."""
    line = "".join(character if character.isprintable() else " " for character in text[:_LONGEST_LINE])
    return f"{line}…" if len(text) > _LONGEST_LINE else line


def _rows(frame: Any, rows: int) -> str:
    """The first columns of the first rows; a column with a secret's name is only named."""
    secret = [is_secret_name(str(label)) for label in frame.columns]
    shown = frame.loc[:, [not is_secret for is_secret in secret]].iloc[:rows, :_MOST_COLUMNS]
    hidden = [one_line(str(label)) for label, is_secret in zip(frame.columns, secret, strict=True) if is_secret]
    note = f"\n[not shown: {', '.join(hidden)}]" if hidden else ""
    return f"{shown.to_string(max_colwidth=60)}{note}"


class _Short(reprlib.Repr):
    """Of a long text or container only the beginning is ever made into text."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = _ITEMS
        self.maxarray = _ITEMS
        self.maxstring = self.maxother = LONGEST

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, bytes | bytearray):
            return f"{bytes(x[: LONGEST // 4])!r}{'...' if len(x) > LONGEST // 4 else ''}"
        if isinstance(x, Mapping):
            shown = dict(islice(x.items(), _ITEMS + 1))
            return f"{type(x).__name__}({self.repr_dict(shown, level)})"
        try:
            text = repr(x)
        except Exception as error:  # noqa: BLE001  (its own code)
            return f"<{type(x).__name__}: its repr raised {type(error).__name__}>"
        return text if len(text) <= self.maxother else f"{text[: self.maxother]}..."
