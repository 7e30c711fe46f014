"""What seeds 000, 002 and 003 say of a turn and its events, where no other test shows it (docs/project/seed-coverage.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.events import AssistantEvent, ReasoningEvent, ToolCallEvent, ToolResultEvent
from kin_nb.core.middleware import ConversationContext, MiddlewareResult
from kin_nb.core.programmatic import run_programmatic
from kin_nb.core.tools.builtins.read_file import ReadFile, ReadFileArgs, ReadFileResult
from kin_nb.core.types import ApprovalResponse, LLMChunk, LLMMessage, LLMUsage, OutputFormat, Role
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

LOOK = tool_call("read_file", path="a.py")
WRITE = tool_call("write_file", path="new.py", content="1")
SEEDS_OWN = (AssistantEvent, ReasoningEvent, ToolCallEvent, ToolResultEvent)


class Pieces:
    """A backend that says its pieces; what a seed's CustomBackend may leave out, it leaves out."""

    def __init__(self, *pieces: LLMChunk) -> None:
        self.pieces = pieces
        self.did: list[str] = []

    async def __aenter__(self) -> Pieces:
        self.did.append("enter")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.did.append("leave")

    async def complete(self, **_: Any) -> LLMChunk:
        self.did.append("complete")
        return LLMChunk(message=LLMMessage(role=Role.assistant, content="A summary."))

    async def complete_streaming(self, **_: Any) -> AsyncGenerator[LLMChunk, None]:
        self.did.append("stream")
        for piece in self.pieces:
            yield piece

    async def count_tokens(self, **_: Any) -> int:
        return 7


def piece(text: str = "", reasoning: str | None = None) -> LLMChunk:
    return LLMChunk(message=LLMMessage(role=Role.assistant, content=text, reasoning_content=reasoning))


def seeds_own(events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, SEEDS_OWN)]


async def test_middleware_is_shown_the_conversation_with_the_prompt_the_statistics_and_the_settings(
    model_server, trusted
):
    told: list[tuple[list[tuple[str, str | None]], int, bool]] = []

    class Looks:
        async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
            said = [(m.role.value, m.content) for m in context.messages[1:]]
            told.append((said, context.stats.session_prompt_tokens, context.config is trusted.config))
            return MiddlewareResult()

    trusted.middleware_pipeline.add(Looks())
    for text in ("One.", "Two."):
        model_server.enqueue(text, usage={"prompt_tokens": 100, "completion_tokens": 1})
    await run_turn(trusted, "first")
    await run_turn(trusted, "second")
    before, after = [("user", "first")], [("user", "first"), ("assistant", "One."), ("user", "second")]
    assert told == [(before, 0, True), (after, 100, True)]


async def test_a_turn_with_a_tool_is_text_call_result_text(model_server, trusted):
    model_server.enqueue("I look.", calls=[LOOK], chunk=100)
    model_server.enqueue("It is 1.", chunk=100)
    said, call, result, answer = seeds_own(await run_turn(trusted))
    assert (said.content, answer.content) == ("I look.", "It is 1.")
    assert (call.tool_name, call.tool_class, call.args) == ("read_file", ReadFile, ReadFileArgs(path="a.py"))
    assert (result.tool_name, result.tool_class) == ("read_file", ReadFile)
    assert call.tool_call_id == result.tool_call_id == trusted.messages[2].tool_calls[0].id


async def test_when_a_result_is_shown_its_message_is_in_the_history(model_server, trusted):
    model_server.enqueue(calls=[LOOK, tool_call("read_file", path="missing")])
    model_server.enqueue("Done.")
    told = 0
    async for event in trusted.act("go"):
        if isinstance(event, ToolResultEvent):
            told += 1
            answers = {message.tool_call_id for message in trusted.messages if message.role is Role.tool}
            assert event.tool_call_id in answers
    assert told == 2


async def test_a_result_says_how_it_went(model_server, config):
    """Result, error or skipped: one of them, with the reason, the time that it took and the class of the tool."""
    agent = Agent(config)
    agent.set_approval_callback(lambda *_: (ApprovalResponse.NO, "not this file"))
    calls = [LOOK, tool_call("read_file", path="missing"), WRITE, tool_call("nope")]
    model_server.enqueue(calls=calls)
    model_server.enqueue("I see.")
    results = {e.tool_call_id: e for e in await run_turn(agent) if isinstance(e, ToolResultEvent)}
    ok, failed, skipped, unknown = (results[call.id] for call in agent.turns[-1].calls)  # told as they end
    assert isinstance(ok.result, ReadFileResult)
    assert (ok.error, ok.skipped, ok.skip_reason) == (None, False, None)
    assert ok.duration >= 0.0
    assert "missing" in failed.error
    assert (failed.result, failed.skipped, failed.tool_class) == (None, False, ReadFile)
    assert (skipped.skipped, skipped.error, skipped.result, skipped.duration) == (True, None, None, None)
    assert "not this file" in skipped.skip_reason
    assert (unknown.tool_class, unknown.skipped) == (None, False)
    await agent.aclose()


