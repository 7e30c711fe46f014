"""The tables of the reference name every variable, file and exit code that the code knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kin_nb.replay.commands.replay import examples
from kin_nb.replay.format.notebook_reader import load_notebook
from tests.table import each_row

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
CODE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "kin_nb").rglob("*.py"))


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_every_environment_variable_has_its_row():
    read = set(re.findall(r'"(KIN_[A-Z_]+)"', CODE))
    assert len(read) > 10
    assert sorted(name for name in read if f"`{name}`" not in page("environment-variables.md")) == []


def test_every_file_of_the_home_folder_has_its_row():
    names = set(re.findall(r'kin_home\(\) / "([a-z_.A-Z]+)"', CODE))
    assert len(names) > 8
    assert sorted(name for name in names if f"`{name}" not in page("files-on-disk.md")) == []


@each_row("code", [0, 1, 2, 3, 130, 143, 129])
def test_every_exit_code_has_its_row(code):
    assert f"\n| {code} | " in page("exit-codes.md")


def test_every_example_is_a_tutorial():
    text = (ROOT / "docs" / "tutorials" / "examples.md").read_text(encoding="utf-8")
    assert [name for name in examples() if f"`kin-nb demo {name}`" not in text] == []


PLAYED = [path for path in (ROOT / "docs" / "tutorials").glob("*.md") if " --from " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", PLAYED, ids=lambda path: path.stem)
def test_a_tutorial_plays_the_example_as_it_is(path):
    """An example that was recorded again has another digest, and perhaps other prompts."""
    text = path.read_text(encoding="utf-8")
    (played,) = re.findall(r"^%kin replay (\S+) --from (\S+)$", text, re.MULTILINE)
    cells = [cell["source"].strip() for cell in load_notebook(path.parent / played[1])["cells"]]
    assert any(f"%kin replay {played[0]}" in cell for cell in cells)
    prompts = re.findall(r"^(%%kin.*?|%kin undo 1\n)```", text, re.MULTILINE | re.DOTALL)
    assert prompts
    assert [prompt for prompt in prompts if prompt.strip() not in cells] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
