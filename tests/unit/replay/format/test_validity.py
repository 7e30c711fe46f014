"""A notebook that is a little odd, as a script or another front end wrote it, works; one that is none is refused by its place."""

from __future__ import annotations

import json
import warnings

import nbformat
import pytest

from kin_nb.replay.errors import UnreadableNotebookError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, check_valid, load_notebook, normalize
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn

SESSION = recording(turn(1, "one"), turn(2, "two"))
BOTH_KINDS = [
    {"output_type": "execute_result", "data": {"text/plain": ["1", "\n2"]}},
    {"output_type": "display_data", "data": {}},
]


def plain(**changes):
    """A notebook's JSON with a code cell of a person's own after the session's."""
    nb = json.loads(json.dumps(session_notebook(SESSION)))
    own = {
        "cell_type": "code",
        "id": "own",
        "metadata": {},
        "source": ["x\n", "y"],
        "outputs": [],
        "execution_count": 9,
    }
    nb["cells"].append(own | changes)
    return nb


@pytest.fixture
def read(tmp_path):
    """What is read from such JSON: a node."""

    def read(nb):
        path = tmp_path / "n.ipynb"
        path.write_text(json.dumps(nb))
        return as_node(load_notebook(path), path.name)

    return read


# What works


def each(change):
    def change_all(nb):
        for number, cell in enumerate(nb["cells"]):
            change(number, cell)

    return change_all


def without_ids(minor):
    def change(nb):
        each(lambda _, cell: cell.pop("id"))(nb)
        nb["nbformat_minor"] = minor

    return change


ODD = {
    "no counts": each(lambda _, cell: cell.pop("execution_count", None)),
    "no outputs": each(lambda _, cell: cell.pop("outputs", None)),
    "outputs without metadata": lambda nb: nb["cells"][-1].update(outputs=BOTH_KINDS),
    "ids that are none": each(lambda n, cell: cell.update(id=[5, None, "a b", "", "x" * 65][n % 5])),
    **{f"nbformat 4.{minor}": without_ids(minor) for minor in range(6)},
    "nbformat 4.4 with ids": lambda nb: nb.update(nbformat_minor=4),
    "nbformat 4.0 with a float": lambda nb: nb.update(nbformat_minor=0.0),
    "a later nbformat": lambda nb: nb.update(nbformat_minor=99, later={}),
    "a later cell": lambda nb: (nb.update(nbformat_minor=99), nb["cells"][-1].update(cell_type="later")),
    "no minor version": lambda nb: nb.pop("nbformat_minor"),
    "a minor version that is none": lambda nb: nb.update(nbformat_minor="x"),
    "a minor version without end": lambda nb: nb.update(nbformat_minor=1e300),
    "metadata of other programs": lambda nb: (
        nb["metadata"].update(later=[{}], widgets="x", vscode={"a": 1}),
        nb["cells"][-1]["metadata"].update({"collapsed": True, "scrolled": "auto", "vscode": {}, "deletable": False}),
    ),
    "lone surrogates": lambda nb: nb["cells"][-1].update(source='"\ud800"'),
}


@each_row("what", ODD)
def test_what_is_odd_and_clear_is_read_as_nbformat_takes_it(what, read):
    nb = plain()
    ODD[what](nb)
    node = read(nb)
    assert read_recording(node) == SESSION
    assert node["cells"][-1]["source"] in ("x\ny", '"\ud800"')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nbformat.warnings.MissingIDFieldWarning)  # nbformat gives them ids itself
        nbformat.validate(node)


@each_row("what", ODD)
def test_what_is_odd_and_clear_is_saved_as_a_notebook_of_today(what, read, tmp_path):
    nb = plain()
    ODD[what](nb)
    path = write_notebook(session_notebook(SESSION, source_nb=read(nb)), tmp_path / "saved.ipynb")
    saved = json.loads(path.read_text())
    assert (saved["nbformat"], saved["nbformat_minor"]) == (4, 99 if "later" in what else 5)
    assert saved.get("later") == nb.get("later")
    assert read_recording(load_notebook(path)) == SESSION


