"""A recording, or its long texts, elsewhere than in the notebook's metadata (docs/reference/format.md).

Inside a cell, for kernels that see no file: `%kin save --portable`. In a sidecar, a file next to the notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.records import canonical_json
from kin_nb.render.text import one_line
from kin_nb.replay.errors import RecordingError, UnreadableNotebookError

SIDECAR_KEY = "sidecar"
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,250}\.json")


def sidecar_name(notebook: Path) -> str:
    """Return the sidecar's name: `NAME.kin.json` for `NAME.kin.ipynb` and for `NAME.ipynb`."""
    return f"{notebook.stem.removesuffix('.kin')}.kin.json"


def claimed_sidecar(nb: Any) -> str:
    """Return the sidecar's name that the notebook claims, "" when it claims none or when that is not a plain file name."""
    kin = nb["metadata"].get("kin")
    name = kin.get(SIDECAR_KEY) if isinstance(kin, dict) else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def attach_sidecar(nb: Any, read: Callable[[str], Any]) -> None:
    """Insert the sidecar's texts. `read` returns the JSON value of a file next to the notebook, or raises UnreadableNotebookError.

    A missing or damaged sidecar is ignored: the reader of a text reports later that it is missing. Texts are found by their
    hash, so a file cannot substitute other texts.
    """
    name = claimed_sidecar(nb)
    if not name:
        return
    try:
        found = read(name)
    except UnreadableNotebookError:
        return
    own = nb["metadata"]["kin"].get("blobs")
    nb["metadata"]["kin"]["blobs"] = {**stored_texts(found), **(own if isinstance(own, dict) else {})}


def stored_texts(holder: Any) -> dict[str, Any]:
    """Return sha256 -> text from a sidecar, or from `kin` in metadata of a cell or notebook; empty for other values."""
    blobs = holder.get("blobs") if isinstance(holder, dict) else None
    return dict(blobs) if isinstance(blobs, dict) else {}


def claimed_session(sidecar: Any) -> str:
    """Return the session that a sidecar claims to belong to; "" if the JSON value is not a sidecar."""
    kin = sidecar.get("kin") if isinstance(sidecar, dict) and isinstance(sidecar.get("blobs"), dict) else None
    session = kin.get("session") if isinstance(kin, dict) else None
    return session if isinstance(session, str) else ""


@dataclass(frozen=True)
class Sidecar:
    """A sidecar file to write. `texts`: by their sha256."""

    path: Path
    session: str
    texts: dict[str, Any]

    def text(self, texts: dict[str, Any]) -> str:
        """Return the file's text, with one entry per line: in git, a changed entry is one changed line."""
        lines = ",\n".join(f"{canonical_json(sha)}: {canonical_json(texts[sha])}" for sha in sorted(texts))
        return f'{{"kin": {canonical_json({"session": self.session})}, "blobs": {{\n{lines}\n}}}}\n'


def detach_sidecar(nb: Any, path: Path) -> Sidecar | None:
    """Move the texts of a notebook for `path` into its sidecar, and return that; None if it names none.

    Raises RecordingError when reading would refuse its name.
    """
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict) or SIDECAR_KEY not in kin:
        return None
    kin[SIDECAR_KEY] = sidecar_name(path)
    if not claimed_sidecar(nb):
        raise RecordingError(
            f"A sidecar file cannot be called {one_line(kin[SIDECAR_KEY])}.\nChoose another name, or save without --sidecar."
        )
    texts = stored_texts(kin)
    kin.pop("blobs", None)
    for cell in nb["cells"]:
        own = cell["metadata"].get("kin")
        texts |= stored_texts(own)
        if isinstance(own, dict):
            own.pop("blobs", None)
    return Sidecar(path.with_name(kin[SIDECAR_KEY]), kin.get("session", ""), texts)


RECORDING_MAGIC = "kin_recording"
MAX_DEPTH = 200
_CELL = re.compile(
    rf"\n*%%{RECORDING_MAGIC}[ \t]+(?P<name>[^\s@]{{1,64}}@[0-9a-f]{{12,64}})[ \t]*\n(?P<body>.*)", re.DOTALL
)


def is_recording_cell(cell: Any) -> bool:
    return bool(cell["cell_type"] == "code" and cell["source"].lstrip().startswith(f"%%{RECORDING_MAGIC}"))


def recording_cell_source(name: str) -> str:
    """Return the source of the cell that will hold the recording."""
    return f"%%{RECORDING_MAGIC} {name}\n"


def extract_embedded(nb: Any) -> None:
    """Move an embedded recording from a cell into metadata that has lost it. Other text stays.

    Records of a cell that is not there any more stay with the one that embeds them.
    """
    cell = next((cell for cell in nb["cells"] if is_recording_cell(cell)), None)
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
    """Merge what several cells held; the first invalid value is returned unchanged, so that the reader refuses it."""
    for kin in held:
        if not isinstance(kin, dict) or not isinstance(kin.get("records"), list):
            return kin
    records = [record for kin in held for record in kin["records"]]
    return {"records": records, "blobs": {sha: text for kin in held for sha, text in stored_texts(kin).items()}}


def embed(nb: Any) -> None:
    """Move the recording from metadata into the cell that embeds it, if there is one: one line per cell."""
    cell = next((cell for cell in nb["cells"] if is_recording_cell(cell)), None)
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
    cell["source"] = f"{recording_cell_source(name)}{head}\n{body}\n]}}"


def parse_embedded(body: str) -> Any:
    """Parse the body of an embedding cell into a notebook for `read_saved`. Raises RecordingError."""
    value = _parsed(body)
    if not _is_embedded(value):
        raise RecordingError(
            f"The text below %%{RECORDING_MAGIC} is not a saved recording.\nRestore the cell, or save the session again."
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
    """Parse a line; None for text that is not JSON, or has a value that a recording never has."""
    try:
        return json.loads(body, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
