"""JSON that a model server or a model wrote: read without an error of any other kind than ValueError, and never deep."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100
"""Objects and lists in one another. Whoever walks through what was read need not fear for the stack."""


def read_json(text: str | bytes) -> Any:
    """Raises ValueError for what is not JSON, and for what is nested too deeply."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested without end") from None
    if _may_be_deep(text) and _is_deep(value):
        raise ValueError(f"nested more than {DEEPEST} deep")
    return value


def _may_be_deep(text: str | bytes) -> bool:
    """Of a delta, which has a few brackets, this is all that is looked at."""
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    return opened > DEEPEST


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level if isinstance(each, dict | list) for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
