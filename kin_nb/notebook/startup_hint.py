"""The hint of a new kernel: how to resume the last session of this folder; and a warning of what a paired text file would lose.

`%load_ext` has 0.15 s for all that it does: names, times and the two ends of one log are read, nothing is imported for it.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kin_nb.core.paths import kin_home
from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.notebook_file import notebook_file

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

RECENT = 24 * 3600
"""Seconds since its last record for which a session is offered."""
_MOST_LOGS = 50
_LONGEST_LINE = 1_000_000
_TAIL = 16_000
_GOES_ON = re.compile(r"^\s*(?:%kin[ \t]+|/)(?:replay|resume|load)\b", re.MULTILINE)
_JUPYTEXT = b'"jupytext"'
_BEGINS = (b'{"type":"turn"', b'{"type":"continued"')


def show_startup_hint(shell: InteractiveShell) -> None:
    """Show the hint in the current cell, if it has a reader and does not resume or replay itself."""
    io = cell_io(shell)
    code = str(io.parent.get("content", {}).get("code", ""))
    if (io.cell_id is None and not io.allow_stdin) or _GOES_ON.search(code):
        return
    try:
        line = resume_hint(kin_home() / "sessions", Path.cwd().resolve(), time.time())
    except (OSError, RuntimeError):  # no such folder any more, or no home
        return
    own = notebook_file(shell)
    for each in (line, *(_pairing_warnings(own) if own is not None else ())):
        if each is not None:
            io.stream(f"{each}\n")


def _pairing_warnings(notebook: Path) -> list[str]:
    """Return warnings about what a paired text file would lose."""
    empty = ValueError
    with (
        suppress(OSError, empty),
        notebook.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        if text.find(_JUPYTEXT) < 0:
            return []
    from kin_nb.replay.errors import UnreadableNotebookError  # noqa: PLC0415  (notebooks that jupytext knows only)
    from kin_nb.replay.format.jupytext import pairing_warnings  # noqa: PLC0415
    from kin_nb.replay.format.notebook_reader import load_notebook  # noqa: PLC0415

    try:
        return pairing_warnings(load_notebook(notebook))
    except UnreadableNotebookError:  # it may be being written
        return []


def resume_hint(sessions: Path, workspace: Path, now: float) -> str | None:
    """Return the hint; None without a recent session of this workspace, or while the newest is open elsewhere.

    `now`: seconds since 1970. Logs that cannot be read, or are encrypted, are passed over.
    """
    for changed, path in _newest(sessions, since=now - RECENT):
        try:
            with path.open("rb") as log:
                if not _has_turns(log, workspace):
                    continue
                if _in_use(log):
                    return None
                turns = _turns(log)
        except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
            continue
        count = f", {turns} turn{'' if turns == 1 else 's'}" if turns else ""
        return f"Last session here: {_ago(now - changed)}{count}. To continue it: %kin resume"
    return None


def _newest(sessions: Path, since: float) -> Iterator[tuple[float, Path]]:
    """Return (time of the last write, log) of the sessions that changed since then."""
    found = []
    try:
        with os.scandir(sessions) as entries:
            for entry in entries:
                log = Path(entry.path, "log.jsonl")
                try:
                    changed = log.stat().st_mtime
                except OSError:
                    continue
                if changed >= since:
                    found.append((changed, log))
    except OSError:
        return
    yield from sorted(found, reverse=True)[:_MOST_LOGS]


def _has_turns(log: BinaryIO, workspace: Path) -> bool:
    header = json.loads(log.readline(_LONGEST_LINE))
    if header.get("type") != "session" or header["workspace"] != str(workspace):
        return False
    return any(log.readline(_LONGEST_LINE).startswith(_BEGINS) for _ in range(3))


def _in_use(log: BinaryIO) -> bool:
    """Whether a kernel or a command has the session open. The lock is released when `log` is closed."""
    try:
        fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    return False


def _turns(log: BinaryIO) -> int | None:
    """Return the number of turns, from the last finished one; None if that is not near the end of the log."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
    later = 0
    for line in reversed(log.read(_TAIL).splitlines()):
        if line.startswith(b'{"type":"end"'):
            with suppress(ValueError, TypeError, LookupError):
                return int(json.loads(line)["totals"]["turns"]) + later
            return None
        later += line.startswith(_BEGINS[0])
    return None


def _ago(seconds: float) -> str:
    for unit, length in (("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if count > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "a moment ago"
