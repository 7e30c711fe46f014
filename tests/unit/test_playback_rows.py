"""docs/reference/playback.md: each row of "What happened to the cell, and what you see" has a test, which names it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows() -> list[str]:
    page = (ROOT / "docs" / "reference" / "playback.md").read_text(encoding="utf-8")
    table = page.partition("\n## What happened to the cell")[2].partition("\n## ")[0]
    return [line.strip("|").split(" | ")[0].strip() for line in table.splitlines() if line.startswith("| ")][1:]


def rows_with_a_test() -> list[str]:
    """Each row that a `pytest.mark.row` names."""
    files = [*(ROOT / "tests" / "kernel").glob("*.py"), *(ROOT / "tests" / "notebook").glob("*.py")]
    texts = (path.read_text(encoding="utf-8") for path in files)
    nodes = (node for text in texts if "mark.row(" in text for node in ast.walk(ast.parse(text)))
    marks = (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.row")
    return [ast.literal_eval(mark.args[0]) for mark in marks]


def test_each_row_has_a_test_and_each_test_a_row():
    assert len(rows()) > 20
    shown, tested = rows(), rows_with_a_test()
    assert [row for row in shown if row not in tested] == [], "rows without a test"
    assert [row for row in tested if row not in shown] == [], "tests of rows that are not there"
