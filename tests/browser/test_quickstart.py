"""The quickstart, lived again: the recorded replies over the wire, real tools, a person's clicks; then the picture of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as NotYet

from browser.lab import Lab
from kin_nb.core.records import RecordedCall, TurnRecord
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.playback.locate import examples_folder
from kin_nb.replay.rerun.drift import MATCHING, compare_call
from tests.model_server import ModelServer

QUICKSTART = examples_folder() / "quickstart.ipynb"


def enqueue(server: ModelServer, turn: TurnRecord) -> None:
    for step in turn.steps:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in step.calls
        ]
        server.enqueue(step.content or None, reasoning=step.reasoning or None, calls=calls, chunk=16)


def approve_all(lab: Lab, cell: int, picture: Path | None = None) -> None:
    """Approve commands for the session and each edit, as in the recording, until the cell has ended."""
    approve = lab.button("Approve", cell)
    while not lab.prompt(cell).strip("[]: ").isdigit():
        try:
            approve.wait_for(timeout=500)
        except NotYet:
            continue
        if picture and "+    ordered" in lab.output_text(cell):
            lab.screenshot(picture, cell)
        this_card = approve.element_handle()
        commands = lab.button(re.compile("^Approve for this session: commands"), cell)
        (commands if commands.count() else approve).click()
        this_card.wait_for_element_state("hidden")  # the next one may be there already


@pytest.mark.parametrize("front_end", ["lab"], indirect=True)
def test_the_quickstart_lived_again_gives_the_recorded_session(lab, kin_home, model_server, pictures):
    recorded = read_recording(load_notebook(QUICKSTART))
    work = lab.workspace / "workspaces" / "quickstart"
    shutil.copytree(QUICKSTART.parent / "workspaces" / "quickstart", work)
    (kin_home / "config.toml").write_text(
        f'active_model = "by-hand"\nworkdir = {json.dumps(str(work))}\n[[providers]]\nname = "p"\n'
        f'api_base = "{model_server.url}"\n[[models]]\nname = "by-hand"\nprovider = "p"\n'
    )
    for turn in recorded.turns:
        enqueue(model_server, turn)
    lab.page.set_viewport_size({"width": 1280, "height": 1900})
    lab.open(
        lab.set_cells(["%load_ext kin_nb", *(f"%%kin\n{turn.prompt}" for turn in recorded.turns), "%kin save again"])
    )
    lab.run_cell(0)
    lab.wait_idle()
    for cell in (1, 2):
        lab.run_cell(cell)
        approve_all(lab, cell, pictures / "quickstart.png" if cell == 1 else None)
    lab.wait_idle()
    lab.save()
    lab.run_cell(3)
    lab.wait_output(3, "Saved")
    again = read_recording(load_notebook(lab.workspace / "again.ipynb"))
    assert [turn.key for turn in again.turns] == [turn.key for turn in recorded.turns]
    for old, new in zip(recorded.turns, again.turns, strict=True):
        assert [step.content for step in new.steps] == [step.content for step in old.steps]
        assert {compare_call(a, b).kind for a, b in zip(old.calls, new.calls, strict=True)} <= MATCHING
        assert [in_effect(call) for call in new.calls] == [in_effect(call) for call in old.calls]


def in_effect(call: RecordedCall) -> tuple[str, str, str | None, str | None]:
    """Return a call's decision without its reason: a recording keeps the words of its time."""
    decision = call.decision
    return decision.verdict, decision.by, decision.scope, decision.note
