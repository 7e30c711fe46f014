"""The cells that somebody wrote into a session notebook itself: a save from elsewhere does not drop them.

A notebook says, with its recording, which texts its saving brought there: `cells`, a short hash of each. Whatever else
stands in it was written there since.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from kin_nb.core.safety.secrets import REDACTED, SECRET
from kin_nb.core.session.records import sha256
from kin_nb.render import one_line
from kin_nb.replay.cells.bound import is_bound_cell
from kin_nb.replay.cells.placing import as_prompt
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.in_notebook import CELLS as KEY
from kin_nb.replay.recording import SHORT
from kin_nb.replay.saving.head import without_head
from kin_nb.replay.saving.live_cells import is_told
from kin_nb.replay.saving.making import is_made_anew


def own_cells(nb: Any) -> list[Any]:
    """Those that were written or changed in the session notebook `nb` since it was made; none where it does not say."""
    kin = nb["metadata"].get("kin")
    known = kin.get(KEY) if isinstance(kin, dict) else None
    if not isinstance(known, list):
        return []
    brought = {mark for mark in known if isinstance(mark, str)}
    return [cell for cell in _cells(nb) if _mark(cell) not in brought]


def check_own_cells_stay(there: Any, nb: Any, name: str, *, itself: bool) -> None:
    """Raises RecordingError when `there`, in file `name`, has cells of its own whose text `nb`, in its place, would not have.

    `itself`: `nb` was made from `there`, so what would go are prompts that were never run as they stand.
    """
    now = {_text(cell) for cell in nb["cells"]}
    redacted = [text for text in now if REDACTED in text[1]]
    gone = [cell for cell in own_cells(there) if not _is_in(now, redacted, _text(cell))]
    if gone:
        what, them, its = (f"{len(gone)} cells", "them", "their") if len(gone) > 1 else ("1 cell", "it", "its")
        advice = f"copy {them} to the notebook that you save from, or remove {them} from {name}"
        if itself:
            # without the cell of a recorded prompt the recording would not read
            advice = f"run {them}, or restore {its} text, or remove {them} where nothing was recorded"
        raise RecordingError(
            f"{name} holds {what} written into it that would go: nothing was written. "
            f"{'The first' if len(gone) > 1 else 'It is'}: {one_line(gone[0]['source'].strip(), 60)}. Choose another name; "
            f"or {advice}."
        )


def marked(nb: Any, itself: Any = None) -> Any:
    """`nb` as it is stored: it says which texts saving brought. As it is where it says so already.

    What was somebody's own in `itself`, the notebook that it was made from and is stored over, is their own still. Saved
    from another, all of it is that one's, and comes and goes with it.
    """
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict) or KEY in kin:
        return nb
    own, brought = ({_text(cell) for cell in own_cells(itself)}, _brought(itself)) if itself else (set(), set())
    marks = {_mark(cell): _text(cell) for cell in _cells(nb)}
    return with_marks(nb, {mark for mark, text in marks.items() if mark in brought or not _is_of(own, text)})


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
        ours = is_made_anew(cell) or is_bound_cell(nb, cell) or is_told(nb, cell)
        if cell["source"].strip() and not ours:
            yield cell


def _text(cell: Any) -> tuple[str, str]:
    """As it counts: what tools change that only normalise does not. Secrets are as if they had been redacted."""
    source = as_prompt(without_head(cell["source"])) if cell["cell_type"] == "code" else cell["source"]
    lines = unicodedata.normalize("NFC", source).replace(SECRET, REDACTED).splitlines()
    return cell["cell_type"], "\n".join(line.rstrip() for line in lines).strip("\n")


def _mark(cell: Any) -> str:
    return sha256(list(_text(cell)))[:SHORT]


def _is_in(now: set[tuple[str, str]], redacted: list[tuple[str, str]], own: tuple[str, str]) -> bool:
    return own in now or any(_redacts(text, own) for text in redacted)


def _is_of(own: set[tuple[str, str]], now: tuple[str, str]) -> bool:
    """Whether `now` is one of them, or what redacting has left of one."""
    return now in own or (REDACTED in now[1] and any(_redacts(now, text) for text in own))


def _redacts(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether `one`, which has something taken out of it, is `other` but for that."""
    (kind, text), (of_kind, whole) = one, other
    first, *parts = text.split(REDACTED)
    last = parts.pop()
    if not (kind == of_kind and whole.startswith(first) and whole.endswith(last)):
        return False
    at = len(first)
    for part in parts:
        at = whole.find(part, at) + len(part)
        if at < len(part):
            return False
    return at <= len(whole) - len(last)
