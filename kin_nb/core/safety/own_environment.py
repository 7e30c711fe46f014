"""The environment of this process, as other processes of the same user may read it: without secrets.

Linux shows a process's first environment in /proc/PID/environ, whatever becomes of it later; a command could read there what
its own environment does not have.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from kin_nb.core.safety.secrets import holds_a_secret

_ENV_START, _ENV_END = 47, 48
"""Fields of /proc/PID/stat after the program's name, proc(5)."""
_SET_DUMPABLE = 4


def hide_secrets(also: Collection[str] = ()) -> None:
    """Blank the secrets in the first environment. os.environ, getenv and processes started later have them as before.

    `also`: variables that hold secrets whatever their names. Nothing happens on other systems than Linux.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415  (Linux only)

    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, ValueError, IndexError):
        return
    if not 0 < start < end:
        return
    for place, name, value in _variables(ctypes.string_at(start, end - start)):
        variable, text = os.fsdecode(name), os.fsdecode(value)
        if variable in also or holds_a_secret(variable, text):
            if os.environ.get(variable) == text:
                os.putenv(variable, text)  # a copy elsewhere: the C library still has the first
            ctypes.memset(start + place, 0, len(value))


def keep_memory_private() -> None:
    """Processes of the same user may not read the memory and the environment of this one, nor attach a debugger."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def _variables(block: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(where the value is, name, value), for each that has one."""
    at = 0
    for entry in block.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if value:
            yield at + len(name) + 1, name, value
        at += len(entry) + 1
