"""One test for a table: every row is checked, and all rows that fail are reported together.

For tables of pure function calls. `pytest.mark.parametrize` makes an item of each row, which every worker collects.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

Label = Callable[[int, tuple[Any, ...]], str]


def each_row(
    names: str | tuple[str, ...],
    rows: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], Any] | None = None,
    *,
    long: Iterable[Any] = (),
) -> Callable[..., Any]:
    """Call the test for each row, like `pytest.mark.parametrize` as one item; for the rows of `long` as a second, long item.

    All rows share the fixtures of the test, except that each has a `tmp_path` of its own. A row that is skipped skips no other.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    tables = {part: [_values(row, arguments) for row in table] for part, table in (("fast", rows), ("long", long))}
    label = _label(ids)
    assert tables["fast"], "a table without rows checks nothing"

    def wrap(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def check_rows(**fixtures: Any) -> None:
            _check(test, arguments, tables[fixtures.pop("rows", "fast")], label, fixtures)

        # without this, `functools.wraps` passes off a row's arguments as fixtures, and an async test as a coroutine
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        if tables["long"]:
            kept.append(inspect.Parameter("rows", inspect.Parameter.KEYWORD_ONLY))
        check_rows.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del check_rows.__wrapped__  # type: ignore[attr-defined]
        if not tables["long"]:
            return check_rows
        return pytest.mark.parametrize("rows", ["fast", pytest.param("long", marks=pytest.mark.long)])(check_rows)

    return wrap


def _check(
    test: Callable[..., Any], arguments: list[str], table: list[tuple[Any, ...]], label: Label, fixtures: dict[str, Any]
) -> None:
    folder = fixtures.get("tmp_path")
    failures, skipped = [], []
    for number, values in enumerate(table):
        try:
            if folder is not None:
                fixtures["tmp_path"] = folder / f"row{number}"
                fixtures["tmp_path"].mkdir()
            outcome = test(**fixtures, **dict(zip(arguments, values, strict=True)))
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)
        except pytest.skip.Exception as skip:
            skipped.append(skip)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
            error.add_note(f"row {number}: {label(number, values)}")
            failures.append(error)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)
    if len(skipped) == len(table):
        raise skipped[0]


def _values(row: Any, arguments: list[str]) -> tuple[Any, ...]:
    if isinstance(row, ParameterSet):
        assert not row.marks, "a row that is marked is an item of its own"
        values = tuple(row.values)
    else:
        values = (row,) if len(arguments) == 1 else tuple(row)
    assert len(values) == len(arguments), "a row has a value for each name"
    return values


def _label(ids: Iterable[str] | Callable[[Any], Any] | None) -> Label:
    if ids is None or callable(ids):
        name = ids or "{!r:.200}".format
        return lambda _, values: ", ".join(str(name(value)) for value in values)
    named = list(ids)
    return lambda number, _: named[number]
