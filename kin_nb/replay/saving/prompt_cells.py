"""Assign each record to a cell when a notebook is saved: a cell with the text that was asked.

Also writes the first code cell, which loads kin_nb and names the recording.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from kin_nb.core.commands import escaped
from kin_nb.core.records import SessionRecord, TurnRecord
from kin_nb.replay.binding_cells import IGNORE_OUTPUT_TAG
from kin_nb.replay.book import sort_records
from kin_nb.replay.cell_keys import (
    cell_key,
    cell_runs,
    command_key,
    command_source,
    conversation_key,
    flow_key,
    last_run,
    map_records_to_cells,
    prompt_key,
    session_name,
)
from kin_nb.replay.format.notebook_codec import raw_records
from kin_nb.replay.format.notebook_reader import is_cell_id
from kin_nb.replay.format.output_records import backed_up_records, raw_output_records
from kin_nb.replay.format.storage import is_recording_cell, recording_cell_source
from kin_nb.replay.recording import Recording

_HEAD = re.compile(r"\s*(%(re)?load_ext[ \t]+kin_nb|%kin[ \t]+replay\b.*)\s*")
_REPLAY = re.compile(r"%kin[ \t]+replay\b")
_GREETING = re.compile(
    r"^(?:The kin_nb extension is already loaded\. To reload it, use:\n  %reload_ext kin_nb"
    r"|Last session here: [^\n]{1,80}\. To continue it: %kin resume)\n",
    re.MULTILINE,
)
"""The output of `%load_ext kin_nb` in a fresh kernel, and when it is already loaded."""
_BETWEEN = (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


def put_bootstrap_cell(nb: Any, recording: Recording, *, portable: bool) -> Any:
    """Write the first code cell, which loads kin_nb and names the recording. Earlier cells and lines for that are removed.

    The cell that shows what is played: this one or, `portable`, the one after it, which will hold the recording.
    """
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    cells = nb["cells"]
    for cell in cells:
        if cell["cell_type"] == "code" and prompt_key(nb, cell) is None and not is_bootstrap(cell["source"]):
            _take_lines_out(cell)
    first = next((n for n, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    heads = [
        cell
        for cell in cells
        if is_recording_cell(cell) or (cell["cell_type"] == "code" and is_bootstrap(cell["source"]))
    ]
    head = heads[0] if heads and not is_recording_cell(heads[0]) else new_code_cell("", id="kin-replay")
    if head["metadata"].get("tags") == [IGNORE_OUTPUT_TAG]:
        del head["metadata"]["tags"]  # what it shows is known from here on
    head["source"] = "%load_ext kin_nb" if portable else f"%load_ext kin_nb\n%kin replay {recording.name}"
    if portable:
        head["outputs"] = []  # the cell after it shows what is played
    nb["cells"] = [cell for cell in cells if all(cell is not old for old in heads)]
    nb["cells"].insert(first, head)
    if not portable:
        return head
    holder = new_code_cell(recording_cell_source(recording.name), id="kin-recording")
    holder["metadata"]["jupyter"] = {"source_hidden": True}
    nb["cells"].insert(first + 1, holder)
    return holder


def is_bootstrap(source: str) -> bool:
    lines = [line for line in source.splitlines() if line.strip()]
    return bool(lines) and all(_HEAD.fullmatch(line) for line in lines)


def without_bootstrap_lines(source: str) -> str:
    """Return the user's lines of a cell, without those that load kin_nb or name an older recording."""
    lines = source.split("\n")
    ours = _head_lines(lines)
    return "\n".join(line for n, line in enumerate(lines) if n not in ours).strip("\n") if ours else source


def _take_lines_out(cell: Any) -> None:
    """Reduce a cell to `without_bootstrap_lines`, and remove their outputs."""
    lines = cell["source"].split("\n")
    ours = _head_lines(lines)
    if not ours:
        return
    cell["source"] = without_bootstrap_lines(cell["source"])
    played = sum(_REPLAY.match(lines[n]) is not None for n in ours)
    shown = [output for output in cell["outputs"] if _is_notice(output)][:played]
    rest = [output for output in cell["outputs"] if all(output is not notice for notice in shown)]
    cell["outputs"] = [output for output in rest if output["output_type"] != "stream" or _is_more_than_greeting(output)]


def _head_lines(lines: Sequence[str]) -> frozenset[int]:
    """Return the bootstrap lines that run: not those in a string, in another magic's body, or in a block."""
    found = frozenset(n for n, line in enumerate(lines) if line[:1] == "%" and _HEAD.fullmatch(line))
    magic = next((line for line in lines if line.strip()), "").startswith("%%")
    return found & _statements(lines) if found and not magic else frozenset()


