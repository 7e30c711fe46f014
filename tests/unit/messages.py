"""The texts that a user or a model can meet, as `scripts/messages` reads them from the source: once per process, slowly."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "messages"))


@cache
def collected() -> tuple[Any, ...]:
    return tuple(SCRIPT["collected"]())
