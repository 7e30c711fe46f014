"""Where a notebook is re-executed, as its recording says it, which anyone may have written."""

from __future__ import annotations

import pytest

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.recording import WorkspaceMeta
from kin_nb.replay.runner.options import ReplayOptions
from kin_nb.replay.runner.run_environment import prepare, workspace_of
from tests.unit.replay.sessions import recording, turn


def of(path: str):
    return recording(turn(1, "x"), workspace=WorkspaceMeta(path=path))


@pytest.mark.parametrize("path", ["w\0", "w\x1b[2J", "w" * 4000, "a/" * 2000])
def test_a_recorded_path_that_no_folder_has_is_refused_in_one_line(path, tmp_path):
    with (
        pytest.raises(ReplayError, match=r"kin-nb replay --workspace PATH$") as caught,
        prepare(tmp_path / "n.ipynb", of(path), ReplayOptions(tools=True)),
    ):
        pass
    said = str(caught.value)
    assert all(map(str.isprintable, said.splitlines()))
    assert len(said) < 600


def test_a_recorded_path_is_relative_to_the_notebook(tmp_path):
    assert workspace_of(tmp_path / "n.ipynb", of("../w")) == (tmp_path / ".." / "w").resolve()
