"""`kin-nb save --check` plays what it saved: in a copy of the files; what stops it is a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.people import kin_nb_here

pytestmark = pytest.mark.kernel


def saved(path: Path, *arguments: str):
    return kin_nb_here("save", path.name, "out.ipynb", *arguments, home=path.parents[1] / "home", cwd=path.parent)


COMPUTED = "name = 'data' + '.csv'\nprint(open(name).read())"


def test_a_missing_file_is_named_with_its_cell_and_the_notebook_is_saved_all_the_same(written):
    path = written("x = 1", COMPUTED)
    done = saved(path)
    assert (done.returncode, "A replay stops" in done.stdout) == (0, False), "its name is only known when it runs"
    done = saved(path, "--check")
    assert done.returncode == 0, done.stderr
    assert "A replay stops at cell 4: FileNotFoundError" in done.stdout
    assert "data.csv" in done.stdout
    assert (path.parent / "out.ipynb").exists()


def test_without_check_no_cell_runs_and_what_reading_finds_is_named(written):
    path = written("open('ran.txt', 'w').write('x')", "print(open('data.csv').read())", "print(total)")
    done = saved(path)
    assert done.returncode == 0
    assert "A replay stops at cell 4: data.csv does not exist." in done.stdout
    assert "A replay stops at cell 5: no cell above it defines `total`." in done.stdout
    assert not (path.parent / "ran.txt").exists()


def test_with_check_the_cells_run_in_a_copy_and_the_users_files_stay_as_they_are(written):
    path = written("from pathlib import Path\nPath('data.csv').write_text('changed')", COMPUTED)
    (path.parent / "data.csv").write_text("a,b\n")
    done = saved(path, "--check")
    assert "Checked: every cell ran, in a copy of these files." in done.stdout, done.stdout + done.stderr
    assert (path.parent / "data.csv").read_text() == "a,b\n"


def test_what_reading_had_named_is_not_repeated_where_it_ran(written):
    path = written("setattr(__import__('builtins'), 'total', 1)\nprint(total)")
    assert "no cell above it defines `total`" in saved(path).stdout
    done = saved(path, "--check")
    assert "Checked: every cell ran" in done.stdout, done.stdout + done.stderr
    assert "A replay stops" not in done.stdout


def test_a_plain_export_has_nothing_to_play(written):
    path = written("x = 1")
    for other in ("--plain", "--no-check"):
        done = saved(path, "--check", other)
        assert done.returncode == 1
        assert "Leave out one of them." in done.stderr
