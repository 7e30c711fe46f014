"""Programs that a line names by a path into the project's own environment (`.venv/bin/python`), and that environment's state.

A Python there must be a link to the interpreter that pyvenv.cfg names, outside of the workspace; any other program a regular
file of the environment. Nothing is run. The state tells whether the environment is still as it was when the user approved:
its programs, what is installed, and the files of pytest itself. What other packages hold is not compared.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from kin_nb.core.paths import read_settings
from kin_nb.core.python_environment import project_environments

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)
_PROGRAMS = "bin"
_COMPARED_PACKAGES = ("pytest", "_pytest", "pluggy")
_MOST_FILES = 5_000


def environment_program(word: str, folder: Path, root: Path) -> tuple[str, str] | None:
    """The program's name and the environment's folder, or None. `folder`: the real folder that the line runs in.

    For a Python the name is `python`.
    """
    path = Path(os.path.normpath(folder / word))
    if not path.is_relative_to(root):
        return None
    name, *rest = path.relative_to(root).parts
    if len(rest) != 2 or rest[0] != _PROGRAMS or name not in _environments(root):  # noqa: PLR2004  (`bin/python`)
        return None
    try:
        if _PYTHON.fullmatch(path.name):
            return ("python", name) if _is_its_python(path, root) else None
        regular = stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError, RuntimeError):
        return None
    return (path.name, name) if regular else None


def environment_states(root: Path) -> tuple[tuple[str, str], ...]:
    """(name, state) of each environment of the workspace. The state is "" where it cannot be read whole."""
    return tuple((name, _state(root / name)) for name in _environments(root))


def _environments(root: Path) -> list[str]:
    """The folders of virtual environments directly in the workspace, none of them a link."""
    names = [each.path for each in project_environments(root)]
    return [
        name
        for name in names
        if (root / name / "pyvenv.cfg").is_file()
        and not any((root / name / part).is_symlink() for part in ("", "pyvenv.cfg", _PROGRAMS))
    ]


def _is_its_python(path: Path, root: Path) -> bool:
    home = _HOME.search(read_settings(path.parents[1] / "pyvenv.cfg") or "")
    if home is None or not path.is_symlink():
        return False
    real, base = path.resolve(), Path(home[1])
    if real.is_relative_to(root) or not base.is_absolute() or not _PYTHON.fullmatch(real.name):
        return False
    return real.is_file() and real.parent in {base.resolve(), (base / "python3").resolve().parent}


def _state(environment: Path) -> str:
    digest = hashlib.sha256()
    try:
        for number, path in enumerate(_compared(environment)):
            if number > _MOST_FILES:
                return ""
            digest.update(_described(path, environment))
    except (OSError, ValueError):
        return ""
    return digest.hexdigest()


def _compared(environment: Path) -> Iterator[Path]:
    yield environment / "pyvenv.cfg"
    yield from _files(environment / _PROGRAMS)
    for packages in sorted(environment.glob("lib*/python*/site-packages")):
        yield from _files(packages)
        for name in _COMPARED_PACKAGES:
            for folder, below, files in os.walk(packages / name):
                below[:] = sorted(each for each in below if each != "__pycache__")
                yield from (Path(folder, each) for each in sorted([*files, *below]))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "__pycache__")


def _described(path: Path, environment: Path) -> bytes:
    """A file by what changes with it; of a folder only that it is there: bytecode is written into folders."""
    status = path.lstat()
    name = os.fsencode(path.relative_to(environment))
    if stat.S_ISDIR(status.st_mode):
        return b"%s\0/\0" % name
    target = os.fsencode(path.readlink()) if stat.S_ISLNK(status.st_mode) else b""
    numbers = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return b"\0".join((name, target, repr(numbers).encode(), b""))
