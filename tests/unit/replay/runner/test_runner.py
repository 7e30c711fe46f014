"""`kin-nb replay` on real kernels: the input is only read, and what happened is reported."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.core.records import RecordedCall, RecordedDecision, RecordedStep
from kin_nb.core.tools.builtins import sandbox
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import RecordingError, ReplayError
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.run_environment import prepare
from kin_nb.replay.runner.run_notebook import replay_notebook
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import recording, turn

ALLOWED = RecordedDecision(verdict="allow", by="person", reason="asked")
TURNS = (turn(1, "first"), turn(2, "second"))


@pytest.fixture
def save(tmp_path):
    """Writes a session notebook of two turns, with ordinary cells after them: (source, stdout as saved)."""

    def save(*cells: tuple[str, str], change=lambda nb: None, turns=TURNS, **meta) -> Path:
        nb = session_notebook(recording(*turns, **meta))
        for n, (source, text) in enumerate(cells):
            output = new_output("stream", text=text)
            nb["cells"].append(new_code_cell(source, id=f"plain-{n}", execution_count=4 + n, outputs=[output]))
        change(nb)
        return write_notebook(nb, tmp_path / "talk.ipynb")

    return save


def pid_of(report) -> int:
    return int(as_node(load_notebook(report.executed))["cells"][-1]["outputs"][0]["text"])


PID = """
[[rule]]
name = "pid"
description = "the number of the process"
pattern = '^pid \\d+$'
"""


@pytest.mark.kernel
def test_playback_shows_what_was_saved_and_leaves_nothing_behind(save, tmp_path):
    """With a module beside the notebook, others that would take the kernel's place, and a rule of the user's."""
    for name in ("ipykernel_launcher", "ipykernel"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w').close()\n")
    (tmp_path / "mine.py").write_text("x = 'mine'\n")
    (tmp_path / "mine.toml").write_text(PID)
    path = save(
        ("import mine; print(mine.x)", "mine\n"),
        ("import os; print('pid', os.getpid())", "pid 1\n"),
        ("print('other')", "pid 1\n"),
        ("import os; print(os.getpid())", ""),
    )
    before, told = path.read_bytes(), []
    options = ReplayOptions(output_dir=tmp_path / "out", rules=(tmp_path / "mine.toml",))
    report = replay_notebook(path, options, told.append)
    assert [cell.status for cell in report.cells] == [*["same"] * 5, "differs", "differs"]
    assert report.cells[4].detail == "the number of the process (rule pid of mine.toml)"
    assert (report.exit_code, report.error, report.executed) == (3, "", tmp_path / "out" / "talk.ipynb")
    assert path.read_bytes() == before
    assert [p.cell for p in told if p.output is None] == [1, 2, 3, 4, 5, 6, 7]
    assert {p.output["output_type"] for p in told if p.output and p.cell == 2} == {"display_data"}
    assert not (tmp_path / "owned").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid_of(report), 0)


@pytest.mark.kernel
def test_a_prompt_that_was_never_recorded_stops_the_run_and_is_named(save, tmp_path):
    def ask_more(nb):
        nb["cells"].insert(2, new_code_cell("%%kin\nnever asked", id="new"))

    report = replay_notebook(save(change=ask_more), ReplayOptions(output_dir=tmp_path / "out"))
    assert [cell.status for cell in report.cells] == ["same", "same", "error", "not run"]
    assert report.exit_code == 1
    assert "cell 3: NotRecorded: No saved answer" in report.error
    assert "No model was asked" in report.error


@pytest.mark.kernel
def test_a_text_that_no_kernel_can_be_sent_stops_the_run_and_is_named(save, tmp_path):
    def half_a_pair(nb):
        nb["cells"].append(new_code_cell("'\ud800'", id="half"))

    report = replay_notebook(save(change=half_a_pair), ReplayOptions(output_dir=tmp_path / "out"))
    assert report.error == "cell 4: its text is not valid Unicode (half a surrogate pair), so a kernel cannot run it"
    assert report.exit_code == 1


@pytest.mark.kernel
def test_with_tools_the_kernel_works_in_a_copy_under_the_recorded_environment(save, tmp_path, monkeypatch):
    """A workspace below the notebook, a turn that the recording lacks (turn 2 failed), and a rule of the user's."""
    (tmp_path / "work" / "here").mkdir(parents=True)
    (tmp_path / "work" / "here" / "a.txt").write_text("found")
    (tmp_path / "mine.toml").write_text(PID)
    monkeypatch.chdir(tmp_path)
    names = ("TZ", "PYTHONHASHSEED")
    shows = (
        f"import os; open('made', 'w').close(); print(os.getcwd(), *map(os.getenv, {names}), os.getenv('KIN_REPLAY'))"
    )
    call = RecordedCall(
        id="c1",
        name="bash",
        arguments='{"command": "echo pid $$"}',
        decision=ALLOWED,
        status="ok",
        output="pid 1",
        exit=0,
    )
    steps = (RecordedStep(calls=(call,)), RecordedStep(content="Done."))
    path = save(
        ("print(open('work/here/a.txt').read())", "found\n"),
        (shows, ""),
        turns=(turn(1, "first"), turn(3, "go", steps=steps)),
        workspace={"path": "work/here"},
    )
    options = ReplayOptions(tools=True, approve_recorded=True, output_dir=tmp_path / "out", rules=(Path("mine.toml"),))
    report = replay_notebook(path, options)
    assert (report.error, report.workspace) == ("", "a copy of your current files (no git commit recorded)")
    ((of_turn, kind, detail),) = [(result.turn, result.kind, result.detail) for result in report.calls]
    assert (of_turn, kind) == (3, "equivalent")
    assert detail == "the number of the process (rule pid of mine.toml)"
    assert [cell.status for cell in report.cells[-2:]] == ["same", "differs"]
    cwd, zone, seed, told = as_node(load_notebook(report.executed))["cells"][-1]["outputs"][0]["text"].split(maxsplit=3)
    environment = ReplayEnvironment.from_environ({"KIN_REPLAY": told})
    assert (zone, seed, environment.mode, environment.approve_recorded) == ("UTC", "0", "tools", True)
    assert environment.notebook == path
    assert environment.workspace == Path(cwd) / "work" / "here"
    assert not Path(cwd).exists()
    assert not list(tmp_path.rglob("made"))


