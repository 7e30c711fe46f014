"""The plain export: what a session did as ordinary cells, for where there is no kin_nb (docs/saving.md).

`apply_change` is the one function that it brings along: its source goes into a cell, so it needs nothing from here.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from kin_nb.core.records import TurnRecord
from kin_nb.replay.book import standing_steps
from kin_nb.replay.cells import RAISES, asked_key, is_bound_cell, is_kin_kernel, moving_command, tolerant
from kin_nb.replay.format.in_notebook import read_saved
from kin_nb.replay.format.taken_out import TAKEN_OUT
from kin_nb.replay.plain.calls import PlainCell, code_span, fenced, plain_call, plain_undone, safe_markdown
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.making import FAILED, Cell, session_notebook


def apply_change(path: str, patch: str) -> None:
    """Change the text file at `path` as a unified diff says; ValueError when the lines to change are not there."""
    import re  # noqa: PLC0415  (it travels alone)
    from pathlib import Path  # noqa: PLC0415

    file = Path(path)
    text = file.read_bytes().decode() if file.exists() else ""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    hunks = re.split(r"(?m)^@@ -(\d+)(?:,(\d+))? .*\n", patch)
    moved = 0
    for start, length, body in zip(hunks[1::3], hunks[2::3], hunks[3::3], strict=True):
        rows = re.findall(r"(?m)^([ +-]|(?=\n))(.*\n)(\\.*\n)?", body)
        old, new = ([row[: -1 if end else None] for mark, row, end in rows if mark in side] for side in (" -", " +"))
        at = int(start) - (length != "0") + moved
        if lines[at : at + len(old)] != old or (not old and lines):
            places = [n for n in range(len(lines)) if old and lines[n : n + len(old)] == old]
            if len(places) != 1:
                raise ValueError(f"{path}: not once in the file, so not changed:\n{''.join(old) or '(an empty file)'}")
            moved, at = moved + places[0] - at, places[0]
        lines[at : at + len(old)] = new
        moved += len(new) - len(old)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes("".join(lines).encode())


_OURS = re.compile(r"[ \t]*%(kin|(re)?load_ext[ \t]+kin_nb)\b")
_PROMPT = re.compile(r"\n*%%kin\b")
_PYTHON3 = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
_ABOUT = """\
**A session of an agent, without the agent.** This was exported from a session notebook of kin_nb, which it no longer needs:
what the agent ran and changed stands here as ordinary cells, its prompts and replies as text. Nobody has looked over these
cells for you: read them before you run them. They run once, from the top, with {where} as it was when the session began."""


def plain_notebook(recording: Recording, source_nb: Any = None, cells: Sequence[Cell] | None = None) -> Any:
    """The session as a notebook (NotebookNode) that needs no kin_nb: no records, no prompts that ask, no outputs of ours.

    `source_nb`: the notebook that holds it, or the `cells` that ran; its other cells stay. Turns that were undone are left
    out, with a note, but for their Python: undo does not bring variables back.
    """
    nb = session_notebook(recording, source_nb=source_nb, cells=cells)
    folder = _folder(recording)
    standing = standing_steps(recording)
    held = read_saved(nb).held
    taken = {cell["id"] for cell in nb["cells"]}
    ids = (name for n in count(1) if (name := f"plain-{n}") not in taken)
    plain: list[Any] = []
    for index, cell in enumerate(nb["cells"]):
        cell["metadata"].pop("kin", None)
        turns = [record for record in held.get(index, ()) if isinstance(record, TurnRecord)]
        if turns:
            made = [each for turn in turns for each in _turn(turn, standing.get(turn.id), folder)]
        elif is_bound_cell(nb, cell) or moving_command(nb, cell) is not None:
            continue
        else:
            made = list(_own(nb, cell))
            if made == [cell]:
                plain.append(cell)
                continue
        plain += [_cell(each, ids) for each in made]
    changes = any("apply_change(" in cell["source"] for cell in plain)
    nb["cells"] = [_cell(each, ids) for each in _head(folder, changes=changes)] + plain
    _drop_metadata(nb, source_nb)
    return nb


def _folder(recording: Recording) -> str:
    path = posixpath.normpath(recording.meta.workspace.path or ".")
    return "" if path == "." else f"./{path}" if path.startswith("-") else path


def _head(folder: str, *, changes: bool) -> Iterator[PlainCell]:
    where = f"the folder {code_span(folder)}" if folder else "the notebook's folder"
    yield PlainCell("markdown", _ABOUT.format(where=where))
    lines = []
    if folder:
        missing = f"{folder} is not here: the cells below work on its files. Run this notebook where it is."
        lines += ["from pathlib import Path\n", f"if not Path({folder!r}).is_dir():"]
        lines += [f"    raise FileNotFoundError({missing!r})"]
    if changes:
        source = re.sub(r"  # noqa[^\n]*", "", inspect.getsource(apply_change))
        lines += ["\n", source.rstrip()] if lines else [source.rstrip()]
    if lines:
        yield PlainCell("code", "\n".join(lines))


def _turn(turn: TurnRecord, standing: int | None, folder: str) -> Iterator[PlainCell]:
    """`standing`: how many of its steps were not undone; None: all of it was."""
    attached = f"\n\nAttached: {', '.join(map(code_span, turn.attached))}" if turn.attached else ""
    yield PlainCell("markdown", f"**Prompt {turn.turn}**\n\n{fenced(turn.prompt)}{attached}")
    stays = standing or 0
    for step in turn.steps[:stays]:
        if step.content.strip():
            yield PlainCell("markdown", safe_markdown(step.content))
        for call in step.calls:
            yield from plain_call(call, folder)
    if standing is None or stays < len(turn.steps):
        what = "It was undone" if standing is None else "The rest was undone"
        python = list(plain_undone([call for step in turn.steps[stays:] for call in step.calls], folder))
        why = "its Python stays, since undo does not bring variables back; all else" if python else "what the agent did"
        yield PlainCell("markdown", f"{what}: {why} is left out.")
        yield from python
    elif turn.outcome != "done":
        why = f": {code_span(turn.message)}" if turn.message else ""
        yield PlainCell("markdown", f"It ended as {turn.outcome}{why}.")


def _own(nb: Any, cell: Any) -> Iterator[Any]:
    """A cell of the person's: itself where it says nothing to us; else what stays of it."""
    source = cell["source"]
    if cell["cell_type"] != "code":
        yield cell
        return
    asked = asked_key(nb, cell) is not None
    if asked:
        text = _PROMPT.sub("", source, count=1).partition("\n")[2] if _PROMPT.match(source) else source
        yield PlainCell("markdown", f"**A prompt that was never run**\n\n{fenced(text)}")
        return
    if _PROMPT.match(source) or (is_kin_kernel(nb) and source.lstrip().startswith("/")):
        return  # it only told the session what to do
    lines = source.split("\n")
    if is_kin_kernel(nb) and lines[0].split() == ["%%python"]:
        lines = lines[1:]
    cell["outputs"] = [output for output in cell["outputs"] if "kin" not in (output.get("metadata") or {})]
    if any(output["output_type"] == "error" for output in cell["outputs"]):
        cell["metadata"]["tags"] = list(dict.fromkeys([*cell["metadata"].get("tags", []), RAISES]))
    if source.startswith("%%") or not any(_OURS.match(line) for line in lines):
        cell["source"] = "\n".join(lines)
        yield cell
    elif any(line.strip() for line in lines if not _OURS.match(line)):
        cell["source"] = "\n".join(f"# {line}" if _OURS.match(line) else line for line in lines)
        yield cell


