"""Compaction: when, what the model is asked, what is left, what is recorded, and what may go wrong."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.context.compaction import CompactionError
from kin_nb.core.context.history import History
from kin_nb.core.conversation import TurnRunningError
from kin_nb.core.events import (
    CheckpointEvent,
    CompactEndEvent,
    CompactStartEvent,
    ErrorEvent,
    ToolCallEvent,
    TurnEndEvent,
)
from kin_nb.core.middleware import MiddlewareResult, ResetReason
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

FULL = {"prompt_tokens": 8_500, "completion_tokens": 500}
SMALL = {"prompt_tokens": 200, "completion_tokens": 20}


@pytest.fixture
def config(model_server, workspace):
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=model_server.url)],
        models=[ModelConfig(name="m", provider="p", context_window=10_000, input_price=1.0, output_price=2.0)],
    )


def kinds(events: list) -> list[type]:
    return [type(event) for event in events]


async def test_a_full_context_is_compacted_before_the_next_request(model_server, trusted):
    model_server.enqueue("Read it.", usage=FULL)
    await run_turn(trusted, "first request")
    before = trusted.session_id
    model_server.enqueue("We read a.py: x is 1.", usage=SMALL)
    model_server.enqueue("Done.", usage=SMALL)
    events = await run_turn(trusted, "second request")
    start = next(e for e in events if isinstance(e, CompactStartEvent))
    end = next(e for e in events if isinstance(e, CompactEndEvent))
    assert (start.current_context_tokens, start.threshold) == (9_000, 9_000)
    assert (end.old_context_tokens, end.summary_length) == (9_000, len("We read a.py: x is 1."))
    assert 0 < end.new_context_tokens < 9_000
    _, asked, after = (request["messages"] for request in model_server.requests)
    assert "summary" in asked[-1]["content"]
    assert [m["role"] for m in after] == ["system", "user"]
    assert "We read a.py: x is 1." in after[1]["content"]
    assert after[1]["content"].endswith("second request")
    assert "The person's words so far, oldest first:\n\n- first request\n\n" in after[1]["content"]
    assert "Read it." not in json.dumps(after)
    assert (end.compaction.summarised, end.compaction.kept) == (3, 0)
    assert trusted.session_id != before
    assert trusted.journal.root_id == before


async def test_the_request_for_a_summary_begins_as_the_others_do(model_server, trusted):
    model_server.enqueue("Read it.", usage=FULL)
    await run_turn(trusted)
    model_server.enqueue("A summary.")
    await trusted.compact()
    first, asked = model_server.requests
    assert asked["messages"][: len(first["messages"])] == first["messages"]
    assert asked["tools"] == first["tools"]
    assert asked["tool_choice"] == "none"


async def test_a_compaction_in_the_middle_of_a_turn_keeps_its_prompt(model_server, trusted):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")], usage=FULL)
    model_server.enqueue("Summary of the work.", usage=SMALL)
    model_server.enqueue("Done.", usage=SMALL)
    record = (await run_turn(trusted, "mend a.py"))[-1].record
    assert model_server.requests[-1]["messages"][-1]["content"].endswith("mend a.py")
    assert [bool(step.compaction) for step in record.steps] == [False, True]
    compaction = record.steps[1].compaction
    assert (compaction.summary, compaction.old_tokens) == ("Summary of the work.", 9_000)
    assert (compaction.prompt_tokens, compaction.completion_tokens) == (200, 20)
    assert record.prompt_tokens == 8_500 + 200 + 200
    assert record.cost == f"{(8_900 * 1 + 540 * 2) / 1e6:.6f}"


async def test_a_resumed_session_is_compacted_as_it_was(model_server, trusted):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")], usage=FULL)
    model_server.enqueue("Summary.", usage=SMALL)
    model_server.enqueue("Done.", usage=SMALL)
    await run_turn(trusted, "one")
    model_server.enqueue("By hand.", usage=SMALL)
    assert await trusted.compact() == "By hand."
    model_server.enqueue("Fine.", usage=SMALL)
    await run_turn(trusted, "two")
    records = SessionState.of(read_lines(trusted.log.path)).records
    assert records == trusted.records
    assert [record.type for record in records] == ["turn", "compact", "turn"]
    assert records[1].compaction.summary == "By hand."
    again = History(trusted.messages[0].content, trusted.redact)
    again.extend_from(records, str)
    assert again.messages == trusted.messages
    assert again.fingerprint() == trusted.history.fingerprint()


async def test_a_second_compaction_keeps_the_same_request(model_server, trusted):
    model_server.enqueue("Hello.", usage=FULL)
    await run_turn(trusted, "the request")
    for summary in ("First.", "Second."):
        model_server.enqueue(summary)
        await trusted.compact()
    assert trusted.messages[1].content.endswith("in their words:\n\nthe request")
    assert "First." not in trusted.messages[1].content


async def test_nothing_is_asked_when_there_is_nothing_to_compact(model_server, agent):
    assert await agent.compact() == ""
    assert model_server.requests == []


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"text": ""}, "answered with nothing"),
        ({"calls": [tool_call("list_dir", path=".")]}, "answered with tool calls"),
    ],
)
async def test_a_reply_that_is_no_summary_changes_nothing(model_server, trusted, reply, said):
    model_server.enqueue("Hello.")
    await run_turn(trusted)
    before = list(trusted.messages)
    model_server.enqueue(**reply)
    with pytest.raises(CompactionError, match=said):
        await trusted.compact()
    assert trusted.messages == before
    model_server.enqueue("Still here.")
    assert (await run_turn(trusted))[-1].record.outcome == "done"


async def test_a_summary_that_does_not_help_ends_the_turn_with_a_sentence(model_server, trusted):
    model_server.enqueue("Hello.", usage=FULL)
    await run_turn(trusted)
    model_server.enqueue("s" * 60_000)
    events = await run_turn(trusted, "again")
    error = next(e for e in events if isinstance(e, ErrorEvent))
    assert "compacted and still takes" in error.message
    assert len(model_server.requests) == 2
    assert isinstance(events[-1], TurnEndEvent)


async def test_a_conversation_that_the_server_finds_too_long_is_compacted_once_and_sent_again(model_server, trusted):
    too_long = {"error": {"message": "maximum context length is 10000 tokens"}}
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue(status=400, body=too_long)
    model_server.enqueue("Summary.")
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    assert events[-1].record.outcome == "done"
    assert kinds(events).count(CompactStartEvent) == 1
    model_server.enqueue(status=400, body=too_long)
    model_server.enqueue("Summary.")
    model_server.enqueue(status=400, body=too_long)
    events = await run_turn(trusted, "and again")
    assert "no longer fits" in next(e for e in events if isinstance(e, ErrorEvent)).message


async def test_a_summary_that_does_not_fit_either_is_asked_with_short_results(model_server, trusted, workspace):
    (workspace / "long.txt").write_text("word " * 2000)
    model_server.enqueue(calls=[tool_call("read_file", path="long.txt")])
    model_server.enqueue("Read.")
    await run_turn(trusted)
    model_server.enqueue(status=400, body={"error": {"message": "prompt is too long"}})
    model_server.enqueue("Summary.")
    assert await trusted.compact() == "Summary."
    long, short = (json.dumps(request["messages"]) for request in model_server.requests[-2:])
    assert len(long) > 10_000
    assert len(short) < len(long) - 9_000


async def test_a_single_prompt_that_is_too_long_is_not_compacted(model_server, agent):
    model_server.enqueue(status=400, body={"error": {"message": "prompt is too long"}})
    events = await run_turn(agent)
    assert CompactStartEvent not in kinds(events)
    assert events[-1].record.outcome == "error"


async def test_middleware_hears_of_a_compaction(model_server, trusted):
    class Listening:
        heard: list[ResetReason] = []  # noqa: RUF012

        async def before_turn(self, context):
            return MiddlewareResult()

        async def after_turn(self, context):
            return MiddlewareResult()

        def reset(self, reset_reason=ResetReason.STOP):
            self.heard.append(reset_reason)

    trusted.middleware_pipeline.add(Listening())
    model_server.enqueue("Hello.")
    await run_turn(trusted)
    model_server.enqueue("Summary.")
    await trusted.compact()
    assert Listening.heard == [ResetReason.COMPACT]


async def test_a_cleared_session_begins_again_and_keeps_its_records(model_server, config):
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    model_server.enqueue("Hello.", usage=FULL)
    await run_turn(agent, "one")
    before = agent.session_id
    await agent.clear_history()
    assert [m.role for m in agent.messages] == ["system"]
    assert (agent.stats.steps, agent.stats.session_prompt_tokens) == (0, 0)
    assert agent.stats.input_price_per_million == 1.0
    assert agent.session_id != before
    model_server.enqueue("Hello again.")
    await run_turn(agent, "two")
    assert [m["content"] for m in model_server.requests[1]["messages"][1:]] == ["two"]
    assert [(turn.turn, turn.parent) for turn in agent.turns] == [(1, None), (2, None)]
    assert [record.type for record in agent.records] == ["turn", "clear", "turn"]
    lines = list(read_lines(agent.log.path))
    renamed = [line for line in lines if line["type"] == "renamed"]
    assert [(line["session_id"], line["why"]) for line in renamed] == [(agent.session_id, "clear")]
    again = History(agent.messages[0].content, agent.redact)
    again.extend_from([record for record in SessionState.of(lines).records if record.type == "turn"], str)
    assert again.messages == agent.messages
    await agent.aclose()


async def test_nothing_is_compacted_while_a_turn_runs(model_server, trusted):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Done.")
    async for event in trusted.act("go"):
        if isinstance(event, CheckpointEvent | ToolCallEvent):
            with pytest.raises(TurnRunningError, match="Try again in a moment"):
                await trusted.compact()
    assert [m.role.value for m in trusted.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert len(model_server.requests) == 2


async def test_nothing_else_happens_while_the_model_is_asked_for_a_summary(model_server, trusted):
    model_server.enqueue("Hello.")
    await run_turn(trusted, "the request")
    held = threading.Event()
    model_server.enqueue("Summary.", hold=held)
    compacting = asyncio.create_task(trusted.compact())
    await asyncio.sleep(0)
    for refused in (run_turn(trusted, "two"), trusted.undo(), trusted.clear_history(), trusted.compact()):
        with pytest.raises(TurnRunningError):
            await refused
    held.set()
    assert await compacting == "Summary."
    assert [turn.prompt for turn in trusted.turns] == ["the request"]
    model_server.enqueue("Fine.")
    await run_turn(trusted, "two")


async def test_a_compaction_that_is_cancelled_leaves_the_way_free(model_server, trusted):
    model_server.enqueue("Hello.")
    await run_turn(trusted, "the request")
    before = list(trusted.messages)
    held = threading.Event()
    model_server.enqueue("Summary.", hold=held)
    compacting = asyncio.create_task(trusted.compact())
    await asyncio.sleep(0)
    compacting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compacting
    held.set()
    assert trusted.messages == before
    await trusted.undo()
