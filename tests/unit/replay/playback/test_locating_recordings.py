"""`%kin replay` finds its recording wherever the notebook went, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kin_nb.replay.errors import RecordingError, RecordingNotFoundError, UnreadableNotebookError
from kin_nb.replay.format.notebook_reader import as_node, load_notebook
from kin_nb.replay.format.output_records import BACKUP_KEY, RECORD_KEY
from kin_nb.replay.playback.locate import MAX_FILES, find_recording
from kin_nb.replay.playback.process_context import ParentProcess, ProcessContext
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.unit.replay.sessions import SESSION, carried_of, recording, turn


@pytest.fixture
def digest(session):
    return session.digest[:12]


@pytest.fixture
def saved(session, tmp_path):
    """Writes the session notebook to a path under tmp_path."""

    def save(name: str, *, tampered: bool = False) -> Path:
        nb = session_notebook(session)
        if tampered:
            nb["cells"][1]["metadata"]["kin"]["records"][0]["steps"][0]["content"] = "All tests pass."
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_notebook(nb, path)

    return save


@pytest.fixture
def find(digest, tmp_path):
    def find(*, digest=digest, from_path=None, store=None, cwd=tmp_path, **around):
        around = {"environ": {}, **around}
        surroundings = ProcessContext(cwd=cwd, **around)
        return find_recording(SESSION, digest, context=surroundings, from_path=from_path, store=store)

    return find


OWN = {
    "Jupyter": lambda path: {"environ": {"JPY_SESSION_NAME": str(path)}},
    "VS Code": lambda path: {"vscode_file": str(path)},
    "nbval": lambda path: {"cwd": path.parent, "environ": {"PYTEST_CURRENT_TEST": f"x/{path.name}::Cell 1 (setup)"}},
}


@pytest.mark.parametrize("client", OWN)
def test_the_own_file_comes_first(client, find, saved, session):
    saved("a.ipynb")
    own = saved("z/own.ipynb")
    found = find(**OWN[client](own))
    assert (found.path, found.recording) == (own, session)


@pytest.mark.parametrize("client", OWN)
def test_a_tampered_own_file_fails_though_an_untouched_copy_lies_beside_it(client, find, saved):
    own = saved("own.ipynb", tampered=True)
    saved("copy.ipynb")
    with pytest.raises(RecordingError, match=r"^own\.ipynb, cell 2, turn 1, step 1: "):
        find(from_path=own.parent / "copy.ipynb", **OWN[client](own))


def test_an_own_file_with_another_digest_stops_and_names_the_cell(find, saved):
    own = saved("own.ipynb")
    with pytest.raises(RecordingError, match=rf"own\.ipynb, cell 1: `%kin replay` names {SESSION}@0{{12}}"):
        find(digest="0" * 12, environ={"JPY_SESSION_NAME": str(own)})


def test_an_own_file_of_another_session_does_not_matter(find, saved, tmp_path, session):
    other = tmp_path / "other.ipynb"
    nb = session_notebook(recording(turn(1, "hello")))
    nb["metadata"]["kin"]["session"] = "another"
    write_notebook(nb, other)
    saved("real.ipynb")
    assert find(environ={"JPY_SESSION_NAME": str(other)}).recording == session


def test_a_renamed_file_is_found_among_its_siblings(find, saved, tmp_path):
    renamed = saved("elsewhere/new-name.ipynb")
    gone = renamed.with_name("old-name.ipynb")
    (tmp_path / "cwd").mkdir()
    assert find(cwd=tmp_path / "cwd", environ={"JPY_SESSION_NAME": str(gone)}).path == renamed


def test_of_several_copies_the_one_that_was_written_last_is_in_use(find, saved, tmp_path):
    for seconds, name in ((300, "a.ipynb"), (100, "b.ipynb"), (200, "c.ipynb")):
        os.utime(saved(name), (1e9 - seconds, 1e9 - seconds))
    assert find(cwd=tmp_path).path.name == "b.ipynb"


def test_a_copy_is_found_through_a_parents_arguments(find, saved, tmp_path):
    copy = saved("papermill/in.ipynb")
    (tmp_path / "cwd").mkdir()
    parent = ParentProcess(("papermill", "in.ipynb", "out.ipynb"), copy.parent)
    assert find(cwd=tmp_path / "cwd", parents=(parent,)).path == copy


def test_a_near_file_that_was_tampered_with_is_passed_over_for_a_whole_one(find, saved):
    saved("a.ipynb", tampered=True)
    whole = saved("b.ipynb")
    assert find().path == whole


def test_nothing_near_says_where_it_looked_and_what_to_do(find, saved, digest):
    saved("a.ipynb", tampered=True)
    with pytest.raises(RecordingNotFoundError) as caught:
        find()
    assert "a.ipynb, cell 2, turn 1, step 1" in str(caught.value)
    assert f"%kin replay {SESSION}@{digest} --from PATH" in str(caught.value)


def test_folders_below_are_not_searched(find, saved):
    saved("below/a.ipynb")
    with pytest.raises(RecordingNotFoundError):
        find()


def test_named_paths_and_the_store_come_last(find, saved, digest):
    far = saved("far/a.ipynb")
    assert find(from_path=Path("far/a.ipynb")).path == far
    assert find(environ={"KIN_RECORDING": str(far)}).path == far
    asked = []
    assert find(store=lambda *name: asked.append(name) or far).path == far
    assert asked == [(SESSION, digest)]


def test_a_named_file_that_fails_is_an_error(find, saved, tmp_path):
    with pytest.raises(RecordingError, match="cell 2, turn 1, step 1"):
        find(from_path=saved("far/a.ipynb", tampered=True))
    with pytest.raises(UnreadableNotebookError, match="No such file"):
        find(from_path=tmp_path / "none.ipynb")


@pytest.mark.parametrize("own", [True, False])
def test_a_file_that_is_being_rewritten_is_read_again(own, find, saved, session):
    path = saved("own.ipynb")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            path.write_bytes(whole)

    environ = {"JPY_SESSION_NAME": str(path)} if own else {}
    assert find(environ=environ, pause=pause).recording == session
    assert len(pauses) == 2


def test_a_file_that_stays_broken_is_given_up_soon(find, saved):
    path = saved("own.ipynb")
    path.write_bytes(path.read_bytes()[:-40])
    pauses = []
    with pytest.raises(UnreadableNotebookError, match=r"own\.ipynb is not complete JSON"):
        find(environ={"JPY_SESSION_NAME": str(path)}, pause=pauses.append)
    assert 0 < sum(pauses) < 1


def test_at_most_a_fixed_number_of_files_is_read(find, saved, tmp_path):
    for number in range(MAX_FILES):
        (tmp_path / f"{number:04}.ipynb").write_text("{}", encoding="utf-8")
    saved("zzz.ipynb")
    with pytest.raises(RecordingNotFoundError):
        find()
    (tmp_path / "0000.ipynb").unlink()
    assert find().path.name == "zzz.ipynb"


@pytest.mark.parametrize(
    "name", ["a/b@0123456789ab", f"{SESSION}@", f"{SESSION}@0123456789", f"{SESSION}@0123456789AB"]
)
def test_a_name_that_is_none_is_refused(name, tmp_path):
    session, _, digest = name.partition("@")
    with pytest.raises(RecordingError, match="SESSION@DIGEST"):
        find_recording(session, digest, context=ProcessContext(tmp_path, {}))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes' arguments are read on Linux only")
def test_a_real_child_sees_its_parents_notebook_and_no_other_variables(saved, tmp_path):
    path = saved("real/in.ipynb")
    child = (
        "from kin_nb.replay.playback.process_context import ProcessContext; here = ProcessContext.current(); "
        "print(*here.near_files(), sorted(here.environ))"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True, cwd='..')"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd()), "KIN_RECORDING": "x", "SECRET": "s"}
    command = [sys.executable, "-c", parent, path.name]
    done = subprocess.run(command, cwd=path.parent, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(path), "['KIN_RECORDING']"]


def test_what_was_found_is_the_notebook_itself(find, saved):
    path = saved("a.ipynb")
    assert find().nb == load_notebook(path)


@pytest.mark.parametrize("own", [True, False])
def test_a_notebook_whose_cells_were_deleted_and_pasted_since_is_the_one_that_was_saved(own, find, saved, session):
    path = saved("own.ipynb")
    nb = as_node(load_notebook(path))
    pasted = session_notebook(recording(turn(9, "pasted")))["cells"][1]
    pasted["id"] = "pasted"
    nb["cells"][1] = pasted
    write_notebook(nb, path, replacing=True)
    found = find(environ={"JPY_SESSION_NAME": str(path)} if own else {})
    assert [each.prompt for each in found.recording.turns] == ["And now?", "pasted"]
    assert found.recording.name == session.name


@pytest.mark.parametrize("where", ["output", "first cell"])
def test_of_several_copies_the_one_whose_outputs_carry_what_came_later_is_in_use(find, saved, tmp_path, where, session):
    used = saved("used.ipynb")
    nb = as_node(load_notebook(used))
    more = turn(3, "more", cell_id="more")
    metadata = carried_of(recording(*session.records, more), more)
    kept = {BACKUP_KEY: [{"cell": "more", "carried": metadata[RECORD_KEY]}]}
    nb["cells"][1]["outputs"][0]["metadata"] |= metadata if where == "output" else kept
    write_notebook(nb, used, replacing=True)
    os.utime(used, (1e9, 1e9))
    saved("newer.ipynb")
    assert find(cwd=tmp_path).path == used
