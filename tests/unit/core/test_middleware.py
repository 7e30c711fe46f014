"""Middleware around the loop: who may stop, compact or remind, in which order, and what the model gets to see."""

from __future__ import annotations

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig
from kin_nb.core.events import AssistantEvent
from kin_nb.core.middleware import (
    PLAN_OVER,
    PLAN_REMINDER,
    ContextWarningMiddleware,
    ConversationContext,
    Limits,
    MiddlewareAction,
    MiddlewarePipeline,
    MiddlewareResult,
    PriceLimitMiddleware,
    ResetReason,
    TurnLimitMiddleware,
)
from kin_nb.core.modes import AgentMode
from kin_nb.core.usage_stats import AgentStats
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

CONTINUE, STOP, COMPACT, INJECT = MiddlewareAction


class Says:
    """Middleware that answers as told and remembers that it was asked."""

    def __init__(self, before: MiddlewareResult | None = None, after: MiddlewareResult | None = None) -> None:
        self.before, self.after = before or MiddlewareResult(), after or MiddlewareResult()
        self.asked: list[str] = []
        self.reasons: list[ResetReason] = []

    async def before_turn(self, context: ConversationContext) -> MiddlewareResult:
        self.asked.append(f"before {context.stats.steps}")
        return self.before

    async def after_turn(self, context: ConversationContext) -> MiddlewareResult:
        self.asked.append(f"after {context.stats.steps}")
        return self.after

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        self.reasons.append(reset_reason)


def context(config: KinConfig | None = None, **stats: float) -> ConversationContext:
    return ConversationContext([], AgentStats(**stats), config or KinConfig())


def stops(events: list) -> list[str]:
    return [e.content for e in events if isinstance(e, AssistantEvent) and e.stopped_by_middleware]


async def test_everything_injected_is_joined_by_a_blank_line():
    pipeline = MiddlewarePipeline().add(Says(MiddlewareResult(INJECT, message="one"))).add(Says())
    pipeline.add(Says(MiddlewareResult(INJECT, message="two")))
    result = await pipeline.run_before_turn(context())
    assert (result.action, result.message) == (INJECT, "one\n\ntwo")


async def test_a_stop_or_a_compaction_ends_the_pipeline(subtests):
    for action in [STOP, COMPACT]:
        for hook in ["before", "after"]:
            with subtests.test(action=action, hook=hook):
                decided, later = MiddlewareResult(action, reason="enough"), Says()
                first = Says(MiddlewareResult(INJECT, message="lost"), MiddlewareResult(INJECT, message="lost"))
                pipeline = MiddlewarePipeline().add(first).add(Says(decided, decided)).add(later)
                assert await getattr(pipeline, f"run_{hook}_turn")(context()) is decided
                assert later.asked == []


async def test_an_empty_pipeline_continues_and_clear_empties_it():
    pipeline = MiddlewarePipeline().add(Says(MiddlewareResult(STOP)))
    pipeline.clear()
    assert (await pipeline.run_before_turn(context())).action is CONTINUE


def test_reset_reaches_everyone_with_its_reason():
    said = Says()
    MiddlewarePipeline().add(said).reset(ResetReason.COMPACT)
    assert said.reasons == [ResetReason.COMPACT]


async def test_the_turn_limit_lets_that_many_requests_through(subtests):
    for steps, action in [(1, CONTINUE), (3, CONTINUE), (4, STOP)]:
        with subtests.test(steps=steps, action=action):
            result = await TurnLimitMiddleware(3).before_turn(context(steps=steps))
            assert result.action is action
            assert result.reason == (None if action is CONTINUE else "limit of 3 model requests reached")


@pytest.mark.parametrize(("tokens", "action"), [(1_000_000, CONTINUE), (1_000_001, STOP)])
async def test_a_price_equal_to_the_limit_continues(tokens, action):
    stats = {"session_prompt_tokens": tokens, "input_price_per_million": 2.0}
    assert (await PriceLimitMiddleware(2.0).before_turn(context(**stats))).action is action


def test_the_threshold_of_compaction(subtests):
    for number, (threshold, model_threshold, window, compact_at) in enumerate(
        [
            (200_000, None, 128_000, 115_200),  # never beyond 90 % of the window
            (50_000, None, 128_000, 50_000),
            (50_000, 20_000, 128_000, 20_000),  # the model's own wins
            (50_000, 0, 128_000, 115_200),  # 0 leaves only the window
            (0, None, 10_000, 9_000),
        ]
    ):
        with subtests.test(number=number):
            model = ModelConfig(name="m", provider="p", context_window=window, auto_compact_threshold=model_threshold)
            assert KinConfig(auto_compact_threshold=threshold).compact_at(model) == compact_at


