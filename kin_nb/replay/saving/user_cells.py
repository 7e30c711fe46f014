"""The user's cells when a session notebook is made: which of them can run again, and which it must keep.

A notebook's recording lists the texts that saving wrote: `cells`, a short hash of each. Every other cell was written by the
user later.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from kin_nb.core.commands import COMMANDS, is_command
from kin_nb.core.records import sha256
from kin_nb.core.redaction import REDACTED, SECRET
from kin_nb.core.text import counted
from kin_nb.render import one_line
from kin_nb.replay.binding_cells import is_binding_cell
from kin_nb.replay.cell_keys import as_prompt_cell, is_kin_kernel, map_records_to_cells, normalize_prompt, prompt_key
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import USER_CELLS_KEY as KEY
from kin_nb.replay.format.notebook_codec import raw_records
from kin_nb.replay.format.output_records import backed_up_records, raw_output_records
from kin_nb.replay.recording import SHORT_SHA, Recording
from kin_nb.replay.saving.build import is_generated
from kin_nb.replay.saving.prompt_cells import without_bootstrap_lines

_ASKING = "|".join(name for name, command in COMMANDS.items() if command.asks)
_LINES = re.compile(
    rf"(?:\s*%kin\b[ \t]*+(?:--session(?:=|[ \t]++)\S++[ \t]*+)?+(?!/?(?:replay\b|(?:{_ASKING}):))[^\n]*+)+\s*"
)
"""Commands that act at once, mistyped ones too: in a replay they would fail."""
_BODY = re.compile(r"\n*%%kin[^\n]*\n(?P<body>.*)", re.DOTALL)
_SHOWN = 60
"""Characters of a cell that are shown to identify it."""


def drop_unplayable(nb: Any, recording: Recording) -> list[str]:
    """Remove the cells of `nb` that cannot run where `recording` is played; return messages about removed prompts.

    Removes commands without a record, and prompts that were never answered: they would stop the replay.
    """
    before, holds = nb["cells"], _holds(nb, recording)
    nb["cells"] = [cell for n, cell in enumerate(before) if not _goes(nb, cell, holds=n in holds)]
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = as_prompt_cell(cell["source"])
    kept = {id(cell) for cell in nb["cells"]}
    unanswered = sum(id(cell) not in kept and not is_command_cell(nb, cell) for cell in before)
    return [f"Left out: {counted(unanswered, 'prompt')} without a recorded answer."] if unanswered else []


def drop_commands(nb: Any, recording: Recording) -> int:
    """Remove the cells that only command the session: played, `%kin live` would call a model.

    Those that moved the conversation (undo, clear) stay.
    """
    before, holds = nb["cells"], _holds(nb, recording)
    nb["cells"] = [cell for n, cell in enumerate(before) if n in holds or not is_command_cell(nb, cell)]
    return len(before) - len(nb["cells"])


def _holds(nb: Any, recording: Recording) -> set[int]:
    """Return the indexes of cells that hold a record, or made one."""
    ids = {record.id for record in recording.records}
    found = {index for index, raw in raw_records(nb) if isinstance(raw, dict) and raw.get("id") in ids}
    for index, cell in enumerate(nb["cells"]):
        records = (carried.get("record") for carried in raw_output_records(cell))
        if any(isinstance(record, dict) and record.get("id") in ids for record in records):
            found.add(index)
    named = {each["cell"] for each in backed_up_records(nb)}
    found |= {index for index, cell in enumerate(nb["cells"]) if cell.get("id") in named}
    return found.union(map_records_to_cells(nb, recording.records).values())


def _goes(nb: Any, cell: Any, *, holds: bool) -> bool:
    return not holds and (is_command_cell(nb, cell) or prompt_key(nb, cell) is not None)


def is_command_cell(nb: Any, cell: Any) -> bool:
    """Whether a cell only commands the session: in a replay `%kin live` would call a model, and `/model` would need one."""
    if cell["cell_type"] != "code":
        return False
    text = cell["source"]
    body = _BODY.fullmatch(text)
    if body is not None or (is_kin_kernel(nb) and text.lstrip()[:1] == "/"):
        return is_command(normalize_prompt(body["body"] if body else text))
    return _LINES.fullmatch(text) is not None


def user_cells(nb: Any) -> list[Any]:
    """Return the cells that were written or changed in session notebook `nb` since it was made; none without a `cells` list."""
    kin = nb["metadata"].get("kin")
    known = kin.get(KEY) if isinstance(kin, dict) else None
    if not isinstance(known, list):
        return []
    brought = {mark for mark in known if isinstance(mark, str)}
    return [cell for cell in _cells(nb) if _mark(cell) not in brought]


def check_user_cells_kept(there: Any, nb: Any, name: str, *, itself: bool) -> None:
    """Raise RecordingError when `there`, in file `name`, has user cells whose text is missing in `nb`, which would replace it.

    `itself`: `nb` was made from `there`, so only prompts that never ran with their present text could be lost.
    """
    now = {_text(cell) for cell in nb["cells"]}
    redacted = [text for text in now if REDACTED in text[1]]
    gone = [cell for cell in user_cells(there) if not _is_in(now, redacted, _text(cell))]
    if gone:
        them, its = ("them", "their") if len(gone) > 1 else ("it", "its")
        advice = f"copy {them} to the notebook that you save from, or remove {them} from {name}"
        if itself:
            # without the cell of a recorded prompt the recording would not read
            advice = f"run {them}, or restore {its} text, or remove {them} where nothing was recorded"
        raise RecordingError(
            f"Not saved: {counted(len(gone), 'cell')} that you wrote in {name} would be lost. "
            f"{'The first' if len(gone) > 1 else 'It is'}: {one_line(gone[0]['source'].strip(), _SHOWN)}\n"
            f"Choose another name; or {advice}."
        )


def stamp(nb: Any, itself: Any = None) -> Any:
    """Return `nb` with the list of texts that saving wrote; unchanged when it has this list already.

    A user cell of `itself`, the notebook that `nb` was made from and replaces, remains a user cell. When `nb` was made from
    another notebook, all of its cells count as written by saving.
    """
    kin = nb["metadata"].get("kin")
    if not isinstance(kin, dict) or KEY in kin:
        return nb
    own, brought = ({_text(cell) for cell in user_cells(itself)}, _brought(itself)) if itself else (set(), set())
    marks = {_mark(cell): _text(cell) for cell in _cells(nb)}
    return with_stamps(nb, {mark for mark, text in marks.items() if mark in brought or not _is_of(own, text)})


def common_stamps(one: Any, other: Any) -> set[str]:
    """Return the texts that saving wrote in both of two merged notebooks: the next save may drop only these."""
    return _brought(one) & _brought(other)


def with_stamps(nb: Any, marks: set[str]) -> Any:
    """Return a copy of `nb` with `marks` as its list of texts; its cells are the same objects."""
    metadata = type(nb["metadata"])({**nb["metadata"], "kin": {**nb["metadata"]["kin"], KEY: sorted(marks)}})
    return type(nb)({**nb, "metadata": metadata})


def _brought(nb: Any) -> set[str]:
    own = {_mark(cell) for cell in user_cells(nb)}
    return {_mark(cell) for cell in _cells(nb)} - own


def _cells(nb: Any) -> Iterator[Any]:
    """Yield the cells of the user: no generated cells, no commands, which no session notebook runs."""
    for cell in nb["cells"]:
        ours = is_generated(cell) or is_binding_cell(nb, cell) or is_command_cell(nb, cell)
        if cell["source"].strip() and not ours:
            yield cell


def _text(cell: Any) -> tuple[str, str]:
    """Return the text for comparison, without differences that formatters make. The mark of a secret counts as a redaction."""
    source = as_prompt_cell(without_bootstrap_lines(cell["source"])) if cell["cell_type"] == "code" else cell["source"]
    lines = unicodedata.normalize("NFC", source).replace(SECRET, REDACTED).splitlines()
    return cell["cell_type"], "\n".join(line.rstrip() for line in lines).strip("\n")


def _mark(cell: Any) -> str:
    return sha256(list(_text(cell)))[:SHORT_SHA]


def _is_in(now: set[tuple[str, str]], redacted: list[tuple[str, str]], own: tuple[str, str]) -> bool:
    return own in now or any(_redacts(text, own) for text in redacted)


def _is_of(own: set[tuple[str, str]], now: tuple[str, str]) -> bool:
    """Whether `now` is one of `own`, or a redacted form of one."""
    return now in own or (REDACTED in now[1] and any(_redacts(now, text) for text in own))


def _redacts(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether `one` is a redacted form of `other`."""
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
