"""The Kin kernel: IPythonKernel in which a cell is a prompt. `%magic`, `!shell` and `/command` do what they say."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from typing import Any

if __name__ == "__main__" and sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109  (as ipykernel_launcher; pathlib is not imported yet)
    del sys.path[0]  # nothing is imported from the notebook's folder here; IPython puts it back for the user's cells

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from kin_nb import __version__
from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.startup_hint import show_startup_hint

_typed: ContextVar[str | None] = ContextVar("typed", default=None)
"""The cell that a person runs, while it runs."""
_LEAVE = frozenset({"exit", "quit", "exit()", "quit()"})


def as_cell(code: str) -> str:
    """Translate a cell of this kernel for IPython: a prompt or a /command becomes a %%kin cell."""
    return "%kin exit" if code.strip() in _LEAVE else _being_typed(code)


def _being_typed(code: str) -> str:
    """Translate an incomplete cell: `exit` may be the first word of a prompt."""
    text = code.lstrip()
    first, _, rest = text.partition("\n")
    if first.strip() == "%%python":
        return rest  # in this kernel's namespace, not IPython's script magic: a Python of its own
    if not text or text[0] in "%!?":
        return code
    return f"%%kin\n{code}"


class KinKernel(IPythonKernel):
    """A kernel in which each cell is a prompt, as with `%%kin`."""

    implementation = "kin"
    implementation_version = __version__
    banner = "Kin: every cell is a prompt. /help lists the commands."

    as_cell = staticmethod(as_cell)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._welcomed = False
        self.shell.extension_manager.load_extension("kin_nb")
        self.shell.input_transformers_cleanup.insert(0, _translated)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: dict[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> Any:
        """Run a cell. Silent code, which front ends send for widgets and debuggers, stays Python."""
        if not silent:
            self._welcome(code)
            if code.strip() in _LEAVE and _is_console(self.shell):
                code = f"%%python\n{code.strip()}"  # IPython's own: the console ends, and its kernel with it
        token = _typed.set(None if silent else code)
        try:
            return await super().do_execute(
                code,
                silent,
                store_history,
                user_expressions,
                allow_stdin,
                cell_meta=cell_meta,
                cell_id=cell_id,
            )
        finally:
            _typed.reset(token)

    def do_complete(self, code: str, cursor_pos: int) -> Any:
        """Complete a prompt; positions refer to the text as it was typed. Other cells are completed as Python."""
        cell = _being_typed(code)
        shift = len(cell) - len(code)
        reply = super().do_complete(cell, max(0, cursor_pos + shift))
        reply |= {key: reply[key] - shift for key in ("cursor_start", "cursor_end")}
        for completion in reply["metadata"].get("_jupyter_types_experimental", []):
            completion |= {key: completion[key] - shift for key in ("start", "end")}
        return reply

    def do_inspect(self, code: str, cursor_pos: int, *args: Any, **kwargs: Any) -> Any:
        cell = _being_typed(code)
        return super().do_inspect(cell, max(0, cursor_pos + len(cell) - len(code)), *args, **kwargs)

    def do_is_complete(self, code: str) -> Any:
        """Report a prompt as complete, so that a console sends it with Enter. Magics end with an empty line."""
        return {"status": "complete"} if _is_prompt(code) else super().do_is_complete(code)

    def _welcome(self, code: str) -> None:
        """Show the hint above the first answer, where `%kin save` redraws the outputs. Session notebooks get none."""
        if not self._welcomed and (_is_prompt(code) or "%kin replay" in code):
            self._welcomed = True
            show_startup_hint(self.shell)


def _is_console(shell: Any) -> bool:
    """Whether the front end is a console: it sends no cell id, and takes input."""
    io = cell_io(shell)
    return io.cell_id is None and io.allow_stdin


def _is_prompt(code: str) -> bool:
    return as_cell(code).startswith("%%kin\n") and not code.lstrip().startswith("%")


def _translated(lines: list[str]) -> list[str]:
    """Translate a cell as an input transformer: the history keeps the typed text. Code that calls `run_cell` stays Python."""
    typed, text = _typed.get(), "".join(lines)
    return as_cell(text).splitlines(keepends=True) if typed is not None and text in {typed, f"{typed}\n"} else lines


def main() -> None:
    IPKernelApp.launch_instance(kernel_class=KinKernel)


if __name__ == "__main__":
    main()
