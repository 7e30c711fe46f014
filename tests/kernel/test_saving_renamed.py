"""`%kin save` after the notebook was renamed: its kernel knows the old name for as long as it lives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebook_client import LiveKernel, run, said

from kin_nb.replay.format.loading import load_notebook

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

UNKNOWN = "Which file this notebook is in is not known (renamed since its kernel began?)"
OWN = "numbers = [7]"


@pytest.fixture
def own(kin: LiveKernel, opens, model_server, tmp_path) -> Path:
    """Untitled.ipynb with a heading, a prompt (p) and a cell of the person's own (o), which ran; saved."""
    path = tmp_path / "Untitled.ipynb"
    path.write_text(json.dumps(new_notebook()))
    opens(path)
    model_server.enqueue("Hi.")
    for cell, source in (("p", "%%kin\nSay hi."), ("o", OWN)):
        assert kin.done(kin.run(source, cell=cell))["content"]["status"] == "ok"
    write(path, new_markdown_cell("# Mine"), new_code_cell("%%kin\nSay hi.", id="p"), new_code_cell(OWN, id="o"))
    return path


def write(path: Path, *cells, ids: bool = True) -> None:
    nb = new_notebook(cells=list(cells))
    if not ids:
        nb["nbformat_minor"] = 4
        for cell in cells:
            del cell["id"]
    path.write_text(json.dumps(nb))


def save(kin: LiveKernel, line: str = "", *, cell: str | None = "s", allow_stdin: bool = False) -> str:
    ran = kin.run(f"%kin save {line}", cell=cell, allow_stdin=allow_stdin)
    kin.done(ran)
    return said(kin, ran)


def another(path: Path, *, ids: bool = True) -> bytes:
    """Another notebook of the same name, which begins alike."""
    path.rename(path.with_name("analysis.ipynb"))
    same = "%load_ext kin_nb", OWN if ids else "", "%kin save", "print('of the other')"
    write(path, *map(new_code_cell, same), ids=ids)
    return path.read_bytes()


def test_a_renamed_notebook_says_what_is_missing_and_how_to_have_it(kin, own):
    own.rename(own.with_name("analysis.ipynb"))
    told = save(kin)
    assert UNKNOWN in told
    assert "kin-nb save NOTEBOOK.ipynb OUT.ipynb --from-outputs" in told
    assert UNKNOWN in save(kin, "plain.ipynb --plain")
    assert (own.parent / "session.kin.ipynb").exists()


def test_in_a_console_nothing_is_said_of_files(kin, own):
    own.unlink()
    told = save(kin, cell=None, allow_stdin=True)
    assert "Saved" in told
    assert UNKNOWN not in told


@pytest.mark.parametrize("ids", [True, False])
def test_another_notebook_that_has_the_name_now_is_not_taken_for_the_own_one(kin, own, ids):
    before = another(own, ids=ids)
    assert UNKNOWN in save(kin)
    assert not own.with_name("Untitled.kin.ipynb").exists()
    told = save(kin, "--in-place", allow_stdin=True)
    assert told.startswith("Which file this notebook is in is not known here")
    assert own.read_bytes() == before


@pytest.mark.parametrize("ids", [True, False])
def test_the_own_file_is_known_however_it_was_changed_on_the_page(kin, own, ids):
    write(own, new_markdown_cell("# Mine"), new_code_cell("numbers = [7]", id="o"), ids=ids)
    assert "Untitled.kin.ipynb" in save(kin)
    sources = [cell["source"] for cell in load_notebook(own.with_name("Untitled.kin.ipynb"))["cells"]]
    assert {"# Mine", OWN} <= set(sources)


def test_the_cell_that_saves_is_one_that_ran(kin, own):
    write(own, new_markdown_cell("# Mine"), new_code_cell("%kin save", id="s"))
    assert "Untitled.kin.ipynb" in save(kin)


def test_a_file_that_a_tool_wrote_with_new_ids_is_known_by_its_prompts(kin, own):
    write(own, new_markdown_cell("# Mine"), new_code_cell("%%kin\nSay hi."), new_code_cell("numbers = [7]"))
    assert "Untitled.kin.ipynb" in save(kin)


def test_a_file_that_was_not_written_since_is_the_own_one_whatever_it_holds(kin, own):
    run(kin, "%unload_ext kin_nb")
    write(own, new_code_cell("nothing of this ran here"))
    run(kin, "%load_ext kin_nb\n%kin resume")
    told = save(kin)
    assert "Untitled.kin.ipynb" in told
    assert UNKNOWN not in told
