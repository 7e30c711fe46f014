from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.runner.options import output_folders, select_notebooks
from tests.table import each_row


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = {
        "ordinary.ipynb": ("import kinetics", {}),
        "session.ipynb": ("%%kin\nGo on.", {}),
        "cleaned.ipynb": ("%load_ext kin_nb\n%kin replay abc@123456789012", {}),
        "recorded.ipynb": ("1 + 1", {"kin": {}}),
        "deep/of-the-kernel.ipynb": ("Go on.", {"kernelspec": {"name": "kin", "display_name": "Kin"}}),
        ".ipynb_checkpoints/session.ipynb": ("%%kin\nGo on.", {}),
    }
    for name, (source, metadata) in cells.items():
        Path(name).parent.mkdir(exist_ok=True)
        nbformat.write(v4.new_notebook(cells=[v4.new_code_cell(source)], metadata=metadata), name)
    return tmp_path


def names(paths):
    return [str(path) for path in paths]


def test_of_a_pattern_ordinary_notebooks_are_left_out_and_those_that_lost_their_recording_are_not():
    paths, ordinary = select_notebooks(["**/*.ipynb"])
    assert names(paths) == ["cleaned.ipynb", "deep/of-the-kernel.ipynb", "recorded.ipynb", "session.ipynb"]
    assert names(ordinary) == ["ordinary.ipynb"]


@each_row(
    "broken",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        b'{\n "cells": [\n  {\n   "cell_type": "code",\n   "execution_coun',
        b'{"cells": ["\xff"]}',
        b"[" * 100_000,
    ],
    ids=["empty", "git-lfs pointer", "truncated", "not UTF-8", "too deep"],
)
def test_of_a_pattern_what_is_not_json_is_not_left_out(broken):
    Path("broken.ipynb").write_bytes(broken)
    paths, ordinary = select_notebooks(["*.ipynb"])
    assert "broken.ipynb" in names(paths)
    assert names(ordinary) == ["ordinary.ipynb"]


def test_a_pattern_finds_each_notebook_once_though_links_lead_up_and_round():
    Path("deep/up").symlink_to("..")
    Path("deep/round").symlink_to("../deep")
    Path("other").symlink_to("deep")
    Path("deep/.hidden").mkdir()
    Path("deep/.hidden/x.ipynb").write_text('{"kin": 1}')
    found = ["deep/of-the-kernel.ipynb"]
    assert names(select_notebooks(["deep/**/*.ipynb"])[0]) == found
    assert names(select_notebooks(["deep/**"])[0]) == found
    assert names(select_notebooks(["**/of-*.ipynb"])[0]) == found
    assert names(select_notebooks(["**/deep/**/*.ipynb"])[0]) == found
    assert names(select_notebooks([f"{Path.cwd()}/**/of-*.ipynb"])[0]) == [str(Path.cwd() / found[0])]
    assert names(select_notebooks(["*/of-*.ipynb"])[0]) == [*found, "other/of-the-kernel.ipynb"], "a link that is named"
    assert names(select_notebooks(["other/**/*.ipynb"])[0]) == ["other/of-the-kernel.ipynb"]


def test_a_name_is_taken_as_it_is_and_each_notebook_once():
    paths, ordinary = select_notebooks(["ordinary.ipynb", "*.ipynb", "./session.ipynb", "nowhere.ipynb"])
    assert names(paths) == ["ordinary.ipynb", "cleaned.ipynb", "recorded.ipynb", "session.ipynb", "nowhere.ipynb"]
    assert ordinary == []


@pytest.mark.parametrize(
    ("pattern", "says"), [("no*.ipynb", "No notebook matches"), ("ord*.ipynb", "No session notebook matches")]
)
def test_a_pattern_that_names_no_session_is_an_error(pattern, says):
    with pytest.raises(ReplayError, match=says):
        select_notebooks(["session.ipynb", pattern])


def test_no_executed_copy_lands_on_another_input(tmp_path):
    paths = [Path("n.ipynb"), Path("a/n.ipynb")]
    assert output_folders(paths, tmp_path / "out") == [tmp_path / "out", tmp_path / "out" / "a"]
    Path("a").mkdir()
    Path("elsewhere").symlink_to("a")
    Path("out").mkdir()
    Path("out/n.ipynb").symlink_to("../n.ipynb")
    for folder, hit in ((tmp_path / "a", "a/n"), (tmp_path / "elsewhere", "a/n"), (tmp_path / "out", "n")):
        with pytest.raises(ReplayError, match=rf"^The executed notebook would overwrite {hit}\.ipynb\.\nGive another"):
            output_folders(paths, folder)
