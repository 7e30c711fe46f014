"""A played turn's Python, where cells miss the variables that it bound: the user is asked, and it is decided as a live call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebook_client import LiveKernel, kept_outputs, run, said, shown, write_config
from page import Page

from kin_nb.replay.format.loading import as_node
from tests.model_server import ModelServer, tool_call

pytestmark = [pytest.mark.kernel, pytest.mark.one_kernel]

ASKS = "Run its Python again?"
PROMPT = "%%kin --mode auto-approve\nClean it."
BINDS = "import math\nran.append('clean')\nclean = math.floor(2.5)\nprint('cleaned')"


@pytest.fixture
def opened(kin: LiveKernel, opens, model_server: ModelServer, tmp_path) -> Page:
    """A prompt whose Python bound `clean`, a cell that uses it; saved by the front end. The kernel has forgotten both."""
    return lived(kin, opens, model_server, tmp_path / "mine.ipynb", [(PROMPT, [BINDS])], "print(clean)")


def lived(kin, opens, model_server, path: Path, prompts: list[tuple[str, list[str]]], *cells: str) -> Page:
    """`prompts`: what is asked, and the code that the agent runs for it; below them, `cells`."""
    opens(path)
    page = Page(kin, path)
    page.save()
    run(kin, "%load_ext kin_nb")
    run(kin, "ran = []")
    for prompt, codes in prompts:
        for code in codes:
            model_server.enqueue("I run it.", calls=[tool_call("python", code=code)])
        model_server.enqueue("Done.")
        page.type(prompt)
        assert page.run(page.cells[-1]) == "ok", page.said
    for source in cells:
        page.type(source)
        page.run(page.cells[-1])
    page.save()
    forget(kin)
    kin.quietly("import os; os.environ.pop('KIN_APPROVAL')")
    return page


def forget(kin: LiveKernel) -> None:
    """As after a restart of the kernel."""
    run(kin, "%unload_ext kin_nb")
    run(kin, "ran = []\nfor name in ('clean', 'fig', 'math', 'print', 'late'): globals().pop(name, None)")
    run(kin, "%load_ext kin_nb")


def begin(page: Page, cell: int = 0) -> str:
    return page.kin.run(page.cells[cell]["source"], cell=page.cells[cell]["id"])


def ended(page: Page, ran: str) -> str:
    """What it shows in the end; the cell ended well."""
    assert page.kin.done(ran)["content"]["status"] == "ok"
    return shown(page.kin, ran)


def value(page: Page, expression: str) -> str:
    return page.kin.text(run(page.kin, f"print({expression})")).strip()


def test_the_user_is_asked_with_all_of_the_code_and_then_it_runs(opened):
    ran = begin(opened)
    card = opened.kin.card(ran, ASKS)["content"]["data"]["text/plain"]
    assert card.startswith(
        "This answer bound `clean`. Run its Python again?\n  Asks because: python may touch anything"
    )
    assert all(f"  {line}" in card for line in BINDS.splitlines())
    assert value_is_unbound(opened)
    opened.kin.click("Run it")
    text = ended(opened, ran)
    assert text.endswith("\nIts Python ran again: `clean`")
    assert "cleaned" not in text.rpartition("\n")[2]
    assert opened.kin.text(ran) == "", "what it prints is in the turn's cards already"
    assert value(opened, "clean, ran") == "2 ['clean']"


def value_is_unbound(page: Page) -> bool:
    return True
