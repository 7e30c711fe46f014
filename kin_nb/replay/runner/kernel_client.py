"""nbclient and jupyter_client as the runner needs them: this interpreter's kernel, and outputs told as they come."""

from __future__ import annotations

import asyncio
import atexit
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kin_nb.core.interrupts import run_interruptible
from kin_nb.replay.cells.placing import is_kin_kernel

_LAUNCH = (
    "import sys\nif not sys.path[0]: del sys.path[0]\nimport runpy\n"
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""As `-m`, but a module beside the notebook is not taken for the kernel; later IPython puts that folder first, for cells. (-P
would keep it from that; where PYTHONSAFEPATH is set the folder is not on the path at all.)"""

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
            if msg["msg_type"] == "update_display_data":  # a card that settles is no new output
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
            super().__init__(**{**settings, **over_sockets(sockets)})

        @property
        def kernel_spec(self) -> Any:
            # what it logs are its own troubles with sockets when a run is interrupted; errors of cells are outputs
            argv = [sys.executable, "-c", _LAUNCH, module, "-f", "{connection_file}", "--log-level=CRITICAL"]
            return KernelSpec(argv=argv, display_name="Python 3", language="python")

    return ThisInterpreter


def over_sockets(folder: Path) -> dict[str, str]:
    """A kernel manager's settings for a kernel that is spoken to over sockets in `folder`, which is its alone.

    TCP ports are chosen before the kernel binds them, so runs side by side take each other's. {} where `folder` has too
    long a path for a socket's address (107 bytes on Linux, 103 on macOS).
    """
    connection_file = folder / "kernel.json"
    if len(str(connection_file).encode()) > _LONGEST_SOCKET:
        return {}
    return {"transport": "ipc", "connection_file": str(connection_file)}


_LONGEST_SOCKET = 90
"""Bytes of the connection file's path: a socket's is a little longer."""
