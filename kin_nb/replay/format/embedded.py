"""The recording inside a cell, for kernels that see no file: `%kin save --portable` (docs/session-notebook.md).

In memory the records stand in metadata as always: loading puts them there, writing takes them out again where the
notebook has such a cell.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kin_nb.core.session.records import canonical_json
from kin_nb.replay.errors import RecordingError

MAGIC = "kin_recording"
MAX_DEPTH = 200
_CELL = re.compile(rf"\n*%%{MAGIC}[ \t]+(?P<name>[^\s@]{{1,64}}@[0-9a-f]{{12,64}})[ \t]*\n(?P<body>.*)", re.DOTALL)


def is_embedding(cell: Any) -> bool:
    return bool(cell["cell_type"] == "code" and cell["source"].lstrip().startswith(f"%%{MAGIC}"))


def embedding_source(name: str) -> str:
    """The cell, before its recording is known."""
    return f"%%{MAGIC} {name}\n"


def unfold(nb: Any) -> None:
    """Put what a cell embeds into metadata, in place of what metadata has lost. What is no such text stays where it is."""
    cell = next((cell for cell in nb["cells"] if is_embedding(cell)), None)
    found = _CELL.fullmatch(cell["source"]) if cell is not None else None
    if cell is None or found is None:
        return
    value = _parsed(found["body"])
    if isinstance(value, dict) and isinstance(value.get("records"), list):
        nb["metadata"]["kin"] = value.get("kin")
        cell["metadata"]["kin"] = value["records"]


def fold(nb: Any) -> None:
    """Move the recording from metadata into the cell that embeds it, where there is one: a record a line."""
    cell = next((cell for cell in nb["cells"] if is_embedding(cell)), None)
    kin = nb["metadata"].pop("kin", None) if cell is not None else None
    if cell is None or kin is None:
        return
    records = [record for each in nb["cells"] for record in each["metadata"].pop("kin", None) or []]
    body = ",\n".join(map(canonical_json, records))
    name = f"{kin['session']}@{kin['digest'][:12]}"
    cell["source"] = f'{embedding_source(name)}{{"kin": {canonical_json(kin)},\n"records": [\n{body}\n]}}'


def embedded(body: str) -> Any:
    """A notebook that holds what the body of such a cell says, for `read_recording`. Raises RecordingError."""
    value = _parsed(body)
    if not isinstance(value, dict) or not isinstance(value.get("records"), list):
        raise RecordingError(
            f"The text below %%{MAGIC} is not the recording that was saved. Restore the cell, or save it again."
        )
    return {"metadata": {"kin": value.get("kin")}, "cells": [{"metadata": {"kin": value["records"]}}]}


def _parsed(body: str) -> Any:
    """None for what is no JSON, or holds what no recording has."""
    try:
        return json.loads(body, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
