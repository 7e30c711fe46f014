"""What seeds 000, 002 and 003 say of sessions, modes, settings and requests, where no other test shows it."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kin_nb.core
from kin_nb.core.agent import Agent
from kin_nb.core.config import Backend, KinConfig, MissingAPIKeyError, ModelConfig, PricingInfo, ProviderConfig
from kin_nb.core.llm.adapters.openai import OpenAIAdapter
from kin_nb.core.llm.backend.generic import MistralBackend
from kin_nb.core.middleware import PLAN_OVER, PLAN_REMINDER, MiddlewareResult, ResetReason
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from kin_nb.core.types import AvailableFunction, AvailableTool, LLMMessage, Role
from tests.model_server import tool_call
from tests.table import each_row
from tests.unit.core.conftest import run_turn
from tests.unit.test_architecture import PACKAGE, imports

EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")
BASH = tool_call("bash", command="touch ran")
DEFAULTS = {
    "active_model": "devstral-2",
    "api_timeout": 720.0,
    "auto_compact_threshold": 200_000,
    "context_warnings": False,
    "system_prompt_id": "default",
    "instructions": "",
    "include_commit_signature": True,
    "include_model_info": True,
    "include_project_context": True,
    "include_prompt_detail": True,
    "tools": {},
    "tool_paths": [],
    "enabled_tools": [],
    "disabled_tools": [],
    "mcp_servers": [],
    "workdir": None,
}


@pytest.fixture
def small(config: KinConfig) -> KinConfig:
    """A window of 1000 tokens, and warnings as it fills."""
    model = ModelConfig(name="m", provider="p", context_window=1_000)
    return config.model_copy(update={"context_warnings": True, "models": [model]})


# Sessions


async def test_a_session_has_an_id_a_system_message_a_logger_and_no_file_before_its_first_prompt(model_server, agent):
    assert uuid.UUID(agent.session_id).version == 4
    assert [m.role for m in agent.messages] == ["system"]
    logger = agent.interaction_logger
    assert logger.enabled
    assert not logger.save_dir.exists()
    model_server.enqueue("Hello.")
    await run_turn(agent, "Hi")
    info = logger.session_info(agent.session_id, agent.messages, agent.stats)
    assert (info.session_id, info.message_count, info.stats) == (agent.session_id, 3, agent.stats)
    assert Path(info.save_dir) == logger.save_dir
    assert datetime.fromisoformat(info.start_time).tzinfo is not None


async def test_what_was_said_is_in_the_log_when_a_turn_ends(model_server, agent):
    for text in ("One.", "Two."):
        model_server.enqueue(text)
        await run_turn(agent)
        turns = SessionState.of(read_lines(agent.log.path)).records
        assert turns == agent.turns
        assert turns[-1].steps[-1].content == text


async def test_a_session_is_saved_as_one_json_document(model_server, trusted, workspace):
    model_server.enqueue("Hi there!")
    await run_turn(trusted, "Hello")
    path = trusted.interaction_logger.save_interaction()
    document = json.loads(path.read_text())
    assert set(document) == {"metadata", "messages", "stats", "config_snapshot"}
    metadata = document["metadata"]
    assert metadata["session_id"] == trusted.session_id
    assert metadata["auto_approve"] is True
    assert datetime.fromisoformat(metadata["start_time"]) <= datetime.fromisoformat(metadata["end_time"])
    assert [(m["role"], m["content"]) for m in document["messages"][1:]] == [
        *(("user", "Hello"), ("assistant", "Hi there!")),
    ]
    assert document["messages"][-1]["tool_calls"] is None
    assert document["stats"]["steps"] == 1
    assert document["config_snapshot"]["active_model"] == "m"


async def test_a_session_is_resumed_and_continues_in_its_log(model_server, config, agent):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("It is 1.")
    await run_turn(agent, "What is x?")
    await agent.aclose()
    again = Agent.resume(config)
    assert again.messages == agent.messages
    assert (again.session_id, again.log.path, again.turns) == (agent.session_id, agent.log.path, agent.turns)
    model_server.enqueue("And 2.")
    await run_turn(again, "And y?")
    await again.aclose()
    before, after = (request["messages"] for request in model_server.requests[-2:])
    assert after[: len(before)] == before
    turns = SessionState.of(read_lines(agent.log.path)).records
    assert [turn.prompt for turn in turns] == ["What is x?", "And y?"]


async def test_reloading_takes_new_settings_and_limits_and_keeps_the_conversation(model_server, agent):
    model_server.enqueue("Hello.")
    await run_turn(agent, "Hi")
    said, session, tools = agent.messages[1:], agent.session_id, agent.tool_manager.available_tools()
    new = agent.config.model_copy(update={"instructions": "Be brief.", "disabled_tools": ["bash"]})
    await agent.reload_with_initial_messages(config=new, max_turns=1)
    assert (agent.messages[1:], agent.session_id) == (said, session)
    assert "Be brief." in agent.messages[0].content
    assert set(tools) - set(agent.tool_manager.available_tools()) == {"bash"}
    events = await run_turn(agent, "again")
    assert events[-1].record.message == "limit of 1 model request reached"
    assert len(model_server.requests) == 1


# Modes and middleware


async def test_a_mode_is_switched_within_a_conversation(model_server, agent, workspace):
    """DEFAULT asks for an edit (no one can be asked here), ACCEPT_EDITS does not, and asks for a command."""
    decided = []
    session, messages = agent.session_id, agent.messages
    for mode in (AgentMode.DEFAULT, AgentMode.ACCEPT_EDITS, AgentMode.PLAN, AgentMode.AUTO_APPROVE):
        agent.switch_mode(mode)
        (workspace / "a.py").write_text("x = 1\ny = 2\n")
        model_server.enqueue(calls=[tool_call("read_file", path="a.py"), EDIT, BASH])
        model_server.enqueue("Done.")
        record = (await run_turn(agent))[-1].record
        decided.append((record.mode, [call.decision.verdict for call in record.calls]))
    assert decided == [
        ("default", ["allow", "deny", "deny"]),
        ("accept_edits", ["allow", "allow", "deny"]),
        ("plan", ["allow", "deny", "deny"]),
        ("auto_approve", ["allow", "allow", "allow"]),
    ]
    assert agent.session_id == session
    assert agent.messages is messages
    assert [m.content for m in messages if m.role is Role.user] == ["go"] * 4


async def test_the_built_in_middleware_comes_limits_first_and_then_what_was_added(small):
    class Mine:
        async def before_turn(self, _: Any) -> MiddlewareResult:
            return MiddlewareResult()

        def reset(self, reset_reason: ResetReason) -> None: ...

    agent = Agent(small, max_turns=5, max_price=1.0)
    assert agent.middleware_pipeline.add(Mine()) is agent.middleware_pipeline
    agent.switch_mode(AgentMode.PLAN)
    assert [type(m).__name__ for m in agent.middleware_pipeline.middlewares] == [
        *("TurnLimitMiddleware", "PriceLimitMiddleware", "AutoCompactMiddleware"),
        *("ContextWarningMiddleware", "PlanModeMiddleware", "Mine"),
    ]
    await agent.aclose()


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_model_is_warned_as_its_window_fills_if_that_is_wanted(model_server, small, wanted):
    agent = Agent(small.model_copy(update={"context_warnings": wanted}))
    for tokens in (510, 520, 760, 770):
        model_server.enqueue("Hello.", usage={"prompt_tokens": tokens, "completion_tokens": 0})
        await run_turn(agent)
    warned = ["of the context window is used" in r["messages"][-1]["content"] for r in model_server.requests]
    assert warned == ([False, True, False, True] if wanted else [False] * 4)
    await agent.aclose()


async def test_a_note_of_a_failed_request_does_not_stay(model_server, config):
    """The request fails: the next prompt is noted again, and once more when plan mode is over."""
    agent = Agent(config, AgentMode.PLAN)
    model_server.enqueue(status=401)
    await run_turn(agent, "plan it")
    model_server.enqueue("A plan.")
    await run_turn(agent, "once more")
    model_server.enqueue(status=401)
    await run_turn(agent, "and again")
    agent.switch_mode(AgentMode.DEFAULT)
    model_server.enqueue("Done.")
    await run_turn(agent, "do it")
    noted = [str(request["messages"]).count(PLAN_REMINDER) for request in model_server.requests]
    assert noted == [1, 1, 2, 1]
    assert model_server.requests[-1]["messages"][-1]["content"] == f"do it\n\n[kin_nb: {PLAN_OVER}]"
    await agent.aclose()


# Settings


@each_row("setting", DEFAULTS)
def test_a_setting_has_its_default(setting):
    assert getattr(KinConfig.load(), setting) == DEFAULTS[setting]


def test_the_default_model_is_mistrals_and_wants_its_key():
    config = KinConfig.load()
    model = config.get_active_model()
    provider = config.get_provider_for_model(model)
    assert (model.alias, provider.name, provider.backend) == ("devstral-2", "mistral", Backend.MISTRAL)
    assert type(Agent(config).backend) is MistralBackend
    with pytest.raises(MissingAPIKeyError, match="MISTRAL_API_KEY"):
        config.check_api_key()
    assert (config.session_logging.enabled, config.session_logging.save_dir) == (True, "")


def test_providers_and_models_have_the_fields_of_the_seed():
    provider = ProviderConfig(name="p", api_base="http://localhost/v1", api_key_env_var="KEY")
    assert (provider.backend, provider.api_style) == (Backend.GENERIC, "openai")
    assert set(Backend) == {Backend.GENERIC, Backend.MISTRAL}
    model = ModelConfig(name="m", provider="p", input_price=1.0, output_price=2.0)
    assert (model.alias, model.temperature, model.max_tokens) == ("m", 0.2, None)
    assert model.pricing == PricingInfo(input_price=1.0, output_price=2.0)


async def test_a_prompt_of_ones_own_is_what_the_model_gets(model_server, config):
    (kin_home() / "prompts").mkdir(parents=True)
    (kin_home() / "prompts" / "my_prompt.md").write_text("You are a specialized coding assistant.\n")
    (kin_home() / "config.toml").write_text('system_prompt_id = "my_prompt"\n')
    agent = Agent(KinConfig.load(**config.model_dump(exclude_unset=True)))
    assert agent.config.system_prompt == "You are a specialized coding assistant."
    model_server.enqueue("Hello.")
    await run_turn(agent)
    system = model_server.requests[0]["messages"][0]
    assert system["role"] == "system"
    assert system["content"].startswith("You are a specialized coding assistant.\n")
    await agent.aclose()


# Requests, and who imports whom


async def test_every_request_names_the_session_and_the_program(model_server, agent):
    for _ in range(2):
        model_server.enqueue("Hello.")
    first = agent.session_id
    await run_turn(agent)
    await agent.clear_history()
    await run_turn(agent)
    assert [h["x-affinity"] for h in model_server.headers] == [first, agent.session_id]
    assert agent.session_id != first
    assert all(h["user-agent"].startswith("kin_nb/") for h in model_server.headers)


@pytest.mark.parametrize(
    ("choice", "sent"), [("auto", "auto"), ("none", "none"), ("any", "required"), ("required", "required")]
)
def test_a_tool_choice_is_reported_as_the_server_says_it(choice, sent):
    tool = AvailableTool(function=AvailableFunction(name="t", description="d", parameters={"type": "object"}))
    prepared = OpenAIAdapter().prepare_request(
        model_name="m",
        messages=[LLMMessage(role=Role.user, content="go")],
        temperature=0.0,
        tools=[tool],
        tool_choice=choice,
        enable_streaming=False,
        provider=ProviderConfig(name="p", api_base="http://localhost/v1"),
    )
    assert json.loads(prepared.body)["tool_choice"] == sent


def test_the_core_exports_nothing_else():
    assert kin_nb.core.__all__ == ["run_programmatic"]
    with pytest.raises(AttributeError, match="Agent"):
        kin_nb.core.Agent  # noqa: B018  (the access is what is tested)


def imports_agent(path: Path) -> bool:
    return "kin_nb.core.agent" in path.read_text(encoding="utf-8") and "kin_nb.core.agent" in imports(path)


def test_what_lies_below_the_agent_does_not_know_it():
    """Only what drives an agent knows it: not values, storage and tools, and not the parts that it is made of."""
    users = {path for path in (PACKAGE / "core").rglob("*.py") if imports_agent(path)}
    below = ("context", "llm", "config", "safety", "skills", "system_prompt", "tools/builtins", "tools/mcp", "web")
    assert [path for path in users if any(path.is_relative_to(PACKAGE / "core" / name) for name in below)] == []
    assert {path.name for path in users if path.parent == PACKAGE / "core"} == {"programmatic.py"}
    values = {name for module in ("types", "modes", "events") for name in imports(PACKAGE / "core" / f"{module}.py")}
    assert not {name for name in values if name.startswith(("kin_nb.core.config", "kin_nb.core.llm"))}
