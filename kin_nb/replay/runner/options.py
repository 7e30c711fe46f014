"""What a command line asks to re-execute: the options, the notebooks, and the parameters that cells are given."""

from __future__ import annotations

import glob
import json
import keyword
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kin_nb.core.paths import real_path
from kin_nb.replay.cell_keys import is_kin_kernel
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.format.storage import is_recording_cell

ReplayMode = Literal["playback", "tools", "live"]
FailOn = Literal["text", "effect"]
CELL_SECONDS = 600
_CHECKPOINTS = ".ipynb_checkpoints"
_ANYWHERE = re.compile(r"(?P<above>|.*?/)\*\*(?:/+(?P<below>.*))?", re.DOTALL)
_OURS = re.compile(rb'%kin\b|"kin"|load_ext kin_nb')
"""In a magic, a kernel's name, or metadata."""
INJECTED_TAG, PARAMETERS_TAG = "injected-parameters", "parameters"
REPLAY_LINE = "%kin replay "
_MINOR_WITH_IDS = 5
_WORDS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class ReplayOptions:
    """`tools`: run the tools again; `live`: ask the model again; else playback, with `scratch` in a copy with its files.

    `approve_recorded`: calls that were allowed when recorded run without asking (`--approve recorded`). `workspace`: where
    it is now. `timeout`: seconds per cell. `parameters`: (name, value as it was typed). `fail_on`: the least that counts
    as drift. `rules`: files of drift rules, in addition to the built-in ones.
    """

    tools: bool = False
    live: bool = False
    scratch: bool = False
    approve_recorded: bool = False
    output_dir: Path | None = None
    workspace: Path | None = None
    timeout: int = CELL_SECONDS
    parameters: tuple[tuple[str, str], ...] = ()
    fail_on: FailOn = "text"
    rules: tuple[Path, ...] = ()
    in_copy: bool = False
    """In playback: in a copy of the files as they are, the notebook's folder among them."""

    @property
    def mode(self) -> ReplayMode:
        if self.live:
            return "live"
        return "tools" if self.tools else "playback"


def select_notebooks(names: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the notebooks, each once, and the matches of patterns that were left out because they do not use kin_nb.

    The matches of a pattern (`**` is any folders) are sorted, without checkpoints. A name that is not a pattern, or that is the
    name of a file, is taken verbatim. Raises ReplayError for a pattern that nothing matches.
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
            raise ReplayError(f"No session notebook matches {name}.")
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
            raise ReplayError(f"The executed notebook would overwrite {hit}.\nGive another folder: --output-dir PATH")
    return folders


def _matches(pattern: str) -> list[Path]:
    found = sorted({Path(path) for path in _expanded(pattern)}, key=str)
    notebooks = [path for path in found if path.is_file() and _CHECKPOINTS not in path.parts]
    if not notebooks:
        raise ReplayError(f"No notebook matches {pattern}.\nFor all subfolders use ** in quotes: 'sessions/**/*.ipynb'")
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
    """Whether a notebook uses kin_nb. True also without its recording (a cleaner removed it) or unreadable: both must fail."""
    try:
        content = path.read_bytes()
        if _OURS.search(content) is None:
            json.loads(content)
            return False
    except (OSError, ValueError, RecursionError):
        pass
    return True


def parse_value(text: str) -> bool | int | float | str | None:
    """As papermill's command line reads it: True, False, None, a whole number, a number, else the text as it is."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def is_name(name: str) -> bool:
    """Whether a cell can set it."""
    return name.isidentifier() and not keyword.iskeyword(name)


def inject_parameters(nb: Any, parameters: Sequence[tuple[str, str]]) -> None:
    """Put a cell with `parameters` into `nb`, in place of what was injected before; nothing when there are none.

    After the cell tagged `parameters`, else after the cells that name the recording. Of a name given twice the last
    value counts.
    """
    if not parameters:
        return
    cells = nb["cells"]
    made = _cell(nb, dict(parameters))
    before = _tagged(cells, INJECTED_TAG)
    if before is not None:
        cells[before] = made
        return
    after = _tagged(cells, PARAMETERS_TAG)
    cells.insert((_head(cells) if after is None else after) + 1, made)


def _cell(nb: Any, parameters: dict[str, str]) -> Any:
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    lines = ["%%python"] if is_kin_kernel(nb) else []
    lines += ["# Parameters", *(f"{name} = {_literal(parse_value(text))}" for name, text in parameters.items())]
    used = {cell.get("id") for cell in nb["cells"]}
    cell_id = next(
        name for name in (INJECTED_TAG, *(f"{INJECTED_TAG}-{n}" for n in range(len(used)))) if name not in used
    )
    cell = new_code_cell("\n".join(lines), id=cell_id, metadata={"tags": [INJECTED_TAG]})
    if nb.get("nbformat_minor", 0) < _MINOR_WITH_IDS:
        del cell["id"]
    return cell


def _literal(value: bool | float | str | None) -> str:
    unspelled = isinstance(value, float) and not math.isfinite(value)
    return f"float({str(value)!r})" if unspelled else repr(value)


def _tagged(cells: Sequence[Any], tag: str) -> int | None:
    for index, cell in enumerate(cells):
        tags = cell["metadata"].get("tags")
        if cell["cell_type"] == "code" and isinstance(tags, list) and tag in tags:
            return index
    return None


def _head(cells: Sequence[Any]) -> int:
    """The last of the cells that name or hold the recording; -1 when there is none."""
    return next((n for n, cell in enumerate(cells) if is_recording_cell(cell) or names_recording(cell)), -1)


def names_recording(cell: Any) -> bool:
    """Whether a cell says which recording to play."""
    return cell["cell_type"] == "code" and any(
        line.lstrip().startswith(REPLAY_LINE) for line in cell["source"].splitlines()
    )
