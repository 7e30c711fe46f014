"""Reading an .ipynb that anyone may have written: size and depth are checked before a parser sees it.

Then what of it is refused or completed: a merge that a person must finish, what a later version wrote and this one would
lose, and what nbformat asks for and the file lacks.
"""

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

from kin_nb.core.records import Record
from kin_nb.render import one_line
from kin_nb.replay.errors import LaterFormatError, UnreadableNotebookError
from kin_nb.replay.format.storage import attach_sidecar, extract_embedded
from kin_nb.replay.recording import FORMAT, normalize_numbers

_KEYS = ("local_metadata", "remote_metadata", "nbdime-conflicts")
_FIRST = re.compile(r"^<<<<<<< local$", re.MULTILINE)
_LAST = re.compile(r"^>>>>>>> remote$", re.MULTILINE)


def describe_merge_conflict(nb: Any) -> str:
    """Describe the first conflict that a merge left, and what to do; "" if there is none."""
    for number, cell in enumerate(nb["cells"], 1):
        left = _left(cell)
        if left:
            return _said(f"in cell {number} (`{left}`)")
    left = next((key for key in _KEYS if key in nb["metadata"]), "")
    return _said(f"in the notebook's metadata (`{left}`)") if left else ""


def _left(cell: Any) -> str:
    if isinstance(cell.get("id"), dict):
        return shortened(next(iter(cell["id"]), "id"))
    found = next((key for key in _KEYS if key in cell["metadata"]), "")
    in_code = cell.get("cell_type") == "code" and _is_marked(cell["source"])
    return found or ("<<<<<<< local" if in_code else "")


def _is_marked(source: str) -> bool:
    first = _FIRST.search(source)
    return first is not None and _LAST.search(source, first.end()) is not None


def _said(where: str) -> str:
    return f"nbmerge left a conflict {where}.\nMerge the notebooks again: kin-nb merge BASE A B"


def describe_other_format(found: object, wrote: object) -> str:
    """Describe a recording in another format, `found`, that the version `wrote` saved."""
    what = "Use that version" if isinstance(found, int | float) and found < FORMAT else "Update kin_nb"
    return f"Recorded in format {shortened(found)} by kin_nb {shortened(wrote)}; this version reads format {FORMAT}.\n{what}."


def reject_unknown_fields(where: str, raw: Any, known: Record, wrote: str) -> None:
    """Raise LaterFormatError if `raw` has a field that `known`, which was read from it, does not have.

    Hashes cover known fields alone, so a field that was added by hand looks the same.
    """
    field = _later_field(raw, known)
    if field:
        raise unknown_field_error(where, field, wrote)


def unknown_field_error(where: str, field: str, wrote: str) -> LaterFormatError:
    """`wrote`: the version that the notebook names, "" when it names none."""
    return LaterFormatError(
        f"{where}: field {shortened(field)} is unknown to this version (written by kin_nb {shortened(wrote) or '?'}).\n"
        "Update kin_nb, or remove the field if it was added by hand."
    )


def shortened(value: object) -> str:
    """Shorten a value of a file for one line of a message: it may be long, and have control characters."""
    return one_line(str(value), 80)


def _later_field(raw: Any, known: Any) -> str:
    """Return the first field of `raw` that `known` does not have, dotted; "" if there is none."""
    if isinstance(raw, list) and isinstance(known, tuple):
        return next((found for pair in zip(raw, known, strict=False) if (found := _later_field(*pair))), "")
    if not isinstance(raw, dict) or not isinstance(known, Record):
        return ""
    for key, item in raw.items():
        if key not in type(known).model_fields:
            return str(key)
        if found := _later_field(item, getattr(known, key)):
            return f"{key}.{found}"
    return ""


_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_MINOR = 1000
_WITH_IDS = 5
"""The minor version of nbformat 4 from which on cells have ids: what is saved is of this one."""


def normalize(nb: Any) -> None:
    """Add fields that scripts and front ends omit, and remove invalid ids. Texts do not change."""
    for cell in nb["cells"]:
        # one that is an object is what a merge left, and named as that by who reads the recording
        if "id" in cell and not isinstance(cell["id"], dict) and not is_cell_id(cell["id"]):
            del cell["id"]
        if cell["cell_type"] == "code":
            cell.setdefault("outputs", [])
            cell.setdefault("execution_count", None)
        for output in cell.get("outputs", []):
            output.pop("transient", None)  # of messages; some front ends keep it
            if output.get("output_type") == "stream":
                output.pop("metadata", None)
            if output.get("output_type") in ("display_data", "execute_result"):
                output.setdefault("metadata", {})
            if output.get("output_type") == "execute_result":
                output.setdefault("execution_count", None)
    _complete_kernel(nb["metadata"])
    minor = normalize_numbers(nb.get("nbformat_minor"))
    known = isinstance(minor, int) and not isinstance(minor, bool) and 0 <= minor < _NO_MINOR
    has_ids = any("id" in cell for cell in nb["cells"])
    nb["nbformat_minor"] = max(minor if known else 0, _WITH_IDS if has_ids else 0)


