"""What `kin-nb save` prints, line by line. What stops a replay: saving/test_preflight.py, runner/test_playback_summary.py."""

from __future__ import annotations

import re

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from kin_nb.core.config import KinConfig
from kin_nb.core.tools.builtins import sandbox
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.workspace_copy import CopyLimit
from kin_nb.replay.runner import confined, run_notebook
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import recording, turn

CHECK = "kin-nb save 'a b.kin.ipynb' --check"
NOT_RUN = f"Not run after saving. To play it once in a copy: {CHECK}"


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """The lines after those that name the file and how to run it; the notebook has cells of these sources below its prompt."""
    monkeypatch.chdir(tmp_path)

    def saved(*sources: str, **how) -> list[str]:
        cells = [new_code_cell("%%kin\nfirst", id="ask"), *map(new_code_cell, sources)]
        made = session_notebook(recording(turn(1, "first", cell_id="ask")), source_nb=new_notebook(cells=cells))
        write_notebook(made, tmp_path / "a b.ipynb")
        first, again, *lines = SaveCommand("a b.ipynb", **how).run()
        assert re.fullmatch(r"Saved a b\.kin\.ipynb: recording \S+@\w{12}\.", first)
        assert again == "Run it again without a key: kin-nb replay 'a b.kin.ipynb'"
        return lines

    return saved


def test_what_was_not_played_says_how_to_play_it(saved):
    assert saved() == [NOT_RUN]


def test_prompts_without_an_answer_are_named_before_what_stops_and_what_went(saved):
    options = SaveOptions(redact=(re.compile("ACME"),))
    assert saved("%%kin\nsecond", "%%kin\nthird", "print('ACME', total)", options=options) == [
        "Cells 3, 4 have no saved answer, so a replay stops there. Run or remove them, and save again.",
        "A replay stops at cell 5: no cell above it defines `total`.",
        NOT_RUN,
        "Redacted:",
        "  cell 5: 1 match of ACME",
        "Code was redacted and may fail now: cell 5. Run the notebook once before you share it.",
    ]


def test_a_check_that_cannot_be_made_says_why_and_reading_is_all_there_is(saved, monkeypatch):
    def cannot(path: object) -> None:
        raise ReplayError("The workspace is too large.")

    monkeypatch.setattr(run_notebook, "play_notebook", cannot)
    assert saved("print(total)", check=True) == [
        "Not checked: The workspace is too large.",
        "A replay stops at cell 3: no cell above it defines `total`.",
    ]


def test_a_folder_too_large_to_be_copied_unasked_is_not_played(saved, monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "problem", lambda *_, **__: "")
    monkeypatch.setattr(confined, "COPY_LIMIT", CopyLimit(files=0))
    config = KinConfig(save={"check_seconds": 30})
    why = f"The workspace {tmp_path} is too large to copy (over 0 files or 2 GB)"
    assert saved(config=config) == [f"Not played after saving: {why}. To play it once in a copy, unconfined: {CHECK}"]
    for unwanted in (
        {"config": KinConfig(save={"check_seconds": 0})},
        {"config": config, "options": SaveOptions(play=False)},
    ):
        assert saved(**unwanted) == [NOT_RUN]
