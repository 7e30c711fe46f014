"""Calls that the person changes before they run: what runs, what is recorded, what the model is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.tool_types import BaseToolConfig
from kin_nb.core.tools.edited import LONGEST
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

HEAD = "[The user edited this call before it ran. It ran as: "
LINES = [f"line {n}\n" for n in range(1, 31)]
NEW = "".join(["first\n", *LINES[1:14], "middle\n", *LINES[15:29], "last\n"])


@pytest.fixture
def answering(agent, model_server):
    """One turn with that call, answered so: the call's record, and what the model was told. `answering.asked`: requests."""

    async def answering(call: dict, answer: ApprovalDecision):
        async def ask(request):
            answering.asked.append(request)
            return answer

        agent.set_ask(ask)
        model_server.enqueue(calls=[call])
        model_server.enqueue("Done.")
        record = (await run_turn(agent))[-1].record
        return record.calls[0], next((m.content for m in reversed(agent.messages) if m.role == "tool"), "")

    answering.asked = []
    return answering


@pytest.fixture
def long_file(workspace: Path) -> Path:
    file = workspace / "long.txt"
    file.write_text("".join(LINES))
    return file


def overwrite(path: str = "long.txt", content: str = NEW) -> dict:
    return tool_call("write_file", path=path, content=content, overwrite=True)


async def test_the_model_is_shown_the_command_that_ran(answering, workspace):
    call, told = await answering(
        tool_call("bash", command="touch asked"), ApprovalDecision(True, edited_args={"command": "touch mine; echo ok"})
    )
    assert told == f"{HEAD}touch mine; echo ok]\nok"
    assert call.output == told
    assert (workspace / "mine").exists()
    assert not (workspace / "asked").exists()


async def test_the_model_is_shown_too_when_what_was_edited_fails(answering):
    edited = {"path": "a.py", "old_string": "nowhere", "new_string": "y"}
    asked = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")
    call, told = await answering(asked, ApprovalDecision(True, edited_args=edited))
    assert call.status == "error"
    assert told.startswith(f"{HEAD}{json.dumps({**edited, 'replace_all': False})}]\nold_string is not in a.py.")


async def test_of_an_edit_the_model_is_shown_how_it_differs_from_its_own(answering, workspace):
    asked = {"path": "a.py", "old_string": "x = 1", "new_string": "x = 3"}
    answer = ApprovalDecision(True, edited_args={**asked, "new_string": "x = 4"})
    _, told = await answering(tool_call("edit_file", **asked), answer)
    assert told.startswith(
        f"{HEAD}your change, with this difference:\n@@ -1,2 +1,2 @@\n-x = 3\n+x = 4\n y = 2]\nEdited a.py"
    )
    assert (workspace / "a.py").read_text() == "x = 4\ny = 2\n"


async def test_what_was_edited_into_no_call_is_refused_and_says_why(answering):
    call, told = await answering(
        tool_call("bash", command="touch asked"), ApprovalDecision(True, edited_args={"command": ""})
    )
    assert (call.status, call.decision.verdict, call.edited_arguments) == ("refused", "deny", None)
    assert told.startswith("bash was refused: it cannot run as the user edited it: bash: invalid arguments\n")


async def test_the_same_arguments_are_no_edit(answering):
    answer = ApprovalDecision(True, edited_args={"command": "touch x; echo ok"})
    call, told = await answering(tool_call("bash", command="touch x; echo ok"), answer)
    assert (call.edited_arguments, told) == (None, "ok")


async def test_another_file_is_named(answering, workspace):
    asked = {"path": "new.txt", "content": "x\n"}
    answer = ApprovalDecision(True, edited_args={**asked, "path": "other.txt"})
    _, told = await answering(tool_call("write_file", **asked), answer)
    assert told.startswith(f'{HEAD}{{"path": "other.txt", "content": "x\\n", "overwrite": false}}]\n')


async def test_what_ran_is_shown_up_to_a_bound(answering):
    long = f"true {'x' * (LONGEST + 7)}"
    _, told = await answering(
        tool_call("bash", command="touch x"), ApprovalDecision(True, edited_args={"command": long})
    )
    assert told == f"{HEAD}{long[:LONGEST]}… [12 more characters]]\n[no output]"


async def test_no_half_of_a_secret_is_recorded_where_it_is_cut(answering, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "hush-0123456789-hush")
    edited = f"true {'x' * (LONGEST - 12)} hush-0123456789-hush; echo {'y' * 100}"
    call, _ = await answering(
        tool_call("bash", command="touch x"), ApprovalDecision(True, edited_args={"command": edited})
    )
    assert "more characters]" in call.output
    assert "hush" not in call.model_dump_json()


