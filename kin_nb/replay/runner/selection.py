"""Which notebooks a command line names, and where the executed copy of each goes."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kin_nb.core.paths import real_path
from kin_nb.replay.errors import ReplayError

_CHECKPOINTS = ".ipynb_checkpoints"
_ANYWHERE = re.compile(r"(?P<above>|.*?/)\*\*(?:/+(?P<below>.*))?", re.DOTALL)
_OURS = re.compile(rb'%kin\b|"kin"|load_ext kin_nb')
"""In a magic, a kernel's name, or metadata."""


def selected(names: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The notebooks, each once, and those of patterns that were left out because they have nothing of kin_nb in them.

    Of a pattern (`**` is any folders) sorted and without checkpoints. A name that is no pattern, or that a file has, is taken
    as it is. Raises ReplayError for a pattern that nothing matches.
    """
    named: dict[Path, Path] = {}
    ordinary: dict[Path, Path] = {}
    for name in names:
        if not glob.has_magic(name) or os.path.lexists(name):
            named[Path(name).absolute()] = Path(name)
            continue
        found = {path.absolute(): path for path in _matches(name)}
        sessions = {place: path for place, path in found.items() if _has_prompts(path)}
        if not sessions:
            raise ReplayError(f"No notebook that matches {name} has a session in it.")
        named |= sessions
        ordinary |= found
    return list(named.values()), [path for place, path in ordinary.items() if place not in named]


def output_folders(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Where in `folder` each executed copy goes: as the notebooks lie below the folder that all are in.

    So of two that have one name none is overwritten. Raises ReplayError where one would land on another's input.
    """
    parents = [path.absolute().parent for path in paths]
    top = os.path.commonpath(parents)
    folders = [folder / os.path.relpath(parent, top) for parent in parents]
    inputs = {real_path(path): path for path in paths}
    for path, into in zip(paths, folders, strict=True):
        hit = inputs.get(real_path(into / path.name))
        if hit is not None:
            raise ReplayError(f"The executed notebook would overwrite {hit}. Name another folder: --output-dir PATH")
    return folders


def _matches(pattern: str) -> list[Path]:
    found = sorted({Path(path) for path in _expanded(pattern)}, key=str)
    notebooks = [path for path in found if path.is_file() and _CHECKPOINTS not in path.parts]
    if not notebooks:
        raise ReplayError(f"No notebook matches {pattern}. In quotes, ** stands for any folders: 'sessions/**/*.ipynb'")
    return notebooks


def _expanded(pattern: str) -> Iterator[str]:
    """As glob.glob(recursive=True), which leaves hidden folders out; but `**` follows no link to a folder: some lead up again."""
    anywhere = _ANYWHERE.fullmatch(pattern)
    if anywhere is None:
        yield from glob.glob(pattern)  # noqa: PTH207  (Path.glob takes no absolute patterns)
        return
    for top in glob.glob(anywhere["above"]) if anywhere["above"] else ["."]:  # noqa: PTH207
        for folder, folders, _ in os.walk(top):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from _expanded(f"{glob.escape(folder)}/{anywhere['below'] or '*'}")


def _has_prompts(path: Path) -> bool:
    """Also where a cleaner took the recording: that one must fail. What is no JSON, or cannot be read, fails by itself."""
    try:
        content = path.read_bytes()
        if _OURS.search(content) is None:
            json.loads(content)
            return False
    except (OSError, ValueError, RecursionError):
        pass
    return True
