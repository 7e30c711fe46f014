"""Which files a command line runs: `python x.py`, `bash < x.sh`, `./x`, the Makefile of `make -C sub`; and what they hold.

The one place that knows, for commands that are asked about and for the servers of a project. A user who approves `python x.py`
has read x.py, or trusts it as it is. Only files that the line names are found: not what these import or run, not a package of
several files (`go run .`), and nothing that the line computes. One file too many does no harm.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from kin_nb.core.safety.shell.reader.nested_commands import SHELLS, SOURCES, program_index, simple_commands
from kin_nb.core.safety.shell.reader.simple_command import SimpleCommand, program

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
        ".go",
        ".sql",
        ".awk",
        ".sed",
        ".mk",
    ]
)
_OF_JAVASCRIPT = ("node", "bun", "deno", "tsx", "ts-node")
_INTERPRETERS = ("python", "pypy", "ruby", "perl", "php", "Rscript", "lua", "julia", *_OF_JAVASCRIPT)
_BY_DEFAULT = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
}
"""Files that programs run by default."""
_LEFT_OUT = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx")
"""Suffixes that interpreters of JavaScript find by themselves."""
_ENTRIES = {
    **dict.fromkeys(("python", "pypy"), ("__main__.py",)),
    **dict.fromkeys(_OF_JAVASCRIPT, ("package.json", *(f"index{suffix}" for suffix in _LEFT_OUT))),
}
"""What an interpreter that is given a folder looks for in it."""
_ATTRIBUTE = re.compile(r"([\w./-]+):[\w.]+")
"""`main:app`, `server.py:mcp`"""
_GOES_TO = re.compile(r"(?:-C|--(?:directory|prefix|cwd|dir|chdir|project))(?:=(.*))?|-C(.+)")
_A_MODULE = re.compile(r"-[A-Za-z]*?m([\w.]*)")
_MOST_FILES, _MOST_BYTES = 20, 2_000_000
"""Files that are looked at, and bytes of one that are read: of a larger one size and time of change are compared."""


def named_scripts(command: str, folder: Path) -> dict[str, str]:
    """Path as resolved -> what the file holds, as a digest, for each file that is there and runs. Never fails."""
    found: dict[str, str] = {}
    for each, place in _commands(command, folder):
        for path in map(os.path.realpath, _run_by(each, place)):
            if len(found) < _MOST_FILES and path not in found and (digest := _digest(path)):
                found[path] = digest
    return found


def named_files(argv: list[str], folder: Path) -> Iterator[Path]:
    """Whatever the words of a program may name or run, also in `sh -c "..."`; absolute, links as they are. Never fails."""
    for each, place in _commands(shlex.join(argv), folder):
        paths = [*_named(each.words, place), *_run_by(each, place)]
        entries = {f"/{entry}" for word in each.words for entry in _entries(word)}
        paths += [path + rest for path in paths for rest in (*entries, *(_LEFT_OUT if "/index.js" in entries else ()))]
        yield from (Path(os.path.normpath(path)) for path in paths if os.path.isfile(path))  # noqa: PTH113  (never raises)


def named_folders(argv: list[str], folder: Path) -> Iterator[Path]:
    """The folders among these words that an interpreter may run: `python server`, with a `__main__.py` in it. Never fails."""
    for each, place in _commands(shlex.join(argv), folder):
        for at, word in enumerate(each.words):
            entries = _entries(word)
            for path in _named(_up_to_a_file(each.words[at + 1 :], place), place) if entries else ():
                if any(os.path.isfile(os.path.join(path, entry)) for entry in entries):  # noqa: PTH113, PTH118  (never raises)
                    yield Path(os.path.normpath(path))


def _entries(word: str) -> tuple[str, ...]:
    name = word.rpartition("/")[2]
    return next((entries for interpreter, entries in _ENTRIES.items() if name.startswith(interpreter)), ())


def _up_to_a_file(words: list[str], place: str) -> Iterator[str]:
    """The words after an interpreter until one is a file: the others are that program's own. A value of an option is none."""
    for before, word in pairwise(["", *words]):
        yield word
        if not before.startswith("-") and os.path.isfile(os.path.join(place, word)):  # noqa: PTH113, PTH118  (never raises)
            return


def _named(words: Iterable[str], place: str) -> Iterator[str]:
    """What each word may name: a path, the name of a module, a file with the name of something in it."""
    for word in words:
        for value in _values(word):
            found = _ATTRIBUTE.fullmatch(value)
            names = (value, found[1], f"{found[1].replace('.', '/')}.py") if found else (value, value.replace(".", "/"))
            yield from (os.path.join(place, name) for name in names)  # noqa: PTH118  (never raises)


def _commands(command: str, folder: Path) -> Iterator[tuple[SimpleCommand, str]]:
    """Each simple command, with each folder that it may look for its files in."""
    places = [str(folder)]  # `cd` may have been in a subshell: a file in either folder counts
    for each in simple_commands(command):
        if each.words[:1] == ["cd"] and len(each.words) > 1:
            places.append(_in(places[-1], each.words[-1]))
        elif each.words:
            around = [places[0], places[-1]]
            inside = [_in(place, named) for place in around for named in _folders(each.words)]
            yield from ((each, place) for place in dict.fromkeys((*around, *inside)))


def _folders(words: list[str]) -> Iterator[str]:
    """The folders that an option names: `-C sub`, `-Csub`, `--directory=sub`."""
    for word, after in pairwise([*words, ""]):
        if found := _GOES_TO.fullmatch(word):
            yield found[1] or found[2] or after


def _values(word: str) -> Iterator[str]:
    """A word, and the value that an option may have in it: `--config=x`, `-cx`."""
    yield word
    if word.startswith("-"):
        yield word.partition("=")[2] or word[2:]


def _in(place: str, name: str) -> str:
    return os.path.join(place, os.path.expanduser(name))  # noqa: PTH111, PTH118  (never raises)


def _run_by(command: SimpleCommand, place: str) -> Iterator[str]:
    words, name = command.words, program(command)
    given = {0} if "/" in words[0] else set()
    for begin in (at for at, word in enumerate(words) if _runs_files(word)):  # `poetry run python x`
        own = replace(command, words=words[begin:])
        index = 1 if program(own) in SOURCES else program_index(own)
        given |= {begin + index} if index is not None else set()
        if index is None or words[begin + index : begin + index + 1] == ["-"]:
            yield from (_in(place, word) for printer in command.inputs for word in printer.words[1:])
    for index, word in enumerate(words):
        for value in _values(word):
            path = _in(place, value)
            if index in given or os.path.splitext(value)[1] in _SUFFIXES or (index and _is_program(path)):  # noqa: PTH122
                yield path
    yield from (_in(place, each) for each in _modules(words))
    if name in _BY_DEFAULT:  # `make -f build/rules`
        yield from (_in(place, each) for each in _BY_DEFAULT[name])
        yield from (_in(place, value) for word in words[1:] for value in _values(word))


def _runs_files(word: str) -> bool:
    name = word.rpartition("/")[2]
    return name in SHELLS or name in SOURCES or name.startswith(_INTERPRETERS)


def _modules(words: list[str]) -> Iterator[str]:
    """Of `python -m package.module`, also with the name in the same word."""
    for word, after in pairwise([*words, ""]):
        if found := _A_MODULE.fullmatch(word):
            path = (found[1] or after).replace(".", "/")
            yield from (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  (never raises)


def _digest(path: str) -> str:
    """ "" when it is not a readable file."""
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
