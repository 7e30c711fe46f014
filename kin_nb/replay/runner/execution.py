"""The run of a notebook's cells, in place, in a fresh kernel of this interpreter.

What stops a run is a value, not an exception; outputs are reported as they come.
"""

from __future__ import annotations

import asyncio
import atexit
import copy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.interrupts import run_interruptible
from kin_nb.render.text import clean
from kin_nb.replay.binding_cells import is_binding_cell
from kin_nb.replay.cell_keys import is_kin_kernel
from kin_nb.replay.format.redacted_text import NOTHING_HIDDEN, HiddenText
from kin_nb.replay.runner.confined import CellFailure
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.run_environment import RunEnvironment

_LAUNCH = (
    "import sys\nif not sys.path[0]: del sys.path[0]\nimport runpy\n"
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Like `-m`, but a module next to the notebook is not mistaken for the kernel. IPython later puts that folder first on the path,
for cells. (-P would prevent that; with PYTHONSAFEPATH the folder is not on the path at all.)"""

_LONGEST_SOCKET = 90
"""Bytes of the connection file's path: a socket's is a little longer."""

OnOutput = Callable[[int, Any], None]
"""(index of the cell, its new output, or what one of its outputs has become)."""


def execute(
    nb: Any,
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: int,
    skips: Callable[[Any], bool],
    on_cell: Callable[[int], None],
    on_output: OnOutput,
    quiet: bool = False,
) -> None:
    """Run the cells of `nb` in place, in a fresh kernel of the running interpreter, whatever the kernelspec says.

    `skips` tells the cells that are left as they are. `timeout`: the seconds that a cell may take. `quiet`: what the
    kernel's process itself prints, such as when it ends, goes nowhere. Raises nbclient's
    CellExecutionError, CellTimeoutError or DeadKernelError; then `nb` holds what had come until then. The kernel is gone
    afterwards, also when the run was interrupted (KeyboardInterrupt).
    """
    from nbclient import NotebookClient  # noqa: PLC0415  (first use)

    handlers: dict[signal.Signals, Any] = {}

    class Client(NotebookClient):  # type: ignore[misc]  # nbclient is only partly typed
        async def async_start_new_kernel(self, **kwargs: Any) -> None:
            """nbclient has just made a signal end the kernel alone: to the run it would look as if that had crashed."""
            loop = asyncio.get_running_loop()
            for number, handler in handlers.items():
                if loop.remove_signal_handler(number):
                    signal.signal(number, handler)
            await super().async_start_new_kernel(**kwargs)

        async def async_execute_cell(self, cell: Any, cell_index: int, **how: Any) -> Any:
            return cell if skips(cell) else await super().async_execute_cell(cell, cell_index, **how)

        def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
            out = super().output(outs, msg, display_id, cell_index)
            if out is not None:
                on_output(cell_index, out)
            return out

        def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
            out = super().process_message(msg, cell, cell_index)
            if msg["msg_type"] == "update_display_data":  # an updated card is not a new output
                on_output(cell_index, msg["content"])
            return out

    module = "kin_nb.notebook.kernel" if is_kin_kernel(nb) else "ipykernel_launcher"
    with tempfile.TemporaryDirectory(prefix="kin-") as sockets:
        client = Client(
            nb,
            kernel_manager_class=_kernel_manager_class(module, Path(sockets)),
            timeout=timeout,
            iopub_timeout=60,  # a busy machine is late with outputs; after nbclient's 4 s they would be lost
            store_widget_state=False,
            record_timing=False,
            on_cell_start=lambda cell, cell_index: on_cell(cell_index),  # noqa: ARG005  (nbclient calls by keyword)
        )

        async def run() -> None:
            handlers.update({number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)})
            printed = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} if quiet else {}
            await _to_its_end(client, env=dict(env), cwd=str(cwd), **printed)

        run_interruptible(run())


async def _to_its_end(client: Any, **kernel: Any) -> None:
    """No kernel is left, however it ends. nbclient calls it a dead kernel when this is cancelled; then CancelledError."""
    try:
        await client.async_execute(**kernel)
    except Exception:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        raise
    finally:
        atexit.unregister(client._cleanup_kernel)  # noqa: SLF001  (registered before the kernel starts: there may be none)
        if client.km is not None and client.km.has_kernel:  # cancelled while it started
            await client.km.shutdown_kernel(now=True)


def _kernel_manager_class(module: str, sockets: Path) -> type:
    """Managers whose kernel is `python -m module` of this interpreter: a user's kernelspec may name another.

    A class, not a manager: nbclient shuts down only the kernels of managers that it made. The kernel is spoken to over
    sockets in the folder `sockets`.
    """
    from jupyter_client.kernelspec import KernelSpec  # noqa: PLC0415  (first use)
    from jupyter_client.manager import AsyncKernelManager  # noqa: PLC0415

    class ThisInterpreter(AsyncKernelManager):  # type: ignore[misc]  # jupyter_client is only partly typed
        def __init__(self, **settings: Any) -> None:
            super().__init__(**{**settings, **socket_settings(sockets)})

        @property
        def kernel_spec(self) -> Any:
            # what it logs are its own troubles with sockets when a run is interrupted; errors of cells are outputs
            argv = [sys.executable, "-c", _LAUNCH, module, "-f", "{connection_file}", "--log-level=CRITICAL"]
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    return ThisInterpreter


def socket_settings(folder: Path) -> dict[str, str]:
    """A kernel manager's settings for a kernel that is spoken to over sockets in `folder`, which is its alone.

    TCP ports are chosen before the kernel binds them, so runs side by side take each other's. {} where `folder` has too
    long a path for a socket's address (107 bytes on Linux, 103 on macOS).
    """
    connection_file = folder / "kernel.json"
    if len(str(connection_file).encode()) > _LONGEST_SOCKET:
        return {}
    return {"transport": "ipc", "connection_file": str(connection_file)}


@dataclass(frozen=True)
class CellProgress:
    """Progress: cell `cell` of `cells` (from 1) began, or, with `output`, showed this nbformat output."""

    cell: int
    cells: int
    output: Any = None


OnProgress = Callable[[CellProgress], None]


def run_cells(
    nb: Any,
    there: RunEnvironment,
    options: ReplayOptions,
    on_progress: OnProgress | None,
    hidden: HiddenText = NOTHING_HIDDEN,
) -> tuple[int | None, str]:
    """Run `nb` in place. Return the index of the cell that stopped it and why, (None, "") when no cell did.

    Outside playback the agent's own calls bind its variables, so the cells that do this in playback are skipped. The output
    of cells that `hidden` covers is not reported.
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
        tell(CellProgress(index + 1, count))

    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    try:
        execute(
            nb,
            cwd=there.cwd,
            env=there.env,
            timeout=options.timeout,
            skips=lambda cell: options.mode != "playback" and is_binding_cell(nb, cell),
            on_cell=on_cell,
            on_output=lambda index, output: tell(CellProgress(index + 1, count, output)),
            quiet=bool(hidden),
        )
    except CellExecutionError as error:
        return current, f"cell {current + 1}: {hidden.failure(current, error.ename, error.evalue)}"
    except CellTimeoutError:
        return current, f"cell {current + 1} ran longer than {options.timeout} s"
    except DeadKernelError:
        return current, f"cell {current + 1}: the kernel died"
    except UnicodeEncodeError:  # half a surrogate pair: messages to a kernel are UTF-8, which has no bytes for it
        return (
            current,
            f"cell {current + 1}: its text is not valid Unicode (half a surrogate pair), so a kernel cannot run it",
        )
    finally:
        above.put_back()
    return None, ""


class _Above:
    """What the cells above those that `hidden` covers show, which may change outputs above (a display's update)."""

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
    def tell(progress: CellProgress) -> None:
        if on_progress is not None and (progress.output is None or not hidden.covers(progress.cell - 1)):
            on_progress(progress)

    return tell


def failure_of(nb: Any, at: int, error: str, hidden: HiddenText = NOTHING_HIDDEN) -> CellFailure:
    """How the cell at `at` ended a run; `error`: what `run_cells` says of it, where it shows no error, as when the kernel died."""
    for output in reversed(nb["cells"][at]["outputs"]):
        if output["output_type"] == "error":
            if hidden.covers(at):
                return CellFailure(hidden.failure(at, output["ename"], ""))
            return CellFailure(output["ename"], output["evalue"], clean("\n".join(output["traceback"])))
    return CellFailure(error.partition(": ")[2] or error)
