"""The notebook as the model reads it, and the one cell that it may propose."""

from __future__ import annotations

import json

import pytest

from kin_nb.core.tool_types import ToolError
from kin_nb.notebook.namespace.notebook_cells import cells_above


class Kernel:
    """As much of ipykernel's as `cell_io` asks for."""

    implementation = "ipython"

    def __init__(self, cell_id: str) -> None:
        self._parent = {"metadata": {"cellId": cell_id}}

    def get_parent(self, channel: str) -> dict:
        return self._parent


def cell(cell_id: str, source: str, **more) -> dict:
    return {
        "id": cell_id,
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "execution_count": 1,
        "outputs": [],
        **more,
    }


@pytest.fixture
def notebook(shell, tmp_path, monkeypatch):
    """work.ipynb with cells a, b, c; the cell that runs is c."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "work.ipynb"))
    output = {"output_type": "stream", "name": "stdout", "text": ["o" * 700]}
    text = {"cell_type": "markdown", "id": "b", "source": "# Title", "metadata": {}}
    cells = [cell("a", "print('o' * 700)", outputs=[output]), text, cell("c", "%%kin\nGo."), cell("d", "below = 1")]
    path = tmp_path / "work.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    shell.kernel = Kernel("c")
    return path


def test_the_cells_above_come_from_the_notebooks_file_with_outputs_cut(notebook, told):
    text = told("notebook", action="read")
    assert text.startswith("[from work.ipynb as it was last saved]\n[cell 1: code]\nprint('o' * 700)\n[output]\n")
    assert "[cell 2: markdown]\n# Title" in text
    assert "o" * 500 in text
    assert "o" * 501 not in text
    assert "200 characters left out" in text
    assert "%%kin" not in text
    assert "below" not in text


def test_last_says_how_many_and_what_is_left_out_is_reported(notebook, told):
    text = told("notebook", action="read", last=1)
    assert "[1 cell before these]\n[cell 2: markdown]" in text
    assert "[cell 1" not in text


@pytest.mark.parametrize("which", [1, "1", "a"])
def test_one_cell_by_number_or_id(notebook, told, which):
    text = told("notebook", action="read", cell=which)
    assert "[cell 1: code]" in text
    assert "[cell 2" not in text


def test_a_cell_that_is_not_there_is_an_error_that_says_which_are(notebook, told):
    with pytest.raises(ToolError, match="There is no cell 9 above this one; they are 1 to 2"):
        told("notebook", action="read", cell=9)


@pytest.mark.parametrize("content", ["{ half", None, json.dumps({"nbformat": 4, "metadata": {}, "cells": []})])
def test_where_the_file_does_not_help_they_are_what_this_kernel_ran(shell, notebook, told, content):
    notebook.write_text(content) if content is not None else notebook.unlink()
    shell.history_manager.input_hist_raw[:] = ["", "x = 1", "x + 1", "%%kin\nGo."]
    shell.execution_count = 3
    text = told("notebook", action="read")
    assert text.startswith("[as this kernel ran them, in that order, without outputs]\n[cell 1: code]\nx = 1\n")
    assert "x + 1" in text
    assert "%%kin" not in text


def test_in_a_terminal_they_are_what_was_typed(shell, in_turn):
    shell.history_manager.input_hist_raw[:] = ["", "x = 1", "%kin go"]
    shell.execution_count = 2
    assert [found["source"] for found in cells_above(shell).cells] == ["x = 1"]


def test_a_new_cell_is_put_below_and_further_code_is_added_to_it(shell, told):
    """Whatever an insert said to be in the cell is in it: there is one cell for each cell that runs."""
    assert "a new cell with this code is below this one" in told("notebook", action="insert", code="df.head()\n")
    assert shell.rl_next_input == "df.head()\n"
    for code in ("df.tail()", "df"):
        assert "this code was added at the end of it" in told("notebook", action="insert", code=code)
    assert shell.rl_next_input == "df.head()\n\ndf.tail()\n\ndf"
    shell.execution_count += 1
    assert "a new cell" in told("notebook", action="insert", code="df")
    assert shell.rl_next_input == "df"


@pytest.mark.parametrize(("first", "second"), [("x = 1", "%%time\nslow()"), ("%%bash\nls", "x = 1")])
def test_code_with_a_cell_magic_is_not_added_and_the_cell_stays(shell, told, first, second):
    told("notebook", action="insert", code=first)
    with pytest.raises(ToolError, match=r"Nothing was added: .* a cell magic \(%%\) must be alone"):
        told("notebook", action="insert", code=second)
    assert shell.rl_next_input == first


def test_in_the_kin_kernel_the_new_cell_says_that_it_is_python(shell, told):
    shell.kernel = Kernel("c")
    shell.kernel.implementation = "kin"
    told("notebook", action="insert", code="df.head()")
    assert shell.rl_next_input == "%%python\ndf.head()"
    told("notebook", action="insert", code="df.tail()")
    assert shell.rl_next_input == "%%python\ndf.head()\n\ndf.tail()"
    shell.execution_count += 1
    told("notebook", action="insert", code="%%time\nslow()")
    assert shell.rl_next_input == "%%time\nslow()"


def test_nothing_to_insert_is_an_error(told):
    with pytest.raises(ToolError, match="insert needs code"):
        told("notebook", action="insert", code="  ")
