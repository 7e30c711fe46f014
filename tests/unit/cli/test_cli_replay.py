"""`kin-nb replay`: which notebooks, which options, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn

pytestmark = pytest.mark.kernel


@pytest.fixture
def save(workspace):
    """Writes a session notebook of one turn; then an ordinary cell: (source, stdout as saved)."""

    def save(name: str, source: str = "print(1)", text: str = "1\n", **meta) -> Path:
        nb = session_notebook(recording(turn(1, "first"), **meta))
        saved = [new_output("stream", text=text)]
        nb["cells"].append(new_code_cell(source, id="plain", execution_count=3, outputs=saved))
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_notebook(nb, path)

    return save


@pytest.mark.long
def test_a_pattern_stands_for_notebooks_in_order_without_checkpoints(save, kin, workspace):
    for name in ("s/b/x.ipynb", "s/a/x.ipynb", "s/.ipynb_checkpoints/x.ipynb", "s/top.ipynb"):
        save(name)
    done = kin("replay", "s/**/*.ipynb", "s/top.ipynb", "--output-dir", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-5:] == [
        "same    s/a/x.ipynb",
        "same    s/b/x.ipynb",
        "same    s/top.ipynb",
        "3 notebooks: 3 same.",
        "Executed notebooks: out",
    ]
    executed = sorted(str(path.relative_to(workspace / "out")) for path in (workspace / "out").rglob("*.ipynb"))
    assert executed == ["a/x.ipynb", "b/x.ipynb", "top.ipynb"]


def test_a_pattern_that_matches_nothing_is_an_error_before_anything_runs(save, kin, workspace):
    save("a.ipynb")
    done = kin("replay", "a.ipynb", "nowhere/*.ipynb", "--output-dir", "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("No notebook matches nowhere/*.ipynb.")
    assert not (workspace / "out").exists()


WRONG = {
    "--in-place": "unknown argument --in-place",
    "--tools --live": "Give only one of --tools and --live.",
    "--scratch --tools": "Give only one of --scratch and --tools.",
    "--approve recorded": "--approve recorded needs --tools or --live",
    "-p class 1": "-p needs the name of a variable, got class.",
    "-p x": "-p/--parameter needs 2 values.",
    "-j 0": "-j/--jobs must be 1 or more, got 0.",
    "--timeout soon": "--timeout must be a whole number, got 'soon'.",
    "--fail-on all": "--fail-on must be one of text, effect, got all.",
    "--rules mine.toml --live": "--rules cannot be combined with --live",
    "--dask here": "--dask must be the address of a scheduler, tcp://HOST:PORT, got here.",
    "--dask tcp://127.0.0.1:1 -j 2": "Give only one of --dask and -j",
}


@each_row("options", WRONG)
def test_options_that_cannot_be_combined_are_wrong_usage(kin, options):
    done = kin("replay", "a.ipynb", *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert WRONG[options] in done.stderr


def test_rules_of_ones_own_say_what_may_differ_and_a_bad_one_stops_before_anything_runs(save, kin, workspace):
    save("a.ipynb", "print('build 2')", "build 1\n")
    (workspace / "mine.toml").write_text("[[rule]]\nname = 'n'\ndescription = 'the number'\npattern = 'build [0-9]+'\n")
    done = kin("replay", "a.ipynb", "--rules", "mine.toml", "-j", "1", "--report", "json", "--output-dir", "out")
    assert (done.returncode, done.stderr) == (0, "1/1 a.ipynb: exit code 0\n")
    cell = json.loads(done.stdout)["notebooks"][0]["report"]["cells"][-1]
    assert cell == {"cell": 3, "status": "same", "detail": "the number (rule n of mine.toml)"}
    (workspace / "bad.toml").write_text("[[rule]]\nname = 'n'\ndescription = 'all'\npattern = '.*'\n")
    done = kin("replay", "a.ipynb", "--rules", "bad.toml", "--output-dir", "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "bad.toml:4: rule n: pattern: it matches the empty text, and so everywhere.\n"
    assert not (workspace / "none").exists()


def test_parameters_are_set_in_the_executed_copy_alone_and_text_that_differs_need_not_count(save, kin, workspace):
    path = save("p.ipynb", "print(n * 2, name)", "4 Bob\n")
    before = path.read_bytes()
    parameters = ("-p", "n", "2", "-p", "name", "Ada")
    done = kin("replay", "p.ipynb", *parameters, "--output-dir", "out", "--fail-on", "effect")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "differs: stdout, line 1: saved '4 Bob', now '4 Ada'" in done.stdout, "it is still reported"
    assert path.read_bytes() == before
    assert "injected-parameters" in (workspace / "out" / "p.ipynb").read_text()


@pytest.mark.long
def test_one_document_is_all_there_is_on_stdout(save, kin):
    save("noisy.ipynb", "import os; os.system('echo noise'); print(2)", "1\n")
    done = kin("replay", "noisy.ipynb", "gone.ipynb", "--report", "json", "-j", "2", "--output-dir", "out")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["exit_code"] == 1
    noisy, gone = document["notebooks"]
    assert (noisy["notebook"], noisy["exit_code"], noisy["report"]["mode"]) == ("noisy.ipynb", 3, "playback")
    assert [cell["status"] for cell in noisy["report"]["cells"]] == ["same", "same", "differs"]
    assert (gone["exit_code"], gone["report"]) == (1, None)
    assert gone["error"] == "gone.ipynb cannot be read: No such file or directory."
    assert "2/2 " in done.stderr


@pytest.mark.long
def test_junit_is_for_a_single_notebook_too_and_time_is_limited(save, kin):
    save("slow.ipynb", "__import__('threading').Event().wait()", "")
    done = kin("replay", "slow.ipynb", "--report", "junit", "--timeout", "4", "--output-dir", "out")
    assert done.returncode == 1
    (case,) = [case for case in ET.fromstring(done.stdout).iter("testcase") if case.get("name") == "the notebook"]
    error = case.find("error")
    assert error is not None
    assert "longer than 4 s" in error.get("message", "")


def test_what_cannot_be_replayed_is_reported_with_what_to_do(save, kin, workspace):
    (workspace / "cut.ipynb").write_text('{"cells": [')
    (workspace / "foreign.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    later = save("later.ipynb")
    later.write_text(later.read_text().replace('"format": 2', '"format": 9'))
    save("nowhere.ipynb", workspace={"path": "gone"})
    names = ("cut.ipynb", "foreign.ipynb", "later.ipynb", "nowhere.ipynb")
    done = kin("replay", *names, "--tools", "--output-dir", "out")
    assert done.returncode == 1
    *rows, summary, _ = done.stdout.splitlines()[-6:]
    assert summary == "4 notebooks: 4 failed."
    says = dict(zip(names, rows, strict=True))
    assert "Restore it from a copy" in says["cut.ipynb"]
    assert "no recording" in says["foreign.ipynb"]
    assert "pdate kin_nb" in says["later.ipynb"]
    assert "gone not found. ⏎ Give it: kin-nb replay --workspace PATH" in says["nowhere.ipynb"]
