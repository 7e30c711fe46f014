"""Records whose notebook does not say which session they are of: what is written names one all the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format import output_records as carrying
from kin_nb.replay.format.notebook_reader import load_notebook
from tests.notebook.conversation_model import copy_of
from tests.notebook.in_process_page import InProcessPage, prompts_sent, shown

SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def sessions_in(path: Path) -> set[str]:
    """All that a notebook names, in its metadata, in outputs and in its first cell."""
    nb = load_notebook(path)
    carried = [each for cell in nb["cells"] for each in carrying.raw_output_records(cell)]
    heads = [re.search(r"%kin replay ([\w-]+)@", cell["source"]) for cell in nb["cells"]]
    kin = nb["metadata"].get("kin", {})
    named = [
        kin.get("session"),
        *(each["session"]["session"] for each in carried),
        *(head and head[1] for head in heads),
    ]
    return set(named) - {None}


@pytest.fixture
def pasted(page: InProcessPage) -> InProcessPage:
    """A saved cell in a notebook in which nothing else is recorded, with a new kernel."""
    page.answered("%%kin\nHello.", "Hi.")
    page.save()
    page.command("%kin save")
    page.open(page.file.with_name("talk.kin.ipynb"))
    cell = copy_of(page.cells[-1])
    page.cells, page.metadata = [], {}
    page.type("x = 1")
    page.cells.append(cell)
    page.file = page.file.with_name("other.ipynb")
    page.save()
    page.restart()
    return page


def test_it_is_saved_with_a_session_of_its_own_each_time_the_same(pasted):
    assert pasted.run_all() == ["", ""]
    pasted.save()
    assert pasted.command("%kin save").startswith("Saved ")
    (in_kernel,) = sessions_in(pasted.file.with_name("other.kin.ipynb"))
    SaveCommand(str(pasted.file), pasted.file.with_name("out.ipynb")).run()
    assert sessions_in(pasted.file.with_name("out.ipynb")) == {in_kernel}
    assert SESSION.fullmatch(in_kernel)
    pasted.open(pasted.file.with_name("other.kin.ipynb"))
    assert set(pasted.run_all()) == {""}
    assert shown(pasted.cells[-1])[0] == "Hi."


def test_a_cell_that_was_typed_again_carries_it_too(pasted):
    again = pasted.type("%%kin\nHello.")
    assert pasted.run_all() == ["", "", ""]
    pasted.save()
    (named,) = sessions_in(pasted.file)
    assert SESSION.fullmatch(named)
    assert "Hi." in shown(again)


def test_the_session_that_a_replay_cell_names_counts(pasted):
    pasted.type("%kin replay my-own-session@0123456789ab", at=0)
    pasted.save()
    SaveCommand(str(pasted.file), pasted.file.with_name("out.ipynb")).run()
    assert sessions_in(pasted.file.with_name("out.ipynb")) == {"my-own-session"}


def test_once_it_is_continued_the_session_that_did_that_counts(pasted, model_server):
    pasted.answered("%%kin\nAnd?", "And so on.")
    assert prompts_sent(model_server) == ["Hello.", "And?"]
    pasted.save()
    (live,) = sessions_in(pasted.file)
    pasted.command("%kin save")
    assert sessions_in(pasted.file.with_name("other.kin.ipynb")) == {live}


def test_one_that_was_edited_is_named_without_a_session(pasted):
    pasted.cells[-1]["metadata"]["kin"]["records"][0]["prompt"] = "Other."
    pasted.save()
    pasted.restart()
    assert pasted.run(pasted.cells[-1]).partition(" from the session log: ")[2].startswith("kin-nb save SESSION")


def test_what_no_output_can_carry_is_saved_with_its_session(page, monkeypatch):
    """It is larger than an output may be, and another session than the notebook's own."""
    monkeypatch.setattr(carrying, "MAX_CHARACTERS", 10)
    page.answered("%%kin --session side\nHello.", "Hi.")
    page.save()
    assert page.command("%kin save").startswith("Saved ")
    (log,) = (page.home / "kin" / "sessions").glob("*/log.jsonl")
    logged = json.loads(log.read_text().partition("\n")[0])["session"]
    assert sessions_in(page.file.with_name("talk.kin.ipynb")) == {logged}
