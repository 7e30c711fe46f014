"""`@error`: the last traceback, and the cell that it came from."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from kin_nb.notebook.live.glimpse import one_line
from kin_nb.notebook.live.printed import plain

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_CELL = "<the cell>"


def last_error() -> BaseException | None:
    """What the last cell that failed raised, as Python keeps it."""
    error = getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def described(error: BaseException, shell: InteractiveShell, redact: Callable[[str], str]) -> tuple[str, str]:
    """(a few words, the cell's text and the traceback without IPython's own frames). Runs the error's own `__str__`.

    `redact`: takes secrets out of the words before they are cut, where half a secret would be left of one.
    """
    frames = _in_a_cell(error.__traceback__, shell)
    file = frames.tb_frame.f_code.co_filename if frames else getattr(error, "filename", None)
    cell = "".join(linecache.getlines(file)) if isinstance(file, str) else ""
    text = plain("".join(traceback.format_exception(type(error), error, frames)))
    if cell and isinstance(file, str):
        text = f"The cell:\n{cell.rstrip()}\n\n{text.replace(file, _CELL)}"
    words = redact(plain(f"{type(error).__name__}: {error}"))
    return one_line(f"error ({words}"[:80]) + ")", text.rstrip("\n")


def _in_a_cell(frames: TracebackType | None, shell: InteractiveShell) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_globals is not shell.user_global_ns:
        frames = frames.tb_next
    return frames
