"""`%kin save` while the page holds more than the notebook's file, which is all that a kernel sees."""

from __future__ import annotations

import os

import pytest
from notebook_client import LiveKernel
from page import Page

from kin_nb.replay.format.notebook_reader import load_notebook

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

COUNTING = "print(6 * 7)"


@pytest.fixture
def page(kin: LiveKernel, opens, model_server, tmp_path) -> Page:
    model_server.enqueue("Hi.")
    page = Page(kin, tmp_path / "n.ipynb")
    opens(page.path)
    page.save()
    page.add("%%kin\nSay hi.")
    page.add(COUNTING)
    return page


def test_cells_that_the_file_does_not_have_yet_are_counted(page):
    said = page.command("%kin save")
    assert "2 cells ran since n.ipynb was last saved" in said
    assert "n.ipynb has no cell for 1 of the prompts, so they are at the end" in said
    assert "save the notebook (Ctrl-S) and run `%kin save` again" in said


def test_once_the_file_is_written_nothing_is_reported_and_all_is_there(page, tmp_path):
    page.command("%kin save")
    page.save()
    said = page.command("%kin save")
    assert "Saved" in said
    assert "Ctrl-S" not in said
    saved = load_notebook(tmp_path / "n.kin.ipynb")
    assert saved["cells"][2]["source"] == COUNTING
    assert saved["cells"][2]["outputs"][0]["text"] == ["42\n"]


def test_a_cell_that_is_run_again_shows_something_else_than_the_file(page):
    page.save()
    page.add(COUNTING)
    said = page.command("%kin save")
    assert (
        "1 cell ran since n.ipynb was last saved: the session notebook is made from that file, without it or with what it showed"
        in said
    )


def test_prompts_alone_are_whole_whatever_the_file_shows_of_them(page, model_server):
    """Their outputs are made of the recording."""
    model_server.enqueue("Hi again.")
    page.type("%%kin\nSay it again.")
    page.save()
    page.kin.done(page.kin.run("%%kin\nSay it again.", cell=page.cells[-1]["id"]))
    assert "Ctrl-S" not in page.command("%kin save")


def test_a_prompt_whose_cell_was_deleted_stands_at_the_end_and_no_advice_is_given(page):
    del page.cells[0]
    page.save()
    said = page.command("%kin save")
    assert "n.ipynb has no cell for 1 of the prompts, so they are at the end" in said
    assert "Ctrl-S" not in said


def test_a_prompt_that_was_edited_since_is_counted(page, model_server):
    page.save()
    model_server.enqueue("Ho.")
    page.kin.done(page.kin.run("%%kin\nSay ho.", cell=page.cells[0]["id"]))
    assert "1 cell ran since n.ipynb was last saved" in page.command("%kin save")


def test_a_file_that_another_clock_dates_is_written_all_the_same(page):
    """A server elsewhere: what counts is that the file is another than when the cell ended."""
    page.save()
    os.utime(page.path, (1, 1))
    assert "Ctrl-S" not in page.command("%kin save")
    page.add("x = 1")
    assert "1 cell ran since n.ipynb was last saved" in page.command("%kin save")
