"""The cells of a notebook that was lived in: which of them a session notebook can run again."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from kin_nb.core.commands import COMMANDS, is_command
from kin_nb.render import one_line
from kin_nb.render.text import count
from kin_nb.replay.cells.matching import normal_body
from kin_nb.replay.cells.placing import asked_key, is_kin_kernel, named_session
from kin_nb.replay.cells.undos import undoes
from kin_nb.replay.format.carrying import carried_in
from kin_nb.replay.format.in_outputs import claimed_sessions
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.making import is_made_anew

_ASKING = "|".join(name for name, command in COMMANDS.items() if command.asks)
_LINES = re.compile(
    rf"(?:\s*%kin\b[ \t]*+(?:--session(?:=|[ \t]++)\S++[ \t]*+)?+(?!/?(?:replay\b|(?:{_ASKING}):))[^\n]*+)+\s*"
)
"""Commands that do something now, mistyped ones too: replayed, they would fail."""
_ASKS = re.compile(rf"\s*%kin[ \t]+/?(?P<prompt>(?:{_ASKING}):[^\n]*)\s*")
_BODY = re.compile(r"\n*%%kin[^\n]*\n(?P<body>.*)", re.DOTALL)
_SHOWN = 60
"""Characters of a cell that is named."""


def keep_what_plays(nb: Any, recording: Recording, session: str = "") -> list[str]:
    """Leave of the cells of `nb` those that can be run where `recording` is played; what to say of prompts that went.

    `session`: what the notebook calls it, "" for its own. Commands go, the prompts of other sessions, and those that
    never became a turn of this one: they would stop the replay.
    """
    before = nb["cells"]
    own = [_as_prompt(cell) for cell in before if _is_own(nb, cell, recording, session)]
    nb["cells"] = [cell for cell in own if _may_be_played(nb, cell, recording)]
    kept = {id(cell) for cell in nb["cells"]}
    gone = [cell for cell in before if id(cell) not in kept and not is_told(nb, cell)]
    others = Counter(next(iter(claimed_sessions(cell)), "") for cell in gone)
    unanswered = others.pop("", 0) + others.pop(recording.session, 0)
    said = [f"Left out: {count(unanswered, 'prompt')} without an answer in this session."] if unanswered else []
    return said + [
        f"Left out: {count(number, 'prompt')} of session {name}: kin-nb save NOTEBOOK.ipynb FILE --from-outputs --session {name}"
        for name, number in others.items()
    ]


def what_goes(nb: Any, recording: Recording, session: str = "") -> tuple[list[str], list[str]]:
    """(commands, prompts) that `keep_what_plays` takes out of `nb`, for a person: `cell 3 (%kin mode plan)`.

    Without the cells that save or undo, and the head: they are made anew.
    """
    commands, prompts = [], []
    for number, cell in enumerate(nb["cells"], 1):
        named = f"cell {number} ({one_line(cell['source'], _SHOWN)})"
        if is_told(nb, cell):
            if not is_made_anew(nb, cell):
                commands.append(named)
        elif named_session(cell) not in {None, session} or not _may_be_played(nb, _as_prompt({**cell}), recording):
            prompts.append(named)
    return commands, prompts


def drop_commands(nb: Any) -> int:
    """Leave out the cells that only tell the session what to do: played, `%kin live` would call a model.

    Undos stay, those of a named session too, which its outputs carry.
    """
    before = nb["cells"]
    nb["cells"] = [
        cell for cell in before if not is_told(nb, cell) or undoes(nb, cell) is not None or any(carried_in(cell))
    ]
    return len(before) - len(nb["cells"])


def is_told(nb: Any, cell: Any) -> bool:
    """Whether a cell only tells the session what to do: replayed, `%kin live` would call a model, `/model` need one.

    Undos are records: they get cells of their own again.
    """
    if cell["cell_type"] != "code":
        return False
    text = cell["source"]
    body = _BODY.fullmatch(text)
    if body is not None or (is_kin_kernel(nb) and text.lstrip()[:1] == "/"):
        return is_command(normal_body(body["body"] if body else text))
    return _LINES.fullmatch(text) is not None


def _is_own(nb: Any, cell: Any, recording: Recording, session: str) -> bool:
    """What undoes stays for its place: saving makes it anew there, where it was recorded."""
    named = named_session(cell) in {None, session} or recording.session in claimed_sessions(cell)
    return named and (not is_told(nb, cell) or undoes(nb, cell) is not None)


def as_prompt(source: str) -> str:
    """The text of a code cell, `%kin flow:NAME request` as the prompt that it is: it has a turn, and is played."""
    found = _ASKS.fullmatch(source)
    return source if found is None else f"%%kin\n/{found['prompt'].rstrip()}"


def _as_prompt(cell: Any) -> Any:
    if cell["cell_type"] == "code":
        cell["source"] = as_prompt(cell["source"])
    return cell


def _may_be_played(nb: Any, cell: Any, recording: Recording) -> bool:
    key = asked_key(nb, cell)
    return key is None or any(
        turn.key == key or (turn.cell_id and turn.cell_id == cell.get("id")) for turn in recording.turns
    )
