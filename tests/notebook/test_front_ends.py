"""Front ends that only show: nbconvert's formats, and pages that keep our HTML without its styles. No fact is lost in any."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter, LatexExporter, MarkdownExporter
from nbconvert.filters.latex import escape_latex
from nbformat.v4 import new_notebook

from tests.kernel.notebook_client import LiveKernel, run
from tests.model_server import ModelServer, tool_call
from tests.notebook.people import QUICKSTART, ROOT, environment, write_config
from tests.notebook.people import run as run_program

pytestmark = pytest.mark.kernel

EDIT = tool_call("edit_file", path="a_b.py", old_string="x = 1", new_string="x = '<b>{2}</b>'")
FAILS = tool_call("bash", command="echo 50% of $HOME & exit 3")
TABLE = "Now it is **so**:\n\n| name | value |\n|---|---:|\n| x_1 | 50% & more |\n"


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Any:
    """A saved session: an edit that was approved, a command that failed, a table; then the turn was undone."""
    root = tmp_path_factory.mktemp("lived")
    workspace, home = root / "project", root / "home"
    workspace.mkdir()
    (workspace / "a_b.py").write_text("x = 1\n")
    with ModelServer.start() as server:
        config = write_config(home, server.url)
        config.write_text(config.read_text() + "input_price = 1.0\noutput_price = 1.0\n")
        nb = LiveKernel([ROOT], environment(home), subshells=False, cwd=workspace)
        try:
            run(nb, "%load_ext kin_nb")
            server.enqueue("I change it.", calls=[EDIT, FAILS])
            server.enqueue(TABLE)
            cell = nb.run("%%kin\nmake x two", cell="cell-2")
            for subject in ("a_b.py", "exit 3"):
                nb.card(cell, says=f"{subject} · waiting")
                nb.click("Approve")
            assert nb.done(cell)["content"]["status"] == "ok"
            run(nb, "%kin undo")
            run(nb, "%kin save out")
        finally:
            nb.close()
    return nbformat.read(workspace / "out.ipynb", as_version=4)


@pytest.fixture(params=["lived", "quickstart"])
def notebook(request) -> Any:
    if request.param == "quickstart":
        return nbformat.read(QUICKSTART, as_version=4)
    return request.getfixturevalue("lived")


def cards(nb: Any) -> Iterator[Any]:
    """The displays of ours, in order."""
    for cell in nb["cells"]:
        yield from (output for output in cell.get("outputs", ()) if output["output_type"] == "display_data")


def facts(card: Any) -> list[str]:
    """What a card says first, and all of a receipt; of a reply, its words."""
    text, kind = card["data"]["text/plain"], card["metadata"]["kin"]["kind"]
    if kind == "reply":
        return re.findall(r"\w+", text)
    first = text if kind == "receipt" else text.partition("\n")[0]
    return [fact for part in re.split(r" · |\n", first) for fact in re.sub(r"^\[(\w+)\] ", r"\1\n", part).split("\n")]


def squeezed(text: str) -> str:
    """Line breaks and blanks fall where each format wants them."""
    return re.sub(r"\s+", "", text)


def assert_in_order(text: str, wanted: list[str]) -> None:
    found, position = squeezed(text), 0
    for fact in map(squeezed, wanted):
        assert fact in found[position:], f"{fact!r} is not in {found[position : position + 600]!r}"
        position = found.index(fact, position) + len(fact)


def all_facts(nb: Any) -> list[str]:
    return [fact for card in cards(nb) for fact in facts(card)]


def text_of(html: str) -> str:
    return BeautifulSoup(html, "html.parser").get_text()


def bare(html: str) -> BeautifulSoup:
    """As a host leaves it that allows no scripts, styles, classes, or attributes of any kind."""
    soup = BeautifulSoup(html, "html.parser")
    for tag in soup.find_all(["script", "style"]):
        tag.decompose()
    for tag in soup.find_all(True):
        tag.attrs = {}
    return soup


def test_the_session_has_what_these_tests_speak_of(lived):
    said = [card["data"]["text/plain"].partition("\n")[0] for card in cards(lived)]
    kinds = [card["metadata"]["kin"]["kind"] for card in cards(lived)]
    assert kinds == ["notice", "reply", "call", "call", "reply", "receipt", "undo"]
    assert said[2] == "[edit_file] a_b.py · +1 -1 · done · approved by you"
    assert said[3].startswith("[bash] echo 50% of $HOME & exit 3 · ")
    assert "$0.0" in said[5]
    assert said[6] == "Undid turn 1"


def test_every_card_keeps_its_facts_in_order_with_all_styles_and_attributes_gone(notebook):
    seen = 0
    for card in cards(notebook):
        if "text/html" in card["data"]:
            assert_in_order(bare(card["data"]["text/html"]).get_text(), facts(card))
            seen += 1
    assert seen >= 4


def test_without_styles_a_diff_keeps_its_signs_and_its_lines(lived):
    edit = next(card for card in cards(lived) if card["metadata"]["kin"].get("tool") == "edit_file")
    lines = [line for pre in bare(edit["data"]["text/html"]).find_all("pre") for line in pre.get_text().splitlines()]
    assert lines == ["@@ -1 +1 @@", "-x = 1", "+x = '<b>{2}</b>'"]


def test_without_styles_a_table_is_a_table(lived):
    reply = [card for card in cards(lived) if card["metadata"]["kin"]["kind"] == "reply"][-1]
    rows = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in bare(reply["data"]["text/html"])("tr")]
    assert rows == [["name", "value"], ["x_1", "50% & more"]]


@pytest.mark.parametrize("exporter", [HTMLExporter, MarkdownExporter], ids=["html", "markdown"])
def test_nbconvert_keeps_every_fact_in_order(notebook, exporter):
    body, _ = exporter().from_notebook_node(notebook)
    assert_in_order(text_of(body), all_facts(notebook))


def test_nbconvert_html_holds_no_script_and_no_widget_of_ours(lived):
    body, _ = HTMLExporter().from_notebook_node(lived)
    outputs = BeautifulSoup(body, "html.parser").select(".jp-OutputArea-output")
    assert len(outputs) == len(list(cards(lived)))
    assert [output.find_all(["script", "img", "iframe"]) for output in outputs] == [[]] * len(outputs)


def only_code(nb: Any) -> Any:
    """nbconvert needs pandoc for the person's own Markdown cells, and for nothing of ours."""
    return new_notebook(cells=[cell for cell in nb["cells"] if cell["cell_type"] == "code"], metadata=nb["metadata"])


