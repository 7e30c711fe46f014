"""The cells that somebody wrote into a session notebook itself: a save from elsewhere does not drop them.

A notebook says, with its recording, which texts its saving brought there: `cells`, a short hash of each. Whatever else
stands in it was written there since.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from kin_nb.core.safety.secrets import SECRET
from kin_nb.core.session.records import sha256
from kin_nb.render import one_line
from kin_nb.replay.cells.bound import is_bound_cell
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.in_notebook import CELLS as KEY
from kin_nb.replay.recording import SHORT
from kin_nb.replay.saving.head import without_head
from kin_nb.replay.saving.live_cells import is_told
from kin_nb.replay.saving.making import is_made_anew
from kin_nb.replay.saving.privacy import REDACTED


def own_cells(nb: Any) -> list[Any]:
    """Those that were written or changed in the session notebook `nb` since it was made; none where it does not say."""
    kin = nb["metadata"].get("kin")
    known = kin.get(KEY) if isinstance(kin, dict) else None
    if not isinstance(known, list):
        return []
    brought = {mark for mark in known if isinstance(mark, str)}
    return [cell for cell in _cells(nb) if _mark(cell) not in brought]


def check_own_cells_stay(there: Any, nb: Any, name: str) -> None:
    """Raises RecordingError when `there`, in file `name`, has cells of its own whose text `nb`, in its place, would not have."""
    now = {_text(cell) for cell in nb["cells"]}
    redacted = [text for text in now if REDACTED in text[1]]
    gone = [cell for cell in own_cells(there) if not _is_among(_text(cell), now, redacted)]
    if gone:
        what, them = (f"{len(gone)} cells", "them") if len(gone) > 1 else ("1 cell", "it")
        raise RecordingError(
            f"{name} holds {what} written into it that would go: nothing was written. "
            f"{'The first' if len(gone) > 1 else 'It is'}: {one_line(gone[0]['source'].strip(), 60)}. Choose another name; "
            f"or copy {them} to the notebook that you save from, or remove {them} from {name}."
        )


def marked(nb: Any, there: Any = None) -> Any:
    """`nb` as it is stored in place of `there`: it says which texts saving brought. As it is where it says so already.

    What was somebody's own in `there` is their own still.
    """
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict) or KEY in kin:
        return nb
    own = {str(cell.get("id")) for cell in own_cells(there)} if there is not None else set()
    return with_marks(nb, {_mark(cell) for cell in _cells(nb) if cell.get("id") not in own})


def marks_of_both(one: Any, other: Any) -> set[str]:
    """Of two notebooks that are merged: what only one of them was given is nothing that the other's next save may drop."""
    return _brought(one) & _brought(other)


def with_marks(nb: Any, marks: set[str]) -> Any:
    """A copy, its cells the same objects."""
    metadata = type(nb["metadata"])({**nb["metadata"], "kin": {**nb["metadata"]["kin"], KEY: sorted(marks)}})
    return type(nb)({**nb, "metadata": metadata})


def _brought(nb: Any) -> set[str]:
    own = {_mark(cell) for cell in own_cells(nb)}
    return {_mark(cell) for cell in _cells(nb)} - own


def _cells(nb: Any) -> Iterator[Any]:
    """What a person wrote: not what saving makes anew, not commands, which no session notebook runs."""
    for cell in nb["cells"]:
        ours = is_made_anew(nb, cell) or is_bound_cell(nb, cell) or is_told(nb, cell)
        if cell["source"].strip() and not ours:
            yield cell


def _text(cell: Any) -> tuple[str, str]:
    """As it counts: what tools change that only normalise does not. Secrets are as if they had been redacted."""
    source = without_head(cell["source"]) if cell["cell_type"] == "code" else cell["source"]
    lines = unicodedata.normalize("NFC", source).replace(SECRET, REDACTED).splitlines()
    return cell["cell_type"], "\n".join(line.rstrip() for line in lines).strip("\n")


def _mark(cell: Any) -> str:
    return sha256(list(_text(cell)))[:SHORT]


def _is_among(own: tuple[str, str], now: set[tuple[str, str]], redacted: list[tuple[str, str]]) -> bool:
    return own in now or any(own[0] == kind and _redacts(text, own[1]) for kind, text in redacted)


def _redacts(text: str, whole: str) -> bool:
    """Whether `text` is `whole` but for what was taken out of it."""
    first, *parts = text.split(REDACTED)
    last = parts.pop()
    if not (whole.startswith(first) and whole.endswith(last)):
        return False
    at = len(first)
    for part in parts:
        at = whole.find(part, at) + len(part)
        if at < len(part):
            return False
    return at <= len(whole) - len(last)
