"""A small session with everything in it that a recording can hold."""

from __future__ import annotations

import pytest

from kin_nb.core.records import RecordedStep
from kin_nb.replay.recording import Recording, WorkspaceMeta
from tests.unit.replay.sessions import busy_turn, recording, turn


@pytest.fixture
def session() -> Recording:
    """Two turns: one with two steps and two calls, one with a lone surrogate as a broken tool may print it."""
    workspace = WorkspaceMeta(path="work", commit="a" * 40)
    second = turn(2, "And now?", steps=(RecordedStep(content="half a pair: \ud83d", fingerprint="f3"),))
    return recording(busy_turn(), second, workspace=workspace, system_prompt_sha="b" * 64, tools_sha="c" * 64)
