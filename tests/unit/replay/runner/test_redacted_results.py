"""What saving takes out is no drift when it is shown again, and from there on no report and no executed copy shows text."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kin_nb.cli.main import main
from kin_nb.core.config import KinConfig
from kin_nb.core.records import KeptFile, RecordedCall, RecordedDecision, RecordedStep
from kin_nb.core.tools.builtins import sandbox
from kin_nb.replay.commands import replay
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.redacted_text import HiddenText, matches_redacted
from kin_nb.replay.recording import Recording
from kin_nb.replay.rerun.drift import compare_call
from kin_nb.replay.runner.results import not_applied
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.privacy import known_secrets
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import recording, turn, undo

TOKEN = "tok-5f0c9e77a1"  # secret by the name of its variable
CUSTOMER = "ACME-4711"
SHOWS = """import os
print('token', os.environ['BUILD_TOKEN'])
print('customer', open('customer.txt').read())"""
SHOWN = f"token {TOKEN}\ncustomer {CUSTOMER}\n"


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A saved session whose ordinary cell shows a secret and a customer."""
    monkeypatch.setenv("BUILD_TOKEN", TOKEN)

    def saved() -> Path:
        nb = session_notebook(recording(turn(1, "first")))
        outputs = [new_output("stream", text=SHOWN)]
        nb["cells"].append(new_code_cell(SHOWS, id="own", execution_count=3, outputs=outputs))
        source = write_notebook(nb, tmp_path / "talk.ipynb")
        (tmp_path / "customer.txt").write_text(CUSTOMER)
        options = SaveOptions(redact=(re.compile(r"ACME-\d+"),))
        SaveCommand(str(source), tmp_path / "out.ipynb", options, secrets=known_secrets()).run()
        text = (tmp_path / "out.ipynb").read_text()
        assert TOKEN not in text
        assert CUSTOMER not in text
        assert "token [secret]" in text
        assert "customer [redacted]" in text
        return tmp_path / "out.ipynb"

    return saved


def replayed(path: Path, capfd, *arguments: str) -> tuple[int, str]:
    """(exit code, all that was printed, by the kernel too, and written)."""
    capfd.readouterr()
    folder = path.parent / "executed"
    code = main(["replay", str(path), "--output-dir", str(folder), *arguments])
    captured = capfd.readouterr()
    return code, captured.out + captured.err + (folder / path.name).read_text()


@pytest.fixture
def all_reports(monkeypatch):
    """One run is reported in every form."""
    printed = replay._print

    def in_every_form(rows, how, out, *, reported):
        for form in ("text", "json", "junit"):
            printed(rows, dataclasses.replace(how, report=form), out, reported=False)

    monkeypatch.setattr(replay, "_print", in_every_form)


IN_A_PROCESS = ("--report", "json")


READS = "c = open('customer.txt').read(); print('customer', c)"


@pytest.fixture
def redacted(tmp_path):
    """A saved session with ordinary cells, each its code and the stream it showed; customers are taken out."""

    def redacted(*cells: tuple[str, list], talk: Recording | None = None, check: bool = False):
        nb = session_notebook(talk or recording(turn(1, "first")))
        for number, (code, outputs) in enumerate(cells):
            nb["cells"].append(new_code_cell(code, id=f"own{number}", execution_count=3 + number, outputs=outputs))
        source = write_notebook(nb, tmp_path / "talk.ipynb")
        (tmp_path / "customer.txt").write_text(CUSTOMER)
        options = SaveOptions(redact=(re.compile(r"ACME-\d+"),))
        path = tmp_path / "out.ipynb"
        said = SaveCommand(str(source), path, options, secrets=known_secrets(), check=check).run()
        assert CUSTOMER not in path.read_text()
        return path, "\n".join(said)

    return redacted


def shown(text: str) -> list:
    return [new_output("stream", text=text)]


ALLOWED = RecordedDecision(verdict="allow", by="person", reason="asked")
SPLIT = "print({0}[:4], end='', flush=True); print({0}[4:], flush=True)"


