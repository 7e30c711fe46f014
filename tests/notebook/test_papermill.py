"""papermill with parameters, on notebooks of the Kin kernel: it finds our translator by itself, and runs for real."""

from __future__ import annotations

import math
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kin_nb.cli import main
from tests.notebook.people import run, write_config

pytestmark = pytest.mark.kernel

KERNEL = {"name": "kin", "display_name": "Kin", "language": "python"}


@pytest.fixture
def translator():
    """As papermill finds it."""
    import papermill

    return papermill.translators.papermill_translators.find_translator("kin", "python")


@pytest.fixture
def jupyter(tmp_path) -> Path:
    """Where this interpreter's Kin kernel is installed."""
    assert main(["kernel", "install", "--prefix", str(tmp_path / "prefix")]) == 0
    return tmp_path / "prefix" / "share" / "jupyter"


def written(path: Path, *cells, kernel=KERNEL) -> Path:
    nbformat.write(new_notebook(cells=list(cells), metadata={"kernelspec": dict(kernel)}), path)
    return path


def test_parameters_are_python_and_prompts_speak_of_them(jupyter, model_server, tmp_path):
    home = tmp_path / "home"
    write_config(home, model_server.url)
    model_server.enqueue("Five.")
    notebook = written(
        tmp_path / "in.ipynb",
        new_code_cell("%%python\nlimit = 1\nlabel = 'none'", metadata={"tags": ["parameters"]}),
        new_code_cell("What is the value of @limit? And @label?"),
        new_code_cell("%%python\nprint(limit, label)"),
    )
    argv = ("-m", "papermill", notebook, tmp_path / "out.ipynb", "-p", "limit", "5", "-p", "label", "a 'b' \"c\"")
    done = run(*argv, home=home, cwd=tmp_path, JUPYTER_PATH=str(jupyter))
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert [cell.source for cell in executed.cells[2:]] == [
        "What is the value of @limit? And @label?",
        "%%python\nprint(limit, label)",
    ]
    assert executed.cells[1].source.startswith("%%python\n# Parameters\nlimit = 5\n")
    assert executed.cells[3].outputs[0].text == "5 a 'b' \"c\"\n"
    assert "Five." in str(executed.cells[2].outputs)
    asked = model_server.requests[0]["messages"][-1]["content"]
    assert asked.startswith("What is the value of @limit? And @label?\n\n")
    assert "\nlimit = 5\n" in asked
    assert asked.endswith("\nlabel = 'a \\'b\\' \"c\"'")
    assert len(model_server.requests) == 1


def test_every_kind_of_value_comes_back(translator):
    values = {
        "a": None,
        "b": True,
        "c": -1,
        "d": 1.5,
        "e": "line\n\u00e9 'x' \"y\" \\",
        "f": [1, {"k": "v"}],
        "g": math.inf,
    }
    first, _, code = translator.codify(values).partition("\n")
    assert first == "%%python"
    scope: dict = {}
    exec(code, scope)
    assert {name: scope[name] for name in values} == values


def test_the_names_of_parameters_are_found_below_the_magic(translator):
    found = translator.inspect(new_code_cell("%%python\nlimit: int = 1  # how many\nlabel = 'x'"))
    assert [(each.name, each.default) for each in found] == [("limit", "1"), ("label", "'x'")]
