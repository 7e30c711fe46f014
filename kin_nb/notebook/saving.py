"""`%kin save`: the session of this kernel as a notebook that re-executes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.core.agent import Agent
from kin_nb.core.commands import COMMANDS, is_command
from kin_nb.core.config import KinConfig
from kin_nb.core.safety.secrets import Redactor, secret_values
from kin_nb.notebook.errors import KinError
from kin_nb.notebook.own_file import surroundings
from kin_nb.render import Output, render_notice
from kin_nb.replay.format import read_recording
from kin_nb.replay.loading import as_node, load_notebook
from kin_nb.replay.matching import following_key, normal_body
from kin_nb.replay.placing import asked_key, is_kin_kernel, place_turns
from kin_nb.replay.recording import Recording, SessionMeta
from kin_nb.replay.saving import Cell, session_notebook, write_notebook

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_ASKING = "|".join(name for name, command in COMMANDS.items() if command.asks)
_LINES = re.compile(
    rf"(?:\s*%kin\b[ \t]*+(?:--session\S*[ \t]++\w*[ \t]*+)?(?!/?(?:replay\b|(?:{_ASKING}):))[^\n]*)+\s*"
)
"""Commands that do something now, mistyped ones too: replayed, they would fail."""
_ASKS = re.compile(rf"\s*%kin[ \t]+/?(?P<prompt>(?:{_ASKING}):[^\n]*)\s*")
_LINE = re.compile(r"\s*%%?kin\b(?P<options>[^\n]*)")
_SESSION = re.compile(r"(?:^|\s)--session[\s=]+(?P<name>\S+)")
_BODY = re.compile(r"\n*%%kin[^\n]*\n(?P<body>.*)", re.DOTALL)


def save_session(shell: InteractiveShell, agent: Agent, path: str | None, session: str = "") -> Output:
    """Write the session notebook; returns the notice to show. Raises KinError saying why it cannot be written.

    Default: NAME.kin.ipynb beside the open notebook, `session.kin.ipynb` where the notebook's file is not known; with
    `session`, one of several in this notebook, NAME.SESSION.kin.ipynb. The prompts of the others stay out of it.
    """
    own = next(surroundings(shell).own_files(), None)
    target = _target(path, own, session)
    source = as_node(load_notebook(own)) if own is not None else _run_cells(shell)
    source["cells"] = [
        _as_prompt(cell)
        for cell in source["cells"]
        if not _is_command(source, cell) and _session_of(cell) in {None, session}
    ]
    recording = _without_secrets(source, recording_of(agent, target.parent), agent.config)
    before = len(source["cells"])
    source["cells"] = [cell for cell in source["cells"] if _may_be_played(source, cell, recording)]
    left_out = before - len(source["cells"])
    if own is None:
        nb = session_notebook(recording, cells=[Cell(cell["source"]) for cell in source["cells"]])
    else:
        nb = session_notebook(recording, source_nb=source)
    late = len(recording.turns) - len(place_turns(source, recording.turns))
    try:
        write_notebook(nb, target, open_file=own)
    except OSError as error:
        raise KinError(f"{target} cannot be written: {error.strerror}.") from None
    return _notice(read_recording(nb), target, late if own is not None else 0, left_out)


def recording_of(agent: Agent, folder: Path) -> Recording:
    """The agent's turns as a recording for a notebook in `folder`."""
    meta = SessionMeta.of_session(agent.header, folder.resolve())
    return Recording(agent.journal.root_id, tuple(agent.turns), meta, undos=tuple(agent.undone))


def _target(path: str | None, own: Path | None, session: str) -> Path:
    stem = own.stem if own is not None else "session"
    name = f"{stem}.{session}.kin.ipynb" if session else f"{stem}.kin.ipynb"
    if path is None:
        return own.with_name(name) if own is not None else Path(name).absolute()
    target = Path(path).expanduser().absolute()
    if target.is_dir():
        return target / name
    return target if target.suffix == ".ipynb" else target.with_name(f"{target.name}.ipynb")


def _run_cells(shell: InteractiveShell) -> dict[str, Any]:
    """What this kernel has run, where no file says it."""
    history: list[str] = shell.history_manager.input_hist_raw
    as_cell = getattr(getattr(shell, "kernel", None), "as_cell", str)  # in the Kin kernel, what a prompt stands for
    cells = [{"cell_type": "code", "source": as_cell(source)} for source in history[1:] if source.strip()]
    return {"metadata": {}, "cells": cells}


def _is_command(nb: Any, cell: Any) -> bool:
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


def _may_be_played(nb: Any, cell: Any, recording: Recording) -> bool:
    """Not a prompt that never became a turn: it would stop the replay."""
    key = asked_key(nb, cell)
    return key is None or any(
        turn.key == key or (turn.cell_id and turn.cell_id == cell.get("id")) for turn in recording.turns
    )


def _session_of(cell: Any) -> str | None:
    """The name of the session that a cell speaks to, "" for the notebook's own; None for every other cell."""
    line = _LINE.match(cell["source"]) if cell["cell_type"] == "code" else None
    if line is None:
        return None
    found = _SESSION.search(line["options"])
    return found["name"] if found else ""


def _as_prompt(cell: Any) -> Any:
    """`%kin flow:NAME request` as the prompt that it is: it has a turn, and is played."""
    found = _ASKS.fullmatch(cell["source"]) if cell["cell_type"] == "code" else None
    if found is not None:
        cell["source"] = f"%%kin\n/{found['prompt'].rstrip()}"
    return cell


def _without_secrets(nb: Any, recording: Recording, config: KinConfig) -> Recording:
    """Take secrets out of `nb`: what was typed, and what cells printed. The turns keep to the cells that asked them."""
    root = Path("/")  # a redactor without places: paths in a person's own cells must go on working
    hide = Redactor(secret_values(config), root, home=root).text
    keys: dict[str | None, str | None] = {}
    for cell in nb["cells"]:
        before = asked_key(nb, cell)
        cell["source"] = hide(cell["source"])
        if cell["cell_type"] == "code":
            cell["outputs"] = _hidden(cell.get("outputs", []), hide)
        keys[before] = after = asked_key(nb, cell)
        if before and after and before != after:
            keys |= {following_key(before, n): following_key(after, n) for n in range(1, len(recording.turns))}
    turns = (turn.model_copy(update={"key": keys.get(turn.key) or turn.key}) for turn in recording.turns)
    return replace(recording, turns=tuple(turns))


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {key: item if key.startswith("image/") else _hidden(item, hide) for key, item in value.items()}
    return [_hidden(item, hide) for item in value] if isinstance(value, list) else value


def _notice(recording: Recording, target: Path, late: int, left_out: int) -> Output:
    """`late`: turns whose cells the file on disk does not have yet. `left_out`: prompts that nothing was recorded of."""
    count = len(recording.turns)
    lines = [
        f"{count} {'turn' if count == 1 else 'turns'}, recording {recording.name}.",
        f"Anyone can run it without a key: kin-nb replay {target.name}, jupyter execute, pytest --nbval, or open it and Run All.",
    ]
    if late:
        lines.append(
            f"The open notebook's file did not hold {late} of the prompts yet, so they stand at the end. "
            "To keep them in their place, save the notebook and run %kin save again."
        )
    if left_out:
        were = "1 prompt that was" if left_out == 1 else f"{left_out} prompts that were"
        lines.append(f"Left out: {were} never answered.")
    return render_notice(f"Saved {target}", lines)
