"""A recorded turn run again by a real agent: what the recording answers, what is asked, how each call compares."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig
from kin_nb.core.events import ToolResultEvent
from kin_nb.core.file_history.file_changes import Content, file_change
from kin_nb.core.records import FileChange, RecordedCall, RecordedDecision, RecordedStep, TurnRecord, sha256
from kin_nb.core.safety.approvals import NO_APPROVER
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.tool_types import Preview
from kin_nb.replay.errors import ReplayEndedError
from kin_nb.replay.rerun.drift import Drift
from kin_nb.replay.rerun.turn_replayer import INTERRUPTED, TurnReplayer
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
        self.rerun = TurnReplayer(record, self.agent.workspace.root, approve_recorded=approve_recorded)
        self.agent.backend = self.rerun.backend
        self.agent.set_ask(self.rerun.answer_approvals(self._ask))
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
    told = "The user refused this call, with the note: use make instead"
    call = bash("touch made", told, status="refused", exit=None, decision=refused("person", "use make instead"))
    again = await Again(asking(call), workspace, approve_recorded=approve).run()
    assert (again.asked, again.kinds, again.told) == ([], ["same"], [told])
    assert not (workspace / "made").exists()
    assert again.agent.turns[-1].outcome == "done"


async def test_a_refusal_without_a_note_stops_the_turn_as_it_did(workspace):
    call = bash("touch made", "The user refused this call.", status="refused", exit=None, decision=refused("person"))
    again = await Again(asking(call), workspace).run()
    assert again.kinds == ["same"]
    assert again.agent.turns[-1].outcome == "stopped"


@pytest.mark.parametrize(
    ("by", "output"),
    [
        ("headless", NO_APPROVER.format(tool="bash", reason="bash runs a command")),
        ("DenyRules", "bash was refused: your configuration forbids this call of bash ([tools.bash])"),
        ("DenyWhilePlanning", "bash was refused: plan mode is on"),
        ("callback", "The user refused this call, with the note: no"),
    ],
)
async def test_a_refusal_by_rules_that_do_not_hold_here_is_repeated_verbatim(workspace, by, output):
    call = bash("touch made", output, status="refused", exit=None, decision=refused(by, "no"))
    again = await Again(asking(call), workspace).run()
    assert (again.asked, again.kinds, again.told) == ([], ["same"], [output])
    assert not (workspace / "made").exists()


async def test_a_call_that_the_person_edited_runs_as_edited(workspace):
    edited = '{"command": "touch {workspace}/edited; echo ok"}'
    told = "[The user edited this call before it ran. It ran as: touch {workspace}/edited; echo ok]\nok"
    call = bash("touch made", told, edited_arguments=edited, files=(empty("edited"),))
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
    answer = await again.rerun.answer_approvals(again._ask)(request)
    assert not answer.approved
    assert again.asked == [request]


INSIDE = "write_file changes files; policy on-request asks first"


@pytest.mark.parametrize("spelt", ["current/f", "~/out/f", "../out/f", "{out}/f"])
@pytest.mark.parametrize(
    ("asked_then", "now"), [(INSIDE, "refused"), ("~/out/f is outside the workspace", "ok"), ("~/o", "refused")]
)
async def test_an_approval_for_a_place_inside_is_none_for_one_outside(
    workspace, tmp_path, monkeypatch, spelt, asked_then, now
):
    """A link leads there, or in the copy another folder is meant than the person's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    out = tmp_path / "out"
    out.mkdir()
    (workspace / "current").symlink_to(out)
    decision = YES.model_copy(update={"reason": asked_then})
    arguments = json.dumps({"path": spelt.replace("{out}", str(out)), "content": "new"})
    call = RecordedCall(id="c1", name="write_file", arguments=arguments, status="ok", decision=decision)
    ((shown, _),) = (await Again(asking(call), workspace).run()).compared
    assert shown.status == now
    assert (out / "f").exists() == (now == "ok")


async def test_ids_that_come_again_are_told_apart_by_their_order(workspace):
    """Some servers count from call_0 in every reply."""
    first, second = bash("echo 1", "1", call_id="call_0"), bash("echo 2", "2", call_id="call_0")
    again = await Again(asking(first, second), workspace).run()
    assert [shown for shown, _ in again.compared] == [first, second]
    assert again.kinds == ["same", "same"]


async def test_what_came_out_as_recorded_is_shown_as_recorded(workspace):
    recorded = "....\n" + "-" * 70 + "\nRan 4 tests in 0.123s\n\nOK"
    now = recorded.replace("0.123", "9.999")
    (workspace / "tests.sh").write_text(f"printf '%s' '{now}'")
    call = bash("sh tests.sh", recorded, milliseconds=5)
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


async def test_a_memory_is_written_to_the_replays_own_folder_and_is_no_drift(workspace):
    arguments = json.dumps({"action": "write", "name": "style", "description": "tabs", "text": "tabs"})
    written = FileChange(path="~/.kin-code/memory/style.md", after=sha256(b"tabs\n\ntabs\n"))
    told = "Wrote ~/.kin-code/memory/style.md. Sessions that start from now on see it."
    asked = YES.model_copy(
        update={"reason": "~/.kin-code/memory/style.md: kept in memory: every later session reads it"}
    )
    call = RecordedCall(
        id="c1", name="memory", arguments=arguments, decision=asked, status="ok", output=told, files=(written,)
    )
    again = await Again(asking(call), workspace).run()
    assert again.kinds == ["same"], (again.rerun.drifts, again.compared)
    assert (workspace.parent / "home" / "memory" / "style.md").exists()


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


