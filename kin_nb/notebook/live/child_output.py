"""What programs print that code starts, and code that is not Python: it goes past sys.stdout, to the process's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from kin_nb.core.tools.builtins.text_file import decode

STDOUT, STDERR = 1, 2
_MOST = 1_000_000
"""Bytes; of more, the first."""


@contextmanager
def child_output(write: Callable[[str], None]) -> Iterator[None]:
    """Afterwards `write` gets what arrived within, stdout and stderr as one text; it comes after what Python printed.

    ipykernel watches both and would publish it to the cell.
    """
    with tempfile.TemporaryFile() as file, ExitStack() as stack:
        try:
            for descriptor in (STDOUT, STDERR):
                stack.callback(_put_back, os.dup(descriptor), descriptor)
                os.dup2(file.fileno(), descriptor)
        except OSError:  # closed, as in a service without a terminal: nobody prints there
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