def _cell(plain: PlainCell, ids: Iterator[str]) -> Any:
    from nbformat.v4 import new_code_cell, new_markdown_cell  # noqa: PLC0415  (first use)

    if plain.kind == "markdown":
        return new_markdown_cell(plain.source, id=next(ids))
    caught = tolerant(plain.source) if plain.fails else None
    tags = {"tags": [RAISES]} if plain.fails and caught is None else {}
    return new_code_cell(caught or plain.source, id=next(ids), metadata=tags)


def _drop_metadata(nb: Any, source_nb: Any) -> None:
    """As the person's notebook had it, without ours; a notebook of the Kin kernel is one of Python's now."""
    if is_kin_kernel(nb):
        nb["metadata"]["kernelspec"] = dict(_PYTHON3)
    nb["metadata"].pop("kin", None)
    for cell in nb["cells"]:
        tags = cell["metadata"].get("tags")
        if isinstance(tags, list):
            cell["metadata"]["tags"] = [tag for tag in tags if tag not in (FAILED, TAKEN_OUT)]
    theirs = source_nb["metadata"].get("jupytext") if source_nb is not None else None
    settings = {key: _without_us(value) for key, value in theirs.items()} if isinstance(theirs, dict) else {}
    nb["metadata"]["jupytext"] = {key: value for key, value in settings.items() if value}
    if not nb["metadata"]["jupytext"]:
        del nb["metadata"]["jupytext"]


def _without_us(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return ",".join(word for word in value.split(",") if word.strip() not in {"kin", "-kin"})
