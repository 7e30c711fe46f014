"""The recording inside a cell, for kernels that see no file: `%kin save --portable` (docs/format.md).

In memory the records stand in metadata as always: loading puts them there, writing takes them out again where the
notebook has such a cell.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kin_nb.core.session.records import canonical_json
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.sidecar import texts_in

MAGIC = "kin_recording"
MAX_DEPTH = 200
_CELL = re.compile(rf"\n*%%{MAGIC}[ \t]+(?P<name>[^\s@]{{1,64}}@[0-9a-f]{{12,64}})[ \t]*\n(?P<body>.*)", re.DOTALL)


def is_embedding(cell: Any) -> bool:
    return bool(cell["cell_type"] == "code" and cell["source"].lstrip().startswith(f"%%{MAGIC}"))


def embedding_source(name: str) -> str:
    """The cell, before its recording is known."""
    return f"%%{MAGIC} {name}\n"


def unfold(nb: Any) -> None:
    """Put what a cell embeds into metadata, in place of what metadata has lost. What is no such text stays where it is.

    Records of a cell that is not there any more stay with the one that embeds them.
    """
    cell = next((cell for cell in nb["cells"] if is_embedding(cell)), None)
    found = _CELL.fullmatch(cell["source"]) if cell is not None else None
    value = _parsed(found["body"]) if found is not None else None
    if cell is None or value is None or not _is_embedded(value):
        return
    nb["metadata"]["kin"] = value.get("kin")
    ids = {each["id"]: each for each in nb["cells"] if isinstance(each.get("id"), str)}
    homeless: list[Any] = []
    for each in value["cells"]:
        home = ids.get(str(each.get("id")))
        if home is not None:
            home["metadata"]["kin"] = each["kin"]
        elif each["kin"] is not None:
            homeless.append(each["kin"])
    if homeless:
        cell["metadata"]["kin"] = _joined(homeless)


def _joined(held: list[Any]) -> Any:
    """What several cells held, as one cell's; the first that is none as it is, for who reads it to refuse."""
    for kin in held:
        if not isinstance(kin, dict) or not isinstance(kin.get("records"), list):
            return kin
    records = [record for kin in held for record in kin["records"]]
    return {"records": records, "blobs": {sha: text for kin in held for sha, text in texts_in(kin).items()}}


def fold(nb: Any) -> None:
    """Move the recording from metadata into the cell that embeds it, where there is one: a cell a line."""
    cell = next((cell for cell in nb["cells"] if is_embedding(cell)), None)
    kin = nb["metadata"].pop("kin", None) if cell is not None else None
    if cell is None or kin is None:
        return
    spec = nb["metadata"].get("kernelspec", {})
    kernel = spec.get("name", "") if isinstance(spec, dict) else ""
    cells = [
        {"id": each["id"], "source": each["source"], "kin": each["metadata"].pop("kin")}
        for each in nb["cells"]
        if "kin" in each["metadata"]
    ]
    body = ",\n".join(map(canonical_json, cells))
    name = f"{kin['session']}@{kin['digest'][:12]}"
    head = f'{{"kin": {canonical_json(kin)},\n"kernel": {canonical_json(kernel)},\n"cells": ['
    cell["source"] = f"{embedding_source(name)}{head}\n{body}\n]}}"


def embedded(body: str) -> Any:
    """A notebook that holds what the body of such a cell says, for `read_saved`. Raises RecordingError."""
    value = _parsed(body)
    if not _is_embedded(value):
        raise RecordingError(
            f"The text below %%{MAGIC} is not the recording that was saved. Restore the cell, or save it again."
        )
    cells = [
        {
            "cell_type": "code",
            "id": str(each.get("id")),
            "source": str(each.get("source", "")),
            "metadata": {"kin": each["kin"]},
        }
        for each in value["cells"]
    ]
    return {"metadata": {"kin": value.get("kin"), "kernelspec": {"name": value.get("kernel")}}, "cells": cells}


def _is_embedded(value: Any) -> bool:
    cells = value.get("cells") if isinstance(value, dict) else None
    return isinstance(cells, list) and all(isinstance(each, dict) and "kin" in each for each in cells)


def _parsed(body: str) -> Any:
    """None for what is no JSON, or holds what no recording has."""
    try:
        return json.loads(body, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
