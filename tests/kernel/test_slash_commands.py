"""/commands in cells of %%kin and of the Kin kernel; flows as several turns of one cell, live, saved and played."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from notebook_client import LiveKernel
from test_session_commands import CONFIG, ask, error, home, kin, ok, sent, workspace, write  # noqa: F401

from tests.flow import FLOW
from tests.model_server import ModelServer, tool_call
from tests.notebook.comparing import assert_same_notebook
from tests.notebook.headless import LOAD, Headless, error_text, shown
from tests.notebook.people import environment, kin_nb_here, write_config

pytestmark = pytest.mark.kernel

WRITE = tool_call("write_file", path="b.txt", content="one\n")


@pytest.fixture
def kin_kernel(model_server: ModelServer, home: Path, workspace: Path):  # noqa: F811
    """The Kin kernel, which is this test's own."""
    write(home / "config.toml", CONFIG.format(url=model_server.url))
    tests = Path(__file__).parents[1]
    environ = {"KIN_HOME": str(home), "HOME": str(home)}
    kernel = LiveKernel([tests.parent, tests / "kernel"], environ, subshells=False, module="kin_nb.notebook.kernel")
    ok(kernel, f"%cd -q {workspace}")
    yield kernel
    kernel.close()


def test_a_command_is_the_whole_text_of_a_cell(kin, model_server, workspace):  # noqa: F811
    model_server.enqueue("I write.", calls=[WRITE])
    model_server.enqueue("Written.")
    assert "Written." in ok(kin, "%%kin --mode auto-approve\nWrite b.")
    assert ok(kin, "%%kin\n/undo").startswith("Undid turn 1\n  removed: b.txt +0 -1")
    assert not (workspace / "b.txt").exists()
    assert ok(kin, "%kin redo").startswith("Restored turn 1")
    assert "tokens in" in ok(kin, "%%kin\n/cost\n")
    assert "write_file" in ok(kin, "%kin context")
    assert len(model_server.requests) == 2


def test_a_path_is_a_prompt_and_a_slip_is_not(kin, model_server):  # noqa: F811
    ask(kin, model_server, "/etc/hosts is for what?", "For names.")
    ask(kin, model_server, "//undo", "It undoes.")
    assert sent(model_server)[-1]["content"] == "/undo"
    assert "Did you mean /undo?" in error(kin, "%%kin\n/undoo")
    assert "Did you mean %kin undo?" in error(kin, "%kin undoo")
    assert error(kin, "%%kin\n/redo").startswith("There is nothing to redo")
    assert len(model_server.requests) == 2


def test_help_lists_the_commands_as_they_are_typed_and_starts_nothing(kin):  # noqa: F811
    def threads() -> str:
        cell = kin.run("import threading; print(sum('kin' in t.name for t in threading.enumerate()))")
        kin.done(cell)
        return kin.text(cell)

    before = threads()
    assert ok(kin, "%kin help") == ok(kin, "%kin")
    assert "%kin undo" in ok(kin, "%kin help")
    slashes = ok(kin, "%%kin\n/help")
    assert "/undo" in slashes
    assert "/flow:NAME [REQUEST]" in slashes
    assert threads() == before


def test_the_kin_kernel_knows_the_same_commands(kin_kernel, model_server):
    model_server.enqueue("x is 1.")
    assert "x is 1." in ok(kin_kernel, "What is x?")
    assert "1 turn" in ok(kin_kernel, "/cost")
    assert ok(kin_kernel, "/undo").startswith("Undid turn 1")
    assert "Did you mean /undo?" in error(kin_kernel, "/undoo")
    model_server.enqueue("Names.")
    assert "Names." in ok(kin_kernel, "/etc/hosts has what?")
    assert [message.get("content") for message in sent(model_server)[1:]] == ["/etc/hosts has what?"]


def test_a_command_before_the_first_prompt_runs_no_module_of_the_folder(kin_kernel, home, workspace):  # noqa: F811
    for name in ("yaml", "httpx", "nh3"):
        (workspace / f"{name}.py").write_text("open('ran', 'w')\nraise ImportError('the folder\\'s own')\n")
    write(home / "skills" / "tidy" / "SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nSweep.\n")
    assert "skill " in ok(kin_kernel, "/tools")
    assert not (workspace / "ran").exists()