async def test_the_context_warning_is_reported_once_per_threshold_until_compaction():
    config = KinConfig(active_model="m", models=[ModelConfig(name="m", provider="p", context_window=1000)])
    middleware = ContextWarningMiddleware()

    async def said(tokens: int) -> str:
        result = await middleware.after_turn(context(config, context_tokens=tokens))
        return (result.message or "").partition(" of ")[0]

    assert [await said(t) for t in (499, 500, 600, 760, 950, 960)] == [
        *("", "50 %", ""),
        *("76 %", "95 %", ""),
    ]
    middleware.reset(ResetReason.COMPACT)
    assert await said(500) == "50 %"


async def test_middleware_is_asked_around_each_request_and_steps_count_requests(model_server, trusted):
    said = Says()
    trusted.middleware_pipeline.add(said)
    model_server.enqueue(calls=[tool_call("list_dir", path=".")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert said.asked == ["before 1", "after 1", "before 2", "after 2"]
    assert trusted.stats.steps == 2


async def test_a_limit_of_no_turns_sends_nothing(model_server, config):
    seen = []
    agent = Agent(config, message_observer=seen.append, max_turns=0)
    events = await run_turn(agent, "go")
    assert model_server.requests == []
    assert [m.role for m in seen] == ["system", "user"]
    assert stops(events) == ["limit of 0 model requests reached"]
    assert (events[-1].record.outcome, events[-1].record.message) == ("stopped", "limit of 0 model requests reached")
    assert agent.stats.steps == 0
    await agent.aclose()


async def test_the_turn_limit_stops_between_steps_with_every_call_answered(model_server, config):
    agent = Agent(config, AgentMode.AUTO_APPROVE, max_turns=1)
    model_server.enqueue(calls=[tool_call("list_dir", path=".")])
    events = await run_turn(agent)
    assert stops(events) == ["limit of 1 model request reached"]
    assert agent.messages[-1].role == "tool"
    await agent.aclose()


async def test_the_price_limit_stops_the_session_and_says_the_figures(model_server, config):
    agent = Agent(config, AgentMode.AUTO_APPROVE, max_price=0.5)
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
    model_server.enqueue(calls=[tool_call("list_dir", path=".")], usage=usage)
    assert stops(await run_turn(agent)) == ["Price limit exceeded: $1.0000 > $0.50"]
    await agent.aclose()


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max_turns": 1}, "limit of 1 model request reached"),
        ({"max_price": 0.005}, "Price limit exceeded: $0.0060 > $0.0050"),
        ({"max_price": 0.0}, "Price limit exceeded: $0.0060 > $0.00"),
    ],
)
async def test_a_limit_is_one_of_the_session_also_after_it_was_cleared(model_server, config, limit, said):
    agent = Agent(config, AgentMode.AUTO_APPROVE, **limit)
    model_server.enqueue("Hello.", usage={"prompt_tokens": 6_000, "completion_tokens": 0})
    assert stops(await run_turn(agent, "one")) == []
    await agent.clear_history()
    assert (agent.stats.steps, agent.stats.session_cost) == (0, 0)
    assert stops(await run_turn(agent, "two")) == [said]
    await agent.aclose()
    again = Agent.resume(config, agent.journal.root_id, **limit)
    assert stops(await run_turn(again, "three")) == [said]
    await again.aclose()
    assert len(model_server.requests) == 1


async def test_limits_from_here_on_say_the_number_that_was_given(model_server, trusted):
    usage = {"prompt_tokens": 6_000, "completion_tokens": 0}
    for _ in range(3):
        model_server.enqueue("Hello.", usage=usage)
    await run_turn(trusted, "one")
    trusted.limit(Limits(1, 0.5, trusted.stats.total_steps, trusted.stats.total_cost))
    assert stops(await run_turn(trusted, "two")) == []
    trusted.limit(Limits(0, None, trusted.stats.total_steps))
    assert stops(await run_turn(trusted, "three")) == ["limit of 0 model requests reached"]
    trusted.limit(Limits(None, 0.5, 0, -1.0))  # others have spent a dollar
    assert stops(await run_turn(trusted, "four")) == ["Price limit exceeded: $1.0120 > $0.50"]
    trusted.limit(Limits())
    assert stops(await run_turn(trusted, "five")) == []
    assert len(model_server.requests) == 3


