"""The quickstart, lived again: the recorded replies over the wire, real tools, a person's clicks; then the pictures of it."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import TimeoutError as NotYet

from browser.film import HEIGHT, WIDTH, Film, set_stage
from browser.lab import Lab
from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.format.notebook_reader import load_notebook
from kin_nb.replay.playback.locate import examples_folder
from kin_nb.replay.rerun.drift import MATCHING, compare_call
from tests.model_server import ModelServer

QUICKSTART = examples_folder() / "quickstart.ipynb"


@pytest.fixture
def turns(lab: Lab, kin_home: Path, model_server: ModelServer) -> list[TurnRecord]:
    """The recorded turns, with the project of the quickstart next to the notebook and the model server configured."""
    work = lab.workspace / "workspaces" / "quickstart"
    shutil.copytree(QUICKSTART.parent / "workspaces" / "quickstart", work)
    (kin_home / "config.toml").write_text(
        f'active_model = "by-hand"\nworkdir = {json.dumps(str(work))}\n[[providers]]\nname = "p"\n'
        f'api_base = "{model_server.url}"\n[[models]]\nname = "by-hand"\nprovider = "p"\n'
    )
    return read_recording(load_notebook(QUICKSTART)).turns


def calls_of(step: RecordedStep) -> list[dict]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in step.calls
    ]


def enqueue(server: ModelServer, step: RecordedStep) -> None:
    server.enqueue(step.content or None, reasoning=step.reasoning or None, calls=calls_of(step), chunk=16)


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
        commands = lab.button(re.compile("^Approve for this session: (?:commands|tests)"), cell)
        (commands if commands.count() else approve).click()
        this_card.wait_for_element_state("hidden")  # the next one may be there already


@pytest.mark.parametrize("front_end", ["lab"], indirect=True)
def test_the_quickstart_lived_again_gives_the_recorded_session(lab, turns, model_server, pictures):
    for turn in turns:
        for step in turn.steps:
            enqueue(model_server, step)
    lab.page.set_viewport_size({"width": 1280, "height": 1900})
    lab.open(lab.set_cells(["%load_ext kin_nb", *(f"%%kin\n{turn.prompt}" for turn in turns), "%kin save again"]))
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
    assert [turn.key for turn in again.turns] == [turn.key for turn in turns]
    for old, new in zip(turns, again.turns, strict=True):
        assert [step.content for step in new.steps] == [step.content for step in old.steps]
        assert {compare_call(a, b).kind for a, b in zip(old.calls, new.calls, strict=True)} <= MATCHING
        assert [in_effect(call) for call in new.calls] == [in_effect(call) for call in old.calls]


def in_effect(call: RecordedCall) -> tuple[str, str, str | None, str | None]:
    """Return a call's decision without its reason: a recording keeps the words of its time."""
    decision = call.decision
    return decision.verdict, decision.by, decision.scope, decision.note


def paused(step: RecordedStep, after: str, resume: threading.Event) -> Iterator[bytes]:
    """Yield a reply as server-sent events, and wait in it, when its text has come to the end of `after`."""
    split = step.content.index(after) + len(after)
    deltas = [{"content": step.content[:split]}, {"content": step.content[split:]}]
    deltas += [{"tool_calls": [{**call, "index": index}]} for index, call in enumerate(calls_of(step))]
    for number, delta in enumerate(deltas):
        if number == 1:
            assert resume.wait(60)
        yield event({"delta": delta, "finish_reason": None})
    yield event({"delta": {}, "finish_reason": "tool_calls" if step.calls else "stop"}) + b"data: [DONE]\n\n"


def event(choice: dict) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n".encode()


@pytest.mark.long
@pytest.mark.parametrize("front_end", ["lab"], indirect=True)
def test_the_first_turn_as_an_animated_picture(lab, turns, model_server, pictures):
    turn, film = turns[0], Film(lab)
    see_failure, read, edit, see_success, answer = turn.steps
    resume_read, resume_answer = threading.Event(), threading.Event()
    enqueue(model_server, see_failure)
    model_server.enqueue(raw=paused(read, "both are what the week would give", resume_read))
    enqueue(model_server, edit)
    enqueue(model_server, see_success)
    model_server.enqueue(raw=paused(answer, "in `rainfall/stats.py` sorted the caller's list", resume_answer))
    lab.open(lab.set_cells(["%load_ext kin_nb", f"%%kin\n{turn.prompt}"]))
    set_stage(lab)
    lab.run_cell(0)
    lab.wait_idle()
    film.take(1.5, end_of=1)
    lab.run_cell(1)
    commands = lab.button(re.compile("^Approve for this session: (?:commands|tests)"), 1)
    commands.wait_for()
    film.take(1.5, end_of=1)
    film.take(1.5, end_of=1, pointer=commands)
    commands.click()
    lab.wait_output(1, "the week would give")
    film.take(1.5, end_of=1)
    resume_read.set()
    approve = lab.button("Approve", 1)
    lab.wait_output(1, "edit rainfall/stats.py")
    approve.wait_for()
    film.take(2.5, end_of=1)
    film.take(1.5, end_of=1, pointer=approve)
    approve.click()
    lab.wait_output(1, "sorted the caller's list")
    film.take(2, end_of=1)
    resume_answer.set()
    lab.wait_idle()
    film.take(2.5, end_of=1)
    film.save(pictures / "quickstart.gif")
    with Image.open(pictures / "quickstart.gif") as picture:
        assert picture.size == (WIDTH, HEIGHT)
        assert picture.n_frames == 8
    assert (pictures / "quickstart.gif").stat().st_size < 1_000_000
