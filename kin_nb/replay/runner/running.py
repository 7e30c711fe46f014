"""Running a notebook's cells in place, told as it goes; what stops a run is a value, no exception."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kin_nb.render.text import clean
from kin_nb.replay.cells.bound import is_bound_cell
from kin_nb.replay.format.taken_out import NOTHING_HIDDEN, HiddenText
from kin_nb.replay.runner.kernel_client import execute
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.place import Place
from kin_nb.replay.runner.played import Failure


@dataclass(frozen=True)
class Progress:
    """What is going on: cell `cell` of `cells` (from 1) began, or, with `output`, showed this nbformat output."""

    cell: int
    cells: int
    output: Any = None


OnProgress = Callable[[Progress], None]


def run_cells(
    nb: Any, there: Place, options: ReplayOptions, on_progress: OnProgress | None, hidden: HiddenText = NOTHING_HIDDEN
) -> tuple[int | None, str]:
    """Run `nb` in place; the index of the cell that stopped it and why, (None, "") when none did.

    Unless in playback the agent's own calls bind its variables, so the cells that do so in playback are left out. Nothing
    is told of what the cells that `hidden` covers show.
    """
    from nbclient.exceptions import (  # noqa: PLC0415  (first use)
        CellExecutionError,
        CellTimeoutError,
        DeadKernelError,
    )

    tell = _telling(on_progress, hidden)
    count = len(nb["cells"])
    current = 0

    above = _Above(nb, hidden)

    def on_cell(index: int) -> None:
        nonlocal current
        current = index
        above.keep(index)
        tell(Progress(index + 1, count))

    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    try:
        execute(
            nb,
            cwd=there.cwd,
            env=there.env,
            timeout=options.timeout,
            skips=lambda cell: options.way != "playback" and is_bound_cell(nb, cell),
            on_cell=on_cell,
            on_output=lambda index, output: tell(Progress(index + 1, count, output)),
            quiet=bool(hidden),
        )
    except CellExecutionError as error:
        return current, f"cell {current + 1}: {hidden.failure(current, error.ename, error.evalue)}"
    except CellTimeoutError:
        return current, f"cell {current + 1} ran longer than {options.timeout} s"
    except DeadKernelError:
        return current, f"cell {current + 1}: the kernel died"
    except UnicodeEncodeError:  # half a surrogate pair: messages to a kernel are UTF-8, which has no bytes for it
        return current, f"cell {current + 1}: its text is no Unicode (half a surrogate pair), so no kernel can run it"
    finally:
        above.put_back()
    return None, ""


class _Above:
    """What the cells above those that `hidden` covers show, which may change what stands there (a display's update)."""

    def __init__(self, nb: Any, hidden: HiddenText) -> None:
        self._cells = [cell for cell in nb["cells"][: hidden.first] if hidden and cell["cell_type"] == "code"]
        self._hidden = hidden
        self._outputs: list[Any] | None = None

    def keep(self, index: int) -> None:
        """As they are before the first such cell, at `index`, runs."""
        if self._outputs is None and self._hidden.covers(index):
            self._outputs = copy.deepcopy([cell["outputs"] for cell in self._cells])

    def put_back(self) -> None:
        for cell, outputs in zip(self._cells, self._outputs or (), strict=False):
            cell["outputs"] = outputs


def _telling(on_progress: OnProgress | None, hidden: HiddenText) -> OnProgress:
    def tell(progress: Progress) -> None:
        if on_progress is not None and (progress.output is None or not hidden.covers(progress.cell - 1)):
            on_progress(progress)

    return tell


def failure_of(nb: Any, at: int, error: str, hidden: HiddenText = NOTHING_HIDDEN) -> Failure:
    """How the cell at `at` ended a run; `error`: what `run_cells` says of it, where it shows no error, as when the kernel died."""
    for output in reversed(nb["cells"][at]["outputs"]):
        if output["output_type"] == "error":
            if hidden.covers(at):
                return Failure(hidden.failure(at, output["ename"], ""))
            return Failure(output["ename"], output["evalue"], clean("\n".join(output["traceback"])))
    return Failure(error.partition(": ")[2] or error)