def call(output: str, number: int = 1, name: str = "bash", **arguments) -> RecordedCall:
    asked = json.dumps(arguments or {"command": "x"})
    exit_code = 0 if name == "bash" else None
    more = {"bound": ("c",)} if name == "python" else {}
    return RecordedCall(
        id=f"c{number}",
        name=name,
        arguments=asked,
        decision=ALLOWED,
        status="ok",
        output=output,
        exit=exit_code,
        **more,
    )


def calls_of(*calls: RecordedCall):
    """A recording of one turn, that did these one after the other."""
    steps = [RecordedStep(fingerprint="f", content="I look.", calls=(each,)) for each in calls]
    steps.append(RecordedStep(fingerprint="f", content="Done."))
    return recording(turn(1, "look", steps=tuple(steps)), workspace={"path": "work"})


@pytest.mark.kernel
def test_what_was_taken_out_is_no_drift_and_from_there_on_no_report_shows_text(
    redacted, capfd, all_reports, monkeypatch
):
    monkeypatch.setenv("BUILD_TOKEN", TOKEN)
    displays = "from IPython.display import display, HTML\ndisplay(HTML(f'<b>{c}</b>'), metadata={'key': c, 'name': c})"
    cells = {
        "import os; t = os.environ['BUILD_TOKEN']; " + SPLIT.format("t"): "above\n",
        "from IPython.display import display; above = display('x', display_id=True)": "",
        SHOWS: SHOWN,
        f"print('more')\n{READS}": f"customer {CUSTOMER}\n",
        "print('seen', c)": "seen none\n",
        "above.update(c)": "",
        SPLIT.format("c"): "none\n",
        "print('x' * 20, c * 40)": "none\n",
        displays: "none\n",
        "raise KeyError(c)": "none\n",
        "raise type('Bad ' + c, (Exception,), {})()": "none\n",
        "import atexit, os; atexit.register(lambda: os.write(2, c.encode()))": "",
        "raise ExceptionGroup('bad ' + c, [ValueError(c)])": "",
    }
    path, _ = redacted(*((code, shown(text)) for code, text in cells.items()))
    assert "token [secret]" in path.read_text()
    nb = load_notebook(path)
    for cell in nb["cells"]:
        if "KeyError" in cell["source"] or "type(" in cell["source"]:
            cell["metadata"]["tags"] = ["raises-exception"]
    path.write_text(json.dumps(nb))
    code, everything = replayed(path, capfd, *IN_A_PROCESS)
    assert code == 1, everything
    assert "ACME" not in everything
    assert TOKEN not in everything
    assert "cell 3: differs: stdout, line 1: saved 'above', now '[secret]'" in everything
    why = "text hidden, because this notebook was saved with redactions (cell 5)"
    assert "cell 5: differs" not in everything, "what was taken out is no drift"
    assert f"cell 6: differs: after drift: line 1, {why}" in everything
    assert f"cell 12: differs: after drift: {why}" in everything
    assert f"Stopped: cell 15: ExceptionGroup, {why}" in everything
    executed = load_notebook(path.parent / "executed" / path.name)
    assert not [cell for cell in executed["cells"][4:] if cell.get("outputs")]


@pytest.mark.kernel
@pytest.mark.parametrize("how", [{"check": True}, {"config": KinConfig()}], ids=["--check", "confined"])
def test_playing_without_the_patterns_of_an_earlier_save_shows_no_text(redacted, how):
    path, _ = redacted((READS, shown(f"customer {CUSTOMER}\n")), ("raise KeyError(c)", []))
    said = "\n".join(SaveCommand(str(path), path, **how).run())
    if "config" in how and sandbox.problem(path.parent, network=False):
        pytest.skip("nothing is confined here")
    assert "KeyError, text hidden, because this notebook was saved with redactions (cell 3)" in said
    assert CUSTOMER not in said


@pytest.mark.kernel
def test_checking_names_a_file_outside_of_the_copied_folder_as_not_checked(redacted, tmp_path):
    there = f"../{tmp_path.name}.csv"
    (tmp_path / there).write_text("a,b")
    _, said = redacted((f"open('{there}').read()", []), check=True)
    assert f"Cell 3 not checked: it reads {there} outside the copied folder." in said


