"""What saving takes out of ordinary cells' outputs: no drift when it is shown again, and in no report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_output

from kin_nb.cli.main import main
from kin_nb.core.session.records import RecordedCall, RecordedDecision, RecordedStep
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.format.loading import load_notebook
from kin_nb.replay.format.taken_out import align
from kin_nb.replay.rerun.drift import compare_call, without_taken_out
from kin_nb.replay.saving.making import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.privacy import known_secrets
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import recording, turn

TOKEN = "tok-5f0c9e77a1"  # secret by the name of its variable
CUSTOMER = "ACME-4711"
SHOWS = """import os
print('token', os.environ['BUILD_TOKEN'])
print('customer', open('customer.txt').read())"""
SHOWN = f"token {TOKEN}\ncustomer {CUSTOMER}\n"


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A saved session whose ordinary cell shows a secret and a customer; `more` is code and what it showed then."""
    monkeypatch.setenv("BUILD_TOKEN", TOKEN)

    def saved(more: str = "", then: str = "") -> Path:
        nb = session_notebook(recording(turn(1, "first")))
        outputs = [new_output("stream", text=SHOWN + then)]
        nb["cells"].append(new_code_cell(f"{SHOWS}\n{more}", id="own", execution_count=3, outputs=outputs))
        nb["cells"].append(new_code_cell("raise SystemExit(0)", id="never", metadata={"tags": ["nbval-skip"]}))
        nb["cells"].pop()
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


def replayed(path: Path, capsys, *arguments: str) -> tuple[int, str]:
    """(exit code, all that was printed and written)."""
    capsys.readouterr()
    folder = path.parent / "executed"
    code = main(["replay", str(path), "--output-dir", str(folder), *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err + (folder / path.name).read_text()


@pytest.mark.kernel
@pytest.mark.parametrize("report", ["text", "json", "junit"])
def test_what_was_taken_out_is_no_drift_and_nowhere(saved, capsys, report):
    code, everything = replayed(saved(), capsys, "--report", report)
    assert code == 0, everything
    assert TOKEN not in everything
    assert CUSTOMER not in everything


@pytest.mark.kernel
@pytest.mark.parametrize("report", ["text", "json", "junit"])
@pytest.mark.parametrize("more", ["print(6 * 7)", "raise ValueError(open('customer.txt').read())"])
def test_drift_in_such_a_cell_is_named_and_shows_nothing_of_it(saved, capsys, report, more):
    code, everything = replayed(saved(more, "41\n"), capsys, "--report", report)
    assert code == (3 if "print" in more else 1)
    assert ("line 3 is not as saved" in everything) == ("print" in more)
    assert TOKEN not in everything
    assert CUSTOMER not in everything


@pytest.mark.kernel
def test_in_place_does_not_bring_back_what_was_taken_out(saved, capsys):
    path = saved()
    assert main(["replay", str(path), "--in-place"]) == 0, capsys.readouterr()
    assert not {value for value in (TOKEN, CUSTOMER) if value in path.read_text()}
    assert "customer [redacted]" in path.read_text()


READS = "c = open('customer.txt').read(); print('customer', c)"


@pytest.fixture
def redacted(tmp_path):
    """A saved session with ordinary cells, each its code and the stream it showed; what `pattern` matches is taken out."""

    def redacted(*cells: tuple[str, list], value: str = CUSTOMER, pattern: str = r"ACME-\d+", check: bool = False):
        nb = session_notebook(recording(turn(1, "first")))
        for number, (code, outputs) in enumerate(cells):
            nb["cells"].append(new_code_cell(code, id=f"own{number}", execution_count=3 + number, outputs=outputs))
        source = write_notebook(nb, tmp_path / "talk.ipynb")
        (tmp_path / "customer.txt").write_text(value)
        options = SaveOptions(redact=(re.compile(pattern),))
        path = tmp_path / "out.ipynb"
        said = SaveCommand(str(source), path, options, secrets=known_secrets(), check=check).run()
        assert value not in path.read_text()
        return path, "\n".join(said)

    return redacted


def shown(text: str) -> list:
    return [new_output("stream", text=text)]


@pytest.mark.kernel
@pytest.mark.parametrize("report", ["text", "json", "junit"])
@pytest.mark.parametrize("then", ["raise KeyError(c)", "print('seen', c)"])
def test_below_a_mark_that_cannot_be_found_again_nothing_is_shown(redacted, capsys, report, then):
    path, _ = redacted((f"print('more')\n{READS}", shown(f"customer {CUSTOMER}\n")), (then, shown("seen none\n")))
    code, everything = replayed(path, capsys, "--report", report)
    assert code == (1 if "raise" in then else 3)
    assert CUSTOMER not in everything
    assert "not shown: a save took something out of this cell" in everything
    assert ("KeyError" in everything) == ("raise" in then)


@pytest.mark.kernel
def test_another_error_than_the_saved_one_shows_its_name_alone(redacted, capsys):
    failed = new_output("error", ename="ValueError", evalue=CUSTOMER, traceback=[f"ValueError: {CUSTOMER}"])
    path, _ = redacted(("raise KeyError('bad ' + open('customer.txt').read())", [failed]))
    _, everything = replayed(path, capsys)
    assert CUSTOMER not in everything
    assert "KeyError" in everything


@pytest.mark.kernel
def test_other_streams_than_saved_do_not_hide_where_the_mark_belongs(redacted, capsys):
    code = f"import sys; print('note', file=sys.stderr)\n{READS}"
    path, _ = redacted((code, shown(f"customer {CUSTOMER}\n")), ("print('fine')", shown("fine\n")))
    code, everything = replayed(path, capsys)
    assert CUSTOMER not in everything
    assert "cannot be found again" not in everything


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("value", "pattern"), [("BEGIN\nsecretline\nEND", "(?s)BEGIN.*END"), ("DOM\\jdoe77", r"DOM\\\w+")]
)
def test_a_value_of_several_lines_or_with_a_backslash_is_not_shown(redacted, capsys, value, pattern):
    cells = (READS, shown(f"customer {value}\n")), ("raise KeyError(c)", shown("ok\n"))
    path, _ = redacted(*cells, value=value, pattern=pattern)
    _, everything = replayed(path, capsys)
    assert "secretline" not in everything
    assert "jdoe77" not in everything


@pytest.mark.kernel
def test_in_place_is_refused_where_a_mark_cannot_be_found_again(redacted, capsys):
    cells = (f"print('more')\n{READS}", shown(f"customer {CUSTOMER}\n")), ("print('seen', c)", shown("seen none\n"))
    path, _ = redacted(*cells)
    before = path.read_bytes()
    assert main(["replay", str(path), "--in-place", "--fail-on", "effect"]) == 1
    assert "nothing was written in place" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.kernel
def test_checking_what_was_saved_does_not_print_what_was_taken_out(redacted):
    _, said = redacted(("c = open('customer.txt').read(); raise ValueError(c)", []), check=True)
    assert "ValueError: [redacted]" in said
    assert CUSTOMER not in said


@pytest.mark.kernel
def test_checking_names_a_file_outside_of_the_copied_folder_as_not_checked(redacted):
    _, said = redacted(("open('../data/x.csv').read()", []), check=True)
    assert "Cell 3 not checked: it reads ../data/x.csv outside of the copied folder." in said


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


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("a [secret] b", "a xyz b", ("a [secret] b", ("xyz",))),
        ("[redacted]", "x", ("[redacted]", ("x",))),
        ("[redacted], [redacted]!", "x, y!", ("[redacted], [redacted]!", ("x", "y"))),
        ("a [secret] b", "a  b", ("a  b", ())),
        ("a [secret] b", "c xyz b", ("c xyz b", ())),
        ("[secret]\nsame", "x\nother", ("[secret]\nother", ("x",))),
        ("[secret]", "x\ny", ("[secret]\ny", ("x",))),
        ("[secret] x", "\x1b[31mtoken\x1b[0m x", ("[secret] x", ("token",))),
        ("none", "other", ("other", ())),
    ],
)
def test_marks_stand_for_what_is_in_their_place(before, now, expected):
    found = align(before, now)
    assert (found.text, found.values) == expected


