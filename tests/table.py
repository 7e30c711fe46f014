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


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], ids: Iterable[str] | Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    """Call the test for each row, like `pytest.mark.parametrize` as one item.

    All rows share the fixtures of the test, except that each has a `tmp_path` of its own.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_values(row, single=len(arguments) == 1) for row in rows]
    if ids is None or callable(ids):
        label = ids or "{!r:.200}".format
        labels = [", ".join(str(label(value)) for value in values) for values in table]
    else:
        labels = list(ids)
    assert table, "a table without rows checks nothing"
    assert all(len(values) == len(arguments) for values in table), "a row has a value for each name"

    def wrap(test: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(test)
        def check_rows(**fixtures: Any) -> None:
            failures = []
            for number, (values, label) in enumerate(zip(table, labels, strict=True)):
                given = {**fixtures, **dict(zip(arguments, values, strict=True))}
                if "tmp_path" in fixtures:
                    given["tmp_path"] = fixtures["tmp_path"] / f"row{number}"
                    given["tmp_path"].mkdir()
                try:
                    outcome = test(**given)
                    if inspect.iscoroutine(outcome):
                        asyncio.run(outcome)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    error.add_note(f"row {number}: {label}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        # `functools.wraps` would name the row's arguments as fixtures, and an async test as a coroutine
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        check_rows.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del check_rows.__wrapped__  # type: ignore[attr-defined]
        return check_rows

    return wrap


def _values(row: Any, *, single: bool) -> tuple[Any, ...]:
    if isinstance(row, ParameterSet):
        assert not row.marks, "a row that is marked is an item of its own"
        return tuple(row.values)
    return (row,) if single else tuple(row)
