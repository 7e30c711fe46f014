"""`%kin save` after the notebook was renamed: its kernel knows the old name for as long as it lives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_client import LiveKernel, run, said

from kin_nb.replay.format.notebook_reader import load_notebook

pytestmark = [pytest.mark.kernel, pytest.mark.in_process]

UNKNOWN = "The kernel does not know this notebook's file (was it moved?)"
OWN = "numbers = [7]"


@pytest.fixture
def own(kin: LiveKernel, opens, model_server, tmp_path) -> Path:
    """Untitled.ipynb with a heading, a prompt (p) and a cell of the person's own (o), which ran; saved."""
    path = tmp_path / "Untitled.ipynb"
    path.write_text(json.dumps(new_notebook()))
    opens(path)
    model_server.enqueue("Hi.")
    write(path, new_markdown_cell("# Mine"), numbered(kin, "p", "%%kin\nSay hi."), numbered(kin, "o", OWN))
    return path


def numbered(kin: LiveKernel, cell_id: str, source: str):
    """A cell that is run, as a front end saves it."""
    reply = kin.done(kin.run(source, cell=cell_id))["content"]
    assert reply["status"] == "ok"
    return new_code_cell(source, id=cell_id, execution_count=reply["execution_count"])


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


def renamed(own: Path, name: str = "analysis.ipynb") -> Path:
    """As a file browser renames it: no kernel is told."""
    return own.rename(own.with_name(name))


def sources(path: Path) -> list[str]:
    return [cell["source"] for cell in load_notebook(path)["cells"]]


def test_a_renamed_notebook_is_found_by_its_cells(kin, own):
    path = renamed(own)
    nb = json.loads(path.read_text())
    nb["cells"][2]["outputs"] = [new_output("stream", text="shown")]
    path.write_text(json.dumps(nb))
    told = save(kin)
    assert "This notebook is now analysis.ipynb" in told
    saved = load_notebook(own.with_name("analysis.kin.ipynb"))
    assert {"# Mine", OWN} <= {cell["source"] for cell in saved["cells"]}
    assert "shown" in json.dumps(saved["cells"])
    assert not own.with_name("session.kin.ipynb").exists()
    assert "This notebook is now analysis.ipynb" in save(kin, "plain.ipynb --plain")
    assert "# Mine" in sources(own.with_name("plain.ipynb"))


def test_cells_that_a_renamed_notebook_does_not_hold_yet_are_counted(kin, own):
    path, first = renamed(own), numbered(kin, "cell-1", "pass")
    write(path, first, new_markdown_cell("# Mine"), new_code_cell("%%kin\nSay hi.", id="p"), numbered(kin, "o", OWN))
    assert "ran since" not in save(kin)
    kin.done(kin.run("numbers.append(8)", cell="late"))
    assert "1 cell ran since analysis.ipynb was last saved" in save(kin)


def test_of_copies_the_one_is_taken_that_holds_what_ran_last(kin, own):
    first = new_markdown_cell("# Mine"), new_code_cell("%%kin\nSay hi.", id="p")
    old = numbered(kin, "o", OWN)
    write(own.with_name("a-copy.ipynb"), *first, old)
    write(own.with_name("z-copy.ipynb"), *first, old)
    write(renamed(own), *first, numbered(kin, "o", OWN))
    save(kin)
    assert "This notebook is now analysis.ipynb" in save(kin), "the session notebook that was saved is not taken for it"


def test_of_equal_copies_any_will_do_and_it_is_named(kin, own):
    path = renamed(own)
    path.with_name("copy.ipynb").write_bytes(path.read_bytes())
    assert "is now copy.ipynb" in save(kin)
    assert "# Mine" in sources(own.with_name("copy.kin.ipynb"))


def test_of_copies_that_differ_none_is_chosen_and_both_are_named(kin, own):
    path = renamed(own)
    path.with_name("copy.ipynb").write_text(path.read_text().replace("# Mine", "# Mine too"))
    told = save(kin)
    assert told.startswith(
        "Not saved: analysis.ipynb and copy.ipynb both hold the cells that ran here, so it is unclear"
    )
    assert "kin-nb save analysis.ipynb OUT.ipynb" in told
    assert list(own.parent.glob("*.kin.ipynb")) == []


def test_one_that_was_moved_elsewhere_says_what_is_missing_and_how_to_have_it(kin, own):
    (own.parent / "elsewhere").mkdir()
    own.rename(own.parent / "elsewhere" / "analysis.ipynb")
    told = save(kin)
    assert UNKNOWN in told
    assert "kin-nb save NOTEBOOK.ipynb OUT.ipynb" in told
    assert UNKNOWN in save(kin, "plain.ipynb --plain")
    assert (own.parent / "session.kin.ipynb").exists()


def test_in_a_console_nothing_is_reported_of_files(kin, own):
    own.unlink()
    told = save(kin, cell=None, allow_stdin=True)
    assert "Saved" in told
    assert UNKNOWN not in told


@pytest.mark.parametrize("ids", [True, False])
def test_another_notebook_that_has_the_name_now_is_not_taken_for_the_own_one(kin, own, ids):
    before = another(own, ids=ids)
    assert "This notebook is now analysis.ipynb" in save(kin)
    assert not own.with_name("Untitled.kin.ipynb").exists()
    own.with_name("analysis.ipynb").unlink()
    assert UNKNOWN in save(kin)
    assert not own.with_name("Untitled.kin.ipynb").exists()
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
