"""Which cells of a notebook that was lived in a saved one keeps."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.user_cells import drop_commands, drop_unplayable
from tests.table import each_row
from tests.unit.replay.sessions import carried_of, recording, turn, undo


@each_row(
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
    assert drop_unplayable(nb, recording(turn(1, "a"))) == []
    assert [cell["source"] for cell in nb["cells"]] == [source] * kept


def test_what_undid_stays_below_the_text_that_introduces_it():
    first = turn(1, "a", cell_id="c0")
    undone = undo(first, cell_id="c1")
    told = recording(first, undone, turn(3, "b", cell_id="c2"))
    cells = ["%%kin\na", "%kin undo", "%%kin\nb"]
    nb = new_notebook(cells=[new_code_cell(source, id=f"c{n}") for n, source in enumerate(cells)])
    nb["cells"].insert(1, new_markdown_cell("Not so.", id="text"))
    assert drop_unplayable(nb, told) == []
    saved = session_notebook(told, source_nb=nb)
    assert [cell["source"] for cell in saved["cells"][1:]] == ["%%kin\na", "Not so.", "%kin undo", "%%kin\nb"]


def carrying(source, *records):
    outputs = [new_output("display_data", {"text/plain": "x"}, metadata=carried_of(TALK, each)) for each in records]
    return new_code_cell(source, id="c", outputs=outputs)


FIRST = turn(1, "a", cell_id="c")
UNDONE = undo(FIRST, cell_id="c")
TALK = recording(FIRST, UNDONE)


@each_row(
    ("cell", "kept"),
    [
        (carrying("%kin undo", UNDONE), True),
        (carrying("%kin undo"), True),
        (carrying("%%kin\nedited since", FIRST), True),
        (new_code_cell("%kin undo 3", id="other"), False),
        (new_code_cell("%%kin\nnever asked", id="other"), False),
    ],
    ids=["it carries what it did", "it did it", "a prompt that was edited", "an undo that did nothing", "a draft"],
)
def test_a_cell_that_holds_a_record_or_made_one_stays_and_no_other_that_speaks_to_the_agent(cell, kept):
    nb = new_notebook(cells=[cell])
    said = drop_unplayable(nb, TALK)
    assert len(nb["cells"]) == kept
    assert said == ["Left out: 1 prompt without a recorded answer."] * (cell["source"] == "%%kin\nnever asked")


def test_prompts_that_went_are_counted_without_commands():
    sources = ["%%kin\na", "%%kin\ndraft 1", "%kin mode plan", "%%kin\ndraft 2", "x = 1"]
    nb = new_notebook(cells=[new_code_cell(source, id=f"c{n}") for n, source in enumerate(sources)])
    told = recording(turn(1, "a", cell_id="c0"))
    assert drop_unplayable(nb, told) == ["Left out: 2 prompts without a recorded answer."]
    assert [cell["source"] for cell in nb["cells"]] == ["%%kin\na", "x = 1"]


def test_commands_go_and_those_that_moved_the_conversation_stay():
    nb = new_notebook(cells=[new_code_cell("%kin cost", id="cost"), carrying("%kin undo", UNDONE)])
    assert drop_commands(nb, TALK) == 1
    assert [cell["source"] for cell in nb["cells"]] == ["%kin undo"]


@pytest.mark.parametrize(
    "source", ["%kin a" + " %kin" * 10_000 + "\nx", "%kin a\n\n" * 5_000 + "x", "\n" * 50_000 + "x"]
)
def test_a_long_cell_is_kept(source):
    nb = new_notebook(cells=[new_code_cell(source, id="c")])
    drop_unplayable(nb, recording(turn(1, "a")))
    assert [cell["source"] for cell in nb["cells"]] == [source]