def test_resume_and_load_put_another_session_in_this_ones_place(kin, model_server, home, workspace):  # noqa: F811
    ask(kin, model_server, "What is x?", "x is 1.")
    ok(kin, f"%kin save {workspace}/first.json")
    (first,) = [log.parent.name for log in (home / "sessions").glob("*/log.jsonl")]
    assert f"/resume {first[:8]}" in ok(kin, f"%kin load {workspace}/first.json")
    ask(kin, model_server, "And y?", "y is 2.")
    assert [message.get("content") for message in sent(model_server)[1:]] == ["What is x?", "x is 1.", "And y?"]
    assert ok(kin, "%%kin\n/resume").startswith(f"Continued session {first[:8]}: 1 turn")
    ask(kin, model_server, "And z?", "z is 3.")
    assert [message.get("content") for message in sent(model_server)[1:]] == ["What is x?", "x is 1.", "And z?"]


def test_a_flow_that_stops_is_an_error_after_its_last_turn(kin, model_server, home):  # noqa: F811
    write(home / "skills" / "mend" / "SKILL.md", FLOW)
    model_server.enqueue("Ran.")
    for _ in range(4):
        model_server.enqueue("I cannot tell.")
    assert error(kin, "%%kin\n/flow:mend").startswith("The flow mend stopped at “Do they pass?”")
    assert "Did you mean mend?" in error(kin, "%kin flow:men")


def live_a_flow(kernel: Headless, server: ModelServer) -> None:
    kernel.ok(LOAD)
    server.enqueue("I ran them.")
    server.enqueue("<choice>no</choice>")
    server.enqueue("I mend.", calls=[WRITE])
    server.enqueue("Mended.")
    server.enqueue("I ran them again.")
    server.enqueue("<choice>yes</choice>")
    kernel.ok("%%kin --mode auto-approve\n/flow:mend the parser")
    kernel.ok("%%kin\n/cost")
    kernel.ok("%kin tools")
    server.enqueue("Thanks.")
    kernel.ok("%%kin\nThank you.")
    server.enqueue("Once more.")
    server.enqueue("<choice>yes</choice>")
    kernel.ok("%kin flow:mend again")
    kernel.ok("%kin save out")


def test_a_flow_is_one_cell_that_plays_all_of_its_turns(tmp_path):
    workspace, home = tmp_path / "project", tmp_path / "home"  # noqa: F811
    workspace.mkdir()
    write(home / ".kin-code" / "skills" / "mend" / "SKILL.md", FLOW)
    with ModelServer.start() as server:
        write_config(home, server.url)
        with Headless.start(workspace, environment(home)) as kernel:
            live_a_flow(kernel, server)
            lived = [cell for cell in kernel.nb["cells"] if "flow:" in cell["source"] or "Thank" in cell["source"]]
    saved = nbformat.read(workspace / "out.ipynb", as_version=4)
    sources = [cell["source"] for cell in saved["cells"]]
    assert sources[1:] == [
        "%%kin --mode auto-approve\n/flow:mend the parser",
        "%%kin\nThank you.",
        "%%kin\n/flow:mend again",
    ]
    assert [len(cell["metadata"].get("kin", {}).get("records", [])) for cell in saved["cells"]] == [0, 5, 1, 2]
    assert list(map(shown, saved["cells"][1:])) == list(map(shown, lived))
    done = kin_nb_here(
        "replay", workspace / "out.ipynb", "--output-dir", tmp_path, home=tmp_path / "other", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_notebook(nbformat.read(tmp_path / "out.ipynb", as_version=4), saved)


def test_in_playback_commands_about_the_conversation_say_so(tmp_path):
    workspace, home = tmp_path / "project", tmp_path / "home"  # noqa: F811
    workspace.mkdir()
    with ModelServer.start() as server:
        write_config(home, server.url)
        with Headless.start(workspace, environment(home)) as kernel:
            kernel.ok(LOAD)
            server.enqueue("x is 1.")
            kernel.ok("%%kin\nWhat is x?")
            kernel.ok("%%kin\n/undo")
            kernel.ok("%kin save out")
    saved = nbformat.read(workspace / "out.ipynb", as_version=4)
    with Headless.start(workspace, environment(tmp_path / "other")) as kernel:
        kernel.ok(saved["cells"][0]["source"])
        for name in ("cost", "context", "resume", "load x.json"):
            assert error_text(kernel.run(f"%%kin\n/{name}")).startswith("This notebook plays a recording"), name
        assert error_text(kernel.run("%%kin\n/clear")).startswith("Nothing was done: for this cell no `%kin clear` is")
        assert "/undo [N]" in shown(kernel.ok("%%kin\n/help"))
        assert "x is 1." in shown(kernel.ok("%%kin\nWhat is x?"))
        assert shown(kernel.ok("%%kin\n/undo")).startswith("Undid turn 1")
