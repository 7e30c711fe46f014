"""What `kin-nb replay` tells its kernel: written and read as one value, and nothing else is taken for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kin_nb.notebook.modes.live import with_recorded_approvals
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.errors import ReplayError
from tests.table import each_row

MADE = ReplayEnvironment(
    mode="tools",
    notebook=Path("/a/talk é.ipynb"),
    workspace=Path("/tmp/kin/workspace"),
    temporary=Path("/tmp/kin"),
    approve_recorded=True,
    sandbox={"sandbox": "on", "sandbox_network": False},
)
WRITTEN = json.loads(MADE.to_environ()["KIN_REPLAY"])


def test_what_is_written_to_the_environment_is_read_from_it():
    assert list(MADE.to_environ()) == ["KIN_REPLAY"]
    assert ReplayEnvironment.from_environ({"PATH": "x", **MADE.to_environ()}) == MADE


def test_without_the_variable_there_is_none():
    assert ReplayEnvironment.from_environ({"KIN_REPLAY_SERVERS": "[]"}) is None


def test_a_path_that_is_no_unicode_comes_back():
    path = Path(os.fsdecode(b"/a/\xff.ipynb"))
    made = ReplayEnvironment("live", path, Path("/w"), Path("/t"))
    assert ReplayEnvironment.from_environ(made.to_environ()).notebook == path


@each_row(
    "text",
    [
        "",
        "live",
        "tools",
        "{}",
        "null",
        "[]",
        '"live"',
        json.dumps({**WRITTEN, "mode": "playback"}),
        json.dumps({**WRITTEN, "more": 1}),
        json.dumps({**WRITTEN, "approve_recorded": "yes"}),
        json.dumps({**WRITTEN, "workspace": 1}),
        json.dumps({name: value for name, value in WRITTEN.items() if name != "notebook"}),
        "[" * 10_000,
    ],
)
def test_anything_else_is_an_error_that_names_the_variable(text):
    with pytest.raises(ReplayError, match=r"(?s)^KIN_REPLAY holds an unusable value: .*\n.*Unset KIN_REPLAY"):
        ReplayEnvironment.from_environ({"KIN_REPLAY": text})


def test_no_model_is_asked_with_a_value_that_cannot_be_read(monkeypatch):
    async def ask(request):
        raise AssertionError

    monkeypatch.setenv("KIN_REPLAY", "live")
    with pytest.raises(ReplayError, match="KIN_REPLAY"):
        with_recorded_approvals(ask)
