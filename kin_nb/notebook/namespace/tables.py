"""Tables and columns of polars and pyarrow: what is known of them without reading a value, and their first rows.

Recognized by the names of their classes, if the library is imported. A lazy frame is never inspected: even its
schema may come from a server, in compiled code that nothing interrupts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

_FRAMES = (("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"))
_COLUMNS = (("polars", "Series"), ("pyarrow", "Array"), ("pyarrow", "ChunkedArray"))


def is_a(value: object, module: str, name: str) -> bool:
    """Whether it is an instance of `module.name`; False when that is not imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def is_lazy(value: object) -> bool:
    return is_a(value, "polars", "LazyFrame")


def is_frame(value: object) -> bool:
    """Whether the value is a table with its rows in memory."""
    return any(is_a(value, *kind) for kind in _FRAMES)


def is_column(value: object) -> bool:
    return any(is_a(value, *kind) for kind in _COLUMNS)


def columns(table: Any) -> list[tuple[str, Any]]:
    """(label, type) of each column of a frame in memory."""
    if is_a(table, "polars", "DataFrame"):
        return list(table.schema.items())
    return [(field.name, field.type) for field in table.schema]


def missing(frame: Any) -> Iterator[tuple[str, int]]:
    """(label, how many) of each column of a frame in memory."""
    labels = (label for label, _ in columns(frame))
    if is_a(frame, "polars", "DataFrame"):
        return zip(labels, frame.null_count().row(0), strict=True)
    return zip(labels, (column.null_count for column in frame.columns), strict=True)


def column_type(column: Any) -> tuple[Any, int]:
    """(type, missing values)"""
    if is_a(column, "polars", "Series"):
        return column.dtype, column.null_count()
    return column.type, column.null_count


def memory(value: Any) -> int | None:
    """Bytes; None for other objects, and for tables with `nbytes`."""
    polars = is_a(value, "polars", "DataFrame") or is_a(value, "polars", "Series")
    return int(value.estimated_size()) if polars else None


def first_rows(value: Any, rows: int) -> list[Any]:
    """A dict for each row of a frame, a value for each of a column. The second column with the label "a" is ("a", 2)."""
    if is_a(value, "polars", "DataFrame"):
        found: list[Any] = value.head(rows).to_dicts()
    elif is_a(value, "polars", "Series"):
        found = value.head(rows).to_list()
    elif is_column(value):
        found = value.slice(0, rows).to_pylist()
    else:
        labels = _told_apart(label for label, _ in columns(value))
        held = (column.to_pylist() for column in value.slice(0, rows).columns)
        found = [dict(zip(labels, row, strict=True)) for row in zip(*held, strict=True)]
    return found


def _told_apart(labels: Iterable[str]) -> list[Any]:
    """Distinct labels, as (label, number) pairs: the name of a secret is recognized in a pair, not inside a longer text."""
    seen: Counter[str] = Counter()
    found: list[Any] = []
    for label in labels:
        seen[label] += 1
        found.append(label if seen[label] == 1 else (label, seen[label]))
    return found