def _complete_kernel(metadata: Any) -> None:
    kernel, language = metadata.get("kernelspec"), metadata.get("language_info")
    if isinstance(kernel, dict) and isinstance(kernel.get("name"), str):
        kernel.setdefault("display_name", kernel["name"])
    if isinstance(language, dict) and "name" not in language:
        del metadata["language_info"]  # nbformat requires a name; the kernel sends it again


def check_valid(nb: Any, name: str) -> None:
    """Raise UnreadableNotebookError if `nb` could not be saved as nbformat 4.5 (or its own, later minor version).

    Whatever its ids: saving gives each cell one.
    """
    from nbformat import ValidationError, validate  # noqa: PLC0415  (first use)

    cells = [{**cell, "id": str(number)} for number, cell in enumerate(nb["cells"], 1)]
    try:
        validate({**nb, "cells": cells, "nbformat_minor": max(nb["nbformat_minor"], _WITH_IDS)})
    except ValidationError as error:
        what = "its type is unknown" if error.validator in ("oneOf", "anyOf") else shortened(error.message)
        raise UnreadableNotebookError(
            f"{name} is not a valid notebook: {_place(list(error.relative_path))}{what}.\nCorrect it in a text editor, or "
            "restore the notebook from a copy."
        ) from error


def is_cell_id(value: object) -> bool:
    """Whether nbformat accepts the value as a cell id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _place(path: list[str | int]) -> str:
    """Format a path: `["cells", 1, "outputs", 0, "text"]` gives `cell 2, outputs.1.text: `."""
    dotted = [str(part + 1 if isinstance(part, int) else part) for part in path]
    if path[:1] == ["cells"] and len(path) > 1:
        dotted = [f"cell {dotted[1]}", *dotted[2:]]
        dotted[:2] = [", ".join(dotted[:2])]
    return f"{shortened('.'.join(dotted))}: " if dotted else ""


MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 200
_OLDEST = 4
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]|"', re.DOTALL)


def load_notebook(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Load the notebook at `path` as plain JSON values, with each cell's source as one text (see also `as_node`).

    Its recording is in metadata, wherever the file keeps it: in a sidecar, or in a cell. Raises
    UnreadableNotebookError when it is missing, no regular file, over `max_bytes`, nested over 200 levels, truncated, no
    notebook, or older than nbformat 4.
    """
    nb = parse_notebook(read_text(path, max_bytes), path.name)
    attach_sidecar(nb, lambda name: _json(_read_beside(path, name), name))
    return nb


def _read_beside(path: Path, name: str) -> str:
    """Read from the folder of the file that `path` links to, else from the folder of the link."""
    try:
        return read_text(Path(os.path.realpath(path)).with_name(name))
    except UnreadableNotebookError:
        return read_text(path.with_name(name))


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Read a file's text. Raises UnreadableNotebookError; a FIFO or device is refused before it is opened."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableNotebookError(f"{path.name} is not a file.\nGive an .ipynb file.")
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
        message = f"{path.name} is not UTF-8 text (byte {error.start}).\nRestore it from a copy."
        raise UnreadableNotebookError(message, again=True) from error


def parse_notebook(text: str, name: str) -> Any:
    """Load a notebook from text, without a sidecar; `name` is for messages. Otherwise as load_notebook."""
    value = _json(text, name)
    _check_shape(value, name)
    for cell in value["cells"]:
        cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    value["nbformat"] = _OLDEST
    extract_embedded(value)
    return value


def as_node(nb: Any, name: str = "the notebook") -> Any:
    """Copy `nb` to nbformat's NotebookNode, with the texts of outputs joined, for writing and nbclient.

    Apart from loading, because importing nbformat takes a while and playback needs none of it. Raises
    UnreadableNotebookError, naming the cell, when nbformat would not write it, for more than a missing id, count or output.
    """
    import_nbformat()
    from nbformat import NotebookNode, from_dict  # noqa: PLC0415  (first use)
    from nbformat.v4.rwbase import rejoin_lines  # noqa: PLC0415

    node = from_dict(nb)
    normalize(node)
    if not isinstance(nb, NotebookNode):  # a node was checked when it was made of a file
        check_valid(node, name)
    return rejoin_lines(node)


def import_nbformat() -> None:
    """Import nbformat quickly: where JupyterLab is installed, it takes 0.2 s this way, and 1.4 s otherwise.

    Its jsonschema imports rfc3987_syntax, which compiles 38 grammars for formats that no notebook schema uses.
    jsonschema gets a function that imports it on first use; no other code sees this replacement.
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
        message = f"{name} is not complete JSON ({error}).\nRestore it from a copy, or save the session again."
        raise UnreadableNotebookError(message, again=True) from error


def _check_depth(text: str, name: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise UnreadableNotebookError(
                    f"{name} is nested deeper than {MAX_DEPTH} levels, so it is not a notebook."
                )
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
            f"{name} is a notebook of format {major}.\nConvert it first: jupyter nbconvert --to notebook {name}"
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
    raise ValueError(f"{name} is not a JSON number")


def _too_large(name: str, max_bytes: int) -> UnreadableNotebookError:
    size = max_bytes / 1024 / 1024
    return UnreadableNotebookError(
        f"{name} is larger than {size:g} MB.\nClear the outputs of its ordinary cells first."
    )
