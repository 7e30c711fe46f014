"""Capture the output of code in the user's shell: no stream, display or error message of it reaches the front end.

The output of the code and its child processes is kept for the model, and passed to the card as it arrives.
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TextIO

from kin_nb.core.messages import ImageContent
from kin_nb.core.tools.builtins.text_file import decode
from kin_nb.core.tools.truncation import MOST_PICTURES, OUTPUT_LIMIT, CappedOutput

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PICTURES = ("image/png", "image/jpeg")
_EVERY = 0.05
"""Seconds between two pieces for the card."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class CapturedOutput:
    """Written on the main thread. `emit` is called on the loop's thread, in the context that this is made in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, emit: Callable[[str], None]) -> None:
        self._loop, self._emit, self._context = loop, emit, copy_context()
        self._kept = CappedOutput(OUTPUT_LIMIT, self._to_the_card)
        self._waiting: list[str] = []
        self._due = False
        self.pictures: list[ImageContent] = []

    def write(self, text: str) -> None:
        self._kept.add(text.encode("utf-8", "replace"))

    def show(self, data: Mapping[str, Any]) -> None:
        """Add a displayed MIME bundle: its picture, or else its text."""
        if not self.take_picture(data) and isinstance(data.get("text/plain"), str):
            self.write(f"{data['text/plain']}\n")

    def take_picture(self, data: Mapping[str, Any]) -> bool:
        """Keep the picture of a MIME bundle, as far as the model can be sent more. False: there is none."""
        for media_type in _PICTURES:
            found = data.get(media_type)
            if isinstance(found, bytes | str) and found:
                if len(self.pictures) <= MOST_PICTURES:  # one more than allowed, so that the rest is reported
                    encoded = base64.b64encode(found).decode() if isinstance(found, bytes) else "".join(found.split())
                    self.pictures.append(ImageContent(media_type=media_type, data=encoded))
                return True
        return False

    def text(self) -> str:
        """Return all output as a terminal shows it: without colours, and only the last state of an overwritten line."""
        text = self._kept.text()
        self._kept.keep_whole(terminal_text)
        return terminal_text(text)

    def flush(self) -> None:
        """Send pending output to the card. Called on the loop's thread."""
        self._due = False
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._emit("".join(waiting))

    def _to_the_card(self, text: str) -> None:
        self._waiting.append(text)
        if not self._due:  # code that prints without end must not fill the loop
            self._due = True
            self._loop.call_soon_threadsafe(self._loop.call_later, _EVERY, self._flush_there)

    def _flush_there(self) -> None:
        self._context.run(self.flush)


def terminal_text(text: str) -> str:
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line[line.rfind("\r", 0, -1) + 1 :] if "\r" in line else line for line in lines)


STDOUT, STDERR = 1, 2
_MOST = 1_000_000
"""Bytes; of more, the first."""


@contextmanager
def capture_child_output(write: Callable[[str], None]) -> Iterator[None]:
    """Capture output of child processes, stdout and stderr together, and pass it to `write` at the end of the block.

    ipykernel watches both and would publish it to the cell.
    """
    with tempfile.TemporaryFile() as file, ExitStack() as stack:
        try:
            for descriptor in (STDOUT, STDERR):
                stack.callback(_put_back, os.dup(descriptor), descriptor)
                os.dup2(file.fileno(), descriptor)
        except OSError:  # closed, as in a service without a terminal
            stack.close()
        try:
            yield
        finally:
            stack.close()
            file.seek(0)
            if content := file.read(_MOST):
                write(decode(content)[0])


def _put_back(kept: int, descriptor: int) -> None:
    os.dup2(kept, descriptor)
    os.close(kept)


@contextmanager
def capture_output(shell: InteractiveShell, printed: CapturedOutput) -> Iterator[None]:
    """Send printed and displayed output and tracebacks to `printed` within the block; restore everything afterwards."""
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
            stack.enter_context(capture_child_output(printed.write))
            yield
    finally:
        out.end()
        err.end()


class _Stream(io.TextIOBase):
    """Replace `real` during the capture, and forward to it afterwards: a logger may still hold this object."""

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
        """Ignore: neither the code nor the garbage collector may close it."""

    def fileno(self) -> int:
        return self._real.fileno()


class _Publisher:
    """A display publisher that captures; otherwise like the shell's own."""

    def __init__(self, real: Any, printed: CapturedOutput) -> None:
        self._real, self._printed = real, printed

    def publish(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        self._printed.show(data)

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: printed output stays, because the model may need it."""

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
