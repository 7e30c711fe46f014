"""What outputs carry is in the first cell's output too, for cells that lose theirs."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kin_nb.replay.format import kept
from kin_nb.replay.format.carrying import KEY, carried_in
from kin_nb.replay.format.kept import KEPT, keeping, restored

CARRIED = {"session": {"session": "live"}, "record": {"type": "turn", "turn": 3}}


@pytest.fixture
def nb():
    """The first cell has run, and keeps what the second one carries."""
    second = new_code_cell("%%kin\nAsk.", id="b", outputs=[new_output("display_data", {}, metadata={KEY: CARRIED})])
    nb = new_notebook(cells=[new_code_cell("%kin replay x@y", id="a"), second])
    nb["cells"][0]["outputs"] = [new_output("display_data", {}, metadata=keeping(nb))]
    return nb


def test_a_cell_that_lost_its_outputs_has_what_they_carried(nb):
    assert restored(nb) == nb
    nb["cells"][1]["outputs"] = []
    assert list(carried_in(restored(nb)["cells"][1])) == [CARRIED]
    assert nb["cells"][1]["outputs"] == []
    assert keeping(restored(nb)) == nb["cells"][0]["outputs"][0]["metadata"]


def test_an_edited_cell_has_it_too_since_its_text_may_be_as_it_was_on_the_page_and_code_has_not(nb):
    nb["cells"][1].update(outputs=[], source="%%kin\nAsk else.")
    assert list(carried_in(restored(nb)["cells"][1])) == [CARRIED]
    nb["cells"][1]["source"] = "print(1)"
    assert restored(nb)["cells"] == nb["cells"]
    nb["metadata"]["kernelspec"] = {"name": "kin"}
    assert list(carried_in(restored(nb)["cells"][1])) == [CARRIED]


def test_what_a_deleted_cell_carried_goes(nb):
    del nb["cells"][1]
    assert keeping(restored(nb)) == {}


def test_what_is_too_much_is_not_kept(nb, monkeypatch):
    monkeypatch.setattr(kept, "MAX_CHARACTERS", 50)
    assert keeping(nb) == {}


@pytest.mark.parametrize(
    "claimed",
    [
        None,
        1,
        "x",
        {},
        [None, 1, [], {}],
        [{"cell": 1, "carried": {}}],
        [{"cell": "b", "carried": []}],
        [{"cell": "b"}],
    ],
)
def test_what_anybody_may_have_written_there_is_no_more_than_nothing(nb, claimed):
    nb["cells"][0]["outputs"][0]["metadata"] = {KEPT: claimed}
    nb["cells"][1]["outputs"] = []
    assert restored(nb)["cells"] == nb["cells"]
    assert keeping(restored(nb)) == {}


def test_what_the_notebook_carried_when_it_was_read_before_counts_where_it_keeps_nothing(nb):
    emptied = new_notebook(cells=[new_code_cell(cell["source"], id=cell["id"]) for cell in nb["cells"]])
    assert list(carried_in(restored(emptied, nb)["cells"][1])) == [CARRIED]
    assert restored(nb, emptied) == nb


def test_an_id_that_is_none_is_nobodys(nb):
    nb["cells"][1].update(outputs=[], id=["b"])
    assert list(carried_in(restored(nb)["cells"][1])) == []
