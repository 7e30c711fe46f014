"""What nbformat asks of a notebook and a file may lack: put there where it is clear, else refused by its place."""

from __future__ import annotations

import re
from typing import Any

from kin_nb.replay.errors import UnreadableNotebookError
from kin_nb.replay.format.later import short
from kin_nb.replay.recording import whole_numbers

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_MINOR = 1000
_WITH_IDS = 5
"""The minor version of nbformat 4 from which on cells have ids: what is saved is of this one."""


def complete(nb: Any) -> None:
    """Put in what scripts and front ends leave out, and take out ids that are none. No text of a person changes."""
    for cell in nb["cells"]:
        # one that is an object is what a merge left, and named as that by who reads the recording
        if "id" in cell and not isinstance(cell["id"], dict) and not is_id(cell["id"]):
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
    minor = whole_numbers(nb.get("nbformat_minor"))
    known = isinstance(minor, int) and not isinstance(minor, bool) and 0 <= minor < _NO_MINOR
    has_ids = any("id" in cell for cell in nb["cells"])
    nb["nbformat_minor"] = max(minor if known else 0, _WITH_IDS if has_ids else 0)


def _complete_kernel(metadata: Any) -> None:
    kernel, language = metadata.get("kernelspec"), metadata.get("language_info")
    if isinstance(kernel, dict) and isinstance(kernel.get("name"), str):
        kernel.setdefault("display_name", kernel["name"])
    if isinstance(language, dict) and "name" not in language:
        del metadata["language_info"]  # nbformat has nobody's language without a name; kernels say theirs again


def check_valid(nb: Any, name: str) -> None:
    """Raises UnreadableNotebookError when `nb` could not be saved as nbformat 4.5 (or its own, later minor version).

    Whatever its ids: saving gives each cell one.
    """
    from nbformat import ValidationError, validate  # noqa: PLC0415  (first use)

    cells = [{**cell, "id": str(number)} for number, cell in enumerate(nb["cells"], 1)]
    try:
        validate({**nb, "cells": cells, "nbformat_minor": max(nb["nbformat_minor"], _WITH_IDS)})
    except ValidationError as error:
        what = "it is of no known kind" if error.validator in ("oneOf", "anyOf") else short(error.message)
        raise UnreadableNotebookError(
            f"{name} is not a valid notebook: {_place(list(error.relative_path))}{what}. Correct it in a text editor, or "
            "restore the notebook from a copy."
        ) from error


def is_id(value: object) -> bool:
    """Whether nbformat takes it for a cell's id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _place(path: list[str | int]) -> str:
    """`["cells", 1, "outputs", 0, "text"]` is `cell 2, outputs.1.text: `."""
    dotted = [str(part + 1 if isinstance(part, int) else part) for part in path]
    if path[:1] == ["cells"] and len(path) > 1:
        dotted = [f"cell {dotted[1]}", *dotted[2:]]
        dotted[:2] = [", ".join(dotted[:2])]
    return f"{short('.'.join(dotted))}: " if dotted else ""
