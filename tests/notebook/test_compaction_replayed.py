"""A session whose conversation was compacted in the middle of a turn, cleared, and compacted by hand: run again, resumed."""

from __future__ import annotations

import copy
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.model_server import ModelServer, tool_call
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.headless import LOAD, Headless, error_text, shown
from tests.notebook.people import environment, kin_nb, run, write_config

pytestmark = pytest.mark.kernel

FULL = {"prompt_tokens": 8_500, "completion_tokens": 500, "total_tokens": 9_000}
SMALL = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")


@dataclass(frozen=True)
class Lived:
    """`notebook` was saved in `workspace`, which was `before` at first; `cells`: those that asked, as they were live."""

    notebook: Path
    workspace: Path
    before: Path
    home: Path
    cells: list[Any]
    compact: Any
    requests: list[dict[str, Any]]

    @property
    def nb(self) -> Any:
        return nbformat.read(self.notebook, as_version=4)


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    root = tmp_path_factory.mktemp("compacted")
    workspace, home = root / "project", root / "home"
    workspace.mkdir()
    (workspace / "a.py").write_text("x = 1\ny = 2\n")
    before = shutil.copytree(workspace, root / "before")
    with ModelServer.start() as server:
        config = write_config(home, server.url)
        config.write_text(f"{config.read_text()}context_window = 10000\n")
        with Headless.start(workspace, environment(home)) as kernel:
            cells, compact = _live(kernel, server, workspace)
        assert server.violations == []
    return Lived(workspace / "out.ipynb", workspace, before, home, cells, compact, server.requests)


def _live(kernel: Headless, server: ModelServer, workspace: Path) -> tuple[list[Any], Any]:
    kernel.ok(LOAD)
    server.enqueue("I mend it.", calls=[EDIT, tool_call("bash", command="pwd; cat a.py")], usage=FULL)
    server.enqueue(f"In {workspace} a.py now says x = 3.", usage=SMALL)
    server.enqueue("I look again.", calls=[tool_call("read_file", path="a.py")], usage=SMALL)
    server.enqueue("Done.", usage=SMALL)
    cells = [kernel.ok("%%kin --mode auto-approve\nMake x 3.")]
    kernel.ok("%kin clear")
    server.enqueue(calls=[tool_call("read_file", path="a.py")], usage=SMALL)
    server.enqueue("It is 3.", usage=SMALL)
    cells.append(kernel.ok("%%kin\nWhat is x?"))
    server.enqueue("We looked at x.", usage=SMALL)
    compact = kernel.ok("%kin compact")
    server.enqueue("y is 2.", usage=SMALL)
    cells.append(kernel.ok("%%kin\nAnd y?"))
    kernel.ok("%kin save out")
    return cells, compact


def asking(nb: Any) -> list[Any]:
    return [cell for cell in nb["cells"] if cell["source"].startswith("%%kin")]


def data_of(cell: Any) -> list[Any]:
    return [(output["output_type"], output["data"], output["metadata"].get("kin")) for output in cell["outputs"]]


def words_of(request: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content") or "") for message in request["messages"][1:]]


def test_the_conversation_gave_way_in_the_middle_of_the_turn_and_was_cleared_after_it(lived):
    first, asked, after, _, cleared, _, _, last = map(words_of, lived.requests)
    assert first == [("user", "Make x 3.")]
    assert [role for role, _ in asked] == ["user", "assistant", "tool", "tool", "user"]
    ((role, summary),) = after
    assert role == "user"
    assert f"In {lived.workspace} a.py now says x = 3." in summary
    assert "Make x 3." in summary
    assert cleared == [("user", "What is x?")]
    assert [role for role, _ in last] == ["user", "user"]
    assert "We looked at x." in last[0][1]


def test_the_card_stands_between_the_steps_and_says_what_was_kept(lived):
    kinds = [output["metadata"]["kin"]["kind"] for output in lived.cells[0]["outputs"]]
    assert kinds == ["reply", "call", "call", "compaction", "reply", "call", "reply", "receipt"]
    assert "[conversation compacted: 9,000 tokens became " in shown(lived.cells[0])
    assert "We looked at x." in shown(lived.compact)


def test_what_is_saved_is_what_the_cells_showed_to_the_byte(lived):
    saved = asking(lived.nb)
    assert len(saved) == 3
    for live, stored in zip(lived.cells, saved, strict=True):
        assert data_of(live) == data_of(stored)


def test_commands_to_the_session_are_no_cells_of_the_notebook(lived):
    sources = "\n".join(cell["source"] for cell in lived.nb["cells"])
    assert "%kin clear" not in sources
    assert "%kin compact" not in sources


def test_the_notebook_names_no_folder_of_this_machine(lived):
    text = lived.notebook.read_text()
    assert "In {workspace} a.py now says x = 3." in text
    assert str(lived.workspace) not in text


def test_jupyter_execute_shows_the_same_again(lived, tmp_path):
    path = tmp_path / "shared" / "out.ipynb"
    path.parent.mkdir()
    stripped = copy.deepcopy(lived.nb)
    for cell in stripped["cells"]:
        cell["outputs"], cell["execution_count"] = [], None
    nbformat.write(stripped, path)
    script = Path(sys.executable).with_name("jupyter-execute")
    done = run(script, path, "--output", tmp_path / "again.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_notebook(nbformat.read(tmp_path / "again.ipynb", as_version=4), lived.nb)


def test_the_tools_run_again_without_drift(lived, tmp_path):
    argv = ["--tools", "--approve", "recorded", "--workspace", lived.before, "--output-dir", tmp_path]
    done = kin_nb("replay", *argv, lived.notebook, home=tmp_path / "home", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"^   1      3      3  3 same$", done.stdout, re.MULTILINE), done.stdout
    again = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert [shown(cell) for cell in asking(again)] == [shown(cell) for cell in asking(lived.nb)]


def test_a_rebuilt_notebook_from_the_log_is_the_same_recording(lived, tmp_path):
    (session,) = [log.parent.name for log in (lived.home / ".kin-code" / "sessions").glob("*/log.jsonl")]
    done = kin_nb("save", session, "from-log.ipynb", home=lived.home, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = nbformat.read(tmp_path / "from-log.ipynb", as_version=4)
    assert [data_of(cell) for cell in asking(saved)] == [data_of(cell) for cell in asking(lived.nb)]


def test_the_session_goes_on_with_the_messages_that_it_had(lived, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(lived.home / ".kin-code", home / ".kin-code")
    (session,) = [log.parent.name for log in (home / ".kin-code" / "sessions").glob("*/log.jsonl")]
    with ModelServer.start() as server:
        write_config(home, server.url)
        server.enqueue("Going on.")
        done = kin_nb("run", "-p", "And z?", "--resume", session[:8], home=home, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Going on.\n"), done.stderr
        assert server.violations == []
    had = [*words_of(lived.requests[-1]), ("assistant", "y is 2.")]
    assert words_of(server.requests[0]) == [*had, ("user", "And z?")]


@pytest.mark.parametrize("command", ["compact", "clear"])
def test_in_playback_there_is_no_conversation_to_change(playing, command):
    said = error_text(playing.run(f"%kin {command}"))
    assert said.startswith(f"This notebook is in playback: there is no conversation to {command}.")


@pytest.fixture(scope="module")
def playing(lived, tmp_path_factory) -> Iterator[Headless]:
    """A kernel in which the notebook has begun to play."""
    with Headless.start(lived.workspace, environment(tmp_path_factory.mktemp("other") / "home")) as kernel:
        kernel.ok(lived.nb["cells"][0]["source"])
        yield kernel
