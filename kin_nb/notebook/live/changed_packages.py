"""A turn has installed another version of a package that this kernel has imported, and the kernel goes on with the old one."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kin_nb.core.session.records import FileChange
from kin_nb.notebook.live.changed_modules import file_of

_MOST = 5
"""Packages that are named."""
_METADATA = ".dist-info"


class ChangedPackages:
    """An onlooker (core.onlookers). While no folder of sys.path has changed, a look at it is a stat for each."""

    def __init__(self) -> None:
        self._stamps: dict[str, int] = {}
        self._folders: dict[str, dict[str, str]] = {}
        """What each folder of sys.path holds: names of metadata, by package."""
        self._imported: dict[str, str] = {}
        """The versions that were imported when others came."""
        self._modules: frozenset[str] = frozenset()
        """All that were imported when the turn began."""

    def begins(self) -> None:
        self._modules = frozenset(sys.modules)
        self._look()

    def ends(self, files: Sequence[FileChange]) -> Iterator[str]:  # noqa: ARG002
        folders = self._folders
        if not self._look():
            return
        importlib.invalidate_caches()  # what is new can be imported at once
        before = _first(folders)
        other = {name: where for name, where in _first(self._folders).items() if before.get(name, where) != where}
        loaded = _loaded(self._modules, self._folders) if other else frozenset[str]()
        said = 0
        for name, (folder, metadata) in sorted(other.items()):
            installed, was = _version(metadata), self._imported.get(name, _version(before[name][1]))
            if loaded.isdisjoint(_files(Path(folder, metadata))):
                continue
            self._imported[name] = was
            said += installed != was
            if installed != was and said <= _MOST:
                yield f"{_name(metadata)} {installed} was installed ({was} is imported): restart the kernel"
        if said > _MOST:
            yield f"{said - _MOST} more packages were installed in other versions than are imported: restart the kernel"

    def _look(self) -> bool:
        """Whether anything has changed since the last look."""
        stamps = {folder: stamp for folder in sys.path if (stamp := _stamp(folder)) is not None}
        if stamps == self._stamps:
            return False
        self._folders = {
            folder: self._folders[folder] if self._stamps.get(folder) == stamp else _held(folder)
            for folder, stamp in stamps.items()
        }
        self._stamps = stamps
        return True


def _stamp(folder: str) -> int | None:
    try:
        return Path(folder).stat().st_mtime_ns if folder else None
    except (OSError, ValueError):
        return None


def _held(folder: str) -> dict[str, str]:
    try:
        found = sorted(path.name for path in Path(folder).iterdir() if path.suffix == _METADATA)
    except OSError:  # a zip file, or not ours to read
        return {}
    return {re.sub(r"[-_.]+", "-", _name(metadata)).lower(): metadata for metadata in found}


def _first(folders: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, str]]:
    """(folder, name of its metadata) for each package: where Python finds it first."""
    found: dict[str, tuple[str, str]] = {}
    for folder, held in folders.items():
        for name, metadata in held.items():
            found.setdefault(name, (folder, metadata))
    return found


def _loaded(modules: Iterable[str], folders: Mapping[str, object]) -> frozenset[str]:
    """The files that modules were imported from, relative to the folder of sys.path that they are in."""
    found: set[str] = set()
    for name in modules:
        file = file_of(sys.modules.get(name))
        found.update(os.path.relpath(file, folder) for folder in folders if file.startswith(f"{folder}{os.sep}"))
    return frozenset(found)


def _files(metadata: Path) -> list[str]:
    from importlib.metadata import PathDistribution  # noqa: PLC0415  (it imports email, json and more; only here)

    return [str(file) for file in PathDistribution(metadata).files or ()]


def _name(metadata: str) -> str:
    return metadata.removesuffix(_METADATA).partition("-")[0]


def _version(metadata: str) -> str:
    return metadata.removesuffix(_METADATA).partition("-")[2]
