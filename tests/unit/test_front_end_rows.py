"""docs/project/front-end-tests.md: every row names tests that exist, and no test of a front end is left out."""

from __future__ import annotations

import re

from tests.seeds.test_coverage import ROOT, functions_of, missing, named

LINES = (ROOT / "docs" / "project" / "front-end-tests.md").read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in LINES if line.startswith("| ")]
ROWS = [row for row in ROWS if row[0] not in {"front end", "text format"}]
FILES = ("kernel/test_consoles.py", "notebook/test_front_ends.py")


def test_every_front_end_has_its_row():
    names = " ".join(re.sub(r"[`,]", "", row[0]) for row in ROWS)
    programs = ("JupyterLab", "Notebook", "VS Code", "jupyter console", "ipython", "qtconsole", "nbclient")
    programs += ("jupyter execute", "papermill", "nbval", "nbconvert --to html", "--to markdown", "--to latex")
    assert [program for program in programs if program not in names] == []
    assert len({row[0] for row in ROWS}) == len(ROWS)


def test_every_row_names_tests_that_exist():
    wrong = [f"{row[0]}: names no test" for row in ROWS if not named(row[-1])]
    wrong += [f"{row[0]}: {missing(test)}" for row in ROWS for test in named(row[-1]) if missing(test)]
    assert wrong == []


def test_every_test_of_a_front_end_is_named():
    shown = {test for row in ROWS for test in named(row[-1])}
    written = {f"{file}::{name}" for file in FILES for name in functions_of(ROOT / "tests" / file)}
    about_the_session = {"notebook/test_front_ends.py::test_the_session_has_what_these_tests_speak_of"}
    assert written - shown == about_the_session