async def test_what_is_injected_stays_below_its_message_and_is_recorded(model_server, trusted):
    trusted.middleware_pipeline.add(Says(MiddlewareResult(INJECT, message="reminder")))
    model_server.enqueue(calls=[tool_call("list_dir", path=".")])
    model_server.enqueue("Done.")
    record = (await run_turn(trusted, "go"))[-1].record
    first, second = (request["messages"] for request in model_server.requests)
    assert first[-1]["content"] == "go\n\n[kin_nb: reminder]"
    assert (second[1]["content"], second[-1]["role"]) == (first[-1]["content"], "tool")
    assert second[-1]["content"].endswith("\n\n[kin_nb: reminder]")
    assert not any("reminder" in (m.content or "") for m in trusted.messages)
    assert [step.injected for step in record.steps] == ["reminder", "reminder"]


async def test_what_is_injected_after_a_turn_goes_into_the_next_request(model_server, trusted):
    trusted.middleware_pipeline.add(Says(after=MiddlewareResult(INJECT, message="later")))
    model_server.enqueue("One.")
    model_server.enqueue("Two.")
    await run_turn(trusted, "first")
    await run_turn(trusted, "second")
    assert [r["messages"][-1]["content"] for r in model_server.requests] == ["first", "second\n\n[kin_nb: later]"]


async def test_what_is_injected_leaves_the_message_before_it_verbatim(model_server, trusted, workspace):
    (workspace / "a.py").write_text("    indented\n")
    trusted.middleware_pipeline.add(Says(MiddlewareResult(INJECT, message="reminder")))
    model_server.enqueue(calls=[tool_call("bash", command="cat a.py")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    plain = trusted.messages[-2].content
    assert model_server.requests[1]["messages"][-1]["content"] == f"{plain}\n\n[kin_nb: reminder]"


async def test_middleware_may_stop_after_a_step(model_server, trusted):
    trusted.middleware_pipeline.add(Says(after=MiddlewareResult(STOP, reason="seen enough")))
    model_server.enqueue(calls=[tool_call("list_dir", path=".")])
    assert stops(await run_turn(trusted)) == ["seen enough"]
    model_server.enqueue("Done: nothing to stop here.")
    assert stops(await run_turn(trusted, "again")) == []


async def test_plan_mode_is_noted_once_in_each_prompt_and_once_when_it_is_over(model_server, config):
    agent = Agent(config, AgentMode.PLAN)
    model_server.enqueue(calls=[tool_call("list_dir", path=".")])
    for reply in ("A plan.", "Done.", "Done."):
        model_server.enqueue(reply)
    await run_turn(agent, "plan it")
    agent.switch_mode(AgentMode.DEFAULT)
    await run_turn(agent, "do it")
    await run_turn(agent, "and this")
    prompts = [m["content"] for m in model_server.requests[-1]["messages"] if m["role"] == "user"]
    assert prompts == [f"plan it\n\n[kin_nb: {PLAN_REMINDER}]", f"do it\n\n[kin_nb: {PLAN_OVER}]", "and this"]
    assert "plan mode" not in str(model_server.requests[1]["messages"][2:])
    await agent.aclose()


async def test_clearing_resets_everyone(model_server, agent):
    said = Says()
    agent.middleware_pipeline.add(said)
    await agent.clear_history()
    assert said.reasons == [ResetReason.STOP]


async def test_plan_mode_writes_nothing_not_even_through_bash(model_server, config, workspace):
    agent = Agent(config, AgentMode.PLAN)
    calls = [tool_call("write_file", path="new.py", content="1"), tool_call("bash", command="touch other.py")]
    model_server.enqueue(calls=calls)
    model_server.enqueue("I see.")
    record = (await run_turn(agent))[-1].record
    assert [call.status for call in record.calls] == ["refused", "refused"]
    assert {path.name for path in workspace.iterdir()} == {"a.py"}
    await agent.aclose()


async def test_a_warning_that_was_said_is_not_said_again_after_a_change_of_settings(model_server, config):
    config.context_warnings = True
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    usage = {"prompt_tokens": 70_000, "completion_tokens": 0}
    for _ in range(3):
        model_server.enqueue("Hello.", usage=usage)
    await run_turn(agent, "one")
    agent.switch_mode(AgentMode.DEFAULT)
    await run_turn(agent, "two")
    await run_turn(agent, "three")
    told = ["context window" in request["messages"][-1]["content"] for request in model_server.requests]
    assert told == [False, True, False]
    await agent.aclose()
