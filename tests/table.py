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
    names: str | tuple[str, ...],
    rows: Iterable[Any],
    ids: Iterable[str] | Callable[[Any], Any] | None = None,
    *,
    long: Iterable[Any] = (),
) -> Callable[..., Any]:
    """Call the test for each row, like `pytest.mark.parametrize` as one item; for the rows of `long` as a second, long item.

    All rows share the fixtures of the test, except that each has a `tmp_path` of its own.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    tables = {part: [_values(row, arguments) for row in table] for part, table in (("fast", rows), ("long", long))}
    labels = list(ids) if ids is not None and not callable(ids) else None
    label_of = ids if callable(ids) else "{!r:.200}".format
    assert tables["fast"], "a table without rows checks nothing"

    def wrap(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def check_rows(**fixtures: Any) -> None:
            table = tables[fixtures.pop("rows", "fast")]
            folder = fixtures.get("tmp_path")
            failures = []
            for number, values in enumerate(table):
                try:
                    if folder is not None:
                        fixtures["tmp_path"] = folder / f"row{number}"
                        fixtures["tmp_path"].mkdir()
                    outcome = test(**fixtures, **dict(zip(arguments, values, strict=True)))
                    if inspect.iscoroutine(outcome):
                        asyncio.run(outcome)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                    label = labels[number] if labels else ", ".join(str(label_of(value)) for value in values)
                    error.add_note(f"row {number}: {label}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        # without this, `functools.wraps` passes off a row's arguments as fixtures, and an async test as a coroutine
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        if tables["long"]:
            kept.append(inspect.Parameter("rows", inspect.Parameter.KEYWORD_ONLY))
        check_rows.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del check_rows.__wrapped__  # type: ignore[attr-defined]
        if not tables["long"]:
            return check_rows
        parts = ["fast", pytest.param("long", marks=pytest.mark.long)]
        return pytest.mark.parametrize("rows", parts)(check_rows)

    return wrap


def _values(row: Any, arguments: list[str]) -> tuple[Any, ...]:
    if isinstance(row, ParameterSet):
        assert not row.marks, "a row that is marked is an item of its own"
        values = tuple(row.values)
    else:
        values = (row,) if len(arguments) == 1 else tuple(row)
    assert len(values) == len(arguments), "a row has a value for each name"
    return values
