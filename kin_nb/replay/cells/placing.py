"""Which cell of a notebook asked which turn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kin_nb.core.commands import escaped, is_command
from kin_nb.core.session.records import TurnRecord
from kin_nb.replay.cells.matching import cell_key, normal_body, turns_of_cell

_MAGIC = re.compile(r"\n*%%kin(?:[ \t]+(?P<options>[^\n]*))?(?:\n(?P<body>.*))?\Z", re.DOTALL)

_LINE = re.compile(r"\s*%%?kin\b(?P<options>[^\n]*)")
_SESSION = re.compile(r"(?:^|\s)--session[\s=]+(?P<name>\S+)")


def asked_key(nb: Any, cell: Any) -> str | None:
    """The key of a cell that asks the agent; None for every other, /commands too. In the Kin kernel cells without magic ask."""
    if cell["cell_type"] != "code":
        return None
    found = _MAGIC.match(cell["source"])
    if found:
        body = found["body"] or ""
        return None if is_command(normal_body(body)) else cell_key(body, found["options"] or "")
    text = cell["source"].lstrip()
    command = not text or text[0] in "%!?" or is_command(normal_body(text))
    return cell_key(cell["source"], "") if is_kin_kernel(nb) and not command else None


def asked_with(key: str, prompt: str, options: str) -> bool:
    """Whether a turn of that `key` was asked by a `%%kin` line with just these `options`, whatever the prompt below it is now."""
    return key == cell_key(escaped(prompt), options)


def options_of(cell: Any) -> str:
    """What stands after `%%kin`; "" where nothing does."""
    found = _MAGIC.match(cell["source"]) if cell["cell_type"] == "code" else None
    return (found["options"] or "") if found else ""


def named_session(cell: Any) -> str | None:
    """The name of the session that a cell speaks to, "" for the notebook's own; None for every other cell."""
    line = _LINE.match(cell["source"]) if cell["cell_type"] == "code" else None
    if line is None:
        return None
    found = _SESSION.search(line["options"])
    return found["name"] if found else ""


def is_kin_kernel(nb: Any) -> bool:
    """Whether every cell of the notebook is a prompt: its kernel is `kin`, or one of `kin-nb kernel install --name kin-...`."""
    spec = nb["metadata"].get("kernelspec")
    name = spec.get("name") if isinstance(spec, dict) else None
    return isinstance(name, str) and (name == "kin" or name.startswith("kin-"))


def place_turns(nb: Any, turns: Sequence[TurnRecord]) -> dict[int, int]:
    """Turn number -> index of the cell that asked it: by cell id, else by key in order. Turns without one are left out.

    Of several turns with one key the first goes to the first such cell, and so on; those left over were that last
    cell run again.
    """
    keys = [asked_key(nb, cell) for cell in nb["cells"]]
    ids = {
        cell["id"]: index
        for index, cell in enumerate(nb["cells"])
        if keys[index] is not None and isinstance(cell.get("id"), str)
    }
    placed = {turn.turn: ids[turn.cell_id] for turn in turns if turn.cell_id in ids}
    taken = set(placed.values())
    alike: defaultdict[str | None, list[int]] = defaultdict(list)
    rest: defaultdict[str, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        alike[key].append(index)
    for turn in turns:
        if turn.turn not in placed and turn.key in alike:
            rest[turn.key].append(turn.turn)
    for key, numbers in rest.items():
        free = [index for index in alike[key] if index not in taken] or alike[key][-1:]
        placed.update({number: free[min(n, len(free) - 1)] for n, number in enumerate(numbers)})
    for position, turn in enumerate(turns):
        if turn.turn in placed:
            for follower in turns_of_cell(turns, position):
                placed.setdefault(follower.turn, placed[turn.turn])
    return placed