@pytest.mark.long
@pytest.mark.kernel
def test_checking_names_a_missing_file_and_does_not_print_what_was_taken_out(redacted, tmp_path):
    gone = f"../{tmp_path.name}-gone-"
    _, said = redacted((f"c = open('customer.txt').read(); open('{gone}' + c)", []), check=True)
    assert "A replay stops at cell 3: FileNotFoundError" in said
    assert CUSTOMER not in said


@pytest.mark.long
@pytest.mark.kernel
def test_nbval_neither_fails_for_it_nor_prints_it(saved):
    path = saved()
    argv = [sys.executable, "-m", "pytest", "-q", "--nbval", "-p", "no:cacheprovider", path.name]
    done = subprocess.run(argv, cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert TOKEN not in done.stdout + done.stderr


def test_saving_tags_the_cell_and_removes_the_tags_with_what_was_taken_out(saved):
    path = saved()
    cell = load_notebook(path)["cells"][-1]
    assert cell["metadata"]["tags"] == ["kin-redacted", "nbval-ignore-output"]
    nb = load_notebook(path)
    nb["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "else\n"}]
    path.write_text(json.dumps(nb))
    SaveCommand(str(path), path).run()
    assert load_notebook(path)["cells"][-1]["metadata"]["tags"] == []


@each_row(
    ("before", "now", "same"),
    [
        ("a [secret] b", "a xyz b", True),
        ("a [secret] b", "a  b", False),
        ("a [secret] b", "c xyz b", False),
        ("[redacted], [redacted]!", "x, y, z!", True),
        ("[redacted] and [secret]", "x, y", False),
        ("key [secret]\nend", "key BEGIN\nx\nEND\nend", True),
        ("[secret] x", "\x1b[31mtoken\x1b[0m x", True),
        ("\x1b[1m[secret]\x1b[0m", "\x1b[1mtoken", False),
        ("none", "other", False),
        ("[redacted]", "", False),
    ],
)
def test_a_mark_stands_for_any_text(before, now, same):
    assert matches_redacted(before, now) == same


def test_marks_are_wildcards_verbatim():
    texts = ["".join(letters) for size in range(6) for letters in itertools.product("ab", repeat=size)]
    for pattern in ("[secret]a[secret]", "a[secret]b[redacted]b", "[secret][secret]a", "ab[secret]ab"):
        wildcard = re.compile(re.sub(r"\[\w+\]", ".+?", pattern), re.DOTALL)
        assert {text for text in texts if matches_redacted(pattern, text)} == {
            t for t in texts if wildcard.fullmatch(t)
        }


def test_many_marks_in_a_long_text_cost_no_more_than_one():
    assert not matches_redacted("a[secret]" * 50 + "b", "a" * 100_000)


def with_mark(where: str):
    """A session notebook of two turns and, after an undo if the mark is there, a cell of its own, with a mark in one place."""
    long = call("long\n" * 5000 + "[secret]" * (where == "result"))
    one, two = turn(1, "first"), turn(2, "second", steps=(RecordedStep(fingerprint="f", calls=(long,)),))
    taken = undo(two, to=one, kept=(KeptFile(path=where, why="[redacted]"),))
    talk = recording(
        *(one, two, *([taken] if where == "undo" else [])),
        unknown_records=('{"note":"[secret]","type":"later"}',) if where == "other" else (),
    )
    nb = session_notebook(talk, options=SaveOptions(portable=where == "portable"))
    nb["cells"].append(new_code_cell("x", id="own", outputs=shown("[secret]\n") if where == "output" else []))
    nb["cells"].append(new_markdown_cell("[redacted]" if where == "text" else "y", id="md"))
    nb["cells"][-1]["attachments"] = {"a": {"text/plain": "[redacted]"}} if where == "attachment" else {}
    return nb


@each_row(
    ("where", "first"),
    [("", 0), ("result", 3), ("undo", 4), ("output", 4), ("text", 5), ("attachment", 5), ("other", 3), ("portable", 0)],
)
def test_the_first_cell_with_a_mark_is_found_wherever_that_is(where, first):
    assert HiddenText.of(with_mark(where)).number == first


def test_a_call_that_shows_it_again_is_equivalent_and_drift_names_the_line():
    recorded = call("customer [redacted]\ncount 1")
    assert compare_call(recorded, call(f"customer {CUSTOMER}\nAG\ncount 1")).kind == "equivalent"
    drift = compare_call(recorded, call(f"customer {CUSTOMER}\ncount 2"))
    assert (drift.kind, drift.line) == ("text", 2)


@pytest.mark.kernel
def test_with_tools_no_card_no_progress_and_no_report_shows_it(redacted, tmp_path, monkeypatch, capfd, all_reports):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "customer.txt").write_text(CUSTOMER)
    did = calls_of(
        call(CUSTOMER, 1, command="cat customer.txt"),
        call("other", 2, command="cat customer.txt"),
        call("", 3, command="cat customer.txt >&2; exit 1"),
        call("3", 4, "python", code="c = open('customer.txt').read()\nraise KeyError(c)"),
    )
    ends = "import atexit, os; c = open('work/customer.txt', 'rb').read(); atexit.register(lambda: os.write(2, c)); print('x')"
    path, _ = redacted((ends, shown("above\n")), talk=did)
    code, everything = replayed(path, capfd, "--tools", "--approve", "recorded")
    assert code == 3, everything
    assert CUSTOMER not in everything
    why = "text hidden, because this notebook was saved with redactions (cell 2)"
    assert f"turn 1, step 2, bash: text: line 1, {why}" in everything
    assert f"turn 1, step 3, bash: effect: {why}" in everything
    assert f"turn 1, step 4, python: effect: {why}" in everything


def test_a_scratch_copy_names_the_cell_alone():
    nb = new_notebook(cells=[new_code_cell("")])
    missing = {"kin": {"kind": "scratch", "place": "turn 1", "missing": [CUSTOMER]}}
    nb["cells"][0]["outputs"] = [new_output("display_data", {}, metadata=missing)]
    assert not_applied(nb, HiddenText(0)) == (f"cell 1: {HiddenText(0).reason}",)
    assert not_applied(nb, HiddenText(1)) == (f"turn 1: {CUSTOMER}",)


@pytest.mark.kernel
def test_what_the_agents_own_code_prints_again_is_not_shown(redacted, capfd, all_reports):
    code = "c = open('customer.txt').read(); print('the customer is', c)"
    did = calls_of(call(f"the customer is {CUSTOMER}\n", 1, "python", code=code))
    path, _ = redacted(("raise KeyError(c)", []), talk=did)
    assert "kin-bound" in path.read_text()
    code, everything = replayed(path, capfd)
    assert code == 1
    assert CUSTOMER not in everything


def test_what_would_bring_it_back_into_a_file_is_refused_before_anything_runs(redacted, capsys, monkeypatch):
    path, _ = redacted((READS, shown(f"customer {CUSTOMER}\n")))
    before = path.read_bytes()
    monkeypatch.setattr("kin_nb.replay.runner.run_notebook.prepare", None)
    assert main(["replay", str(path), "--live"]) == 1
    said = capsys.readouterr().err
    assert "was saved with redactions (cell 3)" in said
    assert "Nothing was run" in said
    assert path.read_bytes() == before


def test_an_error_of_our_own_in_such_a_run_shows_its_class_alone(redacted, capsys, monkeypatch):
    path, _ = redacted((READS, shown(f"customer {CUSTOMER}\n")))

    def fail(*_):
        raise ValueError(CUSTOMER)

    monkeypatch.setattr("kin_nb.replay.runner.run_notebook.run_cells", fail)
    assert main(["replay", str(path)]) == 1
    said = capsys.readouterr()
    assert "ValueError, text hidden" in said.err
    assert CUSTOMER not in said.out + said.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_diff_prints_no_secret_that_is_known_here(tmp_path, monkeypatch, capsys, form):
    paths = [
        write_notebook(session_notebook(recording(turn(1, f"{word} {TOKEN}"))), tmp_path / f"{word}.ipynb")
        for word in ("one", "two")
    ]
    monkeypatch.setenv("BUILD_TOKEN", TOKEN)
    assert main(["diff", *map(str, paths), "--output", form]) == 3
    shown = capsys.readouterr().out
    assert "[secret]" in shown
    assert TOKEN not in shown
