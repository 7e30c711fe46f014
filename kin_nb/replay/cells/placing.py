"""What a cell of a notebook says to the agent, and to which session; and the cell that a record belongs to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kin_nb.core.commands import COMMANDS, escaped, is_command
from kin_nb.core.session.records import SessionRecord, TurnRecord
from kin_nb.replay.cells.matching import cell_key, command_key, normal_body, runs

_MAGIC = re.compile(r"\n*%%kin(?:[ \t]+(?P<options>[^\n]*))?(?:\n(?P<body>.*))?\Z", re.DOTALL)

_ASKING = "|".join(name for name, command in COMMANDS.items() if command.asks)
_ASKS = re.compile(rf"\s*%kin(?P<session>[ \t]+--session(?:=|[ \t]+)\S+)?[ \t]+/?(?P<prompt>(?:{_ASKING}):[^\n]*)\s*")
_MOVES = re.compile(
    r"\s*(?:%kin(?:[ \t]+--session(?:=|[ \t]+)\S+)?[ \t]+/?|%%kin(?:[ \t]+--session(?:=|[ \t]+)\S+)?[ \t]*\n\s*/|(?P<bare>/))"
    r"(?P<name>undo|redo|clear|compact)(?:(?<=undo)[ \t]+(?P<turns>\d{1,9}))?\s*"
)
_LINE = re.compile(r"\s*%%?kin\b(?P<options>[^\n]*)")
_SESSION = re.compile(r"(?:^|\s)--session[\s=]+(?P<name>\S+)")


def asked_key(nb: Any, cell: Any) -> str | None:
    """The key of a cell that asks the agent; None for every other, /commands too. In the Kin kernel cells without magic ask."""
    if cell["cell_type"] != "code":
        return None
    source = as_prompt(cell["source"])
    found = _MAGIC.match(source)
    if found:
        body = found["body"] or ""
        return None if is_command(normal_body(body)) else cell_key(body, found["options"] or "")
    text = source.lstrip()
    command = not text or text[0] in "%!?" or is_command(normal_body(text))
    return cell_key(source, "") if is_kin_kernel(nb) and not command else None


def as_prompt(source: str) -> str:
    """The text of a code cell, `%kin flow:NAME request` as the prompt that it is: it has a turn, and is played."""
    found = _ASKS.fullmatch(source)
    if found is None:
        return source
    options = " ".join((found["session"] or "").split())
    return f"%%kin{' ' * bool(options)}{options}\n/{found['prompt'].rstrip()}"


def moving_command(nb: Any, cell: Any) -> str | None:
    """What a cell does that only moves the conversation (`undo 2`, `redo`, `clear`, `compact`); None for every other cell."""
    found = _MOVES.fullmatch(cell["source"]) if cell["cell_type"] == "code" else None
    if found is None or (found["bare"] and not is_kin_kernel(nb)):
        return None
    return f"undo {int(found['turns'] or 1)}" if found["name"] == "undo" else found["name"]


def speaking_key(nb: Any, cell: Any) -> str | None:
    """The key of a cell that asks, or moves the conversation."""
    command = moving_command(nb, cell)
    return asked_key(nb, cell) if command is None else command_key(command)


def moving_source(record: SessionRecord, session: str = "") -> str:
    """A cell that does what `record`, which is no turn, did."""
    command = f"undo {max(1, len(record.turns))}" if record.type == "undo" else record.type
    return f"%kin --session {session} {command}" if session else f"%kin {command}"


def named_session(cell: Any) -> str | None:
    """The name of the session that a cell speaks to, "" for the notebook's own; None for every other cell."""
    line = _LINE.match(cell["source"]) if cell["cell_type"] == "code" else None
    if line is None:
        return None
    found = _SESSION.search(line["options"])
    return found["name"] if found else ""


def asked_with(cell: Any, record: SessionRecord) -> bool:
    """Whether a turn was asked with the options that the cell has, whatever the prompt below them is now."""
    found = _MAGIC.match(as_prompt(cell["source"])) if cell["cell_type"] == "code" else None
    options = (found["options"] or "") if found is not None else ""
    return isinstance(record, TurnRecord) and record.key == cell_key(escaped(record.prompt), options)


def is_kin_kernel(nb: Any) -> bool:
    """Whether every cell of the notebook is a prompt: its kernel is `kin`, or one of `kin-nb kernel install --name kin-...`."""
    spec = nb["metadata"].get("kernelspec")
    name = spec.get("name") if isinstance(spec, dict) else None
    return isinstance(name, str) and (name == "kin" or name.startswith("kin-"))


def place_records(nb: Any, records: Sequence[SessionRecord]) -> dict[str, int]:
    """Id -> index of the cell that each of `records`, in the order of `seq`, belongs to. What has no cell is left out.

    By the id of the cell that made it, where that still asks or moves the conversation; else by its key, in order: of several
    runs with one key the first goes to the first such cell, and so on; those left over were that last cell run again.
    """
    keys = [speaking_key(nb, cell) for cell in nb["cells"]]
    ids = {cell["id"]: n for n, cell in enumerate(nb["cells"]) if keys[n] is not None and cell.get("id")}
    found = list(runs(records))
    placed = {n: ids[run[0].cell_id] for n, run in enumerate(found) if run[0].cell_id in ids}
    taken = set(placed.values())
    alike: defaultdict[str | None, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        alike[key].append(index)
    for n, run in enumerate(found):
        cells = alike.get(run[0].key, []) if n not in placed else []
        if cells:
            placed[n] = next((index for index in cells if index not in taken), cells[-1])
            taken.add(placed[n])
    return {record.id: placed[n] for n, run in enumerate(found) if n in placed for record in run}
