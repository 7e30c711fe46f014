"""Read JSON from a model or a model server: invalid or deeply nested JSON always raises ValueError."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100
"""Most levels of nested objects and lists, so that recursive functions can process the value safely."""


def read_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError for invalid JSON, and for more than DEEPEST levels."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested without end") from None
    if _may_be_deep(text) and _is_deep(value):
        raise ValueError(f"nested more than {DEEPEST} deep")
    return value


def _may_be_deep(text: str | bytes) -> bool:
    """Whether there are enough brackets for deep nesting. This is a quick check that is enough for most texts."""
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
