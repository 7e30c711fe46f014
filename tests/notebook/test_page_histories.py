"""Random histories of a page that people hand on: it shows what it showed, and a prompt carries what the page says."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.model_server import ModelServer
from tests.notebook.conversation_model import Finding
from tests.notebook.page_history import Action, PageHistory, random_history


def find(server: ModelServer, seed: int, history: Sequence[Action]) -> tuple[Finding | None, PageHistory]:
    """What is wrong with that history, if anything."""
    server.requests.clear()
    with tempfile.TemporaryDirectory() as folder:
        played = PageHistory(Path(folder), server, 2 + seed % 3)
        try:
            played.play(history)
        except Finding as finding:
            return finding, played
    return None, played


def shrunk(server: ModelServer, seed: int, history: Sequence[Action], kind: str) -> list[Action]:
    """The history without each action that is not needed for a finding of that kind."""
    history, position = list(history), 0
    while position < len(history):
        fewer = history[:position] + history[position + 1 :]
        found, _ = find(server, seed, fewer)
        if found is not None and found.kind == kind:
            history, position = fewer, 0
        else:
            position += 1
    return history


def check(server: ModelServer, seed: int) -> PageHistory:
    history = random_history(seed)
    found, played = find(server, seed, history)
    if found is not None:
        fewest = shrunk(server, seed, history, found.kind)
        again, _ = find(server, seed, fewest)
        pytest.fail(f"seed {seed}: {again or found}\n\n" + "\n".join(map(str, fewest)))
    return played


@pytest.mark.parametrize("seed", range(6))
def test_a_page_that_people_hand_on_shows_what_it_showed(model_server, seed):
    assert check(model_server, seed).compared


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_many_pages_that_people_hand_on_show_what_they_showed(model_server, first):
    for seed in range(first, first + 50):
        check(model_server, seed)
