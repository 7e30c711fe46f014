"""A front end that does not tell its kernel which file the notebook is in: what is recorded there cannot be looked up."""

from __future__ import annotations

import pytest

from kin_nb.replay.commands.save import SaveCommand
from tests.notebook.in_process_page import InProcessPage, prompts_sent, shown

NOT_LOOKED_UP = "Saved answers cannot be shown: the kernel does not know this notebook's file"

ADVICE = (
    "To show them, restart the kernel and run `%env JPY_SESSION_NAME=NAME.ipynb` above the first prompt, or open a copy "
    "written by `%kin save --portable`."
)


@pytest.fixture
def unknown(page: InProcessPage) -> InProcessPage:
    """One answer, which the file holds; the kernel is new."""
    page.answered("%%kin\nHello.", "Hi.")
    page.save()
    page.restart(named=False)
    return page


def notices(page: InProcessPage) -> list[str]:
    return [text for cell in page.cells for text in shown(cell) if text.startswith("Saved answers cannot")]


def test_the_first_answer_says_so_once_and_what_to_do(unknown, model_server):
    model_server.enqueue("Hi again.")
    assert unknown.run(unknown.cells[0]) == ""
    first, *answer = shown(unknown.cells[0])
    assert first == f"{NOT_LOOKED_UP}\n  {ADVICE}"
    assert answer[0] == "Hi again."
    unknown.answered("%%kin\nMore.", "More.")
    unknown.answered("%%kin --session side\nMore.", "More.")
    assert notices(unknown) == [first]


def test_what_it_advises_helps(unknown, model_server):
    """`%env` sets the variable for the cells below it; here it is set for all of them."""
    assert unknown.run_all(JPY_SESSION_NAME="talk.ipynb") == [""]
    assert "Hi." in shown(unknown.cells[0])
    assert len(model_server.requests) == 1


def test_nothing_is_reported_where_the_file_is_known(page):
    page.answered("%%kin\nHello.", "Hi.")
    assert notices(page) == []


@pytest.mark.parametrize("record", ["all", "new"])
def test_nothing_is_reported_where_all_prompts_are_to_be_asked(unknown, model_server, record):
    model_server.enqueue("Hi again.")
    assert unknown.run(unknown.cells[0], KIN_RECORD=record) == ""
    assert bool(notices(unknown)) == (record == "new")


def test_nothing_is_reported_where_no_one_reads_along(unknown, model_server):
    model_server.enqueue("Hi again.")
    assert unknown.run(unknown.cells[0], cell_id=False) == ""
    assert shown(unknown.cells[0])[0] == "Hi again."


def test_nothing_is_reported_below_a_recording_that_was_found(unknown, model_server):
    SaveCommand(str(unknown.file)).run()
    unknown.open(unknown.file.with_name("talk.kin.ipynb"))
    unknown.restart(named=False)
    assert set(unknown.run_all()) == {""}
    unknown.answered("%%kin\nMore.", "More.")
    assert notices(unknown) == []
    assert prompts_sent(model_server) == ["Hello.", "More."]


def test_a_prompt_that_could_not_be_asked_does_not_use_it_up(unknown, model_server):
    config = (unknown.home / "kin" / "config.toml").read_text()
    (unknown.home / "kin" / "config.toml").write_text("")
    assert "No key" in unknown.run(unknown.cells[0])
    assert notices(unknown) == []
    (unknown.home / "kin" / "config.toml").write_text(config)
    model_server.enqueue("Hi again.")
    assert unknown.run(unknown.cells[0]) == ""
    assert len(notices(unknown)) == 1
