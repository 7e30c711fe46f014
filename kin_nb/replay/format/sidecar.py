"""The sidecar: a recording's long texts in a file beside the notebook (docs/session-notebook.md).

In memory a notebook is always whole: loading puts the texts back, writing takes them out again where it names a sidecar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kin_nb.core.session.records import canonical_json
from kin_nb.replay.errors import UnreadableNotebookError

KEY = "sidecar"
_NAME = re.compile(r"[\w-][\w. -]{0,250}\.json")


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
    blobs = found.get("blobs") if isinstance(found, dict) else None
    if isinstance(blobs, dict):
        own = nb["metadata"]["kin"].get("blobs")
        nb["metadata"]["kin"]["blobs"] = {**blobs, **(own if isinstance(own, dict) else {})}


def split(nb: Any, path: Path) -> tuple[str, str] | None:
    """Take the texts out of a notebook that names a sidecar: (the sidecar's name beside `path`, its text), else None."""
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict) or KEY not in kin:
        return None
    kin[KEY] = sidecar_name(path)
    blobs = kin.pop("blobs", {})
    # one text a line: a change of one is a change of one line in git
    lines = ",\n".join(f"{canonical_json(sha)}: {canonical_json(blobs[sha])}" for sha in sorted(blobs))
    return kin[KEY], f'{{"kin": {canonical_json({"session": kin.get("session", "")})}, "blobs": {{\n{lines}\n}}}}\n'
