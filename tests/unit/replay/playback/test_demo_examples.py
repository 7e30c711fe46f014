"""What may run unasked in `kin-nb demo`: the examples of this version, known by digest, and nothing else."""

from __future__ import annotations

from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.playback.locate import SHIPPED, examples_folder, is_shipped


def test_every_example_is_known_by_its_digest():
    digests = {read_recording(load_notebook(path)).digest for path in examples_folder().glob("*.ipynb")}
    assert digests == set(SHIPPED)


def test_an_example_changed_by_hand_is_not_shipped(tmp_path):
    text = (examples_folder() / "quickstart.ipynb").read_text()
    changed = tmp_path / "quickstart.ipynb"
    changed.write_text(text.replace("python -m unittest tests.test_stats", "python -m unittest tests.test_status"))
    assert is_shipped(examples_folder() / "quickstart.ipynb")
    assert not is_shipped(changed)


def test_the_first_cell_of_every_example_says_who_wrote_the_models_turns():
    for path in examples_folder().glob("*.ipynb"):
        assert "written by hand" in "".join(load_notebook(path)["cells"][0]["source"]), path
