"""Loops in a turn of a real agent: reminder, question, stop; and work that only looks like a loop."""

from __future__ import annotations

import pytest

from kin_nb.core.events import CompactEndEvent, LoopEvent, PruneEvent
from kin_nb.core.loop_guard import CONTINUE, STOP
from kin_nb.core.questions import Question
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn


def loops(events) -> list[tuple[str, int, str]]:
    return [(event.kind, event.count, event.action) for event in events if isinstance(event, LoopEvent)]


def repeat(model_server, calls, times: int) -> None:
    for _ in range(times):
        for call in calls:
            model_server.enqueue(calls=[call])


async def test_a_loop_leads_to_reminders_and_a_question(model_server, agent):
    asked: list[Question] = []

    async def allow(question: Question) -> str:
        asked.append(question)
        return CONTINUE

    agent.approvals.ask_question = allow
    repeat(model_server, [tool_call("read_file", path="a.py")], 8)
    model_server.enqueue("I stop.")
    events = await run_turn(agent)
    assert loops(events) == [("exact", 3, "remind"), ("exact", 5, "remind"), ("exact", 8, "ask")]
    assert [question.choices for question in asked] == [(STOP, CONTINUE)]
    assert (
        "read_file" in model_server.requests[3]["messages"][-1]["content"]
    )  # the reminder, in the request after the third
    assert "[kin_nb:" not in model_server.requests[4]["messages"][-1]["content"]
    assert events[-1].record.outcome == "done"


async def test_a_question_that_fails_stops_the_turn_with_a_warning(model_server, agent):
    async def broken(_: Question) -> str:
        raise ValueError("no such dialog")

    agent.approvals.ask_question = broken
    repeat(model_server, [tool_call("read_file", path="a.py")], 8)
    record = (await run_turn(agent))[-1].record
    assert (record.outcome, len(record.steps)) == ("stopped", 8)
    assert "broken failed: ValueError: no such dialog" in record.warnings[-1]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_no_and_no_answer_stop_the_turn(model_server, agent, answered):
    async def stop(_: Question) -> str:
        return STOP

    if answered:
        agent.approvals.ask_question = stop
    repeat(model_server, [tool_call("read_file", path="a.py")], 8)
    events = await run_turn(agent)
    assert loops(events)[-2:] == [("exact", 8, "ask"), ("exact", 8, "stop")]
    record = events[-1].record
    assert (record.outcome, len(record.steps)) == ("stopped", 8)
    assert "read_file" in record.message
    model_server.enqueue("Something else.")
    assert (await run_turn(agent, "and now?"))[-1].record.outcome == "done"


@pytest.mark.parametrize(("names", "times"), [(("a.py", "b.py"), 6), (("a.py", "b.py", "c.py"), 5)])
async def test_alternating_calls_are_found(model_server, agent, names, times):
    repeat(model_server, [tool_call("list_dir", path=name) for name in names], times)
    model_server.enqueue("Enough.")
    found = loops(await run_turn(agent))
    assert {kind for kind, _, _ in found} == {"cycle"}
    assert found[0][2] == "remind"


async def test_polling_with_changing_results_is_not_a_loop(model_server, trusted, workspace):
    counter = 'n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; echo "$n of 20 done"'
    repeat(model_server, [tool_call("bash", command=counter)], 20)
    model_server.enqueue("Done.")
    assert loops(await run_turn(trusted)) == []


async def test_the_same_call_twice_in_one_reply_counts_once(model_server, agent):
    look = tool_call("read_file", path="a.py")
    for _ in range(2):
        model_server.enqueue(calls=[look, look, look])
    model_server.enqueue("Done.")
    assert loops(await run_turn(agent)) == []


async def test_it_can_be_switched_off(model_server, agent):
    agent.switch_config(agent.base_config.model_copy(update={"loop_detection": False}))
    repeat(model_server, [tool_call("read_file", path="a.py")], 15)
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    assert loops(events) == []
    assert len(events[-1].record.steps) == 16


async def test_endless_text_is_stopped_and_kept(model_server, agent):
    model_server.enqueue("I will now look at the file and then continue with it. " * 400)
    events = await run_turn(agent)
    record = events[-1].record
    assert loops(events)[-1][0] == "text"
    assert record.outcome == "stopped"
    assert record.steps[0].content.startswith("I will now look")
    model_server.enqueue("Sorry.")
    assert (await run_turn(agent, "continue"))[-1].record.outcome == "done"


@pytest.fixture
def many_files(workspace) -> list[str]:
    names = [f"many_{n}.txt" for n in range(20)]
    for n, name in enumerate(names):
        (workspace / name).write_text(f"word {n} of it\n" * 60)
    return names


async def test_reading_pruned_results_again_is_not_a_loop(model_server, agent, many_files):
    repeat(model_server, [tool_call("read_file", path=name) for name in many_files], 2)
    model_server.enqueue("Read.")

    def prune_selector(context) -> tuple[str, ...]:
        answers = [message.tool_call_id for message in context.messages if message.tool_call_id]
        return tuple(answers) if len(answers) == len(many_files) else ()

    agent.use(prune_selector=prune_selector)
    events = await run_turn(agent)
    assert [len(event.calls) for event in events if isinstance(event, PruneEvent)] == [len(many_files)]
    assert loops(events) == []
    assert events[-1].record.outcome == "done"


async def test_reading_again_after_a_compaction_is_not_a_loop(model_server, agent, many_files):
    *first, last = [tool_call("read_file", path=name) for name in many_files]
    agent.config.models[0].context_window = 100_000
    agent.config.prune_at = 0
    repeat(model_server, first, 1)
    model_server.enqueue(calls=[last], usage={"prompt_tokens": 95_000, "completion_tokens": 1})
    model_server.enqueue("A summary.")
    repeat(model_server, [*first, last], 1)
    model_server.enqueue("Read.")
    events = await run_turn(agent)
    assert [type(event) for event in events].count(CompactEndEvent) == 1
    assert loops(events) == []
    assert events[-1].record.outcome == "done"


async def test_reading_again_what_the_model_still_sees_is_a_loop(model_server, agent, many_files):
    repeat(model_server, [tool_call("read_file", path=name) for name in many_files], 2)
    model_server.enqueue("Read.")
    assert loops(await run_turn(agent)) == [("cycle", 3, "remind")]
