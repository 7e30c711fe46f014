"""Sessions of another name in a notebook that plays: each plays what it was answered, beside the notebook's own."""

from __future__ import annotations

import shutil

import pytest
from notebook_client import run
from page import prompts_sent

from kin_nb.cli import main
from tests.model_server import tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

SKILL = "---\nname: tidy\ndescription: tidies up\n---\nSweep.\n"


def test_a_session_of_another_name_plays_beside_it(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.save()
    assert main(["diff", str(page.path), str(page.path)]) == 0
    for lost in (False, True):
        if lost:  # Run All stopped at the cell above
            run(page.kin, "%unload_ext kin_nb")
            for cell in page.cells:
                cell["outputs"] = []
            for cell in page.cells[:3]:
                page.run(cell)
        page.save()
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Helper." in page.said
    assert len(model_server.requests) == 4
    model_server.enqueue("More help.")
    assert page.add("%%kin --session helper\nHelp more.") == "ok"
    assert "Playback left: session helper asks the model from here on" in page.said
    assert prompts_sent(model_server) == ["Help.", "Help more."]
    model_server.enqueue("Four.")
    page.add("%%kin\nSay four.")
    assert prompts_sent(model_server) == ["Say one.", "Add a note.", "Say four."]


def test_with_no_one_there_it_is_played_too(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.save()
    assert set(page.restart_and_run_all(person=False)) == {"ok"}
    assert "Helper." in page.said
    assert len(model_server.requests) == 4


@pytest.mark.parametrize("how", ["", " --retry", " --live"])
def test_the_first_prompt_to_another_session_is_that_sessions_and_this_one_plays_on(page, model_server, tmp_path, how):
    run(page.kin, "%unload_ext kin_nb")
    for cell in page.cells[:2]:
        assert page.run(cell) == "ok"
    model_server.enqueue("Helper.")
    assert page.add(f"%%kin --session helper{how}\nHelp.") == "ok"
    assert "Playback left" not in page.said
    assert prompts_sent(model_server) == ["Help."]
    assert page.run(page.cells[2]) == "ok"
    assert "Noted." in page.said
    assert len(model_server.requests) == 4
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_what_a_named_session_was_answered_stays_in_the_file_and_continues(page, model_server, tmp_path):
    for answer in ("Helper 1.", "Helper 2."):
        model_server.enqueue(answer)
    page.add("%%kin --session helper\nHelp.")
    page.add("%%kin --session helper\nHelp more.")
    for _ in range(2):
        page.save()
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Helper 2." in page.said
        shutil.rmtree(tmp_path / "kin-home" / "sessions", ignore_errors=True)
    assert len(model_server.requests) == 5
    model_server.enqueue("Helper 3.")
    page.add("%%kin --session helper\nOnce more.")
    assert prompts_sent(model_server) == ["Help.", "Help more.", "Once more."]


@pytest.mark.parametrize("command", ["mode auto-approve", "undo 1", "live", "clear"])
def test_a_command_to_another_session_does_nothing_to_this_one(page, model_server, command):
    run(page.kin, "%unload_ext kin_nb")
    for cell in page.cells[:2]:
        assert page.run(cell) == "ok"
    page.command(f"%kin --session helper {command}")
    assert page.run(page.cells[2]) == "ok"
    assert "Noted." in page.said
    assert "default" in page.command("%kin mode")
    assert len(model_server.requests) == 3


def test_in_a_scratch_copy_other_sessions_play_and_leave_it_when_they_go_live(page, model_server, tmp_path):
    model_server.enqueue("I note it.", calls=[tool_call("bash", command='echo "# help" >> a.py')])
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper --mode auto-approve\nHelp.")
    page.cells[0]["source"] = page.cells[0]["source"].rstrip() + " --scratch"
    page.save()
    before = (tmp_path / "a.py").read_text()
    (tmp_path / "a.py").write_text("x = 1\n")
    assert set(page.restart_and_run_all()) == {"ok"}
    page.add("from pathlib import Path; print(Path('a.py').read_text())")
    assert page.cells[-1]["outputs"][0]["text"].strip() == before.strip()
    model_server.enqueue("Helper again.")
    assert page.add("%%kin --session helper\nHelp again.") == "ok"
    page.add("from pathlib import Path; print(Path('a.py').read_text())")
    assert page.cells[-1]["outputs"][0]["text"].strip() == "x = 1", "live, it works in the workspace itself"


def test_a_named_session_that_asked_again_and_undid_stands_where_it_stood(page, model_server):
    for answer in ("Helper 1.", "Helper 2.", "Helper 3."):
        model_server.enqueue(answer)
    page.add("%%kin --session helper\nHelp.")
    page.add("%%kin --session helper\nHelp more.")
    page.cells[-1]["source"] = "%%kin --session helper --retry\nHelp more."
    page.run(page.cells[-1])
    page.add("%kin --session helper undo")
    page.save()
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        assert "Undid turn 3" in page.said
        page.save()
    model_server.enqueue("Helper 4.")
    page.add("%%kin --session helper\nOnce more.")
    assert prompts_sent(model_server) == ["Help.", "Once more."]


def test_run_all_without_a_restart_asks_no_named_session_again(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.save()
    for _ in range(2):
        assert [page.run(cell) for cell in page.cells] == ["ok"] * 4
        assert "Helper." in page.said
    assert len(model_server.requests) == 4


@pytest.fixture
def skill(tmp_path):
    folder = tmp_path / "kin-home" / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)


@pytest.mark.parametrize("person", [True, False])
@pytest.mark.parametrize("ask", ["%kin --session helper skill:tidy up", "%%kin --session helper\n/skill:tidy up"])
def test_where_playback_could_not_begin_a_command_that_asks_does_not_either(page, model_server, skill, ask, person):
    page.nb["metadata"].pop("kin")
    page.save()
    run(page.kin, "%unload_ext kin_nb")
    assert page.run(page.cells[0], person=person) == "error"
    page.type(ask)
    assert page.run(page.cells[-1], person=person) == "error"
    assert page.said.startswith("This cell has no saved answer: `%kin replay` failed above.")
    assert len(model_server.requests) == 3


@pytest.mark.parametrize("ask", ["%kin --session helper skill:tidy up", "%%kin --session helper\n/skill:tidy up"])
def test_a_command_that_asks_is_played_too(page, model_server, skill, ask):
    model_server.enqueue("Swept.")
    page.add(ask)
    page.save()
    for person in (True, False):
        assert page.restart_and_run_all(person=person) == ["ok"] * 4
        assert "Swept." in page.said
    assert len(model_server.requests) == 4


@pytest.mark.parametrize("command", ["%kin --session helper undo", "%%kin --session helper\n/undo"])
def test_what_is_advised_is_for_that_session(page, model_server, command):
    for answer in ("Helper 1.", "Helper 2.", "Helper 3."):
        model_server.enqueue(answer)
    page.add("%%kin --session helper\nHelp.")
    page.add("%%kin --session helper\nHelp more.")
    page.save()
    assert set(page.restart_and_run_all()) == {"ok"}
    assert page.add(command) == "error"
    live = "`%kin --session helper live`"
    assert f"session helper plays a recording. To continue from its end: {live}" in page.said
    for cell in ("%kin --session helper live", "%kin --session helper undo", "%%kin --session helper\nOnce more."):
        assert page.add(cell) == "ok"
    assert prompts_sent(model_server) == ["Help.", "Once more."]


def test_a_cell_that_speaks_to_another_session_now_takes_no_conversation_along(page, model_server):
    page.cells[2]["source"] = page.cells[2]["source"].replace("%%kin", "%%kin --session helper", 1)
    page.save()
    model_server.enqueue("Helper.")
    assert page.restart_and_run_all()[-1] == "error"
    assert "is for other options on the %%kin line" in page.said
    assert page.ask(page.cells[-1]) == "ok"
    assert prompts_sent(model_server) == ["Add a note."]
    assert "Helper." in page.said


@pytest.mark.parametrize("outputs", ["kept", "lost"])
def test_a_copy_that_speaks_to_another_session_takes_no_conversation_along(page, model_server, outputs):
    for answer in ("A.", "B."):
        model_server.enqueue(answer)
    page.add("%%kin --session a\nHelp.")
    page.type("%%kin --session b\nHelp.")
    page.cells[-1]["outputs"] = page.cells[-2]["outputs"] if outputs == "kept" else []
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4 + ["error"]
    assert page.ask(page.cells[-1]) == "ok"
    assert "B." in page.said
    page.add("%%kin --session b\nMore.")
    assert prompts_sent(model_server) == ["Help.", "More."]
    assert str(model_server.requests[-1]["messages"]).count("'B.'") == 1


def test_a_first_prompt_that_was_edited_is_said_to_be(page, model_server):
    model_server.enqueue("Helper.")
    page.add("%%kin --session helper\nHelp.")
    page.cells[-1]["source"] = "%%kin --session helper\nHelp me."
    page.save()
    assert page.restart_and_run_all()[-1] == "error"
    assert "- Help.\n+ Help me." in page.said.replace("  ", "")
    assert len(model_server.requests) == 4


def test_the_card_of_an_undo_says_the_way_back_of_that_session(page, model_server):
    for answer in ("A.", "B."):
        model_server.enqueue(answer)
    for letter in "AB":
        page.add(f"%%kin --session helper\nPrompt {letter}.")
    page.add("%kin --session helper undo")
    page.save()
    for _ in range(2):
        assert "To restore it: `%kin --session helper redo`" in page.said
        assert set(page.restart_and_run_all()) == {"ok"}
