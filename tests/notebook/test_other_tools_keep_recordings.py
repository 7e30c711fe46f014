"""What other tools do to a session notebook, and that it still plays: the same outputs, and the digest that it names."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kin_nb.replay.errors import RecordingError
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.format.storage import is_recording_cell
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, error_text
from tests.notebook.people import SECONDS, environment, kin_nb_here
from tests.notebook.recorded import Lived, acting, data_of, live

pytestmark = pytest.mark.kernel

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
COUNT = tool_call("python", code="numbers = [1, 2, 3]")
LONG = tool_call("bash", command="seq 3000")


def _cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    """An edit, undone and given back; variables that the agent bound; ordinary cells; one prompt twice."""
    kernel.ok("print('one')")
    for text, calls in (("I change x.", [EDIT]), ("Changed: é 🐢.", []), ("I count.", [COUNT]), ("Counted.", [])):
        server.enqueue(text, calls=calls)
    kernel.ok("%%kin --mode auto-approve\nChange x.\n\nTo two, please.")
    kernel.ok("%kin undo")
    kernel.ok("%kin redo")
    kernel.ok("%%kin --mode auto-approve\nCount.")
    kernel.ok("print(sum(numbers))")
    server.enqueue("Again, at length.", calls=[LONG])
    server.enqueue("Yes, again.")
    kernel.ok("%%kin --mode auto-approve\nCount.")
    kernel.ok("%kin save portable --portable")
    kernel.ok("%kin save beside --sidecar")


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    return live(tmp_path_factory.mktemp("survival"), {"a.py": "x = 1\n"}, _cells)


@pytest.fixture
def player(stage) -> Headless:
    """The kernel of someone who has a model, which is never asked."""
    return stage.kernel


@pytest.fixture
def path(lived, tmp_path) -> Path:
    """A copy of the notebook, alone in a folder."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return Path(shutil.copy(lived.notebook, folder / "out.ipynb"))


