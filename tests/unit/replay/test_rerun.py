"""A recorded turn run again by a real agent: what the recording answers, what is asked, how each call compares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.events import ToolResultEvent
from kin_nb.core.safety.callbacks import NOBODY
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.records import FileChange, RecordedCall, RecordedDecision, RecordedStep, TurnRecord, sha256
from kin_nb.core.tools.base import Preview
from kin_nb.replay.drift import Drift
from kin_nb.replay.errors import ReplayEndedError
from kin_nb.replay.rerun import INTERRUPTED, Rerun
from tests.unit.replay.sessions import turn

YES = RecordedDecision(verdict="allow", by="person", reason="asked", scope="session")


def refused(by: str, note: str | None = None) -> RecordedDecision:
    return RecordedDecision(verdict="deny", by=by, reason="asked", note=note)


def bash(command: str, output: str = "", *, call_id: str = "c1", **fields: Any) -> RecordedCall:
    fields = {"decision": YES, "status": "ok", "exit": 0, **fields}
    return RecordedCall(
        id=call_id, name="bash", arguments=json.dumps({"command": command}), output=output, summary=command, **fields
    )


def empty(path: str) -> FileChange:
    return FileChange(path=path, after=sha256(b""))


def asking(*calls: RecordedCall, content: str = "I look.") -> TurnRecord:
    """A turn with each call in a step of its own, and a last word."""
    steps = [RecordedStep(content=content, calls=(call,)) for call in calls]
    return turn(1, "go", steps=(*steps, RecordedStep(content="Done.")))


class Again:
    """One rerun in `workspace`: `asked` is what went on to a person, who says yes; `compared` what came of each call."""

    def __init__(self, record: TurnRecord, workspace: Path, *, approve_recorded: bool = True) -> None:
        self.agent = Agent(KinConfig(workdir=workspace))
        self.rerun = Rerun(record, self.agent.workspace.root, approve_recorded=approve_recorded)
        self.agent.backend = self.rerun.backend
        self.agent.set_ask(self.rerun.asking(self._ask))
        self.asked: list[ApprovalRequest] = []
        self.compared: list[tuple[RecordedCall, Drift]] = []

    async def _ask(self, request: ApprovalRequest) -> ApprovalDecision:
        self.asked.append(request)
        return ApprovalDecision(approved=False, message="not here", by="headless")

    async def run(self) -> Again:
        try:
            async for event in self.agent.act(self.rerun.prompt):
                if isinstance(event, ToolResultEvent):
                    self.compared.append(self.rerun.compare(event.call))
        finally:
            await self.agent.aclose()
        return self

    @property
    def kinds(self) -> list[str]:
        return [drift.kind for _, drift in self.compared]

    @property
    def told(self) -> list[str]:
        """What the model was told of each call."""
        return [message.content for message in self.agent.messages if message.role == "tool"]


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("KIN_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def test_a_recorded_approval_is_none_unless_it_is_made_one(workspace):
    record = asking(bash("touch made; echo ok", "ok", files=(empty("made"),)))
    asked = await Again(record, workspace, approve_recorded=False).run()
    assert len(asked.asked) == 1
    assert asked.kinds == ["refused"]
    assert not (workspace / "made").exists()
    approved = await Again(record, workspace).run()
    assert approved.asked == []
    assert approved.kinds == ["same"]
    assert (workspace / "made").exists()


@pytest.mark.parametrize("approve", [False, True])
async def test_a_persons_refusal_is_repeated_with_its_note(workspace, approve):
    told = "The person refused this call and says: use make instead"
    call = bash("touch made", told, status="refused", exit=None, decision=refused("person", "use make instead"))
    again = await Again(asking(call), workspace, approve_recorded=approve).run()
    assert (again.asked, again.kinds, again.told) == ([], ["same"], [told])
    assert not (workspace / "made").exists()
    assert again.agent.turns[-1].outcome == "done"


async def test_a_refusal_without_a_note_stops_the_turn_as_it_did(workspace):
    call = bash("touch made", "The person refused this call.", status="refused", exit=None, decision=refused("person"))
    again = await Again(asking(call), workspace).run()
    assert again.kinds == ["same"]
    assert again.agent.turns[-1].outcome == "stopped"


@pytest.mark.parametrize(
    ("by", "output"),
    [
        ("headless", NOBODY.format(tool="bash", reason="bash runs a command")),
        ("DenyRules", "bash was refused: your configuration forbids this call of bash ([tools.bash])"),
        ("DenyWhilePlanning", "bash was refused: plan mode is on"),
        ("callback", "The person refused this call and says: no"),
    ],
)
async def test_a_refusal_by_rules_that_do_not_hold_here_is_repeated_to_the_letter(workspace, by, output):
    call = bash("touch made", output, status="refused", exit=None, decision=refused(by, "no"))
    again = await Again(asking(call), workspace).run()
    assert (again.asked, again.kinds, again.told) == ([], ["same"], [output])
    assert not (workspace / "made").exists()


async def test_a_call_that_the_person_edited_runs_as_edited(workspace):
    edited = '{"command": "touch {workspace}/edited; echo ok"}'
    call = bash("touch made", "ok", edited_arguments=edited, files=(empty("edited"),))
    again = await Again(asking(call), workspace).run()
    assert again.kinds == ["same"]
    assert [path.name for path in workspace.iterdir()] == ["edited"]


async def test_an_interrupted_call_is_not_run_and_is_no_drift(workspace):
    call = bash("touch made", "interrupted", status="interrupted", exit=None)
    again = Again(asking(call), workspace)
    await again.run()
    ((shown, drift),) = again.compared
    assert (shown, drift) == (call, Drift("same", detail=INTERRUPTED))
    assert not (workspace / "made").exists()


async def test_what_an_interrupted_call_left_in_files_is_missed(workspace):
    change = {"path": "made", "before": None, "after": "1" * 64}
    call = RecordedCall.model_validate(
        bash("x", status="interrupted", exit=None).model_dump() | {"files": [change], "output": "interrupted"}
    )
    assert (await Again(asking(call), workspace).run()).kinds == ["refused"]


async def test_placeholders_are_this_runs_folder_in_arguments_and_replies(workspace):
    odd = workspace.rename(workspace.with_name('work "x" é'))
    (odd / "a.txt").write_text("here\n")
    call = RecordedCall(
        id="c1", name="read_file", arguments='{"path": "{workspace}/a.txt"}', status="ok", output="     1\there"
    )
    again = await Again(asking(call, content="In {workspace}."), odd).run()
    assert again.kinds == ["same"]
    reply = next(message for message in again.agent.messages if message.role == "assistant")
    assert reply.content == f"In {odd}."
    assert json.loads(reply.tool_calls[0].function.arguments) == {"path": f"{odd}/a.txt"}
    assert again.agent.turns[-1].steps[0].content == "In {workspace}.", "what is recorded again names no folder"


async def test_a_call_with_other_arguments_than_recorded_is_asked(workspace):
    again = Again(asking(bash("echo safe")), workspace)
    tool = again.agent.tool_manager.get("bash")
    other = tool.parse_args({"command": "rm -rf ."})
    request = ApprovalRequest("bash", other, "c1", "asked", Preview("rm", "rm"))
    answer = await again.rerun.asking(again._ask)(request)
    assert not answer.approved
    assert again.asked == [request]


async def test_ids_that_come_again_are_told_apart_by_their_order(workspace):
    """Some servers count from call_0 in every reply."""
    first, second = bash("echo 1", "1", call_id="call_0"), bash("echo 2", "2", call_id="call_0")
    again = await Again(asking(first, second), workspace).run()
    assert [shown for shown, _ in again.compared] == [first, second]
    assert again.kinds == ["same", "same"]


async def test_what_came_out_as_recorded_is_shown_as_recorded(workspace):
    recorded = "....\n" + "-" * 70 + "\nRan 4 tests in 0.123s\n\nOK"
    now = recorded.replace("0.123", "9.999")
    call = bash(f"printf '%s' '{now}'", recorded, milliseconds=5)
    ((shown, drift),) = (await Again(asking(call), workspace).run()).compared
    assert drift.kind == "equivalent"
    assert shown == call, "duration, seconds in the text and all"


async def test_drift_is_shown_as_it_is_and_what_follows_it_says_so(workspace):
    calls = (bash("echo 1", "one"), bash("echo 2", "2", call_id="c2"), bash("exit 3", call_id="c3"))
    again = await Again(asking(*calls), workspace).run()
    assert again.kinds == ["text", "same", "effect"]
    assert [shown.output for shown, _ in again.compared[:2]] == ["1", "2"]
    assert again.rerun.drifts == [
        "bash: text drift: line 1: recorded 'one', now '1'",
        "bash: effect drift: after drift: exit code: recorded 0, now 3",
    ]


async def test_a_turn_that_broke_off_ends_where_its_recording_ends(workspace):
    record = asking(bash("echo 1", "1")).model_copy(update={"outcome": "error", "message": "the server is down"})
    record = record.model_copy(update={"steps": record.steps[:1]})
    again = Again(record, workspace)
    with pytest.raises(ReplayEndedError, match=r"recorded up to step 1 and ended there \(error: the server is down\)"):
        await again.run()
    assert again.kinds == ["same"]


def task(**fields: Any) -> RecordedCall:
    arguments = json.dumps({"description": "find x", "prompt": "Where is x in {workspace}?", "profile": "general"})
    return RecordedCall(id="c1", name="task", arguments=arguments, summary="general: find x", **fields)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (task(status="ok", output="in {workspace}/a.py\n[subagent: 1 step]"), "in WORKSPACE/a.py\n[subagent: 1 step]"),
        (task(status="error", output="The subagent failed: no model"), "The subagent failed: no model"),
        (task(status="interrupted", output="interrupted"), "interrupted"),
    ],
)
async def test_a_recorded_task_is_answered_from_the_recording(workspace, call, told):
    again = Again(asking(call), workspace)
    again.rerun.prepare(again.agent)
    await again.run()
    assert again.told == [told.replace("WORKSPACE", str(again.agent.workspace.root))]
    assert again.kinds == ["same"]
    assert again.compared[0][0] == call
    assert again.agent.stats.session_prompt_tokens == 0


async def test_where_there_are_no_tasks_a_recorded_one_is_drift(workspace):
    again = Again(asking(task(status="ok", output="found")), workspace)
    again.agent.switch_config(again.agent.configured.model_copy(update={"disabled_tools": ["task"]}))
    again.rerun.prepare(again.agent)
    await again.run()
    assert again.kinds == ["effect"]
