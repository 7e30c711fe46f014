"""What a user is told while a model server is asked again, or not, and what of the settings it does not take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import (
    BaseEvent,
    CompactEndEvent,
    CompactStartEvent,
    ErrorEvent,
    RetryEvent,
    SubagentEvent,
    WarningEvent,
)
from kin_nb.core.llm.adapters.dialects import thinking_warnings
from kin_nb.core.modes import AgentMode
from kin_nb.core.wire import to_wire
from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

TOOLS_NEED_NO_EFFORT = {
    "error": {
        "message": "Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        "type": "invalid_request_error",
        "param": "reasoning_effort",
    }
}


def of_kind(events: list[BaseEvent], kind: type[BaseEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def one_model(config: KinConfig, server: ModelServer, provider: str, name: str, **fields: Any) -> KinConfig:
    return config.model_copy(
        update={
            "providers": [ProviderConfig(name=provider, api_base=server.url, **fields)],
            "models": [ModelConfig(name=name, alias="m", provider=provider, thinking="high")],
        }
    )


@pytest.mark.parametrize("streaming", [True, False])
async def test_each_retry_is_an_event_with_its_reason_and_time(
    streaming: bool, config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(config, enable_streaming=streaming)
    model_server.enqueue(status=503, headers={"Retry-After": "0"}, body={"error": "warming up"})
    model_server.enqueue(status=429, headers={"Retry-After": "1"}, body={"error": "slow down"})
    model_server.enqueue("Hello.")
    events = await run_turn(agent)
    await agent.aclose()
    first, second = of_kind(events, RetryEvent)
    assert (first.seconds, first.attempt, first.tries) == (0.5, 2, 3)
    assert first.message.startswith(
        "trying again in 0.5 s (2 of 3): local server answered with an error (503) at http://"
    )
    assert first.message.endswith(": warming up.")
    assert second.message.startswith(
        "trying again in 1 s (3 of 3): local server gets too many requests (429: the server"
    )
    assert to_wire(second)["type"] == "Retry"
    assert agent.turns[0].outcome == "done"


async def test_a_server_that_asks_for_a_day_is_asked_once(agent: Agent, model_server: ModelServer) -> None:
    model_server.enqueue(status=429, headers={"Retry-After": "86400"}, body={"error": "come back tomorrow"})
    events = await run_turn(agent)
    [error] = of_kind(events, ErrorEvent)
    first, second = error.message.splitlines()
    assert "(429: the server asks for 24 h)" in first
    assert first.endswith("come back tomorrow.")
    assert second.startswith("Ask again after that time, or choose another model")
    assert not of_kind(events, RetryEvent)
    assert len(model_server.requests) == 1


async def test_an_absurd_time_to_wait_is_a_plain_error(agent: Agent, model_server: ModelServer) -> None:
    model_server.enqueue(status=429, headers={"Retry-After": "9" * 400}, body={"error": "slow down"})
    [error] = of_kind(await run_turn(agent), ErrorEvent)
    assert "(429: the server asks for 11,575 days)" in error.message
    assert len(model_server.requests) == 1


async def test_a_retry_of_a_subagent_is_shown_too(trusted: Agent, model_server: ModelServer) -> None:
    model_server.enqueue(calls=[tool_call("task", description="look", prompt="Look.", profile="general")])
    model_server.enqueue(status=502, headers={"Retry-After": "0"})
    model_server.enqueue("Looked.")
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    inside = [event.event for event in of_kind(events, SubagentEvent)]
    assert [event.attempt for event in of_kind(inside, RetryEvent)] == [2]


async def test_a_retry_of_a_compaction_is_shown_while_it_is_made(agent: Agent, model_server: ModelServer) -> None:
    for _ in range(2):
        model_server.enqueue("Hello.")
        await run_turn(agent)
    model_server.enqueue(status=400, body={"error": "context_length_exceeded"})
    model_server.enqueue(status=503, headers={"Retry-After": "0"})
    model_server.enqueue("Summed up.")
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    kinds = [type(event) for event in events if isinstance(event, CompactStartEvent | RetryEvent | CompactEndEvent)]
    assert kinds == [CompactStartEvent, RetryEvent, CompactEndEvent]
    assert agent.turns[-1].steps[0].compaction is not None
    assert agent.turns[-1].outcome == "done"


async def test_a_thinking_level_that_is_refused_is_left_out_with_a_warning(
    config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(one_model(config, model_server, "openai", "gpt-5.6-luna"))
    model_server.enqueue(status=400, body=TOOLS_NEED_NO_EFFORT)
    model_server.enqueue("Hello.")
    model_server.enqueue("Again.")
    warnings = [event.message for turn in range(2) for event in of_kind(await run_turn(agent), WarningEvent)]
    await agent.aclose()
    assert [request["reasoning_effort"] for request in model_server.requests] == ["high", "none", "none"]
    [warning] = warnings
    assert warning.startswith('m is asked without thinking = "high", which openai refused: ')
    assert "Function tools with reasoning_effort are not supported" in warning
    assert 'Set thinking = "off" for m' in warning
    assert agent.turns[0].warnings == (warning,)


async def test_thinking_refused_in_the_middle_of_a_reply_is_an_error_and_no_call_runs(
    config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(one_model(config, model_server, "p", "m"), AgentMode.AUTO_APPROVE)
    command = json.dumps({"command": "echo first >> ran.txt"})
    call = {"index": 0, "id": "call00001", "type": "function", "function": {"name": "bash", "arguments": command}}
    parts = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "I do it now."}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
        {"error": {"message": "this reasoning_effort is not supported", "code": 500}},
    ]
    model_server.enqueue(raw=b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts))
    events = await run_turn(agent)
    await agent.aclose()
    assert "this reasoning_effort is not supported" in of_kind(events, ErrorEvent)[0].message
    assert not of_kind(events, WarningEvent)
    assert len(model_server.requests) == 1
    assert not (config.workdir / "ran.txt").exists()


async def test_a_thinking_level_set_after_a_refusal_is_sent(config: KinConfig, model_server: ModelServer) -> None:
    config = one_model(config, model_server, "p", "m", thinking_field="reasoning_effort")
    agent = Agent(config)
    model_server.enqueue(status=400, body={"error": "reasoning_effort must be low or medium"})
    model_server.enqueue("Hello.")
    await run_turn(agent)
    lower = config.models[0].model_copy(update={"thinking": "low"})
    agent.switch_config(config.model_copy(update={"models": [lower]}))
    model_server.enqueue("Again.")
    await run_turn(agent)
    await agent.aclose()
    assert [request.get("reasoning_effort") for request in model_server.requests] == ["high", None, "low"]


async def test_a_refusal_is_not_remembered_when_the_request_fails_without_thinking_too(
    config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(one_model(config, model_server, "p", "m", thinking_field="reasoning_effort"))
    mistake = {"detail": [{"loc": ["body", "stream_options"], "input": {"reasoning_effort": "high"}}]}
    for _ in range(2):
        model_server.enqueue(status=422, body=mistake)
    model_server.enqueue("Hello.")
    assert "stream_options" in of_kind(await run_turn(agent), ErrorEvent)[0].message
    await run_turn(agent)
    await agent.aclose()
    assert [request.get("reasoning_effort") for request in model_server.requests] == ["high", None, "high"]


async def test_a_mistake_that_leaving_out_thinking_does_not_fix_costs_two_requests_once(
    config: KinConfig, model_server: ModelServer
) -> None:
    """The server echoes the request, and with it a field that is not what is wrong."""
    agent = Agent(one_model(config, model_server, "p", "m", thinking_field="reasoning_effort"))
    echoes = {"detail": [{"loc": ["body", "stream_options"], "input": {"reasoning_effort": "high"}}]}
    for _ in range(4):
        model_server.enqueue(status=422, body=echoes)
    told = [of_kind(await run_turn(agent), WarningEvent) for _ in range(3)]
    assert [len(warnings) for warnings in told] == [1, 0, 0]
    efforts = [request.get("reasoning_effort") for request in model_server.requests]
    assert efforts == ["high", None, "high", "high"]
    model_server.enqueue("Mended.")
    await run_turn(agent)
    model_server.enqueue(status=422, body={"error": "reasoning_effort is not supported"})
    model_server.enqueue("Without.")
    await run_turn(agent)
    await agent.aclose()
    assert agent.turns[-1].outcome == "done", "what is refused later is left out again"
    assert [request.get("reasoning_effort") for request in model_server.requests[4:]] == ["high", "high", None]


async def test_a_server_that_is_down_for_the_second_request_says_nothing_of_thinking(
    config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(one_model(config, model_server, "p", "m", thinking_field="reasoning_effort"))
    for status, body in (
        (422, {"error": "reasoning_effort?"}),
        (401, {"error": "not now"}),
        (422, {"error": "effort?"}),
    ):
        model_server.enqueue(status=status, body=body)
    model_server.enqueue("Hello.")
    await run_turn(agent)
    await run_turn(agent)
    await agent.aclose()
    assert agent.turns[-1].outcome == "done"


async def test_a_refusal_of_the_level_may_speak_of_blocking(config: KinConfig, model_server: ModelServer) -> None:
    agent = Agent(one_model(config, model_server, "p", "m"))
    model_server.enqueue(status=400, body={"error": "Prompt blocked: thinking level 'high' is not supported"})
    model_server.enqueue("Hello.")
    await run_turn(agent)
    await agent.aclose()
    assert agent.turns[0].outcome == "done"


async def test_another_mistake_in_a_request_is_not_taken_for_the_thinking_level(
    subtests, config: KinConfig, model_server: ModelServer
) -> None:
    for mistake in [
        "temperature must be 1",
        "messages.1: `thinking` blocks cannot be modified",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "the reasoning parser failed",
    ]:
        with subtests.test(mistake=mistake):
            model_server.clear()
            agent = Agent(one_model(config, model_server, "p", "m"))
            model_server.enqueue(status=400, body={"error": mistake})
            events = await run_turn(agent)
            await agent.aclose()
            assert mistake in of_kind(events, ErrorEvent)[0].message
            assert len(model_server.requests) == 1


async def test_a_thinking_level_without_a_field_is_a_warning_once(
    subtests, config: KinConfig, model_server: ModelServer
) -> None:
    for provider, name, fields in [
        ("openai", "gpt-4.1", {}),
        ("moonshot", "kimi-k2.6", {}),
        ("mistral", "devstral-latest", {"api_style": "mistral"}),
        ("p", "m", {"thinking_field": "none"}),
    ]:
        with subtests.test(provider=provider, name=name, fields=fields):
            agent = Agent(one_model(config, model_server, provider, name, **fields))
            model_server.enqueue("Hello.")
            model_server.enqueue("Again.")
            warnings = [event.message for turn in range(2) for event in of_kind(await run_turn(agent), WarningEvent)]
            await agent.aclose()
            [warning] = warnings
            assert warning.startswith(
                f'thinking = "high" has no effect on m: no field for it is known at {provider} for {name}.'
            )
            assert warning.endswith('Set thinking_field of the provider, or thinking = "off".')


async def test_anthropics_api_has_no_other_field_for_a_thinking_level(config: KinConfig) -> None:
    """Said where the configuration is checked, once for the provider; and what to do names no field there."""
    provider = ProviderConfig(name="a", api_base="http://127.0.0.1:1", api_style="anthropic", thinking_field="thinking")
    limits = {"claude-sonnet-4-5": None, "claude-opus-4-5": None, "claude-haiku-4-5": 1_500}
    models = [ModelConfig(name=n, provider="a", thinking="high", max_tokens=most) for n, most in limits.items()]
    config = config.model_copy(update={"providers": [provider], "models": models})
    ignored, none = thinking_warnings(config, models)
    assert ignored == (
        'thinking_field = "thinking" has no effect on a: api_style = "anthropic" has a field of its own for it. '
        'Remove the line. To turn thinking off, set thinking = "off" of the model.'
    )
    assert none == (
        'thinking = "high" has no effect on claude-haiku-4-5: its replies are limited to 1,500 tokens (max_tokens). '
        'Raise that, or set thinking = "off".'
    )


async def test_a_level_that_anthropics_api_refuses_is_left_out_and_the_advice_names_no_field(workspace: Path) -> None:
    with AnthropicServer.start() as server:
        provider = ProviderConfig(name="a", api_base=server.url, api_style="anthropic")
        models = [ModelConfig(name="claude-sonnet-4-5", alias="m", provider="a", thinking="high")]
        agent = Agent(KinConfig(workdir=workspace, active_model="m", providers=[provider], models=models))
        server.enqueue(status=400, body={"error": {"message": "thinking is not supported"}})
        server.enqueue("Hello.")
        [warning] = of_kind(await run_turn(agent), WarningEvent)
        await agent.aclose()
    assert warning.message.endswith('Set thinking = "off" for m, or choose another model.')


async def test_prices_in_one_value_are_counted_and_limit_a_session(
    config: KinConfig, model_server: ModelServer
) -> None:
    model = ModelConfig(name="m", provider="p", pricing={"input_price": 1_000.0, "output_price": 2.0})
    agent = Agent(config.model_copy(update={"models": [model]}), AgentMode.AUTO_APPROVE, max_price=0.5)
    model_server.enqueue(
        calls=[tool_call("read_file", path="a.py")], usage={"prompt_tokens": 1_000, "completion_tokens": 1}
    )
    await run_turn(agent)
    await agent.aclose()
    assert agent.stats.session_cost == pytest.approx(1.000002)
    assert agent.turns[0].outcome == "stopped"
    assert agent.turns[0].cost != ""
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("content", [None, "not a certificate"])
async def test_a_wrong_file_of_certificates_is_named(
    content: str | None, config: KinConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "corporate.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    provider = ProviderConfig(name="p", api_base="https://127.0.0.1:1/v1")
    agent = Agent(config.model_copy(update={"providers": [provider]}))
    [error] = of_kind(await run_turn(agent), ErrorEvent)
    await agent.aclose()
    why = "No such file or directory" if content is None else "it contains no certificate"
    first, second = error.message.splitlines()
    assert first == f"Cannot reach p: SSL_CERT_FILE names {path}, which cannot be used ({why})."
    assert second.startswith("Correct SSL_CERT_FILE, or unset it, or choose another model")


def stream(*payloads: str) -> bytes:
    return "".join(f"data: {payload}\n\n" for payload in (*payloads, "[DONE]")).encode()


@pytest.mark.parametrize("code", ["²", "9" * 5000])
async def test_an_error_whose_code_is_no_number_is_an_error_event(config, model_server, code):
    agent = Agent(config)
    model_server.enqueue(raw=stream(json.dumps({"error": {"message": "boom", "code": code}})))
    (error,) = of_kind(await run_turn(agent), ErrorEvent)
    await agent.aclose()
    assert "boom" in error.message
    assert agent.turns[-1].outcome == "error"


async def test_a_usage_that_is_no_count_counts_nothing(subtests, config, model_server):
    for figure in ["Infinity", "NaN", "1e300", "-5", "true", '"many"', "9007199254740992"]:
        with subtests.test(figure=figure):
            agent = Agent(config)
            usage = f'"usage":{{"prompt_tokens":{figure},"completion_tokens":5}}'
            choices = '"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}]'
            model_server.enqueue(raw=stream(f"{{{choices},{usage}}}"))
            await run_turn(agent)
            await agent.aclose()
            (step,) = agent.turns[-1].steps
            assert (step.content, step.prompt_tokens, step.completion_tokens) == ("Hello.", 0, 5)
            assert agent.turns[-1].cost == "0.000010"


async def test_a_call_whose_name_has_half_a_character_is_answered(config, model_server):
    agent = Agent(config)
    call = r'{"index":0,"id":"call00001","function":{"name":"read\ud800","arguments":"{}"}}'
    choice = f'{{"index":0,"delta":{{"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}'
    model_server.enqueue(raw=stream(f'{{"choices":[{choice}]}}'))
    model_server.enqueue("There is no such tool.")
    await run_turn(agent)
    await agent.aclose()
    assert agent.turns[-1].outcome == "done"
    assert [(call.name, call.status) for call in agent.turns[-1].calls] == [("read�", "error")]
    assert model_server.violations == []
