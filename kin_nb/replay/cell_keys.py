"""The cells of a session notebook: which one asked which turn, which one undoes, and what the agent ran in the notebook.

A cell's key is what of its text counts when it is asked whether a record is its own; then what a cell says to the agent,
and to which session; then cells with the code that the agent ran: in playback nothing else binds what later cells use.
Never reads or writes a file. May import: replay's recording and errors; core's records; nbformat inside functions.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from kin_nb.core.commands import ALIASES, COMMANDS, escaped, is_command
from kin_nb.core.records import SessionRecord, TurnRecord, UndoRecord, sha256

_NBVAL = re.compile(r"[ \t]*#+[ \t]*NBVAL_")


def normalize_prompt(body: str) -> str:
    """The prompt as it counts: NFC, LF, no blanks at line ends, no `# NBVAL_` lines, no blank lines at the end."""
    text = unicodedata.normalize("NFC", body).replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n") if not _NBVAL.match(line)]
    return "\n".join(lines).rstrip("\n")


def cell_key(body: str, options: str) -> str:
    """sha256 hex of a cell's body and the options on its `%%kin` line (neither blanks between them nor `--cached` count)."""
    return sha256([normalize_prompt(body), " ".join(word for word in options.split() if word != "--cached")])


def flow_key(key: str, number: int) -> str:
    """The key of the turn that came `number` turns after the first one of a cell whose first has `key` (a flow)."""
    return sha256([key, number])


def command_key(command: str) -> str:
    """The key of a cell that gives a command which moves the conversation: `undo 2`, `redo`, `clear`, `compact`."""
    return sha256(["command", command])


def cell_runs(records: Sequence[SessionRecord]) -> Iterator[tuple[SessionRecord, ...]]:
    """`records`, in the order of their `seq`, by the runs of cells that made them.

    A run is a turn, with the undo that made room for it and the turns that followed it (a flow); or what a command did.
    """
    run: list[SessionRecord] = []
    for record in records:
        if run and not _is_of(run, record):
            yield tuple(run)
            run = []
        run.append(record)
    if run:
        yield tuple(run)


def last_run(records: Sequence[SessionRecord], key: str) -> tuple[SessionRecord, ...]:
    """Of a cell's `records` those that its last run with the text `key` made; empty where there are none."""
    found = [run for run in cell_runs(records) if key and run[0].key == key]
    return found[-1] if found else ()


def _is_of(run: Sequence[SessionRecord], record: SessionRecord) -> bool:
    if not isinstance(record, TurnRecord):
        return False
    first = run[0]
    if isinstance(first, UndoRecord) and len(run) == 1:
        return bool(first.key) and first.key == record.key and first.head == record.parent
    turns = [each for each in run if isinstance(each, TurnRecord)]
    return bool(turns) and record.key == flow_key(turns[0].key, len(turns))


def flow_turns(turns: Sequence[TurnRecord], position: int) -> Sequence[TurnRecord]:
    """The turn at `position`, and those after it that the same run of its cell made."""
    key, end = turns[position].key, position + 1
    while end < len(turns) and turns[end].key == flow_key(key, end - position):
        end += 1
    return turns[position:end]


def last_answer(
    standing: Sequence[TurnRecord], key: str, cell_id: str | None, *, edited: bool = False
) -> Sequence[TurnRecord]:
    """The turns that a cell made when it ran last, of a conversation as it is now; empty when there are none.

    A cell is known by its id and its text; with `edited`, by its id whatever its text is now. Without an id nothing is
    known: two cells may say the same. A turn that failed or was interrupted is not an answer: run again, it is asked again.
    """
    keys = [turn.key for turn in standing]
    found = [n for n, each in enumerate(standing) if cell_id and each.cell_id == cell_id and (edited or keys[n] == key)]
    begun = [n for n in found if not any(keys[n] == flow_key(keys[m], n - m) for m in range(n))]
    if not begun:
        return ()
    answer = flow_turns(standing, begun[-1])
    return answer if edited or is_answer(answer[-1]) else ()


def is_answer(turn: TurnRecord) -> bool:
    """Whether it came to its end: one that failed or was interrupted is asked again when its cell is run again."""
    return turn.outcome in {"done", "stopped"}


_MAGIC = re.compile(r"\n*%%kin(?:[ \t]+(?P<options>[^\n]*))?(?:\n(?P<body>.*))?\Z", re.DOTALL)

