"""Running a notebook's cells in place, told as it goes; what stops a run is a value, no exception."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kin_nb.replay.cells.bound import is_bound_cell
from kin_nb.replay.runner.kernel_client import execute
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.place import Place

STILL_RUNNING = "was still running after"


@dataclass(frozen=True)
class Progress:
    """What is going on: cell `cell` of `cells` (from 1) began, or, with `output`, showed this nbformat output."""

    cell: int
    cells: int
    output: Any = None


OnProgress = Callable[[Progress], None]


def run_cells(nb: Any, there: Place, options: ReplayOptions, on_progress: OnProgress | None) -> tuple[int | None, str]:
    """Run `nb` in place; the index of the cell that stopped it and why, (None, "") when none did.

    Unless in playback the agent's own calls bind its variables, so the cells that do so in playback are left out.
    """
    from nbclient.exceptions import (  # noqa: PLC0415  (first use)
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    deadline = time.monotonic() + (options.total or 0)

    def seconds(_cell: Any) -> int:
        return max(1, math.ceil(deadline - time.monotonic())) if options.total else options.timeout

    tell = on_progress or (lambda _: None)
    count = len(nb["cells"])
    current = 0

    def on_cell(index: int) -> None:
        nonlocal current
        current = index
        tell(Progress(index + 1, count))

    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    try:
        execute(
            nb,
            cwd=there.cwd,
            env=there.env,
            timeout=seconds,
            skips=lambda cell: options.way != "playback" and is_bound_cell(nb, cell),
            on_cell=on_cell,
            on_output=lambda index, output: tell(Progress(index + 1, count, output)),
        )
    except CellExecutionError as error:
        return current, f"cell {current + 1}: {error.ename}: {error.evalue}"
    except CellTimeoutError:
        if options.total:
            return current, f"cell {current + 1} {STILL_RUNNING} {options.total} s"
        return current, f"cell {current + 1} ran longer than {options.timeout} s"
    except DeadKernelError:
        return current, f"cell {current + 1}: the kernel died"
    except UnicodeEncodeError:  # half a surrogate pair: messages to a kernel are UTF-8, which has no bytes for it
        return current, f"cell {current + 1}: its text is no Unicode (half a surrogate pair), so no kernel can run it"
    return None, ""
