"""`-p NAME VALUE`: what papermill would set, where papermill would set it."""

from __future__ import annotations

import math

import pytest
from nbformat import validate
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kin_nb.replay.runner.options import inject_parameters, is_name, parse_value
from tests.table import each_row

HEAD = "%load_ext kin_nb\n%kin replay a@0123456789ab"


def cell(source: str, *tags: str):
    return new_code_cell(source, metadata={"tags": list(tags)} if tags else {})


def sources(nb) -> list[str]:
    return [each["source"] for each in nb["cells"]]


@each_row(
    "text", ["True", "False", "None", "7", "-7", "1_000", "0.5", "1e3", "-.5", "x", "", "true", "7 apples", "0x10", "٣"]
)
def test_a_value_is_read_as_papermill_reads_it(text):
    resolve = pytest.importorskip("papermill.cli")._resolve_type
    mine, theirs = parse_value(text), resolve(text)
    assert (mine, type(mine)) == (theirs, type(theirs))


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_a_number_that_has_no_literal_is_still_that_number(text):
    nb = new_notebook(cells=[cell(HEAD)])
    inject_parameters(nb, [("x", text)])
    namespace = {}
    exec(sources(nb)[1], namespace)
    assert str(namespace["x"]) == text
    assert not math.isfinite(namespace["x"])


@each_row(
    ("cells", "at"),
    [
        ([cell(HEAD), cell("a"), cell("x = 1", "parameters"), cell("b")], 3),
        ([new_markdown_cell("Says %kin replay a@b"), cell(HEAD), cell("a")], 2),
        ([cell("%load_ext kin_nb"), cell("%%kin_recording a@0123456789ab\n{}"), cell("a")], 2),
        ([cell("a")], 0),
        ([], 0),
    ],
    ids=["after parameters", "after the head", "after what embeds the recording", "no head", "no cells"],
)
def test_the_cell_comes_after_the_parameters_else_after_the_head(cells, at):
    nb = new_notebook(cells=list(cells))
    inject_parameters(nb, [("x", "2"), ("name", 'Ada\'s "2"'), ("x", "3")])
    assert nb["cells"].pop(at)["source"] == "# Parameters\nx = 3\nname = 'Ada\\'s \"2\"'"
    assert nb["cells"] == cells


def test_what_was_injected_before_is_replaced():
    nb = new_notebook(cells=[cell("x = 1", "parameters"), cell("x = 2", "injected-parameters")])
    inject_parameters(nb, [("x", "4")])
    assert sources(nb) == ["x = 1", "# Parameters\nx = 4"]


def test_no_parameters_no_cell():
    nb = new_notebook(cells=[cell(HEAD)])
    inject_parameters(nb, [])
    assert sources(nb) == [HEAD]


def test_where_every_cell_is_a_prompt_this_one_is_python():
    nb = new_notebook(cells=[cell(HEAD)])
    nb["metadata"]["kernelspec"] = {"name": "kin"}
    inject_parameters(nb, [("x", "1")])
    assert sources(nb)[1] == "%%python\n# Parameters\nx = 1"


@pytest.mark.parametrize("minor", [4, 5])
def test_the_notebook_stays_valid_with_and_without_cell_ids(minor):
    nb = new_notebook(cells=[new_code_cell("a", id="injected-parameters")])
    nb["nbformat_minor"] = minor
    if minor < 5:
        del nb["cells"][0]["id"]
    inject_parameters(nb, [("x", "1")])
    validate(nb)


@each_row(("name", "fine"), [("x", True), ("größe", True), ("class", False), ("a b", False), ("1x", False)])
def test_only_what_a_cell_can_set_is_a_name(name, fine):
    assert is_name(name) is fine
