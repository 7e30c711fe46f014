"""A session whose conversation was compacted in the middle of a turn, cleared, and compacted by hand: run again, resumed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kin_nb.replay.format.notebook_codec import raw_records
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, error_text, shown
from tests.notebook.people import environment, kin_nb_here, write_config
from tests.notebook.recorded import Lived, PlayedAgain, data_of, live

pytestmark = pytest.mark.kernel

FULL = {"prompt_tokens": 8_500, "completion_tokens": 500, "total_tokens": 9_000}
SMALL = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    files = {"a.py": "x = 1\ny = 2\n"}
    return live(tmp_path_factory.mktemp("compacted"), files, _cells, lambda text: f"{text}context_window = 10000\n")


class TestPlayedAgain(PlayedAgain):
    said = r"^   1      3      3  3 same$"


def _cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    server.enqueue("I mend it.", calls=[EDIT, tool_call("bash", command="pwd; cat a.py")], usage=FULL)
    server.enqueue(f"In {workspace} a.py now says x = 3.", usage=SMALL)
    server.enqueue("I look again.", calls=[tool_call("read_file", path="a.py")], usage=SMALL)
    server.enqueue("Done.", usage=SMALL)
    kernel.ok("%%kin --mode auto-approve\nMake x 3.")
    kernel.ok("%kin clear")
    server.enqueue(calls=[tool_call("read_file", path="a.py")], usage=SMALL)
    server.enqueue("It is 3.", usage=SMALL)
    kernel.ok("%%kin\nWhat is x?")
    server.enqueue("We looked at x.", usage=SMALL)
    kernel.ok("%kin compact")
    server.enqueue("y is 2.", usage=SMALL)
    kernel.ok("%%kin\nAnd y?")


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
    (compact,) = [cell for cell in lived.ran if cell["source"] == "%kin compact"]
    assert "We looked at x." in shown(compact)


def test_what_moved_the_conversation_keeps_its_cell_which_holds_its_record(lived):
    held = [(lived.nb["cells"][index]["source"], record["type"]) for index, record in raw_records(lived.nb)]
    assert [type_ for _, type_ in held] == ["turn", "clear", "turn", "compact", "turn"]
    assert [source for source, type_ in held if type_ != "turn"] == ["%kin clear", "%kin compact"]


def test_the_notebook_names_no_folder_of_this_machine(lived):
    text = lived.notebook.read_text()
    assert "In {workspace} a.py now says x = 3." in text
    assert str(lived.workspace) not in text


def test_the_session_continues_with_the_messages_that_it_had(lived, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(lived.home / ".kin-code", home / ".kin-code")
    (session,) = [log.parent.name for log in (home / ".kin-code" / "sessions").glob("*/log.jsonl")]
    with ModelServer.start() as server:
        write_config(home, server.url)
        server.enqueue("Going on.")
        done = kin_nb_here("run", "-p", "And z?", "--resume", session[:8], home=home, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "Going on.\n"), done.stderr
        assert server.violations == []
    had = [*words_of(lived.requests[-1]), ("assistant", "y is 2.")]
    *before, (role, prompt) = words_of(server.requests[0])
    assert (before, role, prompt.split("\n")[0]) == (had, "user", "And z?")
    assert "You work on the command line." in prompt, "a note says what has changed since the notebook"


@pytest.mark.parametrize("command", ["compact", "clear"])
def test_in_playback_a_command_that_was_recorded_shows_what_it_did(lived, playing, command):
    (cell,) = [cell for cell in lived.nb["cells"] if cell["source"] == f"%kin {command}"]
    assert data_of(playing.ok(cell["source"])) == data_of(cell) != []


@pytest.mark.parametrize("command", ["undo", "undo 2", "redo"])
def test_in_playback_a_command_that_was_not_recorded_does_nothing_and_says_so(lived, playing, command):
    asked = len(lived.requests)
    said = error_text(playing.run(f"%kin {command}"))
    assert said.startswith(
        f"Nothing was done: for this cell no `%kin {command}` is recorded, and this notebook plays a"
    )
    assert "To continue from its end: `%kin live`" in said
    assert len(lived.requests) == asked


@pytest.mark.parametrize("command", ["context", "diff"])
def test_in_playback_there_is_no_conversation_that_other_commands_could_speak_of(playing, command):
    said = error_text(playing.run(f"%kin {command}"))
    assert said.startswith("This notebook plays a recording: there is no conversation to ")


@pytest.fixture(scope="module")
def playing(lived, tmp_path_factory) -> Iterator[Headless]:
    """A kernel in which the notebook has begun to play."""
    with Headless.start(lived.workspace, environment(tmp_path_factory.mktemp("other") / "home")) as kernel:
        kernel.ok(lived.nb["cells"][0]["source"])
        yield kernel
