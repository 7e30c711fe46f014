"""`--small`: the size that the smoke test runs, so that every benchmark keeps working."""

from __future__ import annotations

import sys
from typing import TypeVar

Size = TypeVar("Size")
SMALL = "--small" in sys.argv


def sized(full: Size, small: Size) -> Size:
    """`full` for a measurement, `small` to see that the benchmark still runs."""
    return small if SMALL else full