def test_commands_that_run_again_are_confined_as_the_persons_own_are(tmp_path, monkeypatch):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    config = tmp_path / "home" / "config.toml"

    def confined() -> dict[str, str | bool]:
        with prepare(tmp_path / "a.ipynb", recording(turn(1, "first"), workspace={"path": "work"}), options) as there:
            assert there.env["KIN_HOME"] != str(tmp_path / "home")
            return ReplayEnvironment.from_environ(there.env).sandbox

    (tmp_path / "work").mkdir()
    options = ReplayOptions(tools=True)
    assert confined() == {}
    config.write_text('[tools.bash]\nsandbox = "on"\nallowlist = ["rm"]\n')
    assert confined() == {"sandbox": "on"}, "and no other setting counts"
    config.write_text("[tools.bash\n")
    with pytest.raises(
        ReplayError, match=r"(?s)The settings of the sandbox \(\[tools\.bash\]\) cannot be read: .*config\.toml"
    ):
        confined()


@pytest.mark.kernel
@pytest.mark.parametrize("mode", ["off", "on"])
def test_a_confined_command_writes_nothing_outside_of_the_copy(tmp_path, monkeypatch, mode):
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work, outside, tmp_path / "home"):
        folder.mkdir()
    why = sandbox.problem(work, network=False)
    if why:
        pytest.skip(why)
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "config.toml").write_text(f'[tools.bash]\nsandbox = "{mode}"\n')
    arguments = json.dumps({"command": f"echo hi > {outside}/made || true"})
    call = RecordedCall(id="c1", name="bash", arguments=arguments, decision=ALLOWED, status="ok", exit=0)
    steps = (RecordedStep(calls=(call,)), RecordedStep(content="Done."))
    nb = session_notebook(recording(turn(1, "go", steps=steps), workspace={"path": "work"}))
    path = write_notebook(nb, tmp_path / "a.ipynb")
    replay_notebook(path, ReplayOptions(tools=True, approve_recorded=True, output_dir=tmp_path / "out"))
    assert (outside / "made").exists() is (mode == "off")


def test_a_tampered_input_is_refused_before_a_kernel_starts(save):
    def tamper(nb):
        nb["cells"][1]["metadata"]["kin"]["records"][0]["prompt"] = "other"

    with pytest.raises(RecordingError, match="cell 2, turn 1"):
        replay_notebook(save(change=tamper))


def test_the_input_is_never_the_output(save, tmp_path):
    with pytest.raises(ReplayError, match=r"would overwrite talk\.ipynb"):
        replay_notebook(save(), ReplayOptions(output_dir=tmp_path))


@pytest.mark.parametrize("recorded", ["", "/etc"])
def test_a_workspace_that_is_not_recorded_beside_the_notebook_must_be_named(save, recorded):
    with pytest.raises(ReplayError, match="--workspace PATH"):
        replay_notebook(save(workspace={"path": recorded}), ReplayOptions(tools=True))