def call(output: str, **fields) -> RecordedCall:
    return RecordedCall(
        id="c1", name="bash", arguments='{"command": "x"}', status="ok", output=output, exit=0, **fields
    )


def test_a_call_that_shows_it_again_is_equivalent_and_one_that_drifted_shows_nothing_of_it():
    recorded = call("customer [redacted]\ncount 1")
    assert compare_call(recorded, call(f"customer {CUSTOMER}\ncount 1")).kind == "equivalent"
    for other in (f"customer {CUSTOMER}\ncount 2", f"count 1\ncustomer {CUSTOMER}", f"{CUSTOMER}"):
        drift = compare_call(recorded, call(other))
        assert drift.kind == "text"
        assert CUSTOMER not in drift.detail
        assert CUSTOMER not in without_taken_out(recorded, call(other)).output


@pytest.mark.kernel
def test_with_tools_no_card_and_no_report_shows_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BUILD_TOKEN", TOKEN)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "customer.txt").write_text(CUSTOMER)
    allowed = RecordedDecision(verdict="allow", by="person", reason="asked")
    calls = [
        RecordedCall(
            id=f"c{n}",
            name="bash",
            arguments='{"command": "cat customer.txt"}',
            decision=allowed,
            status="ok",
            output=output,
            exit=0,
        )
        for n, output in enumerate(["[redacted]", "[redacted], once more"])
    ]
    steps = [RecordedStep(fingerprint="f", content="I look.", calls=(each,)) for each in calls]
    steps.append(RecordedStep(fingerprint="f", content="Done."))
    made = recording(turn(1, "look", steps=tuple(steps)), workspace={"path": "work"})
    path = write_notebook(session_notebook(made), tmp_path / "out.ipynb")
    code, everything = replayed(path, capsys, "--tools", "--approve", "recorded")
    assert code == 3, everything
    assert "turn 1, step 2, bash: text: line 1 is not as recorded" in everything
    assert CUSTOMER not in everything


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
