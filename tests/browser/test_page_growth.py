"""What a turn costs the page: how often a reply is drawn, and what stays of a turn once it has settled."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from browser.lab import Lab
from browser.probes import PROBES, size_of
from tests.model_server import ModelServer, tool_call

CHUNK = 5
TURNS = 6
REPLY = "".join(f"File {n} is read once, and what was in it is kept.\n" + "\n" * (n % 6 == 0) for n in range(1, 201))
COMMS = "len(get_ipython().kernel.comm_manager.comms)"

pytestmark = pytest.mark.parametrize("front_end", ["lab"], indirect=True)
"""Notebook 7 is made of JupyterLab's parts."""


@pytest.fixture
def kin(lab: Lab, kin_home: Path, model_server: ModelServer) -> Lab:
    (kin_home / "config.toml").write_text(model_server.config_toml())
    lab.page.add_init_script(PROBES)
    return lab


def open_with(kin: Lab, *cells: str) -> None:
    kin.open(kin.set_cells(["%load_ext kin_nb", *cells]))
    kin.run_cell(0)
    kin.wait_idle()


@pytest.mark.long
def test_a_reply_is_drawn_far_less_often_than_it_grows_and_leaves_no_widget(
    kin: Lab, model_server: ModelServer
) -> None:
    model_server.enqueue(REPLY, chunk=CHUNK, delay=0.002)
    open_with(kin, "%%kin\nTell me.", COMMS)
    kin.page.evaluate("probes.watch(1, 'kept')")
    kin.run_cell(1)
    kin.wait_output(1, "1 model request")
    kin.wait_idle()
    assert 2 < len(kin.page.evaluate("probes.changes")) < len(REPLY) / CHUNK / 10
    assert not kin.outputs(1).locator(".jupyter-widgets").count()
    kin.run_cell(2)
    kin.wait_idle()
    assert kin.output_text(2) == "0"


@pytest.mark.long
def test_turns_that_are_alike_cost_the_page_alike(kin: Lab, model_server: ModelServer) -> None:
    for n in range(TURNS):
        model_server.enqueue(calls=[tool_call("bash", command=f"touch made-{n}")])
        model_server.enqueue(REPLY[:1_500], chunk=100)
    open_with(kin, *["%%kin\nGo on."] * TURNS)
    nodes = []
    for cell in range(1, TURNS + 1):
        kin.run_cell(cell)
        kin.click_button("Approve", cell)
        kin.wait_output(cell, "2 model requests")
        kin.wait_idle()
        nodes.append(size_of(kin.page).nodes)
    grown = [after - before for before, after in itertools.pairwise(nodes)]
    assert max(grown[TURNS // 2 :]) < 2 * grown[0]
    assert len({kin.cell(cell).locator(".jp-OutputArea *").count() for cell in range(1, TURNS + 1)}) == 1
