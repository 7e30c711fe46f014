"""An object's value, cut short, without its secrets. It may run the object's own code, as describe.py does."""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import secret_values
from kin_nb.core.redaction import SECRET, Redactor, is_secret_name
from kin_nb.core.tools.call_context import call_context
from kin_nb.notebook.namespace import tables

_NO_PATHS = Path("/")


def without_secrets(text: str, config: KinConfig | None = None) -> str:
    """Keys of the settings and of the environment, and well-known shapes of keys; `config`: the running call's if None."""
    call = call_context.get()
    config = config or (call.config if call else None)
    return Redactor(secret_values(config) if config else (), _NO_PATHS, _NO_PATHS).text(text)


ROWS = 5
LONGEST = 2_000
"""Characters of one value."""
_MOST_COLUMNS = 30
_ITEMS = 30
_LONGEST_LINE = 120
_NAMED = re.compile(
    r"""(['"]?)\b([A-Za-z_][\w-]*)\1(\s*[=:]\s*)"""
    r"""(?:b?'(?:[^'\\\n]|\\.)*'?|b?"(?:[^"\\\n]|\\.)*"?|[\[({][^\])}]*[\])}]?|[^\s,;'"\\)\]}]+)"""
)


def short_repr(value: Any, rows: int = ROWS) -> str:
    """Return the first rows of a table or column, numpy's own short form of an array, the beginning of anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        text = _rows(value, rows)
    elif pandas is not None and isinstance(value, pandas.Series):
        text = _rows(value.to_frame(), rows)
    elif tables.is_frame(value) or tables.is_column(value):
        text = _first_rows(value, rows)
    elif type(value).__module__ in ("numpy", "numpy.rec"):  # it cuts itself short
        fields = getattr(value.dtype, "names", None)
        text = repr(value[[name for name in fields if not is_secret_name(name)]] if fields else value)
    else:
        text = _Short().repr(value)
    text = without_named_secrets(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[… {len(text) - LONGEST:,} characters left out …]"


def without_named_secrets(text: str) -> str:
    """`password='hunter2'`, `"api_key": "abc"`, `TOKEN=abc` and `keys: [...]` without what follows the name."""
    return _NAMED.sub(lambda m: f"{m[1]}{m[2]}{m[1]}{m[3]}{SECRET}" if is_secret_name(m[2]) else m[0], text)


def one_line(text: str) -> str:
    """For names and labels, which are anybody's: on one line, cut short."""
    line = "".join(character if character.isprintable() else " " for character in text[:_LONGEST_LINE])
    return f"{line}…" if len(text) > _LONGEST_LINE else line


def label_text(label: object) -> str:
    """A column's or a key's name may be data: on one line, cut short, without what looks like a secret."""
    return one_line(without_named_secrets(_shapes_of_keys().text(str(label))))


@cache
def _shapes_of_keys() -> Redactor:
    return Redactor((), Path("/"), Path("/"))


def has_secret_name(index: Any) -> bool:
    """Whether the labels come from a column with a secret's name."""
    return any(map(_names_a_secret, index.names))


def _first_rows(value: Any, rows: int) -> str:
    """As dicts, which know their secrets, or as values; a row that holds a secret's name is only named."""
    lines = []
    for at, row in enumerate(tables.first_rows(value, rows)):
        named = isinstance(row, dict) and any(map(_names_a_secret, row.values()))
        lines.append(f"[not shown: row {at}]" if named else _Short().repr(row))
    return "\n".join(lines)


def _rows(frame: Any, rows: int) -> str:
    """The first columns of the first rows; a column with a secret's name is only named, as is a row that holds such a name."""
    frame = frame.iloc[:rows]
    hidden = [one_line(str(label)) for label in frame.columns if _names_a_secret(label)]
    kept = [at for at, label in enumerate(frame.columns) if not _names_a_secret(label)][:_MOST_COLUMNS]
    named = [any(map(_names_a_secret, row)) for row in frame.itertuples(name=None)]
    hidden += [f"row {at}" for at, is_named in enumerate(named) if is_named]
    shown = frame.iloc[[at for at, is_named in enumerate(named) if not is_named], kept]
    if has_secret_name(frame.columns):
        hidden.append("the columns' labels")
        shown = shown.set_axis(range(len(kept)), axis=1)
    if has_secret_name(frame.index):
        hidden.append("the index")
        shown = shown.reset_index(drop=True)
    note = f"\n[not shown: {', '.join(hidden)}]" if hidden else ""
    return f"{shown.to_string(max_colwidth=60)}{note}"


def _names_a_secret(label: Any) -> bool:
    """Also as one level of several."""
    return any(
        isinstance(part, str) and is_secret_name(part) for part in (label if isinstance(label, tuple) else [label])
    )


class _Short(reprlib.Repr):
    """Of a long text or container only the beginning is ever made into text."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = _ITEMS
        self.maxarray = _ITEMS
        self.maxstring = self.maxother = LONGEST

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        first = islice(x.items(), _ITEMS + 1)
        return super().repr_dict({key: _Hidden() if _names_a_secret(key) else value for key, value in first}, level)

    def repr_tuple(self, x: tuple[Any, ...], level: int) -> str:
        return super().repr_tuple(_pair(x), level)

    def repr_list(self, x: list[Any], level: int) -> str:
        return super().repr_list(list(_pair(x)), level)

    def repr_instance(self, x: Any, level: int) -> str:
        if tables.is_lazy(x):  # with some versions its repr asks for its columns
            return "<lazy frame>"
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


class _Hidden:
    """Placeholder of a value under a secret's name."""

    def __repr__(self) -> str:
        return SECRET


def _pair(values: Any) -> Any:
    """`("password", value)` without the value."""
    pair = len(values) == 2 and isinstance(values[0], str) and is_secret_name(values[0])  # noqa: PLR2004  (a pair)
    return (values[0], _Hidden()) if pair else values
