"""What someone wrote into a session notebook itself: a save from elsewhere keeps it, or writes nothing."""

from __future__ import annotations

import json
import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.core.records import RecordedStep
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.recorder import TurnRecorder
from kin_nb.replay.commands.merge import merge
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.user_cells import KEY, user_cells
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import carried_of, recording, turn

TALK = recording(turn(1, "first", cell_id="p1"))
LONGER = recording(turn(1, "first", cell_id="p1"), turn(2, "second", cell_id="p2"))
FORMS = {"plain": SaveOptions(), "sidecar": SaveOptions(sidecar=True), "portable": SaveOptions(portable=True)}
HEADING = new_markdown_cell("# Checked by hand", id="note")


def live(*own, prompts=("first",)):
    """The notebook that someone works in: prompts, and ordinary cells after them."""
    asked = [new_code_cell(f"%%kin\n{prompt}", id=f"p{n}") for n, prompt in enumerate(prompts, 1)]
    return new_notebook(cells=[*asked, *own])


@pytest.fixture
def saved(tmp_path):
    """Saves a session as `%kin save` in the live notebook does."""

    def saved(source=None, talk=TALK, options=None, name="n.kin.ipynb"):
        nb = session_notebook(talk, source_nb=source if source is not None else live(), options=options)
        return write_notebook(nb, tmp_path / name)

    return saved


def edit(path, change):
    """As a front end does: what is in the file, changed and saved."""
    nb = json.loads(path.read_text())
    change(nb["cells"])
    path.write_text(json.dumps(nb))


def sources(path):
    return [cell["source"] for cell in load_notebook(path)["cells"]]


def test_cells_that_come_and_go_where_the_person_works_are_no_hindrance(saved):
    plot, heading = new_code_cell("plot()", id="plot"), new_markdown_cell("# Results", id="h")
    saved(live(plot, heading))
    saved(live(heading))
    path = saved(live(new_code_cell("plot(2)", id="plot"), prompts=("first", "second")), LONGER)
    saved(live(prompts=("first", "second")), LONGER)
    assert sources(path)[1:] == ["%%kin\nfirst", "%%kin\nsecond"]


@pytest.mark.parametrize("form", FORMS)
def test_a_cell_that_was_added_to_the_session_notebook_is_not_dropped_by_the_next_save(saved, form):
    path = saved(options=FORMS[form])
    edit(path, lambda cells: cells.insert(1, dict(HEADING)))
    edit(path, lambda cells: cells.append(dict(new_code_cell("assert total == 3", id="check"))))
    before = path.read_bytes()
    with pytest.raises(RecordingError) as refused:
        saved(live(prompts=("first", "second")), LONGER, FORMS[form])
    assert str(refused.value) == (
        "Not saved: 2 cells that you wrote in n.kin.ipynb would be lost. The first: # Checked by hand\n"
        "Choose another name; or copy them to the notebook that you save from, or remove them from n.kin.ipynb."
    )
    assert path.read_bytes() == before


def test_a_cell_that_was_changed_there_is_named_by_its_new_text(saved):
    path = saved(live(new_code_cell("x = 1", id="x")))
    edit(path, lambda cells: cells[-1].update(source=["x = 2\n", "y = 3"]))
    with pytest.raises(RecordingError, match=r"(?s)1 cell that you wrote in .* It is: x = 2 ⏎ y = 3\nChoose"):
        saved(live(new_code_cell("x = 1", id="x")))


def test_a_cell_that_was_copied_to_the_live_notebook_is_that_ones_from_then_on(saved):
    path = saved()
    edit(path, lambda cells: cells.append(dict(HEADING)))
    saved(live(new_markdown_cell("# Checked by hand", id="copied")))
    saved(live())
    assert sources(path)[1:] == ["%%kin\nfirst"]


@pytest.mark.parametrize("own", [new_code_cell("x = 2", id="x"), new_markdown_cell("# Checked", id="x")])
def test_a_cell_that_was_changed_to_the_same_in_both_is_the_live_ones_from_then_on_whatever_its_id(saved, own):
    path = saved(live(new_code_cell("x = 1", id="x")))
    edit(path, lambda cells: cells.__setitem__(-1, dict(own)))
    saved(live(own))
    assert user_cells(load_notebook(path)) == []
    saved(live(new_code_cell("x = 3", id="x")))
    assert sources(path)[-1] == "x = 3"


def test_a_cell_of_its_own_stays_its_own_when_it_is_written_again_from_itself(saved):
    path = saved()
    edit(path, lambda cells: cells.append(dict(HEADING)))
    SaveCommand(str(path), path).run()
    assert [cell["id"] for cell in user_cells(load_notebook(path))] == ["note"]
    with pytest.raises(RecordingError, match="# Checked by hand"):
        saved()


