"""Which cells of a notebook that was lived in a saved one keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.core.session.records import Place, UndoRecord
from kin_nb.replay.saving.live_cells import keep_what_plays
from kin_nb.replay.saving.making import session_notebook
from tests.unit.replay.sessions import recording, turn


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("%kin live", False),
        ("%kin mode plan\n\n  %kin %kin save x.ipynb\n", False),
        ("%kin save a %kin replay x@0\n", False),
        ("%kin --session x mode plan\n%kin --session=x undo", False),
        ("%kin live\nx = 1", True),
        ("%kin live\n%kin replay x@0", True),
        ("%kin replay x@0\n%kin live", True),
    ],
)
def test_a_cell_of_commands_alone_goes(source, kept):
    nb = new_notebook(cells=[new_code_cell(source, id="c")])
    assert keep_what_plays(nb, recording(turn(1, "a"))) == []
    assert [cell["source"] for cell in nb["cells"]] == [source] * kept


def test_what_undid_stays_below_the_text_that_introduces_it():
    undo = UndoRecord(at=1, turns=(1,), to=Place(turn=0))
    told = replace(recording(turn(1, "a"), turn(2, "b")), undos=(undo,))
    cells = ["%%kin\na", "%kin undo", "%%kin\nb"]
    nb = new_notebook(cells=[new_code_cell(source, id=f"c{n}") for n, source in enumerate(cells)])
    nb["cells"].insert(1, new_markdown_cell("Not so.", id="text"))
    assert keep_what_plays(nb, told) == []
    saved = session_notebook(told, source_nb=nb)
    assert [cell["source"] for cell in saved["cells"][1:]] == ["%%kin\na", "Not so.", "%kin undo 1", "%%kin\nb"]


@pytest.mark.parametrize(
    "source", ["%kin a" + " %kin" * 10_000 + "\nx", "%kin a\n\n" * 5_000 + "x", "\n" * 50_000 + "x"]
)
def test_a_long_cell_is_kept(source):
    nb = new_notebook(cells=[new_code_cell(source, id="c")])
    keep_what_plays(nb, recording(turn(1, "a")))
    assert [cell["source"] for cell in nb["cells"]] == [source]
