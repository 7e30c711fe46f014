"""Code runs in the person's shell, and nothing of it reaches the front end: no stream, no display, no error message."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from kin_nb.notebook.live.child_output import STDOUT, child_output
from kin_nb.notebook.live.printed import Printed

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


@contextmanager
def captured(shell: InteractiveShell, printed: Printed) -> Iterator[None]:
    """What is printed, displayed and shown as a traceback within goes to `printed`; all is as it was afterwards."""
    out, err = (_Stream(printed.write, stream) for stream in (sys.stdout, sys.stderr))

    def show_traceback(_type: object, _value: object, lines: list[str]) -> None:
        printed.write("\n".join(lines) + "\n")

    replacements = [
        (sys, "stdout", out),
        (sys, "stderr", err),
        (shell, "display_pub", _Publisher(shell.display_pub, printed)),
        (shell, "_showtraceback", show_traceback),  # a formatter that fails sends an `error` message by it
        (shell, "ask_exit", _leave),  # exit() would end the kernel
    ]
    try:
        with ExitStack() as stack:
            for owner, name, value in replacements:
                stack.enter_context(_replaced(owner, name, value))
            stack.enter_context(child_output(printed.write))
            yield
    finally:
        out.end()
        err.end()


class _Stream(io.TextIOBase):
    """Stands for `real`, and is only that once it is over: a logger may have kept it."""

    encoding = "utf-8"

    def __init__(self, write: Callable[[str], None], real: TextIO) -> None:
        super().__init__()
        self._write, self._real, self._over = write, real, False
        self._process = os.getpid()

    def end(self) -> None:
        self._over = True

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if os.getpid() != self._process:  # a fork of it: what it writes here, we would never see
            os.write(STDOUT, text.encode("utf-8", "replace"))
        else:
            (self._real.write if self._over else self._write)(text)
        return len(text)

    def flush(self) -> None:
        if self._over:
            self._real.flush()

    def close(self) -> None:
        """Nobody's to close: not the code's, and not the garbage collector's."""

    def fileno(self) -> int:
        return self._real.fileno()


class _Publisher:
    """In all but publishing the shell's own."""

    def __init__(self, real: Any, printed: Printed) -> None:
        self._real, self._printed = real, printed

    def publish(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        self._printed.show(data)

    def clear_output(self, wait: bool = False) -> None:
        """What was printed stays: the model may need it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    own = vars(owner)
    had, before = name in own, own.get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def _leave() -> None:
    raise SystemExit
