"""docs/project/seed-coverage.md: every row names a test, what it names exists, and no seed test is left out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.table import each_row

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "project" / "seed-coverage.md").read_text(encoding="utf-8")
SEEDS = ("000", "001", "002", "003", "004")


def tables() -> dict[str, list[list[str]]]:
    """Heading -> the rows below it, without the head and its rule."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in TEXT.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split(" | ")])
    return {heading: rows[2:] for heading, rows in found.items()}


TABLES = tables()
ROWS = [row for heading, rows in TABLES.items() if heading.startswith("Seed ") for row in rows]
(MODULES,) = (rows for heading, rows in TABLES.items() if heading.startswith("Its modules"))


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def functions_of(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def missing(test: str) -> str:
    """What is wrong with `path::test`; "" when it exists."""
    place, _, name = test.partition("::")
    path = ROOT / "tests" / place
    if not path.is_file():
        return f"no file tests/{place}"
    return "" if name in functions_of(path) else f"no test {name} in tests/{place}"


@each_row("seed", SEEDS)
def test_each_seed_has_its_table(seed):
    assert [len(rows) > 25 for heading, rows in TABLES.items() if heading.startswith(f"Seed {seed}")] == [True]


def test_every_row_names_tests_that_exist():
    wrong = [f"{statement}: names no test" for _, statement, shown in ROWS if not named(shown)]
    wrong += [f"{statement}: {missing(test)}" for _, statement, shown in ROWS for test in named(shown) if missing(test)]
    assert wrong == []


def test_a_test_that_is_not_there_is_noticed():
    assert missing("unit/core/test_agent.py::test_nobody_wrote_this") == (
        "no test test_nobody_wrote_this in tests/unit/core/test_agent.py"
    )
    assert missing("unit/core/test_nothing.py::test_x") == "no file tests/unit/core/test_nothing.py"
    assert missing("unit/core/test_agent.py::asked") != "", "a function that is no test"


def test_no_statement_stands_twice():
    statements = [(section, statement) for section, statement, _ in ROWS]
    assert len(set(statements)) == len(statements)


def test_every_test_of_a_statement_is_named():
    shown = {test for _, _, cell in ROWS for test in named(cell)}
    files = sorted(Path(__file__).parent.glob("test_statements*.py"))
    written = {f"seeds/{file.name}::{name}" for file in files for name in functions_of(file)}
    assert written - shown == set()


@each_row("row", MODULES, ids=lambda row: row[0])
def test_every_module_is_where_the_table_says(row):
    places = [place for place in named(row[1]) if place.startswith("kin_nb/")]
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []
