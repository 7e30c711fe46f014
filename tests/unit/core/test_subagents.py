"""A task: what a subagent gets, what it may do, what comes back, and what is left when it is cut short."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import aclosing, suppress

import psutil
import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.events import (
    AssistantEvent,
    CheckpointEvent,
    StepReplyEvent,
    SubagentEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnEndEvent,
)
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedCall
from kin_nb.core.safety.audit import read_audit
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from kin_nb.core.tool_types import Accesses, BaseToolConfig
from kin_nb.core.tools.builtins.task import Task
from kin_nb.core.tools.subagent_profiles import PROFILES
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")


def task(prompt: str = "Find x.", profile: str = "explore", description: str = "find x") -> dict:
    return tool_call("task", description=description, prompt=prompt, profile=profile)


def result_of(events: list) -> RecordedCall:
    return next(event.call for event in events if isinstance(event, ToolResultEvent))


def inner(events: list) -> list:
    return [event.event for event in events if isinstance(event, SubagentEvent)]


def tools_of(request: dict) -> set[str]:
    return {tool["function"]["name"] for tool in request["tools"]}


async def asked(agent: Agent, *answers: ApprovalDecision) -> list[ApprovalRequest]:
    questions: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        questions.append(request)
        return answers[len(questions) - 1]

    agent.set_ask(ask)
    return questions


async def test_a_subagent_has_a_context_of_its_own_and_its_last_words_are_the_result(model_server, agent):
    model_server.enqueue("I will ask.", calls=[task("Where is x?")])
    model_server.enqueue("Looking.", calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("x is in a.py:1.")
    model_server.enqueue("Done.")
    events = await run_turn(agent, "the person's words")
    first = model_server.requests[1]["messages"]
    assert [m["role"] for m in first] == ["system", "user"]
    assert first[1]["content"] == "Where is x?"
    assert first[0]["content"].startswith(model_server.requests[0]["messages"][0]["content"])
    answer = model_server.requests[3]["messages"][-1]
    assert answer["content"].startswith("x is in a.py:1.\n[subagent: 2 model requests, 1 tool call, ")
    assert "x = 1" not in json.dumps(model_server.requests[3]["messages"])
    assert result_of(events).status == "ok"


async def test_its_events_are_nested_in_the_call_without_the_pieces_of_its_text(model_server, agent):
    model_server.enqueue(calls=[task()])
    model_server.enqueue("Looking, in several pieces.", reasoning="hm", calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Here it is, in several pieces.")
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    call_id = next(e.tool_call_id for e in events if isinstance(e, ToolCallEvent))
    nested = [e for e in events if isinstance(e, SubagentEvent)]
    assert {e.tool_call_id for e in nested} == {call_id}
    kinds = [type(e) for e in inner(events)]
    assert AssistantEvent not in kinds
    assert CheckpointEvent not in kinds
    assert [e.step.content for e in inner(events) if isinstance(e, StepReplyEvent)] == [
        "Looking, in several pieces.",
        "Here it is, in several pieces.",
    ]
    assert kinds.index(ToolCallEvent) < kinds.index(ToolResultEvent) < kinds.index(TurnEndEvent)
    ends = [type(e) for e in events].index(ToolResultEvent)
    assert events.index(nested[-1]) < ends


@pytest.mark.parametrize(
    ("profile", "has", "has_not"),
    [
        ("explore", {"read_file", "list_dir", "glob", "grep", "bash"}, {"task", "write_file", "todo", "web_fetch"}),
        ("general", {"read_file", "write_file", "edit_file", "bash", "todo"}, {"task", "ask_user", "send_dmail"}),
    ],
)
async def test_a_profile_decides_which_tools_there_are(model_server, config, profile, has, has_not):
    agent = Agent(config.model_copy(update={"dmail": True}), AgentMode.AUTO_APPROVE)
    model_server.enqueue(calls=[task(profile=profile)])
    model_server.enqueue("Found.")
    model_server.enqueue("Done.")
    await run_turn(agent)
    offered = tools_of(model_server.requests[1])
    assert offered >= has
    assert not offered & has_not
    await agent.aclose()


async def test_a_subagent_cannot_call_a_tool_that_it_was_not_given(model_server, trusted):
    model_server.enqueue(calls=[task()])
    model_server.enqueue(calls=[task("again"), EDIT])
    model_server.enqueue("I see.")
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    results = [e for e in inner(events) if isinstance(e, ToolResultEvent)]
    assert all("Unknown tool" in e.error for e in results)
    assert len(model_server.requests) == 4


async def test_exploring_changes_nothing_even_where_everything_runs_unasked(subtests, model_server, trusted, workspace):
    for command in ["touch new", 'python -c \'open("new", "w")\'', "echo 1 > new"]:
        with subtests.test(command=command):
            calls = [tool_call("bash", command=command), tool_call("bash", command="cat a.py")]
            model_server.enqueue(calls=[task()])
            model_server.enqueue(calls=calls)
            model_server.enqueue("I see.")
            model_server.enqueue("Done.")
            events = await run_turn(trusted)
            refused, read = [e.call for e in inner(events) if isinstance(e, ToolResultEvent)]
            assert refused.status == "refused"
            assert "this subagent may only run read-only commands" in refused.output
            assert (read.status, "x = 1" in read.output) == ("ok", True)
            assert not (workspace / "new").exists()


async def test_an_allow_rule_of_the_configuration_does_not_let_exploring_change_anything(
    model_server, config, workspace
):
    config.tools["bash"] = BaseToolConfig(permission="always")
    agent = Agent(config)
    model_server.enqueue(calls=[task()])
    model_server.enqueue(calls=[tool_call("bash", command="touch new")])
    model_server.enqueue("I see.")
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert not (workspace / "new").exists()
    await agent.aclose()


async def test_a_subagent_asks_the_same_person_at_the_parents_call(model_server, agent, workspace):
    questions = await asked(agent, ApprovalDecision(True))
    model_server.enqueue(calls=[task(profile="general", description="mend  x\nnow")])
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Mended.")
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    (question,) = questions
    assert question.tool_call_id == next(e.tool_call_id for e in events if isinstance(e, ToolCallEvent))
    assert question.reason.startswith('the subagent "mend x now": ')
    assert "+x = 3" in question.preview.body
    assert (workspace / "a.py").read_text().startswith("x = 3")


async def test_no_one_to_ask_means_refused_for_a_subagent_too(model_server, agent, workspace):
    model_server.enqueue(calls=[task(profile="general")])
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("I could not.")
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    assert "no one can approve it" in next(e for e in inner(events) if isinstance(e, ToolResultEvent)).call.output
    assert (workspace / "a.py").read_text().startswith("x = 1")


async def test_a_grant_for_the_session_holds_on_both_sides_of_a_task(model_server, agent, workspace):
    questions = await asked(agent, ApprovalDecision(True, scope="session"))
    model_server.enqueue(calls=[task(profile="general")])
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Mended.")
    model_server.enqueue(calls=[tool_call("edit_file", path="a.py", old_string="x = 3", new_string="x = 4")])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert len(questions) == 1
    assert (workspace / "a.py").read_text().startswith("x = 4")


async def test_a_refusal_without_a_word_inside_a_task_stops_the_whole_turn(model_server, agent):
    await asked(agent, ApprovalDecision(False))
    model_server.enqueue(calls=[task(profile="general"), tool_call("bash", command="touch new")])
    model_server.enqueue(calls=[EDIT])
    events = await run_turn(agent)
    record = events[-1].record
    assert (record.outcome, [c.status for c in record.calls]) == ("stopped", ["error", "refused"])
    assert "edit_file" in record.message
    assert len(model_server.requests) == 2


async def test_plan_mode_lets_explore_and_nothing_else(model_server, config):
    agent = Agent(config, AgentMode.PLAN)
    model_server.enqueue(calls=[task(), task(profile="general")])
    model_server.enqueue("Found.")
    model_server.enqueue("A plan.")
    events = await run_turn(agent)
    assert [c.status for c in events[-1].record.calls] == ["ok", "refused"]
    await agent.aclose()


async def test_what_it_used_is_in_the_turns_cost_and_counted_again_on_a_resume(model_server, config):
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    agent = Agent(config)
    model_server.enqueue(calls=[task()], usage=usage)
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")], usage=usage)
    model_server.enqueue("Found.", usage=usage)
    model_server.enqueue("Done.", usage=usage)
    record = (await run_turn(agent))[-1].record
    did = record.calls[0].subagent
    assert (did.profile, did.steps, did.prompt_tokens, did.completion_tokens) == ("explore", 2, 2000, 200)
    assert [(c.name, c.status) for c in did.calls] == [("read_file", "ok")]
    assert (record.prompt_tokens, record.completion_tokens) == (4000, 400)
    assert float(record.cost) == pytest.approx(0.0048)
    assert float(did.cost) == pytest.approx(0.0024)
    assert agent.stats.session_cost == pytest.approx(0.0048)
    assert agent.stats.context_tokens == 1100  # the parent's own
    assert agent.stats.steps == 2
    await agent.aclose()
    ends = [line for line in read_lines(agent.log.path) if line["type"] == "end"]
    assert ends[-1]["totals"]["tokens"] == 4400
    again = Agent.resume(config)
    assert again.turns == agent.turns
    assert again.stats.session_cost == pytest.approx(0.0048)
    assert again.messages[1:] == agent.messages[1:]
    await again.aclose()


async def test_the_log_has_one_turn_and_the_subagents_calls_are_in_none(model_server, agent):
    model_server.enqueue(calls=[task()])
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Found.")
    model_server.enqueue("Done.")
    await run_turn(agent)
    turns = SessionState.of(read_lines(agent.log.path)).records
    assert turns == agent.turns
    assert [call.name for call in turns[0].calls] == ["task"]


async def test_the_price_limit_of_the_session_holds_inside_a_task(model_server, config):
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    agent = Agent(config, max_price=1.5)
    model_server.enqueue(calls=[task()], usage=usage)
    for _ in range(2):
        model_server.enqueue("More.", calls=[tool_call("read_file", path="a.py")], usage=usage)
    record = (await run_turn(agent))[-1].record
    assert "Price limit exceeded" in record.calls[0].output
    assert "Price limit exceeded" in record.message
    assert len(model_server.requests) == 2
    await agent.aclose()


async def test_a_subagent_that_continues_and_on_is_stopped_and_its_last_words_are_kept(model_server, config):
    config.tools["task"] = BaseToolConfig(max_steps=3)
    agent = Agent(config)
    model_server.enqueue(calls=[task()])
    for line in range(3):
        model_server.enqueue(f"Step {line}.", calls=[tool_call("read_file", path="a.py", offset=line + 1)])
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    call = record.calls[0]
    assert call.status == "ok"
    assert call.output.startswith("Step 2.\n[The subagent was stopped: limit of 3 model requests per turn reached")
    assert record.outcome == "done"
    await agent.aclose()


async def test_a_subagent_without_a_word_is_an_error(model_server, config):
    config.tools["task"] = BaseToolConfig(max_steps=1)
    agent = Agent(config)
    model_server.enqueue(calls=[task()])
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Done.")
    call = (await run_turn(agent))[-1].record.calls[0]
    assert call.status == "error"
    assert call.output.startswith("The subagent was stopped: limit of 1 model request per turn reached")
    await agent.aclose()


async def test_a_subagent_whose_server_fails_is_an_error_of_that_call_alone(model_server, agent):
    model_server.enqueue(calls=[task()])
    model_server.enqueue(status=401)
    model_server.enqueue("Then otherwise.")
    record = (await run_turn(agent))[-1].record
    assert record.outcome == "done"
    assert record.calls[0].status == "error"
    assert record.calls[0].output.startswith("The subagent failed: ")
    assert record.calls[0].subagent.steps == 0


async def test_a_loop_inside_a_task_is_the_subagents_own(model_server, agent):
    model_server.enqueue(calls=[task()])
    for _ in range(8):
        model_server.enqueue("Again.", calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert "The subagent was stopped" in record.calls[0].output
    assert (record.outcome, len(record.steps)) == ("done", 2)


async def test_cancelling_the_parent_ends_the_subagent_and_what_it_runs(model_server, config, workspace):
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    command = "echo $$ > pid; mkfifo ready 2>/dev/null; sleep 60"
    model_server.enqueue(calls=[task(profile="general")], usage=usage)
    model_server.enqueue(calls=[tool_call("bash", command=command)], usage=usage)

    async def turn() -> None:
        async with aclosing(agent.act("go")) as events:
            async for _ in events:
                pass

    running = asyncio.create_task(turn())
    async with asyncio.timeout(60):
        while not (workspace / "ready").exists():  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
    pid = int((workspace / "pid").read_text())
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(pid)
    (call,) = agent.turns[-1].calls
    assert call.status == "interrupted"
    assert [(c.name, c.status) for c in call.subagent.calls] == [("bash", "interrupted")]
    assert (call.subagent.prompt_tokens, agent.stats.session_prompt_tokens) == (1000, 2000)
    assert {change.path for change in call.files} >= {"pid"}
    await agent.aclose()


async def test_undo_undoes_what_a_subagent_changed(model_server, trusted, workspace):
    model_server.enqueue(calls=[task(profile="general")])
    model_server.enqueue(calls=[EDIT, tool_call("bash", command="echo new > new.txt && rm -f gone")])
    model_server.enqueue("Changed.")
    model_server.enqueue("Done.")
    record = (await run_turn(trusted))[-1].record
    assert {change.path for change in record.calls[0].files} == {"a.py", "new.txt"}
    await trusted.undo()
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
    assert not (workspace / "new.txt").exists()


async def test_explore_tasks_of_one_reply_run_side_by_side(model_server, agent, workspace):
    """Neither gets the end of its reply before both have asked for one."""
    model_server.enqueue(calls=[task("one"), task("two")])
    both = threading.Event()
    for _ in range(2):
        model_server.enqueue("Found.", hold=both)
    model_server.enqueue("Done.")

    async def release() -> None:
        await asyncio.to_thread(model_server.wait_for_request, 3)
        both.set()

    releasing = asyncio.create_task(release())
    record = (await run_turn(agent))[-1].record
    await releasing
    assert [c.status for c in record.calls] == ["ok", "ok"]
    assert {m["messages"][1]["content"] for m in model_server.requests[1:3]} == {"one", "two"}


async def test_two_subagents_ask_one_after_the_other(model_server, config, workspace):
    config.policy = "strict"
    agent = Agent(config)
    open_questions = most = 0

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        for _ in range(50):
            await asyncio.sleep(0)
        open_questions -= 1
        return ApprovalDecision(True)

    agent.set_ask(ask)
    model_server.enqueue(calls=[task("one"), task("two")])
    for _ in range(2):
        model_server.enqueue(calls=[tool_call("bash", command="cat a.py")])
    for _ in range(2):
        model_server.enqueue("Found.")
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert [c.status for c in record.calls] == ["ok", "ok"]
    assert most == 1
    await agent.aclose()


async def test_the_audit_log_has_a_subagents_decisions_under_the_parents_turn(model_server, agent):
    model_server.enqueue("Hello.")
    await run_turn(agent)
    model_server.enqueue(calls=[task()])
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Found.")
    model_server.enqueue("Done.")
    await run_turn(agent)
    entries = [(entry.tool, entry.turn, entry.session) for entry in read_audit() if entry]
    assert entries == [(name, 2, agent.journal.root_id) for name in ("task", "read_file")]


async def test_the_connection_to_the_model_is_shared_and_stays_open(model_server, agent):
    model_server.enqueue(calls=[task()])
    model_server.enqueue("Found.")
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert model_server.connections == 1


async def test_a_prompt_that_looks_like_a_skill_is_only_text(model_server, agent):
    model_server.enqueue(calls=[task("/skill:nope do it")])
    model_server.enqueue("Found.")
    model_server.enqueue("Done.")
    assert (await run_turn(agent))[-1].record.calls[0].status == "ok"
    assert model_server.requests[1]["messages"][1]["content"] == "/skill:nope do it"


async def test_a_subagents_list_of_todos_is_not_its_parents(model_server, trusted):
    todos = [{"id": "1", "content": "inner"}]
    model_server.enqueue(calls=[task(profile="general")])
    model_server.enqueue(calls=[tool_call("todo", action="write", todos=todos)])
    model_server.enqueue("Noted.")
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert trusted.tool_manager.get("todo").state.todos == []


async def test_a_recorded_result_is_played_and_nothing_runs(model_server, agent):
    model_server.enqueue(calls=[{"id": "played001", **task()}])
    model_server.enqueue("Done.")
    recorded = RecordedCall(id="played001", name="task", arguments="{}", status="ok", output="as it was")
    agent.tool_manager.get("task").state.played = {"played001": lambda: recorded}
    record = (await run_turn(agent))[-1].record
    assert (record.calls[0].output, len(model_server.requests)) == ("as it was", 2)


async def test_no_secret_of_a_subagent_is_recorded(model_server, config, monkeypatch, workspace):
    monkeypatch.setenv("MY_TOKEN", "tokentokentoken123")
    agent = Agent(config)
    model_server.enqueue(calls=[task()])
    model_server.enqueue(calls=[tool_call("grep", pattern="tokentokentoken123")])
    model_server.enqueue("It is tokentokentoken123.")
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert "tokentokentoken123" not in record.model_dump_json() + agent.log.path.read_text()
    await agent.aclose()


def test_what_a_task_touches_and_how_much_room_it_takes():
    tool = Task.from_config(BaseToolConfig())
    touched = {name: tool.accesses(tool.parse_args(_arguments(profile=name))) for name in PROFILES}
    assert touched == {"explore": Accesses(reads=(".",)), "general": Accesses(everything=True)}
    assert len(json.dumps(vars(Task.get_info()))) <= 800


def _arguments(**more: str) -> dict[str, str]:
    return {"description": "d", "prompt": "p", **more}