def changed(path: str, before: bytes | None, after: bytes | None, mode: str = "100644") -> FileChange:
    sides = [Content() if data is None else Content(mode, sha256(data), data) for data in (before, after)]
    return file_change(path, *sides)


async def after_task(workspace: Path, *files: FileChange, approve: bool = True, output: str = "") -> Again:
    """A general subagent changed `files`; then a command says what is there."""
    look = bash("cat new.txt a.txt run.sh 2>/dev/null; true", output, call_id="c2")
    again = Again(asking(task(status="ok", output="done", files=files), look), workspace, approve_recorded=approve)
    again.rerun.prepare(again.agent)
    return await again.run()


async def test_what_a_subagent_changed_in_files_is_changed_again_for_the_calls_after_it(workspace):
    (workspace / "a.txt").write_bytes(old := b"one\r\ntwo\n" + b"same\n" * 20 + b"end")
    (workspace / "gone.txt").write_text("x\n")
    new = old.replace(b"two", b"2") + b"\nmore\f\xc2\x85"
    files = (
        changed("a.txt", old, new),
        changed("deep/er/new.txt", None, b"{workspace}\n"),
        changed("empty", None, b""),
        changed("gone.txt", b"x\n", None),
        changed("run.sh", None, b"echo hi\n", "100755"),
        changed("way", None, b"a.txt", "120000"),
    )
    again = await after_task(workspace, *files, output=f"{new.decode()}echo hi")
    assert again.kinds == ["same", "same"], again.rerun.drifts
    assert (workspace / "a.txt").read_bytes() == new
    assert (workspace / "deep" / "er" / "new.txt").read_bytes() == b"{workspace}\n"
    assert (workspace / "empty").read_bytes() == b""
    assert not (workspace / "gone.txt").exists()
    assert os.access(workspace / "run.sh", os.X_OK)
    assert (workspace / "way").readlink() == Path("a.txt")
    assert again.compared[0][0].files == files


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed("b.bin", None, b"\0" * 9), "b.bin: the recording does not contain its text"),
        (changed("big.txt", None, b"x\n" * 200_000), "big.txt: the recording does not contain its text"),
        (
            changed("redacted", None, b"key\n").model_copy(update={"after": sha256(b"other\n")}),
            "redacted: the recording does not contain its text",
        ),
        (changed("~/.kin-code/memory/m.md", None, b"m\n"), "~/.kin-code/memory/m.md: it is outside the workspace"),
        (changed("/tmp/x", None, b"m\n"), "/tmp/x: it is outside the workspace"),
    ],
    ids=["binary", "too large", "redacted", "home", "elsewhere"],
)
async def test_a_subagents_file_that_the_recording_does_not_hold_is_drift_of_its_own(workspace, change, why):
    again = await after_task(workspace, change, changed("new.txt", None, b"n\n"), output="n")
    assert again.kinds == ["not re-run", "same"]
    assert again.rerun.drifts == [f"task: not re-run drift: its subagent changed {why}"]
    assert [path.name for path in workspace.iterdir()] == ["new.txt"]


async def test_a_file_that_is_another_now_stays_and_is_drift(workspace):
    (workspace / "a.txt").write_text("mine\n")
    again = await after_task(workspace, changed("a.txt", b"theirs\n", b"new\n"), output="mine")
    assert again.kinds == ["effect", "same"]
    assert (workspace / "a.txt").read_text() == "mine\n"


async def test_what_a_subagent_wrote_is_not_written_unless_recorded_approvals_count(workspace):
    again = await after_task(workspace, changed("new.txt", None, b"n\n"), approve=False)
    assert again.kinds[0] == "refused"
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("path", ["../out.txt", ".git/hooks/pre-commit", "way/out.txt", "", "a//b", ".", "x\\x00"])
async def test_no_recording_writes_outside_of_the_copy_or_into_git(workspace, path):
    outside = workspace.with_name("outside")
    outside.mkdir()
    (workspace / "way").symlink_to(outside)
    again = await after_task(workspace, changed(path, None, b"owned\n"))
    assert again.kinds[0] == "effect"
    assert list(outside.iterdir()) == []
    assert [entry.name for entry in workspace.iterdir()] == ["way"]
    assert not (workspace.parent / "out.txt").exists()


@pytest.mark.parametrize(
    "patch", ["", "@@", "--- a\n+++ b\n@@ -9,1 +9,1 @@\n\\ no\n-x\n+y\n", "a\nb\n@@ -0 +0 @@\n \n"]
)
async def test_a_patch_that_is_none_is_drift(workspace, patch):
    damaged = changed("new.txt", None, b"n\n").model_copy(update={"patch": patch})
    assert (await after_task(workspace, damaged)).kinds[0] == "not re-run"


async def test_where_there_are_no_tasks_a_recorded_one_is_drift(workspace):
    again = Again(asking(task(status="ok", output="found")), workspace)
    again.agent.switch_config(again.agent.base_config.model_copy(update={"disabled_tools": ["task"]}))
    again.rerun.prepare(again.agent)
    await again.run()
    assert again.kinds == ["effect"]
