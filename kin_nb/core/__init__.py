"""The agent. Owns the loop, tools, safety, model servers and the session log.

Knows nothing of Jupyter, widgets or notebooks; never renders; writes files of its own only through the session log.
May import: the standard library, pydantic, httpx. Everything here is async; nothing is created at import.
"""

from __future__ import annotations

from typing import Any

__all__ = ["run_programmatic"]


def __getattr__(name: str) -> Any:
    """`run_programmatic` (seed 003), imported when it is asked for: this file runs before any module of core."""
    if name != "run_programmatic":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kin_nb.core.programmatic import run_programmatic  # noqa: PLC0415

    return run_programmatic