def tool(name: str, *argv: str | Path, at: Path, stdin: str = "") -> str:
    """A program of this environment, in the folder `at`; what it printed. It must succeed."""
    command = [Path(sys.executable).with_name(name), *map(str, argv)]
    env = environment(at.parent / "tool-home", JUPYTER_PLATFORM_DIRS="1")
    done = subprocess.run(
        command, cwd=at, env=env, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_plays(player: Headless, path: Path, lived: Lived) -> None:
    """Run from the top in the notebook's folder, every cell shows what was saved; and the recording is that recording."""
    assert read_recording(load_notebook(path)).digest == lived.nb["metadata"]["kin"]["digest"]
    player.ok(f"import os; os.chdir({str(path.parent)!r})")
    ran = [player.ok(cell["source"]) for cell in load_notebook(path)["cells"] if cell["cell_type"] == "code"]
    assert_shows(ran, lived)


def assert_shows(cells: list[Any], lived: Lived) -> None:
    asked = [cell for cell in acting(cells) if not is_recording_cell(cell)]
    assert list(map(data_of, asked)) == list(map(data_of, lived.cells))


# Tools that a person or a hook runs over the file.


def nbstripout(path: Path) -> None:
    tool("nbstripout", path, at=path.parent)
    assert not any(cell.get("outputs") for cell in load_notebook(path)["cells"])


def nbstripout_with_options(path: Path) -> None:
    tool("nbstripout", "--drop-empty-cells", "--strip-init-cells", path, at=path.parent)


def clear_output(path: Path) -> None:
    tool("jupyter-nbconvert", "--clear-output", "--inplace", path, at=path.parent)
    assert not any(cell.get("outputs") for cell in load_notebook(path)["cells"])


def jupyter_execute(path: Path) -> None:
    tool("jupyter-execute", "--inplace", path, at=path.parent)


def papermill(path: Path) -> None:
    tool("papermill", path, path, at=path.parent)


def jupytext_paired(path: Path) -> None:
    """An ordinary cell is edited in the text file, and the two are synchronised."""
    tool("jupytext", "--set-formats", "ipynb,py:percent", path, at=path.parent)
    text = path.with_suffix(".py")
    assert '"turn"' not in text.read_text(), "records are no text for people"
    text.write_text(text.read_text().replace("print('one')", "print('uno')"))
    tool("jupytext", "--sync", text, at=path.parent)
    assert "uno" in path.read_text()


def jupytext_update(path: Path) -> None:
    """The notebook is made from a text file again, keeping what only the notebook has."""
    text = path.with_suffix(".py")
    tool("jupytext", "--to", "py:percent", "--output", text, path, at=path.parent)
    text.write_text(text.read_text().replace("print('one')", "print('uno')"))
    tool("jupytext", "--update", "--to", "ipynb", text, at=path.parent)
    assert "uno" in path.read_text()


def nbmerge(path: Path) -> None:
    """Both sides changed ordinary cells, and one of them added a cell."""
    base, ours, theirs = (path.with_name(f"{name}.ipynb") for name in ("base", "ours", "theirs"))
    text = path.read_text()
    base.write_text(text)
    ours.write_text(text.replace("print('one')", "print('uno')"))
    nb = nbformat.reads(text.replace("print(sum(numbers))", "print(max(numbers))"), as_version=4)
    nb["cells"].append(nbformat.v4.new_markdown_cell("That was it."))
    nbformat.write(nb, theirs)
    tool("nbmerge", base, ours, theirs, "--out", path, at=path.parent)
    for side in (base, ours, theirs):
        side.unlink()
    assert all(word in path.read_text() for word in ("uno", "max(numbers)", "That was it."))


def git_with_crlf(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


# What front ends and formatters do when they save.


def changed(change: Callable[[Any], None]) -> Callable[[Path], None]:
    @wraps(change)
    def apply(path: Path) -> None:
        nb = json.loads(path.read_text())
        change(nb)
        path.write_text(json.dumps(nb, indent=1, ensure_ascii=False))

    return apply


def keys_sorted(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True, separators=(",", ":")))


def through_javascript(path: Path) -> None:
    """As a front end reads and writes it. A JavaScript number that is whole may come back as 1 or as 1.0."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here")
    code = "const fs = require('fs'), f = process.argv[1]; fs.writeFileSync(f, JSON.stringify(JSON.parse(fs.readFileSync(f))))"
    subprocess.run([node, "-e", code, path], check=True, timeout=SECONDS)


def whole_numbers_as_floats(path: Path) -> None:
    def rewritten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rewritten(value[key]) for key in sorted(value, reverse=True)}
        if isinstance(value, list):
            return [rewritten(item) for item in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    nb = rewritten(json.loads(path.read_text()))
    path.write_text(json.dumps(nb))
    assert '"turn": 1.0' in path.read_text()


def as_ascii(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=True))


def with_a_byte_order_mark(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@changed
def older_minor_without_ids(nb: Any) -> None:
    nb["nbformat_minor"] = 4
    for cell in nb["cells"]:
        del cell["id"]


@changed
def ids_renumbered(nb: Any) -> None:
    for number, cell in enumerate(nb["cells"]):
        cell["id"] = str(number)


@changed
def all_cells_with_one_text_per_line(nb: Any) -> None:
    for cell in nb["cells"]:
        cell["source"] = "".join(cell["source"])


@changed
def formatted_like_code(nb: Any) -> None:
    """Blanks at line ends and blank lines at the end, as editors leave them and formatters take them away."""
    for cell in nb["cells"]:
        lines = "".join(cell["source"]).split("\n")
        cell["source"] = "\n".join(f"{line}  " for line in lines) + "\n\n"


@changed
def windows_line_ends_in_cells(nb: Any) -> None:
    for cell in nb["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")


@changed
def decomposed_characters(nb: Any) -> None:
    import unicodedata

    for cell in nb["cells"]:
        cell["source"] = unicodedata.normalize("NFD", "".join(cell["source"]))


@changed
def other_metadata_added(nb: Any) -> None:
    nb["metadata"] |= {"kernelspec": {"name": "other", "display_name": "Other"}, "vscode": {"version": 1}}
    for cell in nb["cells"]:
        cell["metadata"] |= {"collapsed": True, "slideshow": {"slide_type": "slide"}, "tags": ["mine"]}


@changed
def cells_added_and_moved(nb: Any) -> None:
    new = {"cell_type": "markdown", "id": "m", "metadata": {}, "source": ["# A title"]}
    nb["cells"] = [new, *nb["cells"], {**new, "id": "n"}]


def validated_and_upgraded(path: Path) -> None:
    older_minor_without_ids(path)
    nb = nbformat.read(path, as_version=4)
    nb = nbformat.v4.upgrade(nb, from_version=4, from_minor=4)
    nbformat.validate(nb)
    nbformat.write(nb, path)


SURVIVES = [
    nbstripout,
    nbstripout_with_options,
    clear_output,
    jupyter_execute,
    papermill,
    jupytext_paired,
    jupytext_update,
    nbmerge,
    git_with_crlf,
    keys_sorted,
    through_javascript,
    whole_numbers_as_floats,
    as_ascii,
    with_a_byte_order_mark,
    older_minor_without_ids,
    ids_renumbered,
    all_cells_with_one_text_per_line,
    formatted_like_code,
    windows_line_ends_in_cells,
    decomposed_characters,
    other_metadata_added,
    cells_added_and_moved,
    validated_and_upgraded,
]


def test_as_it_was_saved_it_plays(player, path, lived):
    assert_plays(player, path, lived)


SLOW = (
    "papermill",
    "jupyter_execute",
    "jupytext_paired",
    "jupytext_update",
    "jupytext_unpaired",
    "nbstripout_with_options",
)
"""Programs that take seconds to begin."""


def in_tiers(what: list) -> list:
    return [
        pytest.param(each, id=each.__name__, marks=[pytest.mark.long] if each.__name__ in SLOW else []) for each in what
    ]


@pytest.mark.parametrize("what", in_tiers(SURVIVES))
def test_it_plays_after(what, player, path, lived):
    before = path.read_bytes()
    what(path)
    assert path.read_bytes() != before
    assert_plays(player, path, lived)


# Where it goes.


def test_it_plays_when_it_was_renamed(player, path, lived):
    assert_plays(player, path.rename(path.with_name("Another name (1).ipynb")), lived)


def test_it_plays_from_another_folder_than_its_workspace_and_beside_a_copy(player, path, lived):
    shutil.copy(path, path.with_name("copy.ipynb"))
    assert_plays(player, path, lived)


def test_it_plays_beside_a_damaged_copy_and_beside_another_state_of_the_session(player, path, lived):
    path.with_name("a.ipynb").write_text(path.read_text().replace("I change x.", "I change y."))
    path.with_name("b.ipynb").write_bytes(path.read_bytes()[:3000])
    shutil.copy(lived.workspace / "portable.ipynb", path.with_name("c.ipynb"))
    assert_plays(player, path, lived)


def test_of_two_states_of_a_session_in_one_folder_each_notebook_plays_its_own(lived, player, path):
    whole = read_recording(lived.nb)
    earlier = session_notebook(Recording(whole.meta, whole.records[:1]))
    write_notebook(earlier, path.with_name("a.ipynb"))
    player.ok(f"import os; os.chdir({str(path.parent)!r})")
    ran = [player.ok(cell["source"]) for cell in earlier["cells"]]
    assert list(map(data_of, acting(ran))) == list(map(data_of, acting(earlier["cells"])))
    assert_plays(player, path, lived)


@pytest.mark.long
@pytest.mark.parametrize("form", ["out", "portable"])
def test_papermill_from_standard_input_in_a_folder_where_nothing_else_is(form, lived, tmp_path):
    """What papermill writes before it begins holds the recording too."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    tool("papermill", "-", "executed.ipynb", at=elsewhere, stdin=(lived.workspace / f"{form}.ipynb").read_text())
    assert_shows(nbformat.read(elsewhere / "executed.ipynb", as_version=4)["cells"], lived)


def test_where_no_file_is_within_reach_it_says_where_to_look_and_takes_a_path(player, path, lived, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    player.ok(f"import os; os.chdir({str(elsewhere)!r})")
    head = next(cell["source"] for cell in load_notebook(path)["cells"] if "%kin replay" in cell["source"])
    said = error_text(player.run(head))
    assert said.startswith("Recording ")
    assert "--from PATH. Or recreate it from the session log: kin-nb save " in said
    player.ok(f"{head} --from {path}")


# What drops metadata.


def nb_clean(path: Path) -> None:
    tool("nb-clean", "clean", path, at=path.parent)


@changed
def nbdev_clean(nb: Any) -> None:
    """What nbdev.clean.clean_nb does, by its source; installing nbdev brings an API client of a code host and a file watcher."""
    nb["metadata"] = {
        k: v for k, v in nb["metadata"].items() if k in {"kernelspec", "jekyll", "jupytext", "doc", "widgets"}
    }
    for cell in nb["cells"]:
        cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k == "hide_input"}
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()


def jupytext_unpaired(path: Path) -> None:
    text = path.with_suffix(".py")
    tool("jupytext", "--to", "py:percent", "--output", text, path, at=path.parent)
    path.unlink()
    tool("jupytext", "--to", "ipynb", "--output", path, text, at=path.parent)


CLEANERS = [nb_clean, nbdev_clean, jupytext_unpaired]


@pytest.mark.parametrize("cleaner", in_tiers(CLEANERS))
def test_after_a_cleaner_it_says_what_is_gone_and_the_repair_works(cleaner, player, path, lived, tmp_path):
    cleaner(path)
    session = lived.nb["metadata"]["kin"]["session"]
    repair = f"kin-nb save {session}"
    player.ok(f"import os; os.chdir({str(path.parent)!r})")
    head = next(cell for cell in load_notebook(path)["cells"] if "%kin replay" in cell["source"])
    assert repair in error_text(player.run(head["source"]))
    assert "`%kin replay` failed above" in error_text(player.run("%%kin\nCount."))
    with pytest.raises(RecordingError, match=repair):
        read_recording(load_notebook(path))
    done = kin_nb_here(*repair.split()[1:], "mended.ipynb", home=lived.home, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    mended = load_notebook(path.with_name("mended.ipynb"))
    assert_shows([player.ok(cell["source"]) for cell in mended["cells"] if cell["cell_type"] == "code"], lived)


@pytest.mark.parametrize("cleaner", in_tiers(CLEANERS))
def test_a_portable_notebook_plays_even_after_a_cleaner(cleaner, player, lived, tmp_path):
    path = Path(shutil.copy(lived.workspace / "portable.ipynb", tmp_path / "portable.ipynb"))
    cleaner(path)
    assert_plays(player, path, lived)


# A sidecar.


def test_a_notebook_plays_beside_its_sidecar_and_without_it_says_which_text_is_missing(player, lived, tmp_path):
    for name in ("beside.ipynb", "beside.kin.json"):
        shutil.copy(lived.workspace / name, tmp_path)
    path = tmp_path / "beside.ipynb"
    nbstripout(path)
    assert_plays(player, path, lived)
    (tmp_path / "beside.kin.json").unlink()
    with pytest.raises(
        RecordingError, match=r"turn 3, step 1: field calls\.1\.output: its text is missing from beside\.kin\.json"
    ):
        read_recording(load_notebook(path))
