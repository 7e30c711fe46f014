"""A session that no one watches, its notebook, and what that notebook does when it is run again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kin_nb.replay.format.notebook_codec import raw_records
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, error_text, shown
from tests.notebook.people import kin_nb_here
from tests.notebook.recorded import Lived, living

pytestmark = pytest.mark.kernel

KEY = "sk-live-0123456789abcdefABCDEF"
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")
REPLAY = re.compile(r"^%kin replay \S+$", re.MULTILINE)


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Iterator[Lived]:
    """Three turns; the model server lives on."""
    files = {"a.py": "x = 1\ny = 2\n"}
    with living(tmp_path_factory.mktemp("live"), files, _live, with_a_key, SCRIPTED_KEY=KEY) as lived:
        yield lived


def with_a_key(settings: str) -> str:
    return settings.replace('api_key_env_var = ""', 'api_key_env_var = "SCRIPTED_KEY"')


def _live(kernel: Headless, server: ModelServer, workspace: Path) -> Iterator[tuple[str, Any]]:
    yield "save nothing", kernel.run("%kin save out")
    server.enqueue("I mend it.", calls=[EDIT])
    server.enqueue("I may not.")
    yield "default mode", kernel.ok("%%kin\nMake x 3.")
    look = tool_call("bash", command="pwd; cat a.py")
    server.enqueue("I mend it.", calls=[EDIT, look])
    server.enqueue(f"Done in {workspace}.")
    yield "auto-approve", kernel.ok("%%kin --mode auto-approve\nMake x 3 all the same.")
    yield "ordinary", kernel.ok("print(open('a.py').read())")
    server.enqueue(calls=[tool_call("read_file", path=str(workspace / "a.py"))])
    server.enqueue(f"It is 3, with {KEY}.")
    yield "second", kernel.ok(f"%%kin\nWhat is x? (My key is {KEY}.)")
    (workspace / "talks").mkdir()
    kernel.ok("%kin save talks")
    (workspace / "talks" / "session.kin.ipynb").unlink()


def test_in_default_mode_an_edit_is_refused_and_both_the_person_and_the_agent_are_told(lived):
    told = lived.server.requests[1]["messages"][-1]
    assert told["role"] == "tool"
    for text in (told["content"], shown(lived.named["default mode"])):
        assert "edit_file was not run" in text
        assert "No one can approve it here" in text
        assert "`[tools.edit_file] allowlist`" in text


def test_in_auto_approve_mode_the_file_is_edited_and_ordinary_cells_see_it(lived):
    assert "+x = 3" in shown(lived.named["auto-approve"])
    assert shown(lived.named["ordinary"]).startswith("x = 3\ny = 2\n")
    assert (lived.workspace / "a.py").read_text() == "x = 3\ny = 2\n"


def test_save_needs_a_turn(lived):
    assert error_text(lived.named["save nothing"]) == "Nothing to save yet: no %%kin cell has an answer."


def test_the_saved_notebook_is_a_valid_one_of_these_cells_counted_from_one(lived):
    nb = lived.nb
    nbformat.validate(nb)
    assert [cell["execution_count"] for cell in nb["cells"]] == [1, 2, 3, 4, 5]
    assert REPLAY.search(nb["cells"][0]["source"])
    assert "widgets" not in nb["metadata"]
    assert "widget-view" not in lived.notebook.read_text()
    assert [record["turn"] for _, record in raw_records(nb)] == [1, 2, 3]


def test_the_saved_notebook_names_no_folder_of_this_machine_and_no_key(lived):
    assert KEY in json.dumps(lived.server.requests), "or there was nothing to hide"
    assert f"Bearer {KEY}" in str(lived.server.headers[0])
    text = lived.notebook.read_text()
    assert "{workspace}" in text
    assert str(lived.workspace) not in text
    assert KEY not in text
    assert "My key is [secret]." in lived.nb["cells"][-1]["source"]


def test_the_session_log_has_no_key_either(lived):
    (log,) = (lived.home / ".kin-code" / "sessions").glob("*/log.jsonl")
    assert KEY not in log.read_text()


# Run again by a teammate.


@pytest.fixture
def replay(lived, tmp_path):
    """`kin-nb replay ARGV NOTEBOOK` of someone without a key; the input is only read."""

    def replay(*argv: str | Path):
        return kin_nb_here(
            "replay", "--output-dir", tmp_path, *argv, lived.notebook, home=tmp_path / "home", cwd=tmp_path
        )

    before = lived.notebook.read_bytes(), (lived.workspace / "a.py").read_bytes(), len(lived.server.requests)
    yield replay
    assert before == (
        lived.notebook.read_bytes(),
        (lived.workspace / "a.py").read_bytes(),
        len(lived.server.requests),
    )


def test_replay_shows_what_was_saved(replay):
    done = replay()
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^   2      2      2  2 played$", done.stdout, re.MULTILINE)


def test_the_tools_run_again_as_recorded_in_a_copy_of_the_workspace(replay, lived, tmp_path):
    done = replay("--tools", "--approve", "recorded", "--workspace", lived.before)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"^   2      2      2  2 same$", done.stdout, re.MULTILINE)
    assert (lived.before / "a.py").read_text() == "x = 1\ny = 2\n"
    executed = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    ordinary = next(cell for cell in executed["cells"] if cell["source"].startswith("print("))
    assert shown(ordinary).startswith("x = 3"), "ordinary cells see what the tools did in the copy"


def test_a_changed_workspace_is_drift_named_by_turn_step_and_tool(replay, lived, tmp_path):
    changed = shutil.copytree(lived.before, tmp_path / "changed")
    (changed / "a.py").write_text("x = 1\ny = 5\n")
    done = replay("--tools", "--approve", "recorded", "--workspace", changed)
    assert done.returncode == 3, done.stdout
    assert "turn 2, step 1, edit_file: effect: a.py: its content differed before the call" in done.stdout
    assert "turn 2, step 1, bash: text: after drift: line 3: recorded 'y = 2', now 'y = 5'" in done.stdout


def test_recorded_approvals_are_no_permission(replay, lived):
    done = replay("--tools", "--workspace", lived.before)
    assert done.returncode == 1, done.stdout
    assert "turn 2, step 1, edit_file: refused: recorded as ok, now refused" in done.stdout


# Continued, damaged, asked more.


def test_playback_never_asks_a_model_until_live_then_the_conversation_continues(lived, tmp_path):
    server, nb = lived.server, lived.nb
    asked = len(server.requests)
    with Headless.start(lived.workspace, lived.environment) as kernel:
        for cell in nb["cells"]:
            kernel.ok(cell["source"])
        refused = error_text(kernel.run("%%kin\nAnd y?"))
        assert refused.startswith("No saved answer: no cell of this notebook has a recorded answer to this text.")
        assert "No model was asked, because no user can watch it here" in refused
        assert "Nothing new to save" in error_text(kernel.run("%kin save more"))
        assert len(server.requests) == asked
        kernel.ok("%kin live")
        server.enqueue("y is 2.")
        assert "y is 2." in shown(kernel.ok("%%kin\nAnd y?"))
        assert len(server.requests) == asked + 1
        assert_goes_on(server, lived)
        kernel.ok("%kin last")
        kernel.ok("%kin save longer")
        kernel.ok(f"import os; os.environ['JPY_SESSION_NAME'] = {str(lived.notebook)!r}")
        assert "out.ipynb is the open notebook" in error_text(kernel.run("%kin save out"))
    assert lived.nb == nb
    longer = nbformat.read(lived.workspace / "longer.ipynb", as_version=4)
    assert [record["turn"] for _, record in raw_records(longer)] == [1, 2, 3, 4]
    sources = [cell["source"] for cell in longer["cells"]]
    assert "%kin live" not in sources, "or it would call a model when it is run again"
    assert "%kin last" not in sources
    again = kin_nb_here("replay", lived.workspace / "longer.ipynb", home=tmp_path / "home", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr


def assert_goes_on(server: ModelServer, lived: Lived) -> None:
    """The last request holds the recorded conversation, with this machine's folder in place, then the new prompt."""
    messages = server.requests[-1]["messages"][1:]
    roles = "user assistant tool assistant user assistant tool tool assistant user assistant tool assistant user"
    assert [message["role"] for message in messages] == roles.split()
    assert messages[0]["content"] == "Make x 3."
    assert messages[7]["content"].startswith(f"{lived.workspace}\nx = 3\n"), "what `pwd; cat a.py` said here"
    assert messages[-1]["content"] == "And y?"


def test_after_a_failed_replay_no_cell_asks_a_model(lived, tmp_path):
    server, nb = lived.server, lived.nb
    asked = len(server.requests)
    _, record = next(raw_records(nb))
    record["prompt"] = "Something else."
    damaged = tmp_path / "damaged.ipynb"
    nbformat.write(nb, damaged)
    with Headless.start(tmp_path, {**lived.environment, "JPY_SESSION_NAME": str(damaged)}) as kernel:
        assert "damaged.ipynb, cell 2, turn 1: it was changed" in error_text(kernel.run(nb["cells"][0]["source"]))
        for cell in (nb["cells"][1]["source"], "%%kin\nSomething new."):
            assert error_text(kernel.run(cell)).startswith("This cell has no saved answer: `%kin replay` failed above.")
        assert len(server.requests) == asked
        kernel.ok("%kin live")
        server.enqueue("Here I am.")
        assert "Here I am." in shown(kernel.ok("%%kin\nSomething new."))
        assert len(server.requests) == asked + 1