@pytest.mark.parametrize(
    "spoil",
    {
        "no ids": lambda cell: cell.pop("id"),
        "one id twice": lambda cell: cell.update(id="note"),
        "none that is valid": lambda cell: cell.update(id="two words"),
    }.items(),
    ids=lambda case: case[0],
)
def test_it_stays_its_own_whatever_becomes_of_its_id(saved, spoil):
    path = saved(live(new_code_cell("x = 1", id="x")))
    edit(path, lambda cells: cells.extend([dict(HEADING), dict(new_code_cell("y = 1", id="y"))]))
    edit(path, lambda cells: [spoil[1](cell) for cell in cells])
    SaveCommand(str(path), path).run()
    assert [cell["source"] for cell in user_cells(load_notebook(path))] == ["# Checked by hand", "y = 1"]
    with pytest.raises(RecordingError, match="2 cells that you wrote in"):
        saved(live(new_code_cell("x = 1", id="x")))


def test_it_stays_its_own_when_the_log_is_written_there(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    log = SessionLog("abc-1")
    header = {"format": 1, "model": "m", "commit": None, "system_prompt": "b" * 64, "tools": "c" * 64}
    log.append("session", **header, session="abc-1", workspace=str(tmp_path))
    recorder = TurnRecorder(log, str, turn(1, "first", cell_id="p1", steps=()))
    recorder.reply(RecordedStep(content="Answer 1."))
    recorder.end("done")
    log.close()
    path = tmp_path / "n.kin.ipynb"
    SaveCommand("abc-1", path).run()
    edit(path, lambda cells: cells.append(dict(HEADING)))
    SaveCommand("abc-1", path).run()
    assert [cell["source"] for cell in user_cells(load_notebook(path))] == ["# Checked by hand"]


def test_it_stays_its_own_when_the_notebook_is_written_over_itself_by_another_name(saved, tmp_path):
    path = saved()
    edit(path, lambda cells: cells.append(dict(HEADING)))
    (tmp_path / "link.ipynb").symlink_to(path)
    SaveCommand(str(tmp_path / "link.ipynb"), path).run()
    assert [cell["source"] for cell in user_cells(load_notebook(path))] == ["# Checked by hand"]


def test_a_flow_that_was_asked_on_a_line_is_the_prompt_that_saving_makes_of_it(saved):
    path = saved()
    more = recording(*TALK.turns, turn(2, "/flow:mend again", cell_id="q"))
    card = new_output("display_data", {"text/plain": "x"}, metadata=carried_of(more, more.turns[1]))
    edit(path, lambda cells: cells.append(dict(new_code_cell("%kin flow:mend again", id="q", outputs=[card]))))
    SaveCommand(str(path), path).run()
    assert sources(path)[1:] == ["%%kin\nfirst", "%%kin\n/flow:mend again"]
    edit(path, lambda cells: cells[-1].update(source="%kin  /flow:mend again "))
    saved(live(prompts=("first", "/flow:mend again")), more)
    assert user_cells(load_notebook(path)) == []


@pytest.mark.parametrize("by_name", [False, True])
def test_a_draft_in_the_notebook_that_is_written_again_from_itself_is_for_its_author_to_run_or_to_undo(saved, by_name):
    path = saved(name="n.kin.ipynb")
    edit(path, lambda cells: cells[-1].update(source="%%kin\nfirst, better"))
    command = SaveCommand(str(path), path if by_name else None)
    with pytest.raises(RecordingError) as refused:
        command.run()
    assert str(refused.value) == (
        "Not saved: 1 cell that you wrote in n.kin.ipynb would be lost. It is: %%kin ⏎ first, better\n"
        "Choose another name; or run it, or restore its text, or remove it where nothing was recorded."
    )


def test_what_is_redacted_from_it_is_not_lost(saved):
    path = saved()
    note = new_markdown_cell("ACME and ACME: checked, see ACME", id="note")
    edit(path, lambda cells: cells.append(dict(note)))
    SaveCommand(str(path), path, SaveOptions(redact=(re.compile("ACME"),))).run()
    assert sources(path)[-1] == "[redacted] and [redacted]: checked, see [redacted]"
    other = live(new_markdown_cell("[redacted] and more: checked, see ACME", id="x"))
    assert len(user_cells(load_notebook(path))) == 1
    with pytest.raises(RecordingError, match="1 cell that you wrote in"):
        saved(other)


def test_what_was_redacted_when_it_was_brought_there_is_not_taken_for_a_cell_of_its_own(saved):
    path = saved(live(new_code_cell("[redacted]", id="x")))
    edit(path, lambda cells: cells.append(dict(new_code_cell("y = 1", id="y"))))
    SaveCommand(str(path), path).run()
    assert [cell["source"] for cell in user_cells(load_notebook(path))] == ["y = 1"]


@pytest.mark.parametrize(
    "change",
    {
        "empty cells": lambda cells: cells.append(dict(new_code_cell(" \n", id="empty"))),
        "blanks at line ends": lambda cells: cells[-1].update(source="x = 'é'  \r\ny = 2\n\n"),
        "decomposed characters": lambda cells: cells[-1].update(source="x = 'e\u0301'\ny = 2"),
        "another order": lambda cells: cells.reverse(),
        "outputs and tags": lambda cells: cells[-1].update(metadata={"tags": ["a"]}, execution_count=9),
        "commands": lambda cells: cells.append(dict(new_code_cell("%kin cost\n%kin last", id="c"))),
        "what saving makes": lambda cells: cells.append(dict(new_code_cell("%kin undo 1", id="u"))),
        "copies": lambda cells: cells.append({**cells[-1], "id": "copy"}),
    }.items(),
    ids=lambda case: case[0],
)
def test_what_says_nothing_new_does_not_count(saved, change):
    source = live(new_code_cell("x = 'é'\ny = 2", id="x"))
    path = saved(source)
    edit(path, change[1])
    assert user_cells(load_notebook(path)) == []
    saved(live())
    assert sources(path)[1:] == ["%%kin\nfirst"]


@pytest.mark.parametrize("marks", [None, 5, [7, {}]])
def test_a_notebook_that_does_not_say_is_replaced_as_before_and_says_so_from_then_on(saved, marks):
    path = saved(live(new_code_cell("x = 1", id="x")))
    nb = json.loads(path.read_text())
    del nb["metadata"]["kin"][KEY]
    if marks is not None:
        nb["metadata"]["kin"][KEY] = marks
    path.write_text(json.dumps(nb))
    if isinstance(marks, list):
        with pytest.raises(RecordingError, match="It is: x = 1"):
            saved()
        return
    saved()
    edit(path, lambda cells: cells.append(dict(HEADING)))
    with pytest.raises(RecordingError, match="# Checked by hand"):
        saved()


def test_whether_a_cell_was_written_there_does_not_count_in_the_digest(saved):
    first, second = saved(name="1.ipynb"), saved(live(HEADING), name="2.ipynb")
    one, other = (load_notebook(path)["metadata"]["kin"] for path in (first, second))
    assert one[KEY] != other[KEY]
    assert one["digest"] == other["digest"]
    edit(first, lambda cells: cells.append(dict(HEADING)))
    assert read_recording(load_notebook(first)) == read_recording(load_notebook(second))


def test_writing_does_not_change_the_value_that_is_written(tmp_path):
    nb = session_notebook(TALK, source_nb=live())
    write_notebook(nb, tmp_path / "n.ipynb")
    assert KEY not in nb["metadata"]["kin"]


def test_an_executed_copy_knows_what_was_written_into_its_original(saved, tmp_path):
    path = saved()
    edit(path, lambda cells: cells.append(dict(HEADING)))
    copy = write_notebook(as_node(load_notebook(path)), tmp_path / "copy.ipynb")
    assert len(user_cells(load_notebook(copy))) == 1


def test_after_a_merge_what_only_one_side_had_is_not_dropped_by_the_other(saved, tmp_path):
    base, a = saved(name="base.ipynb"), saved(name="a.ipynb")
    b = saved(live(new_code_cell("theirs()", id="t"), prompts=("first", "second")), LONGER, name="b.ipynb")
    assert merge(base, a, b, a, force=True) == 0
    assert "theirs()" in sources(a)
    with pytest.raises(RecordingError, match=r"(?s)1 cell that you wrote in .*: theirs\(\)\n"):
        saved(live(prompts=("first", "second")), LONGER, name="a.ipynb")
    assert [cell["source"] for cell in user_cells(load_notebook(a))] == ["%%kin\nsecond", "theirs()"]
    assert load_notebook(tmp_path / "a.ipynb")["metadata"]["kin"][KEY]


def test_after_a_merge_a_save_that_has_all_of_it_makes_it_the_live_notebooks(saved):
    mine, theirs = new_code_cell("x = 1", id="x"), new_code_cell("theirs()", id="t")
    prompts = ("first", "second")
    base, b = saved(name="base.ipynb"), saved(live(theirs), name="b.ipynb")
    a = saved(live(mine, prompts=prompts), LONGER, name="a.ipynb")
    assert merge(base, a, b, a, force=True) == 0
    saved(live(mine, theirs, prompts=prompts), LONGER, name="a.ipynb")
    saved(live(new_code_cell("x = 2", id="x"), prompts=prompts), LONGER, name="a.ipynb")
    assert sources(a)[-1] == "x = 2"
