"""The environments of processes, without secrets: of this one, as others may read it, and of those that it starts.

Linux shows a process's first environment in /proc/PID/environ, whatever becomes of it later; a command could read there what
its own environment does not have.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.redaction import holds_a_secret

if TYPE_CHECKING:
    pass

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


_SHELL_HOOKS = re.compile(r"BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4", re.DOTALL)


_FOR_SERVERS = re.compile(
    r"""(?x)
    PATH | HOME | USER | LOGNAME | SHELL | TERM | LANG | LANGUAGE | LC_\w+ | TZ | TMPDIR
    | (?i:(?:HTTP|HTTPS|ALL|NO)_PROXY) | SSL_CERT_(?:FILE|DIR) | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE | NODE_EXTRA_CA_CERTS
    """
)


def child_environment(base: Mapping[str, str], keep: Iterable[str] = (), *, also: Iterable[str] = ()) -> dict[str, str]:
    """`base` without the variables that hold secrets, by name or as a password inside a URL; `keep` names exceptions.

    `also` names more secrets: see key_names. A proxy's URL stays, password and all: without it a child reaches nothing.
    Variables that make every shell run something at its start (BASH_ENV, exported functions) are left out too.
    """
    kept, secret = set(keep), set(also)
    return {
        name: value
        for name, value in base.items()
        if name in kept or not (name in secret or _SHELL_HOOKS.fullmatch(name) or holds_a_secret(name, value))
    }


def server_environment(base: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """The variables of `base` that an MCP server gets: `named`, and what nearly every program needs.

    That is the allow-list of the MCP packages (PATH, HOME, USER and such) with the locale, time zone, temporary folder,
    proxies and certificates.
    """
    given = set(named)
    return {
        name: value
        for name, value in base.items()
        if name in given or (_FOR_SERVERS.fullmatch(name) and not value.startswith("()"))  # an old bash's function
    }
