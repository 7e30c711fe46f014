"""What seed 001 says, where no other test shows it (docs/project/seed-coverage.md)."""

from __future__ import annotations

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, KinConfig, LLMNotConfigured, ModelConfig, ProviderConfig
from kin_nb.core.config.origins import config_report, origin_report
from kin_nb.core.events import ErrorEvent
from kin_nb.core.paths import kin_home
from kin_nb.core.programmatic import run_programmatic
from tests.model_server import tool_call
from tests.table import each_row
from tests.unit.core.conftest import run_turn


def settings(text: str, **more) -> KinConfig:
    kin_home().mkdir(exist_ok=True)
    (kin_home() / "config.toml").write_text(text)
    return KinConfig.load(**more)


HEADERS = """
active_model = "m"
[[providers]]
name = "p"
api_base = "URL"
custom_headers = { x-team = "data", x-api-key = "hidden-by-name" }
[[models]]
name = "m"
provider = "p"
"""


def no_key(config: KinConfig) -> KinConfig:
    (provider,) = config.providers
    return config.model_copy(update={"providers": [provider.model_copy(update={"api_key_env_var": "NOT_SET_KEY"})]})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"active_model": "other"}, 'Unknown model "other"'),
        ({"models": []}, "Unknown model"),
        ({"providers": []}, 'uses the unknown provider "p"'),
    ],
)
async def test_without_a_model_there_is_no_agent(config, wrong, told):
    with pytest.raises(LLMNotConfigured, match=told):
        await run_programmatic(config.model_copy(update=wrong), "Hello?", write=lambda _: None)


async def test_without_a_key_nothing_is_asked(config, model_server):
    with pytest.raises(LLMNotConfigured, match="NOT_SET_KEY is not set"):
        await run_programmatic(no_key(config), "Hello?", write=lambda _: None)
    with pytest.raises(LLMNotConfigured):
        no_key(config).check_api_key()
    assert model_server.requests == []


@pytest.mark.parametrize(
    "text",
    [
        'active_model = "nonsense"',
        '[[models]]\nname = "x"\nprovider = "nobody"\n[[providers]]\nname = "q"\napi_base = ""',
    ],
)
def test_settings_that_name_no_model_are_that_error_with_their_place(text):
    with pytest.raises(LLMNotConfigured, match=r"config\.toml:\d+: "):
        settings(text)


def test_other_mistakes_in_settings_are_not_that_error():
    with pytest.raises(ConfigError) as error:
        settings('policy = "nonsense"')
    assert not isinstance(error.value, LLMNotConfigured)


async def test_a_model_that_is_taken_away_ends_the_turn_and_not_the_session(config, model_server):
    agent = Agent(config)
    agent.config.models.clear()
    with pytest.raises(LLMNotConfigured):
        await run_turn(agent)
    assert [m.role for m in agent.messages] == ["system"]
    agent.config.models.append(ModelConfig(name="m", provider="p"))
    model_server.enqueue("Here again.")
    assert not [event for event in await run_turn(agent) if isinstance(event, ErrorEvent)]
    await agent.aclose()


@each_row("level", ["off", "low", "medium", "high", "xhigh", "max"])
def test_a_thinking_level_is_one_of_the_seeds(level):
    assert ModelConfig(name="m", provider="p", thinking=level).thinking == level


@pytest.mark.parametrize(("given", "level"), [(True, "high"), (False, "off")])
def test_thinking_may_be_yes_or_no(given, level):
    assert ModelConfig(name="m", provider="p", thinking=given).thinking == level


def test_another_thinking_level_is_an_error_that_lists_them():
    text = '[[models]]\nname = "m"\nprovider = "mistral"\nthinking = "ultra"\n'
    with pytest.raises(ConfigError, match=r"config\.toml:4: models\.m\.thinking: .*'xhigh'"):
        settings(text)


async def test_custom_headers_are_sent(model_server):
    agent = Agent(settings(HEADERS.replace("URL", model_server.url)))
    model_server.enqueue("Hello.")
    await run_turn(agent)
    await agent.aclose()
    assert agent.config.warnings == ()
    assert model_server.headers[0]["x-team"] == "data"


def test_custom_headers_are_shown_and_hidden_like_extra_headers():
    config = settings(HEADERS)
    for report in (config_report(config), origin_report(config)):
        assert "extra_headers" in report
        assert "hidden-by-name" not in report
    assert "config.toml:6" in origin_report(config)


def test_headers_of_two_layers_are_merged_under_either_name():
    text = HEADERS.replace("custom_headers", "extra_headers")
    layered = settings(text, providers=[{"name": "p", "custom_headers": {"x-team": "other", "x-more": "1"}}])
    found = next(provider for provider in layered.providers if provider.name == "p")
    assert found.extra_headers == {"x-team": "other", "x-api-key": "hidden-by-name", "x-more": "1"}


def test_both_names_for_the_headers_are_an_error():
    with pytest.raises(
        ConfigError, match=r"config\.toml:\d+: providers: extra_headers and custom_headers are the same setting"
    ):
        settings(HEADERS + '[[providers]]\nname = "q"\napi_base = ""\nextra_headers = {}\ncustom_headers = {}\n')
    with pytest.raises(ValueError, match="extra_headers and custom_headers are the same setting"):
        ProviderConfig(name="p", api_base="", extra_headers={}, custom_headers={})


async def test_a_step_sends_the_system_prompt_the_messages_and_the_tools(model_server, trusted):
    model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Done.")
    await run_turn(trusted, "go")
    first, second = model_server.requests
    assert [m["role"] for m in first["messages"]] == ["system", "user"]
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert first["tools"] == second["tools"]
    assert {"read_file", "bash"} <= {tool["function"]["name"] for tool in first["tools"]}


async def test_a_turn_has_so_many_steps_at_most(model_server, config):
    agent = Agent(config.model_copy(update={"max_steps_per_turn": 2}))
    for name in ("a.py", "b.py"):
        model_server.enqueue(calls=[tool_call("read_file", path=name)])
    record = (await run_turn(agent))[-1].record
    assert (record.outcome, len(record.steps)) == ("stopped", 2)
    assert "max_steps_per_turn" in record.message
    model_server.enqueue("On I go.")
    assert (await run_turn(agent, "go on"))[-1].record.outcome == "done"
    await agent.aclose()
