"""A session in which turns were undone, given back and asked again: saved, played, run again, rebuilt, continued."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from kin_nb.replay.format.notebook_codec import raw_records, read_recording
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, error_text, shown
from tests.notebook.people import environment, kin_nb_here, write_config
from tests.notebook.recorded import Lived, PlayedAgain, acting, live, replayed_with_tools

pytestmark = pytest.mark.kernel

WRITE = tool_call("write_file", path="b.txt", content="one\n")
SED = tool_call("bash", command="sed -i s/x/z/ a.txt && touch new.txt")
AGAIN = tool_call("bash", command="sed -i s/x/w/ a.txt")


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    return live(tmp_path_factory.mktemp("undone"), {"a.txt": "x\n"}, _cells)


class TestPlayedAgain(PlayedAgain):
    def test_the_tools_run_again_without_drift_and_the_cards_are_the_same(self, lived, tmp_path):
        """The copy has the files of the conversation that stands."""
        done, cells = run_again(lived.nb, lived, tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert re.search("^Every tool call and undo came out as recorded", done.stdout, re.MULTILINE), done.stdout
        asked = {index for index, cell in enumerate(lived.nb["cells"]) if cell in acting(lived.nb["cells"])}
        assert [cells[index] for index in asked] == [shown(lived.nb["cells"][index]) for index in asked]
        assert cells[-1].strip() == str({"a.txt": "w\n", "b.txt": "one\n"})


def _cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    """Writes b.txt; changes a.txt, undone, given back, undone; changes a.txt otherwise, in the same words."""
    server.enqueue("I write.", calls=[WRITE])
    server.enqueue("Written.")
    kernel.ok("%%kin --mode auto-approve\nWrite b.")
    server.enqueue("I change a.", calls=[SED])
    server.enqueue("Changed.")
    kernel.ok("%%kin --mode auto-approve\nChange a.")
    kernel.ok("%kin undo")
    assert files(workspace) == {"a.txt": "x\n", "b.txt": "one\n"}
    kernel.ok("%kin redo")
    assert files(workspace) == {"a.txt": "z\n", "b.txt": "one\n", "new.txt": ""}
    kernel.ok("%kin undo 1")
    server.enqueue("I change a otherwise.", calls=[AGAIN])
    server.enqueue("Changed otherwise.")
    kernel.ok("%%kin --mode auto-approve\nChange a.")


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".txt"}


def test_the_model_was_not_told_of_what_was_undone(lived):
    last = [message.get("content") or "" for message in lived.requests[4]["messages"]]
    assert "Write b." in last
    assert last.count("Change a.") == 1
    assert "Changed." not in last


def test_each_undo_has_its_own_cell_where_it_happened(lived):
    sources = [cell["source"] for cell in acting(lived.nb["cells"])]
    assert sources[2:] == ["%kin undo", "%kin redo", "%kin undo 1", "%%kin --mode auto-approve\nChange a."]
    held = [(lived.nb["cells"][index]["source"], record["type"]) for index, record in raw_records(lived.nb)]
    assert held == list(zip(sources, ["turn", "turn", "undo", "redo", "undo", "turn"], strict=True))
    assert "a.txt" in shown(lived.cells[2])


LOOK = """import json, os, pathlib; w = pathlib.Path(json.loads(os.environ['KIN_REPLAY'])['workspace'])
print({p.name: p.read_text() for p in sorted(w.glob('*.txt'))})"""


def run_again(nb, lived: Lived, folder: Path) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """`kin-nb replay --tools`, and what each cell shows; the last one what files the copy has."""
    nb["cells"].append(nbformat.v4.new_code_cell(LOOK))
    nbformat.write(nb, folder / "looking.ipynb")
    done = replayed_with_tools(folder / "looking.ipynb", lived.before, folder / "out")
    executed = nbformat.read(folder / "out" / "looking.ipynb", as_version=4)
    return done, [shown(cell) for cell in executed["cells"]]


def test_an_answer_that_was_asked_again_runs_in_its_last_form_alone(lived, tmp_path):
    """As `--retry` records it: one cell holds the first answer, the undo that made room, and the last answer."""
    whole = read_recording(lived.nb)
    written, first, undo, last = whole.turns[0], whole.turns[1], whole.moves[-1], whole.turns[2]
    retried = [
        first.model_copy(update={"cell_id": "again"}),
        undo.model_copy(update={"cell_id": "again", "key": last.key}),
        last.model_copy(update={"cell_id": "again"}),
    ]
    cells = [
        nbformat.v4.new_code_cell("%%kin --mode auto-approve\nWrite b.", id="first"),
        nbformat.v4.new_code_cell("%%kin --mode auto-approve\nChange a.", id="again"),
    ]
    records = (written.model_copy(update={"cell_id": "first"}), *retried)
    nb = session_notebook(Recording(whole.meta, records), source_nb=nbformat.v4.new_notebook(cells=cells))
    write_notebook(nb, tmp_path / "retried.ipynb")
    played = kin_nb_here("replay", "retried.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert (played.returncode, played.stderr) == (0, ""), played.stdout
    done, said = run_again(nb, lived, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "I change a otherwise." in said[2]
    assert "I change a.\n" not in said[2]
    assert said[-1].strip() == str({"a.txt": "w\n", "b.txt": "one\n"})


def test_what_continues_from_a_turn_that_is_not_here_is_shown_as_recorded_and_does_nothing(lived, tmp_path):
    nb = lived.nb
    del nb["cells"][1]  # the turn that all others go on from
    done, said = run_again(nb, lived, tmp_path)
    assert "Turn 2 is shown as recorded\n  It continues from a turn that was not run here." in said[1]
    assert "Turn 3 is shown as recorded" in said[-2]
    assert said[-1].strip() == str({"a.txt": "x\n"})
    assert done.returncode == 3, done.stdout + done.stderr


def test_an_undo_that_comes_out_otherwise_is_drift(lived, tmp_path):
    workspace = shutil.copytree(lived.before, tmp_path / "other")
    (workspace / "new.txt").write_text("was there\n")  # the turn did not make it, so the undo does not remove it
    done = replayed_with_tools(lived.notebook, workspace, tmp_path / "out")
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"^undo after turn 2: effect: (?:after drift: )?new\.txt", done.stdout, re.MULTILINE), done.stdout


def test_an_undo_that_was_not_recorded_is_an_error_in_playback_and_changes_nothing(lived, tmp_path):
    with Headless.start(lived.workspace, environment(tmp_path / "home")) as kernel:
        kernel.ok(lived.nb["cells"][0]["source"])
        said = error_text(kernel.run("%kin undo 2"))
        assert said.startswith(
            "Nothing was done: for this cell no `%kin undo 2` is recorded, and this notebook plays a"
        )
        assert files(lived.workspace) == {"a.txt": "w\n", "b.txt": "one\n"}
        for cell in acting(lived.nb["cells"]):
            assert [o["data"] for o in kernel.ok(cell["source"])["outputs"]] == [o["data"] for o in cell["outputs"]]


def test_it_continues_live_where_the_undos_lead(lived, tmp_path):
    """The recording, cut before its last turn: the undone turn is not sent, and the undo survives the next save."""
    workspace, home = shutil.copytree(lived.before, tmp_path / "project"), tmp_path / "home"
    whole = read_recording(lived.nb)
    nb = session_notebook(Recording(whole.meta, whole.records[:-1]))
    write_notebook(nb, workspace / "cut.ipynb")
    with ModelServer.start() as server:
        write_config(home, server.url)
        with Headless.start(workspace, environment(home)) as kernel:
            for cell in nb["cells"]:
                kernel.ok(cell["source"])
            kernel.ok("%kin live")
            server.enqueue("Going on.")
            kernel.ok("%%kin\nGo on.")
            kernel.ok("%kin save on")
    said = [message.get("content") or "" for message in server.requests[0]["messages"]]
    assert "Written." in said
    assert "Changed." not in said
    saved = read_recording(nbformat.read(workspace / "on.ipynb", as_version=4))
    assert saved.moves == whole.moves
    assert [record.id for record in saved.records[:-1]] == [record.id for record in whole.records[:-1]]
    assert saved.turns[2].parent == whole.turns[2].parent == whole.moves[-1].head


def test_what_was_played_can_be_undone_once_it_is_live(lived, tmp_path):
    """`%kin live` alone begins the conversation: a prompt need not come first."""
    workspace, home = shutil.copytree(lived.workspace, tmp_path / "project"), tmp_path / "home"
    with ModelServer.start() as server:
        write_config(home, server.url)
        with Headless.start(workspace, environment(home)) as kernel:
            kernel.ok(lived.nb["cells"][0]["source"])
            kernel.ok("%kin live")
            assert "Undid turn 3" in shown(kernel.ok("%kin undo"))
            server.enqueue("Going on.")
            kernel.ok("%%kin\nGo on.")
    said = [message.get("content") or "" for message in server.requests[0]["messages"]]
    assert "Written." in said
    assert "Changed otherwise." not in said