def test_what_is_put_in_says_that_nothing_is_known(read):
    nb = plain(outputs=BOTH_KINDS)
    del nb["cells"][-1]["execution_count"]
    own = read(nb)["cells"][-1]
    assert own["execution_count"] is None
    assert [output["metadata"] for output in own["outputs"]] == [{}, {}]
    assert own["outputs"][0]["execution_count"] is None
    assert own["outputs"][0]["data"] == {"text/plain": "1\n2"}


def test_ids_that_are_some_stay(read):
    assert read(plain())["cells"][-1]["id"] == "own"


# What is refused

CELL = 4
NO_NOTEBOOK = {
    "an output that is none": (plain(outputs=[{}]), f"cell {CELL}, outputs.1: its type is unknown"),
    "an output of another kind": (
        plain(outputs=[{"output_type": "x"}]),
        f"cell {CELL}, outputs.1: its type is unknown",
    ),
    "an output without data": (
        plain(outputs=[{"output_type": "display_data"}]),
        f"cell {CELL}, outputs.1: 'data' is a required property",
    ),
    "a stream without text": (
        plain(outputs=[{"output_type": "stream", "name": "stdout"}]),
        f"cell {CELL}, outputs.1: 'text' is a required property",
    ),
    "tags": (plain(metadata={"tags": 5}), f"cell {CELL}, metadata.tags: 5 is not of type 'array'"),
    "a count": (plain(execution_count="x"), f"cell {CELL}, execution_count: "),
    "another key": (plain(zzz=1), f"cell {CELL}: Additional properties are not allowed ('zzz' was unexpected)"),
    "a key that a terminal obeys": (plain(**{"\x1b[2J" * 99: 1}), f"cell {CELL}: Additional properties"),
    "another type of cell": (plain(cell_type="sql"), f"cell {CELL}: its type is unknown"),
    "an attachment": (
        {**plain(), "cells": [{"cell_type": "markdown", "metadata": {}, "source": "", "attachments": "x"}]},
        "cell 1, attachments: 'x' is not of type 'object'",
    ),
    "the kernel": ({**plain(), "metadata": {"kernelspec": "x"}}, "metadata.kernelspec: 'x' is not of type 'object'"),
    "the language": ({**plain(), "metadata": {"language_info": "x"}}, "metadata.language_info: 'x' is not of type"),
    "a key of the notebook": ({**plain(), "zzz": 1}, ": Additional properties are not allowed ('zzz' was unexpected)"),
}


@each_row("what", NO_NOTEBOOK)
def test_what_is_no_notebook_is_refused_by_its_place(what, read):
    nb, said = NO_NOTEBOOK[what]
    with pytest.raises(UnreadableNotebookError, match=r"(?s)^n\.ipynb is not a valid notebook: .*restore") as caught:
        read(nb)
    text = str(caught.value)
    assert said in text
    assert all(map(str.isprintable, text.splitlines()))
    assert len(text) < 400


def test_a_conflict_that_a_merge_left_in_an_id_is_for_who_reads_the_recording(read):
    assert read(plain(id={"local_id": "a"}))["cells"][-1]["id"] == {"local_id": "a"}


def test_what_front_ends_leave_in_outputs_and_metadata_is_put_right():
    output = {"output_type": "stream", "name": "stdout", "text": "x", "metadata": {"tags": None}, "transient": {}}
    cell = {"cell_type": "code", "source": "", "metadata": {}, "outputs": [output], "execution_count": None}
    metadata = {"kernelspec": {"name": "python3"}, "language_info": {"version": "3"}}
    nb = {"nbformat": 4, "nbformat_minor": 4, "metadata": metadata, "cells": [cell]}
    normalize(nb)
    check_valid(nb, "a.ipynb")
    assert nb["metadata"] == {"kernelspec": {"name": "python3", "display_name": "python3"}}
    assert cell["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "x"}]
