"""What an object is, without its values: type, size, memory, schema. Duck-typed: nothing is imported to know a type.

These functions may run the object's own code: it may raise anything, or hang. variables.py copes with that.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from kin_nb.core.redaction import SECRET
from kin_nb.core.text import counted, first_line, listed
from kin_nb.notebook.namespace import tables
from kin_nb.notebook.namespace.short_repr import has_secret_name, label_text, one_line
from kin_nb.notebook.namespace.tables import is_a

MOST_COLUMNS = 100
_WIDE, _FEW = 1_000, 10
"""With more columns than that the labels are data, as those of `df.T` are: few of them do."""
MOST_KEYS = 50
_MOST_COUNTED = 1_000
_MOST_CELLS = 50_000_000
"""Of a table: above that missing values are not counted."""
_MOST_NAMES = 40
_KIB = 1024

CODE = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)
"""What most cells import or define, and hold no data."""


def type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}.{kind.__qualname__}"


def size(value: object) -> str:
    """Return the size: the shape, such as `3 x 2`, else the length with its unit; "" without either."""
    shape = getattr(value, "shape", None)
    if shape is not None:  # some compute for long when they are asked for their length
        known = isinstance(shape, tuple) and all(isinstance(side, int) for side in shape)
        return " x ".join(f"{side:,}" for side in shape) or "scalar" if known else ""
    if isinstance(value, type):
        return ""
    try:
        length = len(value)  # type: ignore[arg-type]
    except TypeError:
        return ""
    unit = "character" if isinstance(value, str) else "byte" if isinstance(value, bytes | bytearray) else "item"
    return counted(length, unit)


def memory(value: object) -> int | None:
    """Return the size in bytes; of a container without its items."""
    if is_a(value, "pandas", "DataFrame"):
        return int(value.memory_usage().sum())  # type: ignore[attr-defined]
    if is_a(value, "pandas", "Series") or is_a(value, "pandas", "Index"):
        return int(value.memory_usage())  # type: ignore[attr-defined]
    if (known := tables.memory(value)) is not None:
        return known
    taken = getattr(value, "nbytes", None)
    return taken if isinstance(taken, int) else sys.getsizeof(value)


def format_bytes(count: int) -> str:
    """Format a number of bytes: `512 B`, `1.2 KB`, `3.4 MB`."""
    if count < _KIB:
        return f"{count} B"
    amount = float(count)
    for unit in ("KB", "MB", "GB"):
        amount /= _KIB
        if amount < _KIB:
            return f"{amount:.1f} {unit}"
    return f"{amount / _KIB:.1f} TB"


def schema(value: Any) -> Iterator[str]:
    """Yield lines about the structure of an object, the cheap ones first."""
    if is_a(value, "pandas", "DataFrame"):
        yield from _table(value)
    elif is_a(value, "pandas", "Series"):
        yield f"dtype {value.dtype}, name {label_text(value.name)}"
        yield _index(value.index)
        yield f"missing: {int(value.isna().sum()):,}"
    elif tables.is_lazy(value):
        yield "lazy: its columns are known when it is collected"
    elif tables.is_frame(value):
        yield from _columns(tables.columns(value))
        yield _missing(tables.missing(value), len(tables.columns(value)))
    elif tables.is_column(value):
        dtype, missing = tables.column_type(value)
        name = f", name {label_text(value.name)}" if getattr(value, "name", None) else ""
        yield f"dtype {one_line(str(dtype))}{name}"
        yield f"missing: {missing:,}"
    elif isinstance(value, Mapping):
        yield from _keys(value)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from _items(value)
    elif isinstance(value, CODE):
        yield from _code(value)
    elif not isinstance(value, str | bytes | bytearray | int | float | complex | None):
        yield from _object(value)


def _table(frame: Any) -> Iterator[str]:
    yield _index(frame.index)
    labels = [SECRET] * len(frame.columns) if has_secret_name(frame.columns) else frame.columns
    yield from _columns(list(zip(labels, frame.dtypes, strict=True)))
    if frame.size <= _MOST_CELLS:
        yield _missing(zip(labels, frame.isna().sum(), strict=True), len(labels))


def _columns(columns: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    """`columns`: (label, type) of each."""
    yield f"{counted(len(columns), 'column')}:"
    most = _most(len(columns))
    yield from (f"  {label_text(label)}: {one_line(str(dtype))}" for label, dtype in columns[:most])
    yield from _left_out(len(columns) - most, "column")


def _missing(counts: Iterable[tuple[Any, Any]], columns: int) -> str:
    found = [
        f"{label_text(label)} {count:,}" for label, count in islice(((k, n) for k, n in counts if n), _most(columns))
    ]
    return f"missing: {', '.join(found) or 'none'}"


def _most(columns: int) -> int:
    return _FEW if columns > _WIDE else MOST_COLUMNS


def _index(index: Any) -> str:
    names = ", ".join(label_text(name) for name in index.names if name is not None)
    return f"index: {type(index).__name__}, {index.dtype}{f', named {names}' if names else ''}"


def _keys(mapping: Mapping[Any, Any]) -> Iterator[str]:
    for key, value in islice(mapping.items(), MOST_KEYS):
        yield f"  {label_text(key if isinstance(key, str) else repr(key))}: {' '.join((type_name(value), size(value))).strip()}"
    yield from _left_out(len(mapping) - MOST_KEYS, "key")


def _items(items: Iterable[Any]) -> Iterator[str]:
    kinds = Counter(type_name(item) for item in islice(items, _MOST_COUNTED))
    if kinds:
        more = f" (of the first {_MOST_COUNTED:,})" if kinds.total() == _MOST_COUNTED else ""
        yield f"holds: {', '.join(f'{count:,} {kind}' for kind, count in kinds.most_common(10))}{more}"


def _code(value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {value.__name__}"
        return
    try:
        yield f"{value.__qualname__}{inspect.signature(value)}"
    except ValueError:  # some that are written in C have none
        yield str(value.__qualname__)
    yield from _first_line_of_doc(value)


def _object(value: Any) -> Iterator[str]:
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        yield f"dtype {one_line(str(dtype))}{_device(value)}"
    if getattr(value, "shape", None) is not None:  # an array: its methods are known
        return
    yield from _first_line_of_doc(type(value))
    held = getattr(value, "__dict__", None) or {}
    attributes = [name for name in held if isinstance(name, str) and not name.startswith("_")]
    for name in attributes[:_MOST_NAMES]:
        yield f"  .{one_line(name)}: {type_name(held[name])}"
    yield from _left_out(len(attributes) - _MOST_NAMES, "attribute")
    methods = [name for name in dir(type(value)) if not name.startswith("_") and name not in attributes]
    if methods:
        yield f"of its class: {listed(methods, _MOST_NAMES)}"


def _device(value: Any) -> str:
    """Return the device of a tensor; "" for numpy, which has only one."""
    device = getattr(value, "device", None)
    known = device is not None and not callable(device) and not is_a(value, "numpy", "ndarray")
    return f", device {one_line(str(device))}" if known else ""


def _first_line_of_doc(value: object) -> Iterator[str]:
    doc = getattr(value, "__doc__", None)
    if isinstance(doc, str) and doc.strip():
        yield one_line(first_line(doc))


def _left_out(count: int, unit: str) -> Iterator[str]:
    if count > 0:
        yield f"  … {counted(count, f'more {unit}')}"
