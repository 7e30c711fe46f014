"""The sidecar: a recording's long texts in a file beside the notebook (docs/format.md).

In memory a notebook is always whole: loading puts the texts back, writing takes them out again where it names a sidecar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.session.records import canonical_json
from kin_nb.render.text import one_line
from kin_nb.replay.errors import RecordingError, UnreadableNotebookError

KEY = "sidecar"
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,250}\.json")


def sidecar_name(notebook: Path) -> str:
    """`NAME.kin.ipynb` has `NAME.kin.json`, `NAME.ipynb` has `NAME.kin.json` too."""
    return f"{notebook.stem.removesuffix('.kin')}.kin.json"


def named_sidecar(nb: Any) -> str:
    """The sidecar's name as the notebook claims it, "" when there is none, or when it is no plain name of a file."""
    kin = nb["metadata"].get("kin")
    name = kin.get(KEY) if isinstance(kin, dict) else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def join(nb: Any, read: Callable[[str], Any]) -> None:
    """Put the texts back. `read` gives the JSON value of a file beside the notebook, or raises UnreadableNotebookError.

    A sidecar that is missing or damaged is left out: whoever needs one of its texts says that it is not there. Texts
    are known by their hash, so no file can bring others.
    """
    name = named_sidecar(nb)
    if not name:
        return
    try:
        found = read(name)
    except UnreadableNotebookError:
        return
    own = nb["metadata"]["kin"].get("blobs")
    nb["metadata"]["kin"]["blobs"] = {**texts_in(found), **(own if isinstance(own, dict) else {})}


def texts_in(holder: Any) -> dict[str, Any]:
    """sha256 -> text of a sidecar's JSON value, or of `kin` in a cell's or notebook's metadata; empty for what is neither."""
    blobs = holder.get("blobs") if isinstance(holder, dict) else None
    return dict(blobs) if isinstance(blobs, dict) else {}


def session_of_sidecar(sidecar: Any) -> str:
    """As a file's JSON value claims it, "" for what is no sidecar."""
    kin = sidecar.get("kin") if isinstance(sidecar, dict) and isinstance(sidecar.get("blobs"), dict) else None
    session = kin.get("session") if isinstance(kin, dict) else None
    return session if isinstance(session, str) else ""


@dataclass(frozen=True)
class Sidecar:
    """A file to be written; `texts`: by their sha256."""

    path: Path
    session: str
    texts: dict[str, Any]

    def text(self, texts: dict[str, Any]) -> str:
        """The file that holds `texts`, one a line: a change of one is a change of one line in git."""
        lines = ",\n".join(f"{canonical_json(sha)}: {canonical_json(texts[sha])}" for sha in sorted(texts))
        return f'{{"kin": {canonical_json({"session": self.session})}, "blobs": {{\n{lines}\n}}}}\n'


def split(nb: Any, path: Path) -> Sidecar | None:
    """Take the texts out of a notebook, for `path`, that names a sidecar; None of any other.

    Raises RecordingError when reading would refuse its name.
    """
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict) or KEY not in kin:
        return None
    kin[KEY] = sidecar_name(path)
    if not named_sidecar(nb):
        raise RecordingError(
            f"No sidecar can be called {one_line(kin[KEY])}: choose another name, or save without one."
        )
    texts = texts_in(kin)
    kin.pop("blobs", None)
    for cell in nb["cells"]:
        own = cell["metadata"].get("kin")
        texts |= texts_in(own)
        if isinstance(own, dict):
            own.pop("blobs", None)
    return Sidecar(path.with_name(kin[KEY]), kin.get("session", ""), texts)
