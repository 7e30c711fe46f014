"""The files that a command line gives to be run: `python x.py`, `bash x.sh`, `./x`, the Makefile of `make`; and what they hold.

A user who approves `python x.py` has read x.py, or trusts it as it is. Only files that the line names are found: not what these
import or run, and nothing that the line computes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kin_nb.core.safety.shell.carried import simple_commands
from kin_nb.core.safety.shell.scripts import SHELLS, SOURCES, program_word
from kin_nb.core.safety.shell.simple_command import SimpleCommand, program

_SUFFIXES = frozenset(
    [
        ".py",
        ".pyw",
        ".sh",
        ".bash",
        ".zsh",
        ".fish",
        ".ksh",
        ".pl",
        ".rb",
        ".js",
        ".mjs",
        ".cjs",
        ".ts",
        ".mts",
        ".r",
        ".R",
        ".lua",
        ".php",
        ".jl",
        ".sql",
        ".awk",
        ".sed",
        ".mk",
    ]
)
_INTERPRETERS = ("python", "pypy", "node", "ruby", "perl", "php", "Rscript", "lua", "julia", "bun", "deno")
_BY_DEFAULT = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
}
"""What programs run that are not told what."""
_MOST_FILES, _MOST_BYTES = 20, 2_000_000
"""Files that are looked at, and bytes of one that are read: of a larger one size and time of change are compared."""


def named_scripts(command: str, folder: Path) -> dict[str, str]:
    """Path as resolved -> what the file holds, as a digest, for each file that is there. Never fails."""
    found: dict[str, str] = {}
    places = [folder]  # `cd` may have been in a subshell: a file in either folder counts
    for each in simple_commands(command):
        if not each.words:
            continue
        if each.words[0] == "cd" and len(each.words) > 1:
            places.append(places[-1] / each.words[-1])
            continue
        for place in dict.fromkeys((folder, places[-1])):
            for path in _named(each, place):
                if len(found) < _MOST_FILES and path not in found and (digest := _digest(path)):
                    found[path] = digest
    return found


def _named(command: SimpleCommand, folder: Path) -> Iterator[str]:
    words, name = command.words, program(command)
    given = {0} if "/" in words[0] else set()
    if name in SHELLS or name in SOURCES or name.startswith(_INTERPRETERS):
        index = 1 if name in SOURCES else program_word(command)
        given |= {index} if index is not None else set()
    for index, word in enumerate(words):
        path = os.path.realpath(folder / os.path.expanduser(word))  # noqa: PTH111  (never raises)
        if index in given or os.path.splitext(word)[1] in _SUFFIXES or (index and _is_program(path)):  # noqa: PTH122
            yield path
        if words[index - 1 : index] == ["-m"]:
            module = word.replace(".", "/")
            yield from (os.path.realpath(folder / each) for each in (f"{module}.py", f"{module}/__main__.py"))
    places = [folder / words[at + 1] for at, word in enumerate(words[:-1]) if word in {"-C", "--prefix"}] or [folder]
    yield from (os.path.realpath(place / each) for place in places for each in _BY_DEFAULT.get(name, ()))
    if name in _BY_DEFAULT:  # `make -f build/rules`
        yield from (os.path.realpath(folder / word) for word in words[1:])


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  (never raises)


def _digest(path: str) -> str:
    """ "" when it is no file that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return ""
            if status.st_size > _MOST_BYTES:
                return f"{status.st_size} bytes of {status.st_mtime_ns}"
            return hashlib.sha256(file.read(_MOST_BYTES)).hexdigest()
    except (OSError, ValueError):
        return ""