async def test_five_chunks_are_one_event(config, monkeypatch):
    """What a slow stream brings is not held back for it: the time that this takes out of the test."""
    monkeypatch.setattr("kin_nb.core.model_response.BATCH_SECONDS", float("inf"))
    chunks = [*(piece(reasoning=str(n)) for n in range(7)), *(piece(chr(97 + n)) for n in range(11))]
    agent = Agent(config, backend=Pieces(*chunks))
    events = seeds_own(await run_turn(agent))
    assert [e.content for e in events] == ["01234", "56", "abcde", "fghij", "k"]
    assert [type(e) for e in events] == [ReasoningEvent] * 2 + [AssistantEvent] * 3
    assert (agent.messages[-1].reasoning_content, agent.messages[-1].content) == ("0123456", "abcdefghijk")
    await agent.aclose()


async def test_without_streaming_a_reply_is_one_event_and_the_rest_is_the_same(model_server, config):
    agent = Agent(config, enable_streaming=False)
    model_server.enqueue("word " * 40, reasoning="hm " * 40, calls=[LOOK])
    model_server.enqueue("Done.")
    reasoning, text, _, result, done = seeds_own(await run_turn(agent))
    assert (reasoning.content, text.content, done.content) == ("hm " * 40, "word " * 40, "Done.")
    assert result.error is None
    assert [request["stream"] for request in model_server.requests] == [False, False]
    await agent.aclose()


async def test_the_statistics_of_a_turn_of_two_requests(model_server, trusted):
    assert trusted.stats.last_turn_duration == 0.0
    model_server.enqueue(
        calls=[LOOK, tool_call("nope"), tool_call("read_file", path="missing")],
        usage={"prompt_tokens": 600, "completion_tokens": 10},
    )
    model_server.enqueue("Done.", usage={"prompt_tokens": 700, "completion_tokens": 20}, delay=0.01)
    await run_turn(trusted)
    stats = trusted.stats
    assert (stats.steps, stats.session_prompt_tokens, stats.session_completion_tokens) == (2, 1_300, 30)
    assert (stats.last_turn_prompt_tokens, stats.last_turn_completion_tokens) == (700, 20)
    assert (stats.context_tokens, stats.session_total_llm_tokens, stats.last_turn_total_tokens) == (720, 1_330, 720)
    assert (stats.tool_calls_agreed, stats.tool_calls_rejected) == (2, 0)
    assert (stats.tool_calls_succeeded, stats.tool_calls_failed) == (1, 2)
    assert stats.session_cost == pytest.approx((1_300 * 1.0 + 30 * 2.0) / 1_000_000)
    assert stats.last_turn_duration > 0
    assert stats.last_turn_duration * stats.tokens_per_second == pytest.approx(20)


async def test_what_a_person_decides_is_counted(model_server, config):
    agent = Agent(config)
    answers = iter([(ApprovalResponse.NO, "no"), (ApprovalResponse.YES, None)])
    agent.set_approval_callback(lambda *_: next(answers))
    model_server.enqueue(calls=[WRITE, tool_call("write_file", path="other.py", content="1")])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert (agent.stats.tool_calls_agreed, agent.stats.tool_calls_rejected) == (1, 1)
    assert (agent.stats.tool_calls_succeeded, agent.stats.tool_calls_failed) == (1, 0)
    await agent.aclose()


async def test_the_observer_sees_every_message_added_ones_too_once_and_in_order(model_server, config):
    seen: list[LLMMessage] = []
    agent = Agent(config, message_observer=seen.append)
    agent.add_message(LLMMessage(role=Role.user, content="earlier"))
    agent.add_message(LLMMessage(role=Role.assistant, content="I remember."))
    model_server.enqueue(calls=[LOOK])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert seen == agent.messages
    assert [m.role.value for m in seen] == [
        *("system", "user", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]
    await agent.aclose()


async def test_messages_of_before_come_first_without_their_system_prompt(model_server, config):
    before = [
        LLMMessage(role=Role.system, content="Another session's."),
        LLMMessage(role=Role.user, content="earlier"),
        LLMMessage(role=Role.assistant, content="I remember."),
    ]
    model_server.enqueue("Done.")
    written: list[str] = []
    how = {"previous_messages": before, "output_format": OutputFormat.STREAMING, "write": written.append}
    await run_programmatic(config, "now", **how)
    system, *others = model_server.requests[0]["messages"]
    assert "Another session's." not in system["content"]
    assert [m["content"] for m in others] == ["earlier", "I remember.", "now"]
    assert len(written) == len(model_server.requests[0]["messages"]) + 1


async def test_a_given_backend_is_entered_before_its_first_request_and_left_with_the_agent(config):
    backend, other = Pieces(piece("Hello.")), Pieces(piece("Hello too."))
    agent = Agent(config, backend=backend)
    assert backend.did == []
    await run_turn(agent)
    await run_turn(agent)
    await agent.compact()
    assert backend.did == ["enter", "stream", "stream", "complete"]
    agent.backend = other
    await run_turn(agent)
    assert backend.did[-1] == "leave"
    await agent.aclose()
    await agent.aclose()
    assert (backend.did.count("leave"), other.did) == (1, ["enter", "stream", "leave"])


async def test_a_price_limit_counts_what_any_backend_says(config):
    usage = LLMUsage(prompt_tokens=2_000_000, completion_tokens=0)
    agent = Agent(config, max_price=1.0, backend=Pieces(piece("Dear.").model_copy(update={"usage": usage})))
    await run_turn(agent)
    events = seeds_own(await run_turn(agent))
    assert [(e.content, e.stopped_by_middleware) for e in events] == [("Price limit exceeded: $2.0000 > $1.00", True)]
    await agent.aclose()
