"""At once or not at all: two files, a full disk, links, long names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.replay.commands.merge import merge
from kin_nb.replay.commands.save import SaveCommand
from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.storage import stored_texts
from kin_nb.replay.recording import WorkspaceMeta
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.options import SaveOptions
from kin_nb.replay.saving.privacy import without_results
from kin_nb.replay.saving.writing import write_notebook
from tests.table import each_row
from tests.unit.replay.sessions import LONG, recording, turn

SIDECAR = SaveOptions(sidecar=True)
WITH_LITTLE_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
from kin_nb.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_is_full_leaves_notebook_and_sidecar_as_they_were(session, tmp_path):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    save = [sys.executable, "-B", "-c", WITH_LITTLE_DISK, "save", str(path), str(path), "--sidecar", "--no-results"]
    done = subprocess.run(save, capture_output=True, text=True, check=False)
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True), done.stderr
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.parametrize("shrinks", [False, True])
def test_between_any_two_of_the_files_the_notebook_is_whole(session, tmp_path, monkeypatch, shrinks):
    states = [session, without_results(session)]
    old, new = states if shrinks else reversed(states)
    path = write_notebook(session_notebook(old, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    seen = []
    replace_file = os.replace

    def look_and_replace(*names: str, **folders: int) -> None:
        seen.append(read_recording(load_notebook(path)))
        replace_file(*names, **folders)

    monkeypatch.setattr(os, "replace", look_and_replace)
    write_notebook(session_notebook(new, options=SIDECAR), path, replacing=True)
    assert seen == ([old, old, new] if shrinks else [old, old])
    assert read_recording(load_notebook(path)) == new
    assert bool(stored_texts(json.loads((tmp_path / "talk.kin.json").read_text()))) is not shrinks, (
        "old texts do not stay"
    )
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("other", ["talk.ipynb", "a copy.ipynb"])
def test_a_sidecar_whose_texts_another_notebook_needs_is_left_alone(session, tmp_path, other):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    first = tmp_path / other
    first.write_bytes(path.read_bytes())
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(RecordingError, match=rf"^Not saved: {other} stores its texts in talk\.kin\.json"):
        write_notebook(session_notebook(without_results(session), options=SIDECAR), tmp_path / "talk.kin.ipynb")
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    first.unlink()
    write_notebook(session_notebook(without_results(session), options=SIDECAR), tmp_path / "talk.kin.ipynb")
    assert not stored_texts(json.loads((tmp_path / "talk.kin.json").read_text()))


@pytest.mark.parametrize("content", ['{"joints": [1, 2, 3]}', "not JSON", "[]", '{"kin": {"session": 3}, "blobs": {}}'])
def test_a_file_that_has_the_sidecars_name_and_is_none_is_left_alone(session, tmp_path, content):
    arm = tmp_path / "arm.kin.json"
    arm.write_text(content)
    with pytest.raises(RecordingError, match=r"^Not saved: arm\.kin\.json exists and is not a sidecar file\."):
        write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "arm.ipynb")
    assert (arm.read_text(), list(tmp_path.iterdir())) == (content, [arm])
    arm.write_text("")
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "arm.ipynb")
    arm.write_text(content)
    write_notebook(session_notebook(session, options=SIDECAR), path)
    assert read_recording(load_notebook(path)) == session, "a save repairs its own"


@pytest.fixture
def renamed(session, tmp_path) -> Path:
    """A notebook whose sidecar has the name that it had."""
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / "talk.kin.ipynb")
    return path.rename(tmp_path / "monday.kin.ipynb")


@pytest.mark.parametrize("options", [SIDECAR, SaveOptions(), SaveOptions(portable=True)])
def test_what_was_taken_out_of_a_renamed_notebook_is_not_in_its_old_sidecar_either(renamed, session, options):
    write_notebook(session_notebook(without_results(session), options=options), renamed)
    assert not renamed.with_name("talk.kin.json").exists()
    assert read_recording(load_notebook(renamed)) == without_results(session)


def test_an_old_sidecar_that_another_notebook_names_stays(renamed, session):
    other = renamed.with_name("copy.ipynb")
    other.write_bytes(renamed.read_bytes())
    write_notebook(session_notebook(without_results(session), options=SIDECAR), renamed)
    assert read_recording(load_notebook(other)) == session


@pytest.mark.parametrize("name", ["package.json", "monday.kin.json"])
@pytest.mark.parametrize("content", ['{"joints": [1]}', '{"kin": {"session": "another"}, "blobs": {}}'])
def test_a_notebook_that_names_a_file_which_is_not_its_own_takes_nothing_away(renamed, session, name, content):
    raw = json.loads(renamed.read_text())
    raw["metadata"]["kin"]["sidecar"] = name
    renamed.write_text(json.dumps(raw))
    renamed.with_name(name).write_text(content)
    write_notebook(session_notebook(session), renamed)
    assert renamed.with_name(name).read_text() == content


def test_nothing_is_written_that_would_not_be_read_again(session, tmp_path, monkeypatch):
    path = write_notebook(session_notebook(session), tmp_path / "talk.kin.ipynb")
    size = path.stat().st_size
    before = path.read_bytes()
    monkeypatch.setattr("kin_nb.replay.saving.writing.MAX_BYTES", size)
    write_notebook(session_notebook(session), path)
    monkeypatch.setattr("kin_nb.replay.saving.writing.MAX_BYTES", size - 1)
    with pytest.raises(RecordingError, match=r"(?s)^Not saved: talk\.kin\.ipynb would have 0\.0 MB; .*\.\nClear"):
        write_notebook(session_notebook(session), path)
    monkeypatch.setattr("kin_nb.replay.saving.writing.MAX_BYTES", len(LONG))
    with pytest.raises(RecordingError, match=r"^Not saved: talk\.kin\.json would have"):
        write_notebook(session_notebook(session, options=SIDECAR), path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


NAMES = ["(copy) x", "it's", ".hidden", "a, b; c", "Ünïcode 名前\u3000x", "100%", "a'b\"c", "-x", "x" * 200]


@each_row("name", NAMES)
def test_whatever_a_notebook_is_called_its_sidecar_is_read(session, tmp_path, name):
    path = write_notebook(session_notebook(session, options=SIDECAR), tmp_path / f"{name}.ipynb")
    assert read_recording(load_notebook(path)) == session


@pytest.mark.parametrize("name", ["a\\b", "a\nb", "a\x1b]0;b"])
def test_a_name_that_no_sidecar_can_have_is_refused_before_anything_is_written(session, tmp_path, name):
    with pytest.raises(
        RecordingError, match=r"^A sidecar file cannot be called [^\n\x1b]*\.kin\.json\.\nChoose another name"
    ):
        write_notebook(session_notebook(session, options=SIDECAR), tmp_path / f"{name}.ipynb")
    assert list(tmp_path.iterdir()) == []


def test_the_longest_names_can_be_written(session, tmp_path):
    path = tmp_path / f"{'x' * (255 - len('.kin.ipynb'))}.kin.ipynb"
    write_notebook(session_notebook(session), path)
    write_notebook(session_notebook(session, options=SIDECAR), path)
    assert read_recording(load_notebook(path)) == session


@pytest.fixture
def linked(tmp_path) -> tuple[Path, Path]:
    """(a link in one folder, the session notebook in another that it leads to)"""
    real, link = tmp_path / "real" / "x.kin.ipynb", tmp_path / "links" / "talk.kin.ipynb"
    for path in (real, link):
        path.parent.mkdir()
    talk = recording(turn(1, "a"), workspace=WorkspaceMeta(path="../work"))
    write_notebook(session_notebook(talk), real)
    link.symlink_to(Path("..") / "real" / real.name)
    return link, real


def test_a_save_through_a_link_is_into_the_file_and_both_read_it(linked, session):
    link, real = linked
    write_notebook(session_notebook(session, options=SIDECAR), link, replacing=True)
    assert (link.is_symlink(), real.with_name("x.kin.json").exists(), real.is_symlink()) == (True, True, False)
    assert read_recording(load_notebook(real)) == read_recording(load_notebook(link)) == session


def test_a_sidecar_that_was_linked_beside_the_link_is_read_too(linked, session, tmp_path):
    link, real = linked
    write_notebook(session_notebook(session, options=SIDECAR), link, replacing=True)
    store = tmp_path / "store"
    store.mkdir()
    real.rename(store / "1")
    real.with_name("x.kin.json").rename(store / "2")
    link.unlink()
    link.symlink_to(store / "1")
    link.with_name("x.kin.json").symlink_to(store / "2")
    assert read_recording(load_notebook(link)) == session


def test_what_is_saved_through_links_finds_its_workspace_from_where_the_file_is(linked, tmp_path):
    link, real = linked
    out = tmp_path / "deep" / "er" / "out.kin.ipynb"
    out.parent.mkdir(parents=True)
    SaveCommand(str(link), out).run()
    assert read_recording(load_notebook(out)).meta.workspace.path == "../../work"
    link.unlink()
    link.symlink_to(out)
    SaveCommand(str(real), link).run()
    assert read_recording(load_notebook(out)).meta.workspace.path == "../../work"


def test_what_is_merged_through_a_link_finds_its_workspace_too(linked, tmp_path):
    link, real = linked
    out = tmp_path / "deep" / "er" / "out.kin.ipynb"
    out.parent.mkdir(parents=True)
    out.write_bytes(real.read_bytes())
    link.unlink()
    link.symlink_to(out)
    assert merge(real, real, real, link, force=True) == 0
    assert link.is_symlink()
    assert read_recording(load_notebook(out)).meta.workspace.path == "../../work"


def test_the_notebook_that_is_open_is_known_through_links(linked):
    link, real = linked
    with pytest.raises(RecordingError, match="is the open notebook"):
        write_notebook(session_notebook(recording(turn(1, "a"))), link, open_file=real)
