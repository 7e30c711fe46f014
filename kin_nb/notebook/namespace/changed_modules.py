"""Warn when a turn changes or upgrades a module that the kernel has imported: the kernel still runs the old one."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from kin_nb.core.file_history.file_state import file_name
from kin_nb.core.paths import real_path, shown
from kin_nb.core.records import FileChange
from kin_nb.core.text import listed

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent

_MOST_PACKAGES = 5
"""Packages that are named."""
_METADATA = ".dist-info"


class ChangedPackages:
    """A turn hook (core.turn_hooks). While no folder of sys.path has changed, a look at it is a stat for each."""

    def __init__(self) -> None:
        self._stamps: dict[str, int] = {}
        self._folders: dict[str, dict[str, str]] = {}
        """What each folder of sys.path holds: names of metadata, by package."""
        self._imported: dict[str, str] = {}
        """The versions that were imported when others came."""
        self._modules: frozenset[str] = frozenset()
        """All that were imported when the turn began."""

    def on_turn_start(self) -> None:
        self._modules = frozenset(sys.modules)
        self._look()

    def on_turn_end(self, files: Sequence[FileChange]) -> Iterator[str]:  # noqa: ARG002
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
            if installed != was and said <= _MOST_PACKAGES:
                yield f"{_name(metadata)} {installed} was installed ({was} is imported): restart the kernel"
        if said > _MOST_PACKAGES:
            yield f"{said - _MOST_PACKAGES} more packages were installed in other versions than are imported: restart the kernel"

    def _look(self) -> bool:
        """Whether anything has changed since the last look."""
        stamps = {folder: stamp for folder in sys.path if (stamp := _stamp_of_package(folder)) is not None}
        if stamps == self._stamps:
            return False
        self._folders = {
            folder: self._folders[folder] if self._stamps.get(folder) == stamp else _held(folder)
            for folder, stamp in stamps.items()
        }
        self._stamps = stamps
        return True


def _stamp_of_package(folder: str) -> int | None:
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
    """Return for each package (folder, name of its metadata): where Python finds it first."""
    found: dict[str, tuple[str, str]] = {}
    for folder, held in folders.items():
        for name, metadata in held.items():
            found.setdefault(name, (folder, metadata))
    return found


def _loaded(modules: Iterable[str], folders: Mapping[str, object]) -> frozenset[str]:
    """Return the files of imported modules, relative to their folder of sys.path."""
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


_MOST = 5
"""Files that one line names."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_STDLIB = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120  (compared as text)
_NO_IMPORT = frozenset({"__main__", "__mp_main__"})
_Stamp: TypeAlias = tuple[int, int] | None


class ToolImports:
    """The files that code of the agent's has imported, or reloaded, as they were then: no news to the kernel."""

    def __init__(self) -> None:
        self._stamps: dict[Path, _Stamp] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        before = {name: _spec(module) for name, module in sys.modules.copy().items()}
        try:
            yield
        finally:
            for name, module in sys.modules.copy().items():
                is_new = name not in before or before[name] is not _spec(module)  # importlib.reload makes a new spec
                if is_new and (file := file_of(module)):
                    path = real_path(Path(file))
                    self._stamps[path] = _stamp(path)

    def has(self, path: Path) -> bool:
        """Whether the file is as it was at the import. `path`: resolved."""
        return path in self._stamps and self._stamps[path] == _stamp(path)


class ChangedModules:
    """A turn hook (core.turn_hooks). Silent about what autoreload sees to, and about installed packages."""

    def __init__(self, agent: Agent, shell: InteractiveShell, imports: ToolImports) -> None:
        self._agent, self._shell, self._imports = agent, shell, imports
        self._stamps: dict[str, _Stamp] = {}
        """Stamps of the files of imported modules at the start of the turn: changes outside of the workspace are not recorded."""

    def on_turn_start(self) -> None:
        self._stamps = {file: _stamp(Path(file)) for file in _sources()}

    def on_turn_end(self, files: Sequence[FileChange]) -> Iterator[str]:
        names = self._changed(files)
        there: list[str] = []
        reloads: list[str] = []
        gone: list[str] = []
        for path, module in _imported(names):
            if self._imports.has(path) or _reloads_itself(self._shell, module):
                continue
            if path.exists():
                there.append(names[path])
                reloads.append(f"importlib.reload({module})")
            else:
                gone.append(names[path])
        if there:
            yield f"{_said(there)}: %load_ext autoreload / %autoreload 2, or {', '.join(reloads[:_MOST])}"
        if gone:
            yield f"{_said(gone, 'deleted')}: restart the kernel to be without {_them(gone)}"

    def _changed(self, files: Sequence[FileChange]) -> dict[Path, str]:
        """Return the names of changed .py files, by real path; recorded files have their recorded names."""
        root, changes = self._agent.workspace.root, [change for change in files if change.path.endswith(".py")]
        first: dict[Path, str | None] = {}
        names: dict[Path, str] = {}
        for change, real in zip(changes, self._agent.real_changes(changes), strict=True):
            path = real_path(root / file_name(real.path))
            names[path] = change.path
            if first.setdefault(path, change.before) == change.after:
                del names[path]
        touched = (real_path(Path(file)) for file, stamp in self._stamps.items() if _stamp(Path(file)) != stamp)
        return {path: shown(path) for path in touched if not path.is_relative_to(root)} | names


def _sources() -> Iterator[str]:
    """Return the .py files of modules that are not part of Python or of an installed package."""
    for module in sys.modules.copy().values():
        file = file_of(module)
        if file.endswith(".py") and not file.startswith(_STDLIB) and not any(name in file for name in _PACKAGES):
            yield file


def _imported(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield (path, module name) for each of `paths`, all resolved, that a module was imported from."""
    wanted = {path for path in paths if not _PACKAGES.intersection(path.parts)}
    ends = tuple({f"{os.sep}{path.name}" for path in wanted})
    for name, module in sys.modules.copy().items() if wanted else ():
        file = file_of(module)
        may_be = file.endswith(ends) or os.path.islink(file)  # noqa: PTH114  (of every module; a link has any name)
        if may_be and name not in _NO_IMPORT:
            path = real_path(Path(file))
            if path in wanted:
                wanted.remove(path)  # once, should it have two names
                yield path, name


def _reloads_itself(shell: InteractiveShell, module: str) -> bool:
    """`_reloader` is private to IPython's autoreload (8.20 to 9.18); without it we say too much, and nothing breaks."""
    reloader: Any = getattr(shell.magics_manager.registry.get("AutoreloadMagics"), "_reloader", None)
    if not getattr(reloader, "enabled", False):
        return False
    return module not in reloader.skip_modules if reloader.check_all else module in reloader.modules


def _spec(module: object) -> object:
    return vars(module).get("__spec__") if issubclass(type(module), ModuleType) else None


def file_of(module: object) -> str:
    """Return the file of a module; "" for other objects and built-in modules. Runs none of its code."""
    file = vars(module).get("__file__") if issubclass(type(module), ModuleType) else None
    return file if isinstance(file, str) else ""


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _said(names: Sequence[str], what: str = "changed") -> str:
    were = "" if what == "changed" else "was " if len(names) == 1 else "were "
    return f"{listed(names, _MOST)} {were}{what}, and this kernel has imported {_them(names)}"


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
