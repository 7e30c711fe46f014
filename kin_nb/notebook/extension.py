"""Load and unload: everything that `%load_ext kin_nb` registers in IPython."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import cell_magic as to_python
from IPython.core.inputtransformer2 import leading_empty_lines

from kin_nb.notebook.magics import KinMagics
from kin_nb.notebook.options import KinError
from kin_nb.notebook.startup_hint import show_startup_hint

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MAGIC = re.compile(r"%%kin\s")
_LOAD = re.compile(r"%load_ext[ \t]+kin_nb\s*")
_EVENT = "post_run_cell"


def keep_prompt_verbatim(lines: list[str]) -> list[str]:
    """The first input transformer: pass a %%kin cell on verbatim, before others remove `>>>` or `In [1]:` from it.

    An empty cell gets one blank line: IPython does not call a cell magic without a body, and we have the better message.
    """
    cell = leading_empty_lines(lines)
    if not (cell and _MAGIC.match(cell[0])):
        return lines
    code: list[str] = to_python(cell if len(cell) > 1 else [cell[0], "\n"])
    return code


keep_prompt_verbatim.has_side_effects = True  # type: ignore[attr-defined]  # so IPython does not run it to find out whether a cell is complete


def skip_repeated_load(lines: list[str]) -> list[str]:
    """An input transformer: remove `%load_ext kin_nb` from a cell that begins with it, when the extension is loaded.

    IPython would print "already loaded", which a saved notebook does not show. This happens in the Kin kernel, and on a
    second Run All.
    """
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if first is None or not _LOAD.fullmatch(lines[first]):
        return lines
    return [*lines[:first], "\n", *lines[first + 1 :]]


def check_kernel(ip: InteractiveShell) -> None:
    """Raise KinError in a kernel that is not ipykernel, such as xeus-python; IPython in a terminal has no kernel."""
    kernel = getattr(ip, "kernel", None)
    if kernel is None or any(base.__module__.split(".")[0] == "ipykernel" for base in type(kernel).__mro__):
        return
    raise KinError(
        f"kin_nb needs the ipykernel kernel; this one is {type(kernel).__module__}.{type(kernel).__qualname__}.\n"
        "Choose the kernel “Python 3 (ipykernel)” for this notebook, or install it: pip install ipykernel"
    )


def load(ip: InteractiveShell) -> None:
    check_kernel(ip)
    magics = KinMagics(ip)
    ip.register_magics(magics)
    for callback in (magics.since_written.cell_ran, magics.backup.cell_ran):
        ip.events.register(_EVENT, callback)
    ip.input_transformers_cleanup[:0] = [keep_prompt_verbatim, skip_repeated_load]
    if ip.Completer is not None:
        ip.Completer.custom_matchers.append(magics.matcher)
    show_startup_hint(ip)


def unload(ip: InteractiveShell) -> None:
    magics = ip.magics_manager.registry.pop("KinMagics", None)
    if magics is not None:
        magics.close()
        if magics in ip.configurables:
            ip.configurables.remove(magics)  # IPython keeps every magics object that was registered
        for callback in (magics.since_written.cell_ran, magics.backup.cell_ran):
            with suppress(ValueError):  # other code has unregistered it
                ip.events.unregister(_EVENT, callback)
        for transformer in (keep_prompt_verbatim, skip_repeated_load):
            if transformer in ip.input_transformers_cleanup:
                ip.input_transformers_cleanup.remove(transformer)
        if ip.Completer is not None and magics.matcher in ip.Completer.custom_matchers:
            ip.Completer.custom_matchers.remove(magics.matcher)
    for kind in ("line", "cell"):
        for name in ("kin", "kin_recording"):
            ip.magics_manager.magics[kind].pop(name, None)