async def test_only_the_chosen_parts_of_an_edit_are_made(answering, long_file):
    call, told = await answering(overwrite(), ApprovalDecision(True, hunks=(0, 2), scope="session"))
    assert long_file.read_text() == NEW.replace("middle", "line 15")
    assert json.loads(call.edited_arguments)["content"] == long_file.read_text()
    assert "\n-middle\n+line 15\n" in told.partition("]\n")[0]
    assert "first" not in told.partition("]\n")[0], "of what went in nothing is said"
    assert call.decision.scope == "once"


async def test_all_parts_are_the_call_as_it_was_asked_for(answering, long_file):
    call, told = await answering(overwrite(), ApprovalDecision(True, hunks=(0, 1, 2)))
    assert long_file.read_text() == NEW
    assert call.edited_arguments is None
    assert told.startswith("Overwrote long.txt")


async def test_no_part_is_a_refusal_that_says_so(answering, long_file):
    call, told = await answering(overwrite(), ApprovalDecision(True, hunks=()))
    assert call.status == "refused"
    assert told == "The user refused this call, with the note: no part of it"
    assert long_file.read_text() == "".join(LINES)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (overwrite(), "part 8 does not exist: the change has 3"),
        (tool_call("bash", command="touch new"), "it cannot be split into parts"),
    ],
)
async def test_parts_that_there_are_not_are_a_refusal_that_says_so(answering, long_file, workspace, call, says):
    recorded, told = await answering(call, ApprovalDecision(True, hunks=(7,)))
    assert (recorded.status, recorded.decision.verdict) == ("refused", "deny")
    assert "cannot run as the user edited it" in told
    assert says in told
    assert long_file.read_text() == "".join(LINES)
    assert not (workspace / "new").exists()


async def test_parts_are_asked_about_again_when_the_file_has_changed_meanwhile(agent, model_server, long_file):
    seen = []

    async def ask(request):
        seen.append(request.preview.body)
        if len(seen) == 1:
            long_file.write_text("".join(["mine\n", *LINES[1:]]))
        return ApprovalDecision(True, hunks=(0,))

    agent.set_ask(ask)
    model_server.enqueue(
        calls=[tool_call("edit_file", path="long.txt", old_string="line", new_string="L", replace_all=True)]
    )
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert len(seen) == 2
    assert seen[0] != seen[1]


@pytest.mark.parametrize("where", [".env", "../outside.txt"])
async def test_of_a_file_that_the_model_may_not_read_nothing_is_shown_and_no_parts_are_offered(
    answering, workspace, where
):
    (workspace / where).write_text("".join(LINES))
    asked = {"path": where, "old_string": "line 2\n", "new_string": "two\n"}
    _, told = await answering(
        tool_call("edit_file", **asked), ApprovalDecision(True, edited_args={**asked, "new_string": "2\n"})
    )
    assert told.startswith(f"{HEAD}2\n]")
    assert answering.asked[0].preview.texts is None


async def test_the_request_names_what_may_be_edited(answering, agent, monkeypatch):
    await answering(tool_call("bash", command="touch x"), ApprovalDecision(True))
    await answering(tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x"), ApprovalDecision(True))
    # no text, as a tool of anybody's may say
    monkeypatch.setattr(type(agent.tool_manager.get("write_file")), "editable", "overwrite")
    await answering(overwrite("a.py"), ApprovalDecision(True))
    assert [request.editable for request in answering.asked] == ["command", "new_string", ""]


async def test_what_was_edited_into_something_forbidden_does_not_run_and_says_why(model_server, config, workspace):
    config.tools["bash"] = BaseToolConfig(denylist=["touch"])
    agent = Agent(config)

    async def ask(request):
        return ApprovalDecision(True, edited_args={"command": "touch evil"})

    agent.set_ask(ask)
    model_server.enqueue(calls=[tool_call("bash", command="mkdir good")])
    model_server.enqueue("I see.")
    call = (await run_turn(agent))[-1].record.calls[0]
    await agent.aclose()
    assert (call.status, call.edited_arguments) == ("refused", None)
    assert call.output.startswith("bash was refused: as the user edited it: ")
    assert "denylist" in call.output
    assert list(workspace.iterdir()) == [workspace / "a.py"]


async def test_a_sensitive_file_that_the_person_wrote_in_is_changed_and_recorded(answering, workspace):
    answer = ApprovalDecision(True, edited_args={"path": ".env", "content": "A=1\n"})
    call, _ = await answering(tool_call("write_file", path="new.txt", content="A=1\n"), answer)
    assert (workspace / ".env").read_text() == "A=1\n"
    assert call.decision.by == "person"
    assert ".env" in call.decision.reason, call.decision.reason


async def test_an_edited_command_is_never_granted(answering, agent):
    for decision in (ApprovalDecision(True, scope="session", edited_args={"command": "touch mine"}),) * 2:
        call, _ = await answering(tool_call("bash", command="touch asked"), decision)
        assert call.decision.scope == "once"
    assert len(answering.asked) == 2
    assert agent.safety().grants.granted == []