def test_nbconvert_latex_keeps_every_fact_in_order(notebook):
    body, _ = LatexExporter().from_notebook_node(only_code(notebook))
    assert_in_order(body, [escape_latex(fact) for fact in all_facts(notebook)])


@pytest.mark.skipif(shutil.which("xelatex") is None, reason="xelatex is not installed")
def test_the_latex_compiles(notebook, tmp_path):
    body, resources = LatexExporter().from_notebook_node(only_code(notebook))
    (tmp_path / "out.tex").write_text(body, encoding="utf-8")
    for name, content in resources.get("outputs", {}).items():
        (tmp_path / name).write_bytes(content)
    command = ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "out.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "out.pdf").stat().st_size > 0
    assert "Missing character" not in (tmp_path / "out.log").read_text(errors="replace")


@pytest.mark.long  # nbclient's ways: test_other_runners.py
def test_nbconvert_that_executes_shows_the_session_again(tmp_path):
    """The program, from another directory, with no key: `jupyter nbconvert --execute`."""
    argv = ("-m", "nbconvert", "--to", "html", "--execute", QUICKSTART, "--output-dir", tmp_path)
    done = run_program(*argv, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    stored = nbformat.read(QUICKSTART, as_version=4)
    assert_in_order(text_of((tmp_path / "quickstart.html").read_text(encoding="utf-8")), all_facts(stored))