_ASKING = "|".join(name for name, command in COMMANDS.items() if command.asks)
_ASKS = re.compile(rf"\s*%kin(?P<session>[ \t]+--session(?:=|[ \t]+)\S+)?[ \t]+/?(?P<prompt>(?:{_ASKING}):[^\n]*)\s*")
_MOVES = re.compile(
    r"\s*(?:%kin(?:[ \t]+--session(?:=|[ \t]+)\S+)?[ \t]+/?|%%kin(?:[ \t]+--session(?:=|[ \t]+)\S+)?[ \t]*\n\s*/|(?P<bare>/))"
    r"(?P<name>undo|redo|clear|new|compact)(?:(?<=undo)[ \t]+(?P<turns>\d{1,9}))?\s*"
)
_LINE = re.compile(r"\s*%%?kin\b(?P<options>[^\n]*)")
_SESSION = re.compile(r"(?:^|\s)--session[\s=]+(?P<name>\S+)")


def prompt_key(nb: Any, cell: Any) -> str | None:
    """The key of a cell that asks the agent; None for every other, /commands too. In the Kin kernel cells without magic ask."""
    if cell["cell_type"] != "code":
        return None
    source = as_prompt_cell(cell["source"])
    found = _MAGIC.match(source)
    if found:
        body = found["body"] or ""
        return None if is_command(normalize_prompt(body)) else cell_key(body, found["options"] or "")
    text = source.lstrip()
    command = not text or text[0] in "%!?" or is_command(normalize_prompt(text))
    return cell_key(source, "") if is_kin_kernel(nb) and not command else None


def as_prompt_cell(source: str) -> str:
    """The text of a code cell, `%kin flow:NAME request` as the prompt that it is: it has a turn, and is played."""
    found = _ASKS.fullmatch(source)
    if found is None:
        return source
    options = " ".join((found["session"] or "").split())
    return f"%%kin{' ' * bool(options)}{options}\n/{found['prompt'].rstrip()}"


def conversation_command(nb: Any, cell: Any) -> str | None:
    """What a cell does that only moves the conversation (`undo 2`, `redo`, `clear`, `compact`); None for every other cell."""
    found = _MOVES.fullmatch(cell["source"]) if cell["cell_type"] == "code" else None
    if found is None or (found["bare"] and not is_kin_kernel(nb)):
        return None
    name = ALIASES.get(found["name"], found["name"])
    return f"undo {int(found['turns'] or 1)}" if name == "undo" else name


def conversation_key(nb: Any, cell: Any) -> str | None:
    """The key of a cell that asks, or moves the conversation."""
    command = conversation_command(nb, cell)
    return prompt_key(nb, cell) if command is None else command_key(command)


def command_source(record: SessionRecord, session: str = "") -> str:
    """Return the source of a cell that repeats `record`, which is not a turn."""
    command = f"undo {max(1, len(record.turns))}" if record.type == "undo" else record.type
    return f"%kin --session {session} {command}" if session else f"%kin {command}"


def session_name(cell: Any) -> str | None:
    """The name of the session that a cell speaks to, "" for the notebook's own; None for every other cell."""
    line = _LINE.match(cell["source"]) if cell["cell_type"] == "code" else None
    if line is None:
        return None
    found = _SESSION.search(line["options"])
    return found["name"] if found else ""


def matches_options(cell: Any, record: SessionRecord) -> bool:
    """Whether a turn was asked with the options that the cell has, whatever the prompt below them is now."""
    found = _MAGIC.match(as_prompt_cell(cell["source"])) if cell["cell_type"] == "code" else None
    options = (found["options"] or "") if found is not None else ""
    return isinstance(record, TurnRecord) and record.key == cell_key(escaped(record.prompt), options)


def is_kin_kernel(nb: Any) -> bool:
    """Whether every cell of the notebook is a prompt: its kernel is `kin`, or one of `kin-nb kernel install --name kin-...`."""
    spec = nb["metadata"].get("kernelspec")
    name = spec.get("name") if isinstance(spec, dict) else None
    return isinstance(name, str) and (name == "kin" or name.startswith("kin-"))


def map_records_to_cells(nb: Any, records: Sequence[SessionRecord]) -> dict[str, int]:
    """Id -> index of the cell that each of `records`, in the order of `seq`, belongs to. What has no cell is left out.

    By the id of the cell that made it, where that still asks or moves the conversation; else by its key, in order: of several
    runs with one key the first goes to the first such cell, and so on; those left over were that last cell run again.
    """
    keys = [conversation_key(nb, cell) for cell in nb["cells"]]
    ids = {cell["id"]: n for n, cell in enumerate(nb["cells"]) if keys[n] is not None and cell.get("id")}
    found = list(cell_runs(records))
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
