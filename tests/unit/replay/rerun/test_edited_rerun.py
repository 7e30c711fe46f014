"""A call that the person edited, recorded by a real agent and run again elsewhere: the same, verbatim."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.records import TurnRecord
from kin_nb.core.safety.decision import ApprovalDecision
from tests.model_server import ModelServer, tool_call
from tests.unit.replay.rerun.test_rerun import Again

LINES = [f"line {n}\n" for n in range(1, 31)]
NEW = "".join(["first\n", *LINES[1:14], "middle\n", *LINES[15:29], "last\n"])
EDIT = {"path": "f.txt", "old_string": "line 1\n", "new_string": "one\n"}
OVERWRITE = {"path": "f.txt", "content": NEW, "overwrite": True}


async def recorded(workspace: Path, server: ModelServer, call: dict, answer: ApprovalDecision) -> TurnRecord:
    provider, model = ProviderConfig(name="p", api_base=server.url), ModelConfig(name="m", provider="p")
    agent = Agent(KinConfig(workdir=workspace, active_model="m", providers=[provider], models=[model]))

    async def ask(request):
        return answer

    agent.set_ask(ask)
    server.enqueue(calls=[call])
    server.enqueue("Done.")
    events = [event async for event in agent.act("go")]
    await agent.aclose()
    return events[-1].record


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "f.txt").write_text("".join(LINES))
    return path


def answer_in(workspace: Path, name: str) -> tuple[dict, ApprovalDecision]:
    long = "; ".join(f"echo {n} {workspace}/f.txt" for n in range(80))
    edits = {
        "a command": (tool_call("bash", command="touch x"), {"command": f"touch {workspace}/y; echo ok"}),
        "one that is cut": (tool_call("bash", command="touch x"), {"command": f"touch y; {long}"}),
        "an edit": (tool_call("edit_file", **EDIT), {**EDIT, "new_string": "1\n"}),
    }
    if name in edits:
        call, args = edits[name]
        return call, ApprovalDecision(True, edited_args=args)
    return tool_call("write_file", **OVERWRITE), ApprovalDecision(True, hunks=(0, 2))


@pytest.mark.parametrize("name", ["a command", "one that is cut", "an edit", "parts of one"])
async def test_an_edited_call_runs_again_without_drift(tmp_path, monkeypatch, model_server, name):
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    first, second = folder(tmp_path / "w"), folder(tmp_path / ("another-folder-" * 8) / "work")
    record = await recorded(first, model_server, *answer_in(first, name))
    call = record.calls[0]
    assert call.output.startswith("[The user edited this call before it ran. It ran as: ")
    assert str(first) not in call.model_dump_json()
    again = await Again(record, second).run()
    assert (again.kinds, again.asked) == (["same"], [])
    assert {p.name: p.read_text() for p in second.iterdir()} == {p.name: p.read_text() for p in first.iterdir()}
