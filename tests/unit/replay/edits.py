"""A session notebook with everything in it, and an edit of every place in its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from kin_nb.replay.saving.build import session_notebook
from tests.unit.replay.everything import EVERYTHING

WRONG = {"wrong": ["type"]}
"""What no field may be."""


@cache
def _text() -> str:
    return json.dumps(session_notebook(EVERYTHING))


def stored() -> Any:
    """A session notebook of its own, to be edited."""
    return json.loads(_text())


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of everything within `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value[:-1]}{'0' if value[-1:] != '0' else '1'}"
    if isinstance(value, list):
        return [*value, *value] or ["x"]
    return dict(list(value.items())[1:]) if value else {"x": 1}


def edits() -> Iterator[tuple[str, tuple]]:
    """(what is done, where) for each record of `stored()`."""
    for number, cell in enumerate(stored()["cells"]):
        for index, record in enumerate(cell["metadata"].get("kin", {}).get("records", [])):
            for path in places(record):
                for what in ("changed", "removed", "of another type"):
                    yield what, ("cells", number, "metadata", "kin", "records", index, *path)


def edit(nb: Any, what: str, path: tuple) -> None:
    holder, key = at(nb, path[:-1]), path[-1]
    if what == "removed":
        del holder[key]
    else:
        holder[key] = other(holder[key]) if what == "changed" else WRONG
