"""Reading an .ipynb that anyone may have written: size and depth are checked before a parser sees it."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from kin_nb.replay.errors import UnreadableNotebookError
from kin_nb.replay.format.embedded import unfold
from kin_nb.replay.format.sidecar import join
from kin_nb.replay.format.validity import check_valid, complete

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 200
_OLDEST = 4
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]|"', re.DOTALL)


def load_notebook(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """The notebook at `path` as plain JSON values, each cell's source joined to one text (`as_node` for the rest).

    Its recording stands in metadata, wherever the file keeps it: in a sidecar, or in a cell. Raises
    UnreadableNotebookError when it is missing, no regular file, over `max_bytes`, nested over 200 levels, truncated, no
    notebook, or older than nbformat 4.
    """
    nb = parse_notebook(read_text(path, max_bytes), path.name)
    join(nb, lambda name: _json(_read_beside(path, name), name))
    return nb


def _read_beside(path: Path, name: str) -> str:
    """Beside the file itself where `path` is a link to it; else beside the link."""
    try:
        return read_text(Path(os.path.realpath(path)).with_name(name))
    except UnreadableNotebookError:
        return read_text(path.with_name(name))


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The file's text. Raises UnreadableNotebookError; a FIFO or device is refused before it is opened."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableNotebookError(f"{path.name} is not a file. Name an .ipynb file.")
        if status.st_size > max_bytes:
            raise _too_large(path.name, max_bytes)
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise UnreadableNotebookError(f"{path.name} cannot be read: {error.strerror}.") from error
    if len(data) > max_bytes:  # it grew since
        raise _too_large(path.name, max_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # a file being rewritten may end within a character
        message = f"{path.name} is not UTF-8 text (byte {error.start}). Restore it from a copy."
        raise UnreadableNotebookError(message, again=True) from error


def parse_notebook(text: str, name: str) -> Any:
    """As load_notebook, from text, without a sidecar; `name` is for the message."""
    value = _json(text, name)
    _check_shape(value, name)
    for cell in value["cells"]:
        cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    value["nbformat"] = _OLDEST
    unfold(value)
    return value


def as_node(nb: Any, name: str = "the notebook") -> Any:
    """A copy of `nb` as nbformat's NotebookNode, its outputs' texts joined too: what writing and nbclient need.

    Apart from loading, because importing nbformat takes a while and playback needs none of it. Raises
    UnreadableNotebookError, naming the cell, when nbformat would not write it, for more than a missing id, count or output.
    """
    import_nbformat()
    from nbformat import NotebookNode, from_dict  # noqa: PLC0415  (first use)
    from nbformat.v4.rwbase import rejoin_lines  # noqa: PLC0415

    node = from_dict(nb)
    complete(node)
    if not isinstance(nb, NotebookNode):  # a node was checked when it was made of a file
        check_valid(node, name)
    return rejoin_lines(node)


def import_nbformat() -> None:
    """What comes before nbformat's first use: imported beside JupyterLab, it takes 0.2 s so, and 1.4 s by itself.

    Its jsonschema imports rfc3987_syntax, which compiles 38 grammars for formats that no notebook's schema names.
    jsonschema gets a function instead that does so when it is asked; nothing else ever sees that module.
    """
    name = "rfc3987_syntax"
    if "jsonschema" in sys.modules or name in sys.modules or find_spec(name) is None:
        return
    later = ModuleType(name)
    vars(later)["is_valid_syntax"] = lambda term, value: import_module(name).is_valid_syntax(term, value)
    sys.modules[name] = later
    try:
        import nbformat  # noqa: F401, PLC0415  (first use)
    finally:
        del sys.modules[name]


def _json(text: str, name: str) -> Any:
    _check_depth(text, name)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        message = f"{name} is not complete JSON ({error}). Restore it from a copy, or save the session again."
        raise UnreadableNotebookError(message, again=True) from error


def _check_depth(text: str, name: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise UnreadableNotebookError(f"{name} is nested deeper than {MAX_DEPTH} levels: no notebook is.")
        elif first in "]}":
            depth -= 1
        elif len(token[0]) == 1:  # an unfinished string: the parser says where
            return


def _check_shape(value: Any, name: str) -> None:
    major = value.get("nbformat") if isinstance(value, dict) else None
    if not isinstance(major, int | float):
        raise UnreadableNotebookError(f"{name} is not a notebook: it has no nbformat number.")
    if major < _OLDEST:
        raise UnreadableNotebookError(
            f"{name} is a notebook of format {major}. Convert it first: jupyter nbconvert --to notebook {name}"
        )
    cells, metadata = value.get("cells"), value.get("metadata")
    if major > _OLDEST or not isinstance(cells, list) or not isinstance(metadata, dict):
        raise UnreadableNotebookError(f"{name} is not a notebook of format 4: it needs `cells` and `metadata`.")
    for number, cell in enumerate(cells, 1):
        if not _is_cell(cell):
            raise UnreadableNotebookError(f"{name}: cell {number} is not a cell: it needs cell_type, source, metadata.")


def _is_cell(cell: Any) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    source = cell.get("source")
    lines = isinstance(source, list) and all(isinstance(line, str) for line in source)
    outputs = cell.get("outputs", [])
    known = isinstance(outputs, list) and all(isinstance(output, dict) for output in outputs)
    return (isinstance(source, str) or lines) and isinstance(cell.get("metadata"), dict) and known


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _too_large(name: str, max_bytes: int) -> UnreadableNotebookError:
    size = max_bytes / 1024 / 1024
    return UnreadableNotebookError(f"{name} is larger than {size:g} MB. Clear the outputs of its ordinary cells first.")
