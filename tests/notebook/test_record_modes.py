"""KIN_RECORD, and what has no recorded answer: in a notebook that `%kin save` wrote, and in one that only a front end saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

from kin_nb.replay.format.notebook_codec import raw_records
from kin_nb.replay.format.output_records import raw_output_records
from tests.model_server import ModelServer
from tests.notebook.headless import LOAD, Headless, error_text, shown
from tests.notebook.people import kin_nb_here
from tests.notebook.recorded import Lived, acting, data_of, living

pytestmark = pytest.mark.kernel

FIRST, BESIDE, SECOND = "%%kin\nFirst.", "%%kin --session other\nFirst.", "%%kin\nSecond."
NEW = "%%kin\nSomething new."
HEADLESS = "No model was asked, because no user can watch it here."


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Iterator[Lived]:
    """A turn, one of another session, and a turn; `plain.ipynb` is the same page as its front end would save it."""
    with living(tmp_path_factory.mktemp("modes"), {}, _cells) as lived:
        nb = nbformat.v4.new_notebook(cells=[cell for cell in lived.ran if "%kin save" not in cell["source"]])
        nbformat.write(nb, lived.workspace / "plain.ipynb")
        yield lived


def _cells(kernel: Headless, server: ModelServer, workspace: Path) -> None:
    for source, answer in ((FIRST, "One."), (BESIDE, "Beside."), (SECOND, "Two.")):
        server.enqueue(answer)
        kernel.ok(source)


@contextmanager
def opened(lived: Lived, name: str, **more: str) -> Iterator[Headless]:
    """A kernel that serves that notebook, whose first cell has run."""
    own = {"JPY_SESSION_NAME": str(lived.workspace / name)}
    with Headless.start(lived.workspace, {**lived.environment, **own, **more}) as kernel:
        kernel.ok(lived.nb["cells"][0]["source"] if name == "out.ipynb" else LOAD)
        yield kernel


def conversation(lived: Lived) -> list[str]:
    """What the model was sent last, the system message apart."""
    return [message.get("content") or "" for message in lived.requests[-1]["messages"][1:]]


def test_a_notebook_holds_the_records_of_all_its_sessions_and_each_is_continued_with(lived):
    assert [record["prompt"] for _, record in raw_records(lived.nb)] == ["First.", "First.", "Second."]
    with opened(lived, "out.ipynb") as kernel:
        assert [data_of(kernel.ok(cell["source"])) for cell in acting(lived.nb["cells"])] == list(
            map(data_of, lived.cells)
        )
        kernel.ok("%kin --session other live")
        lived.server.enqueue("Still beside.")
        kernel.ok("%%kin --session other\nAnd?")
        assert conversation(lived) == ["First.", "Beside.", "And?"]
        assert error_text(kernel.run(NEW)).startswith("No saved answer"), "the notebook's own session plays on"


def test_what_only_a_front_end_saved_plays_and_asks_no_one(lived):
    nb = nbformat.read(lived.workspace / "plain.ipynb", as_version=4)
    assert list(raw_records(nb)) == []
    assert sum(1 for cell in nb["cells"] for _ in raw_output_records(cell)) == 3
    asked = len(lived.requests)
    with opened(lived, "plain.ipynb") as kernel:
        ran = [kernel.ok(cell["source"]) for cell in acting(nb["cells"])]
        assert list(map(data_of, ran)) == list(map(data_of, lived.cells))
        said = error_text(kernel.run(NEW))
    assert said.startswith("No saved answer: ")
    assert HEADLESS in said
    assert len(lived.requests) == asked


@pytest.mark.parametrize("name", ["out.ipynb", "plain.ipynb"])
def test_with_new_a_prompt_without_a_recorded_answer_asks_unasked_and_continues_after_what_is_recorded(lived, name):
    with opened(lived, name, KIN_RECORD="new") as kernel:
        kernel.ok(FIRST)
        asked = len(lived.requests)
        lived.server.enqueue("I am new.")
        assert "I am new." in shown(kernel.ok(NEW))
    assert len(lived.requests) == asked + 1
    assert conversation(lived) == ["First.", "One.", "Second.", "Two.", "Something new."]


@pytest.mark.parametrize("name", ["out.ipynb", "plain.ipynb"])
def test_with_none_no_model_is_asked(lived, name):
    asked = len(lived.requests)
    with opened(lived, name, KIN_RECORD="none") as kernel:
        assert "One." in shown(kernel.ok(FIRST))
        assert "No model was asked: KIN_RECORD is none." in error_text(kernel.run(NEW))
    assert len(lived.requests) == asked


def test_with_none_a_notebook_that_records_nothing_asks_nothing_either(lived, tmp_path):
    asked = len(lived.requests)
    with Headless.start(tmp_path, {**lived.environment, "KIN_RECORD": "none"}) as kernel:
        kernel.ok(LOAD)
        assert "No model was asked: KIN_RECORD is none." in error_text(kernel.run(NEW))
    assert len(lived.requests) == asked


def test_with_all_each_prompt_asks_in_a_conversation_of_its_own(lived):
    with opened(lived, "plain.ipynb", KIN_RECORD="all") as kernel:
        lived.server.enqueue("One again.")
        lived.server.enqueue("Two again.")
        assert "One again." in shown(kernel.ok(FIRST))
        assert conversation(lived) == ["First."]
        assert "Two again." in shown(kernel.ok(SECOND))
    assert conversation(lived) == ["First.", "One again.", "Second."]


def test_a_record_mode_that_there_is_not_is_named_with_those_that_there_are(lived):
    with opened(lived, "plain.ipynb", KIN_RECORD="never") as kernel:
        assert error_text(kernel.run(FIRST)) == "KIN_RECORD must be none, new, all; got 'never'."


def test_with_cached_a_recorded_answer_is_shown_and_no_model_is_asked_for_another(lived):
    asked = len(lived.requests)
    with opened(lived, "plain.ipynb", KIN_RECORD="new") as kernel:
        assert "One." in shown(kernel.ok("%%kin --cached\nFirst."))
        assert "No model was asked: --cached" in error_text(kernel.run("%%kin --cached\nSomething new."))
    assert len(lived.requests) == asked


def test_saved_again_a_notebook_that_only_a_front_end_saved_plays_as_before(lived, tmp_path):
    out = tmp_path / "saved.ipynb"
    done = kin_nb_here("save", lived.workspace / "plain.ipynb", out, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = nbformat.read(out, as_version=4)
    assert list(map(data_of, acting(saved["cells"]))) == list(map(data_of, lived.cells))
    played = kin_nb_here("replay", out, home=tmp_path / "home", cwd=tmp_path)
    assert (played.returncode, played.stderr) == (0, ""), played.stdout
