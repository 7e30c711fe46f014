"""The cells of a notebook that was lived in: which of them a session notebook can run again."""

from __future__ import annotations

import re
from typing import Any

from kin_nb.core.commands import COMMANDS, is_command
from kin_nb.render import one_line
from kin_nb.render.text import count
from kin_nb.replay.cells.matching import normal_body
from kin_nb.replay.cells.placing import as_prompt, asked_key, is_kin_kernel, place_records
from kin_nb.replay.format.carrying import carried_in, kept_in
from kin_nb.replay.format.in_notebook import raw_records
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.making import is_made_anew

_ASKING = "|".join(name for name, command in COMMANDS.items() if command.asks)
_LINES = re.compile(
    rf"(?:\s*%kin\b[ \t]*+(?:--session(?:=|[ \t]++)\S++[ \t]*+)?+(?!/?(?:replay\b|(?:{_ASKING}):))[^\n]*+)+\s*"
)
"""Commands that do something now, mistyped ones too: replayed, they would fail."""
_BODY = re.compile(r"\n*%%kin[^\n]*\n(?P<body>.*)", re.DOTALL)
_SHOWN = 60
"""Characters of a cell that is named."""


def keep_what_plays(nb: Any, recording: Recording) -> list[str]:
    """Leave of the cells of `nb` those that can be run where `recording` is played; what to say of prompts that went.

    Commands go that made no record of it, and prompts that were never answered: they would stop the replay.
    """
    before, holds = nb["cells"], _holds(nb, recording)
    nb["cells"] = [cell for n, cell in enumerate(before) if not _goes(nb, cell, holds=n in holds)]
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = as_prompt(cell["source"])
    kept = {id(cell) for cell in nb["cells"]}
    unanswered = sum(id(cell) not in kept and not is_told(nb, cell) for cell in before)
    return [f"Left out: {count(unanswered, 'prompt')} without a recorded answer."] if unanswered else []


def what_goes(nb: Any, recording: Recording) -> tuple[list[str], list[str]]:
    """(commands, prompts) that `keep_what_plays` takes out of `nb`, for a person: `cell 3 (%kin mode plan)`.

    Without the cells that save, and the head: they are made anew.
    """
    commands: list[str] = []
    prompts: list[str] = []
    holds = _holds(nb, recording)
    for number, cell in enumerate(nb["cells"], 1):
        if _goes(nb, cell, holds=number - 1 in holds) and not is_made_anew(cell):
            named = f"cell {number} ({one_line(cell['source'], _SHOWN)})"
            (commands if is_told(nb, cell) else prompts).append(named)
    return commands, prompts


def drop_commands(nb: Any, recording: Recording) -> int:
    """Leave out the cells that only tell the session what to do: played, `%kin live` would call a model.

    Those that moved the conversation stay.
    """
    before, holds = nb["cells"], _holds(nb, recording)
    nb["cells"] = [cell for n, cell in enumerate(before) if n in holds or not is_told(nb, cell)]
    return len(before) - len(nb["cells"])


def _holds(nb: Any, recording: Recording) -> set[int]:
    """The indexes of cells that hold a record, or made one."""
    ids = {record.id for record in recording.records}
    found = {index for index, raw in raw_records(nb) if isinstance(raw, dict) and raw.get("id") in ids}
    for index, cell in enumerate(nb["cells"]):
        records = (carried.get("record") for carried in carried_in(cell))
        if any(isinstance(record, dict) and record.get("id") in ids for record in records):
            found.add(index)
    named = {each["cell"] for each in kept_in(nb)}
    found |= {index for index, cell in enumerate(nb["cells"]) if cell.get("id") in named}
    return found.union(place_records(nb, recording.records).values())


def _goes(nb: Any, cell: Any, *, holds: bool) -> bool:
    return not holds and (is_told(nb, cell) or asked_key(nb, cell) is not None)


def is_told(nb: Any, cell: Any) -> bool:
    """Whether a cell only tells the session what to do: replayed, `%kin live` would call a model, `/model` need one."""
    if cell["cell_type"] != "code":
        return False
    text = cell["source"]
    body = _BODY.fullmatch(text)
    if body is not None or (is_kin_kernel(nb) and text.lstrip()[:1] == "/"):
        return is_command(normal_body(body["body"] if body else text))
    return _LINES.fullmatch(text) is not None