def _statements(lines: Sequence[str]) -> set[int]:
    """Return the unindented lines that begin a statement, as far as the cell, with `pass` for magics, is valid Python."""
    code = "".join(("pass" if line[:1] in ("%", "!") else line) + "\n" for line in lines)
    found, depth, before = set(), 0, tokenize.NEWLINE
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(StringIO(code).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
            if token.type == tokenize.NAME and token.start[1] == depth == 0 and before in _BETWEEN:
                found.add(token.start[0] - 1)
            before = token.type
    return found


def _is_notice(output: Any) -> bool:
    kin = output.get("metadata", {}).get("kin")
    return isinstance(kin, dict) and kin.get("kind") == "notice"


def _is_more_than_greeting(output: Any) -> bool:
    """Remove the message of loading kin_nb from a stream; return whether anything is left."""
    output["text"], greetings = _GREETING.subn("", output["text"])
    return bool(output["text"] or not greetings)


_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class PlacedRecords:
    """A recording, and the records of each cell, by cell id."""

    recording: Recording
    by_cell: Mapping[str, tuple[SessionRecord, ...]]

    def of(self, cell: Any) -> tuple[SessionRecord, ...]:
        return self.by_cell.get(cell["id"], ())

    def shown(self, nb: Any, cell: Any) -> tuple[SessionRecord, ...]:
        """Return the records that `cell` shows."""
        key = conversation_key(nb, cell)
        return last_run(self.of(cell), key) if key is not None else ()

    def by_index(self, nb: Any) -> dict[int, tuple[SessionRecord, ...]]:
        return {n: self.of(cell) for n, cell in enumerate(nb["cells"]) if self.of(cell)}


def assign_records(nb: Any, recording: Recording, *, rename: bool = False) -> PlacedRecords:
    """Assign each record of `recording` to a cell of `nb`: the one that holds or made it, or a new one. All cells have ids.

    A cell whose text was changed since it was answered gets back the text that was answered. `rename`: the ids of the cells are
    not those of the page, so each gets the id that its records name.
    """
    held = _held(nb, recording)
    if rename:
        held = _renamed(nb, held)
    changed: dict[str, SessionRecord] = {}
    known = {record.id for records in held.values() for record in records}
    for run in cell_runs([record for record in recording.records if record.id not in known]):
        source, asked = _cell_for(nb, run, recording.session_names.get(run[0].id, ""))
        changed |= {record.id: record for record in asked}
        cell = code_cell(source, unused_id(nb, run[-1].cell_id or _name_of(run)))
        nb["cells"].append(cell)
        held[cell["id"]] = asked
    for cell in nb["cells"]:
        records, key = held.get(cell["id"], ()), conversation_key(nb, cell)
        if key is not None and records and not last_run(records, key):
            run = next(reversed(list(cell_runs(records))))
            cell["source"], asked = _cell_for(nb, run, _session_of(run, cell, recording))
            changed |= {record.id: record for record in asked}
    now = [changed.get(record.id, record) for record in recording.records]
    by_id = {record.id: record for record in now}
    by_cell = {name: tuple(by_id[record.id] for record in records) for name, records in held.items()}
    return PlacedRecords(replace(recording, records=tuple(now), saved_shas=None), by_cell)


def _renamed(nb: Any, held: Mapping[str, tuple[SessionRecord, ...]]) -> dict[str, tuple[SessionRecord, ...]]:
    found = {}
    for cell in nb["cells"]:
        records = held.get(cell["id"], ())
        if records and is_cell_id(records[-1].cell_id):
            cell["id"] = unused_id(nb, str(records[-1].cell_id)) if records[-1].cell_id != cell["id"] else cell["id"]
        if records:
            found[cell["id"]] = records
    return found


def _held(nb: Any, recording: Recording) -> dict[str, tuple[SessionRecord, ...]]:
    """Return by cell id the records in its metadata and outputs, and those that name it as their cell."""
    by_id = {record.id: record for record in recording.records}
    found: dict[str, dict[str, SessionRecord]] = {}
    homes = {cell["id"] for cell in nb["cells"] if cell["cell_type"] == "code" and not _makes_way(cell)}

    def hold(cell_id: Any, raw: Any) -> None:
        record = by_id.get(str(raw.get("id"))) if isinstance(raw, dict) else None
        if record is not None and cell_id in homes:
            found.setdefault(cell_id, {})[record.id] = record

    for index, raw in raw_records(nb):
        hold(nb["cells"][index]["id"], raw)
    for cell in nb["cells"]:
        for carried in raw_output_records(cell):
            hold(cell["id"], carried.get("record"))
    for each in backed_up_records(nb):
        hold(each["cell"], each["carried"].get("record"))
    known = {record_id for records in found.values() for record_id in records}
    rest = [record for record in recording.records if record.id not in known]
    _place(nb, rest, found)
    return {cell_id: sort_records(records.values()) for cell_id, records in found.items()}


def _place(nb: Any, rest: Sequence[SessionRecord], found: dict[str, dict[str, SessionRecord]]) -> None:
    """Add `rest`, records that no cell holds, to `found`: cell id -> its records.

    What a cell made that is not here any more does not go to one that shows an answer of its own: it would show another one.
    """
    answered = {cell["id"] for cell in nb["cells"] if _shows_own(nb, cell, found.get(cell["id"], {}))}
    for record in rest:
        if record.cell_id in answered:
            found[str(record.cell_id)][record.id] = record
    left = [record for record in rest if record.cell_id not in answered]
    named = all(record.cell_id is not None for record in left)
    cells = [cell for cell in nb["cells"] if not named or cell["id"] not in answered]
    placed = map_records_to_cells({"metadata": nb["metadata"], "cells": cells}, left)
    for record in left:
        if record.id in placed:
            found.setdefault(cells[placed[record.id]]["id"], {})[record.id] = record


def _shows_own(nb: Any, cell: Any, held: Mapping[str, SessionRecord]) -> bool:
    key = conversation_key(nb, cell)
    return key is not None and bool(last_run(sort_records(held.values()), key))


def _makes_way(cell: Any) -> bool:
    """Whether a bootstrap or recording cell will replace this cell, so that its records need another one."""
    return is_recording_cell(cell) or is_bootstrap(cell["source"])


def _session_of(run: Sequence[SessionRecord], cell: Any, recording: Recording) -> str:
    """Return the name of the session of `run`, which `cell` held before its text changed; "" for the notebook's own."""
    turn = next((record for record in run if isinstance(record, TurnRecord)), None)
    if turn is not None and turn.key == cell_key(escaped(turn.prompt), ""):
        return ""
    return recording.session_names.get(run[0].id, session_name(cell) or "")


def _cell_for(nb: Any, run: Sequence[SessionRecord], session: str) -> tuple[str, tuple[SessionRecord, ...]]:
    """Return the source of a new cell for `run`, and `run` with that cell's keys."""
    turn = next((record for record in run if isinstance(record, TurnRecord)), None)
    if turn is None:
        source = command_source(run[0], session)
        return source, (
            run[0].model_copy(update={"key": command_key(source.split(None, 1 if not session else 3)[-1])}),
        )
    source, key = prompt_cell_source(nb, turn, session)
    turns = [record for record in run if isinstance(record, TurnRecord)]
    keys = {each.id: flow_key(key, n) if n else key for n, each in enumerate(turns)}
    return source, tuple(record.model_copy(update={"key": keys.get(record.id, key)}) for record in run)


def prompt_cell_source(nb: Any, turn: TurnRecord, session: str = "") -> tuple[str, str]:
    """Return the source of a cell that asks the prompt of `turn`, and its key."""
    prompt = escaped(turn.prompt)
    # in a notebook of the Kin kernel a prompt is a cell as it is, unless it looks like a magic
    plain = not session and prompt_key(nb, {"cell_type": "code", "source": prompt}) == cell_key(prompt, "")
    options = f"--session {session}" if session else ""
    return (prompt if plain else f"%%kin{' ' * bool(options)}{options}\n{prompt}"), cell_key(prompt, options)


def code_cell(source: str, cell_id: str) -> Any:
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    # an id that a record names may be none; duplicates are renamed at the end
    known = cell_id if is_cell_id(cell_id) else "cell"
    return new_code_cell(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", source), id=known)


def unused_id(nb: Any, wanted: str) -> str:
    """Return a cell id that no cell of `nb` has: `wanted`, or a similar one."""
    used = {cell["id"] for cell in nb["cells"] if isinstance(cell.get("id"), str)}
    name = wanted if is_cell_id(wanted) else "cell"
    return name if name not in used else next(i for n in range(len(used) + 1) if (i := f"{name[:56]}-{n}") not in used)


def ensure_ids(nb: Any) -> None:
    """Give every cell a unique id (nbformat 4.5). Existing ids are kept."""
    used: set[str] = set()
    for n, cell in enumerate(nb["cells"], 1):
        wanted = cell.get("id")
        if not is_cell_id(wanted):
            wanted = f"cell-{n}"
        cell["id"] = (
            wanted if wanted not in used else next(i for k in range(n + 1) if (i := f"cell-{n}-{k}") not in used)
        )
        used.add(cell["id"])


def _name_of(run: Sequence[SessionRecord]) -> str:
    turn = next((record for record in run if isinstance(record, TurnRecord)), None)
    return f"turn-{turn.turn}" if turn is not None else f"{run[0].type}-{run[0].seq}"


def unanswered_cells(nb: Any, held: Mapping[int, Iterable[SessionRecord]]) -> list[int]:
    """Return the numbers, from 1, of prompt and command cells without a record for their text: a replay stops there."""
    found = []
    for index, cell in enumerate(nb["cells"]):
        key = conversation_key(nb, cell)
        if key is not None and not last_run(tuple(held.get(index, ())), key):
            found.append(index + 1)
    return found


def describe_unanswered(nb: Any, held: Mapping[int, Iterable[SessionRecord]]) -> str:
    """Describe the unanswered cells of a saved notebook; "" if it has none."""
    found = unanswered_cells(nb, held)
    which = f"Cell {found[0]} has" if len(found) == 1 else f"Cells {', '.join(map(str, found))} have"
    return (
        f"{which} no saved answer, so a replay stops there. Run or remove {'it' if len(found) == 1 else 'them'}, and save again."
        if found
        else ""
    )
