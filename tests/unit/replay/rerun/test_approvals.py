"""`--live --approve recorded`: which calls a recording allows, asked by a real agent in a copy of the workspace."""

from __future__ import annotations

import json

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.records import RecordedCall, RecordedDecision, RecordedStep
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.notebook.modes.live import with_recorded_approvals
from kin_nb.replay.environment import ReplayEnvironment
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.writing import write_notebook
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.replay.sessions import recording, turn

INSIDE = "write_file changes files; policy on-request asks first"


def written(path: str, reason: str, verdict: str = "allow") -> RecordedCall:
    decision = RecordedDecision(verdict=verdict, by="person", reason=reason)
    arguments = json.dumps({"path": path, "content": "new"})
    return RecordedCall(id="c1", name="write_file", arguments=arguments, status="ok", decision=decision)


@pytest.mark.parametrize(
    ("recorded", "asked", "approved"),
    [
        (written("a.txt", INSIDE), "a.txt", True),
        (written("{workspace}/a.txt", INSIDE), "{here}/a.txt", True),
        (written("a.txt", INSIDE), "b.txt", False),
        (written("a.txt", INSIDE, verdict="deny"), "a.txt", False),
        (written("current/a.txt", INSIDE), "current/a.txt", False),
        (written("current/a.txt", "{out}/a.txt is outside the workspace"), "current/a.txt", True),
        (written("current/a.txt", "{out}/b.txt is outside the workspace"), "current/a.txt", False),
    ],
)
async def test_a_call_is_allowed_as_it_was_and_outside_only_where_it_was(
    model_server, workspace, tmp_path, monkeypatch, recorded, asked, approved
):
    out = tmp_path / "out"
    out.mkdir()
    (workspace / "current").symlink_to(out)
    there = recorded.decision.model_copy(update={"reason": recorded.decision.reason.replace("{out}", str(out))})
    record = turn(1, "go", steps=(RecordedStep(calls=(recorded.model_copy(update={"decision": there}),)),))
    path = write_notebook(session_notebook(recording(record)), tmp_path / "talk.ipynb")
    monkeypatch.setenv(*environment(path, workspace, approve_recorded=True))
    providers, models = [ProviderConfig(name="p", api_base=model_server.url)], [ModelConfig(name="m", provider="p")]
    agent = Agent(KinConfig(workdir=workspace, active_model="m", providers=providers, models=models))

    async def nobody(request):
        return ApprovalDecision(approved=False, message="nobody is here", by="headless")

    agent.set_ask(with_recorded_approvals(nobody))
    model_server.enqueue(calls=[tool_call("write_file", path=asked.replace("{here}", str(workspace)), content="new")])
    model_server.enqueue("Done.")
    (call,) = (await run_turn(agent))[-1].record.calls
    await agent.aclose()
    assert (call.decision.by, call.status) == (("recorded", "ok") if approved else ("headless", "refused"))
    assert (out / "a.txt").exists() == (approved and asked.startswith("current"))


def environment(notebook, workspace, **fields):
    """(name, value) of the variable that the runner sets."""
    told = ReplayEnvironment("live", notebook, workspace, workspace.parent, **fields)
    return next(iter(told.to_environ().items()))


def test_no_one_else_is_asked_of_a_recording(monkeypatch, tmp_path):
    async def person(request):
        raise AssertionError

    monkeypatch.delenv("KIN_REPLAY", raising=False)
    assert with_recorded_approvals(person) is person
    monkeypatch.setenv(*environment(tmp_path / "a.ipynb", tmp_path / "work"))
    assert with_recorded_approvals(person) is person
