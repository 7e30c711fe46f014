"""The first code cell of a session notebook: it loads kin_nb and names the recording."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

from kin_nb.replay.cells.bound import IGNORED
from kin_nb.replay.cells.placing import asked_key
from kin_nb.replay.format.embedded import embedding_source, is_embedding
from kin_nb.replay.recording import Recording

_HEAD = re.compile(r"\s*(%(re)?load_ext[ \t]+kin_nb|%kin[ \t]+replay\b.*)\s*")
_REPLAY = re.compile(r"%kin[ \t]+replay\b")
_GREETING = re.compile(
    r"^(?:The kin_nb extension is already loaded\. To reload it, use:\n  %reload_ext kin_nb"
    r"|Session of [^\n]{1,80}: %kin resume goes on with it\.)\n",
    re.MULTILINE,
)
"""What `%load_ext kin_nb` prints where it was loaded before, and in a fresh kernel."""
_BETWEEN = (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)


def put_head(nb: Any, recording: Recording, *, portable: bool) -> Any:
    """Make the first code cell load kin_nb and name the recording, in place of the cells, and lines, that did so before.

    The cell that shows what is played: this one or, `portable`, the one after it, which will hold the recording.
    """
    from nbformat.v4 import new_code_cell  # noqa: PLC0415  (first use)

    cells = nb["cells"]
    for cell in cells:
        if cell["cell_type"] == "code" and asked_key(nb, cell) is None and not is_head(cell["source"]):
            _take_lines_out(cell)
    first = next((n for n, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    heads = [cell for cell in cells if is_embedding(cell) or (cell["cell_type"] == "code" and is_head(cell["source"]))]
    head = heads[0] if heads and not is_embedding(heads[0]) else new_code_cell("", id="kin-replay")
    if head["metadata"].get("tags") == [IGNORED]:
        del head["metadata"]["tags"]  # what it shows is known from here on
    head["source"] = "%load_ext kin_nb" if portable else f"%load_ext kin_nb\n%kin replay {recording.name}"
    if portable:
        head["outputs"] = []  # the cell after it shows what is played
    nb["cells"] = [cell for cell in cells if all(cell is not old for old in heads)]
    nb["cells"].insert(first, head)
    if not portable:
        return head
    holder = new_code_cell(embedding_source(recording.name), id="kin-recording")
    holder["metadata"]["jupyter"] = {"source_hidden": True}
    nb["cells"].insert(first + 1, holder)
    return holder


def is_head(source: str) -> bool:
    lines = [line for line in source.splitlines() if line.strip()]
    return bool(lines) and all(_HEAD.fullmatch(line) for line in lines)


def without_head(source: str) -> str:
    """The lines of a cell that are somebody's own: an older recording is not to be played, nor kin_nb loaded twice."""
    lines = source.split("\n")
    ours = _head_lines(lines)
    return "\n".join(line for n, line in enumerate(lines) if n not in ours).strip("\n") if ours else source


def _take_lines_out(cell: Any) -> None:
    """Leave of a cell `without_head`, and of its outputs what these lines showed."""
    lines = cell["source"].split("\n")
    ours = _head_lines(lines)
    if not ours:
        return
    cell["source"] = without_head(cell["source"])
    played = sum(_REPLAY.match(lines[n]) is not None for n in ours)
    shown = [output for output in cell["outputs"] if _is_notice(output)][:played]
    rest = [output for output in cell["outputs"] if all(output is not notice for notice in shown)]
    cell["outputs"] = [output for output in rest if output["output_type"] != "stream" or _is_more_than_greeting(output)]


def _head_lines(lines: Sequence[str]) -> frozenset[int]:
    """Those that are run as such: not within a text, another magic's body, or a block, which could be empty without it."""
    found = frozenset(n for n, line in enumerate(lines) if line[:1] == "%" and _HEAD.fullmatch(line))
    magic = next((line for line in lines if line.strip()), "").startswith("%%")
    return found & _statements(lines) if found and not magic else frozenset()


def _statements(lines: Sequence[str]) -> set[int]:
    """The unindented lines that begin a statement, with `pass` for magics; as far as it reads as Python."""
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
    """Takes out of a stream what loading kin_nb says there, and tells whether anything is left."""
    output["text"], greetings = _GREETING.subn("", output["text"])
    return bool(output["text"] or not greetings)
