"""A session notebook that went on live and was saved by its front end alone: run from the top, it asks no model again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_client import LiveKernel, kept_outputs, run, shown

from kin_nb.replay.format.in_notebook import read_recording
from kin_nb.replay.format.in_outputs import KEY
from kin_nb.replay.format.loading import as_node, load_notebook
from tests.model_server import ModelServer, tool_call

pytestmark = pytest.mark.kernel

NOTE = "%%kin --mode auto-approve\nAdd a note."


@pytest.fixture
def nb(kernel) -> LiveKernel:
    """One is enough: nothing here depends on its version."""
    return kernel()


@pytest.fixture
def page(request, kin: LiveKernel, model_server: ModelServer, tmp_path) -> Iterator[Page]:
    """One recorded turn in go.kin.ipynb, which is open and plays; one live turn after it that appended to a.py; Ctrl-S."""
    model_server.enqueue("One.")
    before = tmp_path / "go.ipynb"
    before.write_text(json.dumps(new_notebook(cells=[new_code_cell("%%kin\nSay one.")])))
    run(kin, f"os.environ['JPY_SESSION_NAME'] = {str(before)!r}")
    run(kin, "%%kin\nSay one.")
    run(kin, f"%kin save {getattr(request, 'param', '')}")
    page = Page(kin, tmp_path / "go.kin.ipynb")
    run(kin, f"os.environ['JPY_SESSION_NAME'] = {str(page.path)!r}")
    assert set(page.restart_and_run_all()) == {"ok"}
    model_server.enqueue("I note it.", calls=[tool_call("bash", command='echo "# note" >> a.py')])
    model_server.enqueue("Noted.")
    page.add(NOTE)
    page.save()
    yield page
    run(kin, "del os.environ['JPY_SESSION_NAME']")


class Page:
    """What a front end shows of a notebook."""

    def __init__(self, kin: LiveKernel, path) -> None:
        self.kin, self.path = kin, path
        self.nb = as_node(load_notebook(path))

    def add(self, source: str, **how) -> str:
        self.nb["cells"].append(new_code_cell(source))
        return self.run(self.nb["cells"][-1], **how)

    def run(self, cell, *, person: bool = True, click: str = "") -> str:
        """The status; its outputs are kept. `click`: the answer to what it asks."""
        ran = self.kin.run(cell["source"], cell=cell["id"] if person else None, allow_stdin=False)
        if click:
            self.kin.card(ran, "This cell has an answer already")
            self.kin.click(click)
        reply = self.kin.done(ran)["content"]
        cell["outputs"] = kept_outputs(self.kin, ran)
        self.said = reply["evalue"] if reply["status"] == "error" else shown(self.kin, ran)
        return reply["status"]

    def restart_and_run_all(self, *, person: bool = True) -> list[str]:
        """The kernel stays, as far as sessions do not go."""
        run(self.kin, "%unload_ext kin_nb")
        return [self.run(cell, person=person) for cell in self.nb["cells"]]

    def save(self) -> None:
        self.path.write_text(json.dumps(self.nb))


@pytest.mark.parametrize("page", ["", "--portable"], indirect=True)
def test_run_from_the_top_the_answer_is_played_and_no_tool_runs(page, model_server, tmp_path):
    assert set(page.restart_and_run_all()) == {"ok"}
    assert "Noted." in page.said
    assert "Live from here" not in page.said
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


def test_what_was_played_stays_in_the_file_that_the_front_end_saves_again(page, model_server):
    for _ in range(2):
        page.restart_and_run_all()
        page.save()
    assert KEY in load_notebook(page.path)["cells"][2]["outputs"][-1]["metadata"]
    assert page.restart_and_run_all() == ["ok", "ok", "ok"]
    assert len(model_server.requests) == 3


def test_it_goes_on_where_the_last_answer_ends_and_is_saved_whole(page, model_server, tmp_path):
    page.restart_and_run_all()
    model_server.enqueue("Four.")
    page.add("%%kin\nSay four.")
    said = [message["content"] for message in model_server.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["Say one.", "Add a note.", "Say four."]
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4
    assert len(model_server.requests) == 4
    run(page.kin, "%kin live")
    page.add("%kin save")
    assert "go.2.kin.ipynb" in page.said
    saved = read_recording(load_notebook(tmp_path / "go.2.kin.ipynb"))
    assert [turn.prompt for turn in saved.turns] == ["Say one.", "Add a note.", "Say four."]


def test_in_playback_save_says_how_what_came_since_is_kept(page):
    page.restart_and_run_all()
    page.add("%kin save")
    assert "To save what it went on with too: `%kin live`, then `%kin save`" in page.said


def test_what_was_taken_back_is_taken_back_in_playback_too(page, model_server, tmp_path):
    page.add("%kin undo 1")
    page.save()
    assert page.restart_and_run_all() == ["ok"] * 4
    assert "Took back turn 2" in page.said
    model_server.enqueue("Five.")
    page.add("%%kin\nSay five.")
    said = [message["content"] for message in model_server.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["Say one.", "Say five."]


def test_with_nobody_there_it_is_an_error_that_says_what_to_do(page, model_server):
    assert page.restart_and_run_all(person=False) == ["ok", "ok", "error"]
    assert page.said.startswith("The answer to this cell is in its outputs alone")
    assert "--from-outputs" in page.said
    assert len(model_server.requests) == 3


def test_an_answer_that_cannot_be_played_is_not_asked_for_again_unasked(page, model_server):
    kept = page.nb["cells"][2]["outputs"][-1]["metadata"][KEY]
    kept["record"]["prompt"] = "Something else."
    page.save()
    assert page.restart_and_run_all() == ["ok", "ok", "error"]
    assert "It cannot be played: cell 3, turn 2: it was changed after it was recorded" in page.said
    assert len(model_server.requests) == 3
    model_server.enqueue("Noted anew.")
    page.nb["cells"][2]["source"] = NOTE.replace("--mode", "--redo --mode")
    assert page.run(page.nb["cells"][2]) == "ok"
    assert "Noted anew." in page.said


def test_a_new_cell_goes_on_live_whatever_the_outputs_hold(page, model_server):
    page.nb["cells"][2]["outputs"][-1]["metadata"][KEY]["record"]["prompt"] = "Something else."
    page.save()
    page.restart_and_run_all()
    model_server.enqueue("New.")
    assert page.add("%%kin\nSomething new.") == "ok"
    assert "New." in page.said


def test_a_command_that_was_left_in_takes_no_answer_away(page, model_server, tmp_path):
    page.nb["cells"].insert(2, new_code_cell("%kin save"))
    for _ in range(2):
        assert set(page.restart_and_run_all()) == {"ok"}
        page.save()
    assert KEY in load_notebook(page.path)["cells"][3]["outputs"][-1]["metadata"]
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"


@pytest.fixture
def lost(page: Page) -> Page:
    """A cell above failed, so the front end saved no outputs of those below: only the log has the answer."""
    page.nb["cells"][2]["outputs"] = []
    page.save()
    return page


def rerun(lost: Page, click: str = "") -> None:
    run(lost.kin, "%unload_ext kin_nb")
    for cell in lost.nb["cells"][:2]:
        assert lost.run(cell) == "ok"
    assert lost.run(lost.nb["cells"][2], click=click) == "ok"


def test_an_answer_that_only_the_log_has_is_not_asked_for_again_unasked(lost, model_server, tmp_path):
    """Shown, it is in the file again."""
    rerun(lost, "Show that answer")
    assert "This notebook went on before: its session in the log goes on." in lost.said
    assert "Noted." in lost.said
    assert len(model_server.requests) == 3
    assert (tmp_path / "a.py").read_text() == "x = 1\n# note\n"
    lost.save()
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Live from here" not in lost.said
    model_server.enqueue("Four.")
    assert lost.add("%%kin\nSay four.") == "ok"
    said = [message["content"] for message in model_server.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["Say one.", "Add a note.", "Say four."]


def test_it_may_be_asked_for_again_from_where_it_stood(lost, model_server, tmp_path):
    model_server.enqueue("Not this time.")
    rerun(lost, "Ask again from where it stood")
    assert "Not this time." in lost.said
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


def test_what_was_taken_back_since_is_no_answer(lost, model_server):
    rerun(lost, "Show that answer")
    lost.add("%kin undo")
    lost.nb["cells"][2]["outputs"] = []
    lost.save()
    model_server.enqueue("Noted again.")
    rerun(lost)
    assert "This cell goes on where the recording ends." in lost.said
    assert len(model_server.requests) == 4


def test_the_same_prompt_in_a_new_cell_is_a_new_one(lost, model_server):
    lost.nb["cells"][2] = new_code_cell(lost.nb["cells"][2]["source"])
    lost.save()
    model_server.enqueue("Noted in a new cell.")
    assert set(lost.restart_and_run_all()) == {"ok"}
    assert "Noted in a new cell." in lost.said
