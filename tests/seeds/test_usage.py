"""The usage blocks of seeds 000 and 002, run as they stand; a replacement beside a block is what the block leaves out."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import uuid
from typing import Any

import pytest

import kin_nb.core.types
from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.llm.backend.generic import GenericBackend, OpenAIAdapter
from kin_nb.core.middleware import ConversationContext, MiddlewareAction, MiddlewareResult, ResetReason
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.types import AssistantEvent, LLMChunk, LLMMessage, LLMUsage, Role
from tests.model_server import tool_call
from tests.seeds.blocks import blocks
from tests.unit.core.conftest import run_turn

NOT_RUN = {
    "000": {
        2: "two calls of private methods of the code that the seed describes; tests/unit/mcp shows the behaviour",
        5: "a sketch: `complete_streaming(...)`; tests/unit/core/test_agent.py shows the batches",
        8: "a sketch of a proxy; tests/unit/mcp and tests/peers show ours",
        10: "a definition (test_definitions.py)",
        17: "methods of KinConfig, shown by tests/unit/config",
        18: "definitions (test_definitions.py)",
    },
    "002": {
        **dict.fromkeys((1, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 20, 21, 22, 24, 27, 28), "a definition"),
        25: "aliases with Python 3.12's `type` statement, compared in test_definitions.py",
        **dict.fromkeys((29, 30, 31, 32, 33, 34, 35, 36, 37, 38), "a definition or an import, in test_definitions.py"),
    },
}
RUN = {"000": {1, 11, 12, 15, 16, 19, 20, 21, 22, 23, 24, 25, 26, 27}, "002": {2, 8, 12, 16, 23, 26}}


@pytest.mark.parametrize("seed", RUN)
def test_every_block_that_parses_is_compared_or_run(seed):
    from tests.seeds.test_definitions import UNPARSED

    loose_case = {12} if seed == "002" else set()
    assert set(blocks(seed)) == RUN[seed] | set(NOT_RUN[seed]) | (UNPARSED[seed] - loose_case)


async def run(seed: str, number: int, scope: dict[str, Any]) -> dict[str, Any]:
    """Run a block as it stands, top-level `await` and all."""
    return await run_code(blocks(seed)[number], scope)


async def run_code(code: str, scope: dict[str, Any], left_out: dict[str, str] | None = None) -> dict[str, Any]:
    """`left_out`: texts of the block, and what stands for them."""
    for text, instead in (left_out or {}).items():
        assert text in code
        code = code.replace(text, instead)
    compiled = compile(textwrap.dedent(code), "<seed>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, scope)
    if inspect.isawaitable(result):
        await result
    return scope


def names(**more: Any) -> dict[str, Any]:
    """What a reader of the seeds has imported."""
    return {
        **vars(kin_nb.core.types),
        **{
            c.__name__: c
            for c in (Agent, KinConfig, AgentMode, ConversationContext, MiddlewareAction, MiddlewareResult)
        },
        "ResetReason": ResetReason,
        **more,
    }


# Seed 000


async def test_000_an_agent_takes_the_documented_arguments(model_server, config):
    seen = []
    backend = GenericBackend(config.providers[0])
    scope = await run("000", 1, names(config=config, callback=seen.append, custom_backend=backend))
    model_server.enqueue("Hello.")
    await run_turn(scope["agent"], "Hi")
    assert [m.role for m in seen] == ["system", "user", "assistant"]
    assert scope["agent"].backend is backend
    await backend.aclose()
    await scope["agent"].aclose()


async def test_000_the_example_of_a_turn_limit_stops_as_ours_does(model_server, trusted):
    scope = await run("000", 11, names())
    trusted.middleware_pipeline.add(scope["TurnLimitMiddleware"](1))
    model_server.enqueue(calls=[tool_call("list_dir", path=".")])
    events = await run_turn(trusted)
    assert [e.content for e in events if isinstance(e, AssistantEvent)] == ["Turn limit of 1 reached"]


async def test_000_a_request_is_prepared_sent_and_read(model_server, config):
    import httpx

    from kin_nb.core.llm.backend.generic import get_user_agent

    model_server.enqueue("Pong.")
    provider, model = config.providers[0], config.models[0]
    available_tools = ToolManager(config).schemas()
    async with httpx.AsyncClient() as client:
        scope = names(
            adapter=OpenAIAdapter(),
            model=model,
            messages=[LLMMessage(role=Role.user, content="Ping?")],
            temperature=0.2,
            available_tools=available_tools,
            tool_choice="auto",
            provider=provider,
            api_key=None,
            headers={},
            get_user_agent=get_user_agent,
            session_id="s",
            client=client,
            url=f"{model_server.url}/chat/completions",
        )
        await run("000", 12, scope)
    assert scope["chunk"].message.content == "Pong."
    assert model_server.headers[0]["x-affinity"] == "s"
    assert model_server.headers[0]["user-agent"].startswith("kin_nb/")


async def test_000_configuration_is_loaded_overridden_and_saved(tmp_path):
    (kin_home() / "agents").mkdir(parents=True)
    (kin_home() / "agents" / "custom.toml").write_text('instructions = "Be brief."\n')
    code = blocks("000")[15].replace("/path/to/project", str(tmp_path))
    scope = await run_code(code, names())
    assert (scope["config"].instructions, scope["config"].active_model) == ("Be brief.", "devstral-2")
    assert scope["new_config"].effective_workdir == tmp_path.resolve()
    loaded = KinConfig.load()
    assert loaded.active_model == "devstral-small"
    assert loaded.tools["bash"].permission == "always"


async def test_000_a_tools_settings_are_merged_as_the_manager_merges_them(config):
    from kin_nb.core.tools.base import BaseToolConfig

    config.tools["bash"] = BaseToolConfig(permission="always", default_timeout=5)
    manager = ToolManager(config)
    tool_class = manager.available_tools()["bash"]
    scope = names(
        tool_class=tool_class, config=config, tool_name="bash", config_class=tool_class._get_tool_config_class()
    )
    await run("000", 16, scope)
    assert scope["tool_config"].permission == manager.get_tool_config("bash").permission == "always"
    assert scope["tool_config"].workdir == config.workdir


async def test_000_events_are_matched_as_shown(model_server, trusted):
    heard: list[str] = []

    def hear(name: str) -> Any:
        return lambda *_: heard.append(name)

    shown = ("display", "show_tool_call", "show_error", "show_result")
    compaction = ("show_compaction_started", "show_compaction_complete")
    model_server.enqueue("Writing.", calls=[tool_call("write_file", path="hello.py", content="print('hi')\n")])
    model_server.enqueue(
        "", calls=[tool_call("read_file", path="missing")], usage={"prompt_tokens": 10**6, "completion_tokens": 1}
    )
    model_server.enqueue("A summary.")
    model_server.enqueue("Done.")
    await run("000", 19, names(agent=trusted, **{name: hear(name) for name in (*shown, *compaction)}))
    assert set(heard) == {*shown, *compaction}


async def test_000_an_observer_sees_every_message(model_server, config, capsys):
    scope = await run("000", 20, names(config=config))
    model_server.enqueue("Pong.")
    await run_turn(scope["agent"], "Ping?")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("user", "assistant"))] == ["user: Ping?", "assistant: Pong."]
    await scope["agent"].aclose()


async def test_000_the_operations_of_a_session(model_server, config):
    """The block's own comments, checked between its statements."""
    new_config = config.model_copy(update={"instructions": "Be brief."})
    first, clear, compact, reload = (part for part in blocks("000")[21].split("\n\n"))
    scope = await run_code(first, names(config=config, new_config=new_config))
    agent = scope["agent"]
    assert uuid.UUID(agent.session_id).version == 4

    model_server.enqueue("Hello.")
    await run_turn(agent, "Hi")
    before = agent.session_id
    await run_code(clear, scope)
    assert [m.role for m in agent.messages] == ["system"]
    assert agent.session_id != before
    assert agent.stats.steps == 0

    model_server.enqueue("Hello again.")
    await run_turn(agent, "Hi again")
    before = agent.session_id
    model_server.enqueue("We greeted each other.")
    await run_code(compact, scope)
    assert scope["summary"] == "We greeted each other."
    assert [m.role for m in agent.messages] == ["system", "user"]
    assert agent.session_id != before

    before, kept = agent.session_id, agent.messages[1:]
    await run_code(reload, scope)
    assert agent.messages[1:] == kept
    assert agent.messages[0].content.count("Be brief.") == 1
    assert agent.session_id == before
    await agent.aclose()


@pytest.mark.parametrize("place", ["home", "project", "tool_paths"])
async def test_000_a_custom_tool_is_found_and_called(model_server, config, workspace, place):
    from kin_nb.core.config.trusted_folders import TrustedFolders

    folder = {
        "home": kin_home() / "tools",
        "project": workspace / ".kin-code" / "tools",
        "tool_paths": workspace / "my_tools",
    }[place]
    folder.mkdir(parents=True)
    (folder / "my_tool.py").write_text(blocks("000")[22])
    TrustedFolders().trust(workspace)
    named = {"tool_paths": [folder]} if place == "tool_paths" else {}
    config = KinConfig.load(**{**config.model_dump(exclude_unset=True), **named})
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    model_server.enqueue(calls=[tool_call("my_tool", input="x")])
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert "Processed: x" in record.calls[0].output
    assert agent.tool_manager.get("my_tool").state.call_count == 1
    assert agent.tool_manager.get("my_tool").config.custom_setting == "default"
    await agent.aclose()


async def test_000_custom_middleware_is_added(model_server, trusted):
    await run("000", 23, names(agent=trusted))
    trusted.stats.steps = 100
    assert [e.content for e in await run_turn(trusted) if isinstance(e, AssistantEvent)] == ["Too many steps"]
    assert model_server.requests == []


@pytest.mark.parametrize("enable_streaming", [True, False])
async def test_000_a_custom_backend_answers(config, enable_streaming):
    async def custom_api_call(*_: Any) -> LLMChunk:
        message = LLMMessage(role=Role.assistant, content="From my own server.")
        return LLMChunk(message=message, usage=LLMUsage(prompt_tokens=3), finish_reason="stop")

    async def custom_streaming_call(*_: Any) -> Any:
        yield await custom_api_call()

    scope = names(
        config=config,
        provider=config.providers[0],
        custom_api_call=custom_api_call,
        custom_streaming_call=custom_streaming_call,
        count_tokens_somehow=lambda *_: 7,
        AsyncGenerator=Any,
    )
    made = "CustomBackend(provider=provider, timeout=60)"
    left_out = {
        "AsyncGenerator[LLMChunk]": "Any",
        "in custom_streaming_call(...):": "in custom_streaming_call():",
        "yield LLMChunk(message=..., usage=...)": "yield chunk",
        "return LLMChunk(message=..., usage=...)": "return response",
        "class CustomBackend:": "class CustomBackend:\n    def __init__(self, provider, timeout): pass\n",
        f"backend={made}": f"backend={made}, enable_streaming={enable_streaming}",
    }
    agent = (await run_code(blocks("000")[24], scope, left_out))["agent"]
    events = await run_turn(agent, "Hi")
    assert "".join(e.content for e in events if isinstance(e, AssistantEvent)) == "From my own server."
    assert agent.stats.session_prompt_tokens == 3
    await agent.aclose()


async def test_000_a_custom_adapter_speaks_its_own_format(model_server, workspace):
    left_out = {
        '"/v1/custom/endpoint"': '"/chat/completions"',
        "payload = {...}": 'payload = {"messages": [{"role": "user", "content": messages[-1].content}], "stream": False}',
        "headers = {...}": 'headers = {"content-type": "application/json"}',
        "message = LLMMessage(...)": 'message = LLMMessage(role="assistant", content=data["choices"][0]["message"]["content"])',
        "usage = LLMUsage(...)": "usage = LLMUsage(prompt_tokens=5)",
        "LLMChunk(message=message, usage=usage)": 'LLMChunk(message=message, usage=usage, finish_reason="stop")',
    }
    from kin_nb.core.llm.backend.generic import BACKEND_ADAPTERS, PreparedRequest

    await run_code(
        blocks("000")[25], names(ProviderConfig=ProviderConfig, PreparedRequest=PreparedRequest, json=json), left_out
    )
    try:
        config = KinConfig(
            workdir=workspace,
            active_model="m",
            providers=[ProviderConfig(name="my_custom_provider", api_base=model_server.url, api_style="custom_api")],
            models=[ModelConfig(name="m", provider="my_custom_provider")],
        )
        agent = Agent(config)
        model_server.enqueue("In my own format.")
        events = await run_turn(agent, "Hi")
        assert "".join(e.content for e in events if isinstance(e, AssistantEvent)) == "In my own format."
        assert model_server.requests[0]["messages"] == [{"role": "user", "content": "Hi"}]
        await agent.aclose()
    finally:
        del BACKEND_ADAPTERS["custom_api"]


async def test_000_a_custom_agent_is_loaded(tmp_path, monkeypatch):
    """Block 26 is the file that block 27 loads."""
    monkeypatch.chdir(tmp_path)
    settings = blocks("000")[26].partition("agents/strict.toml\n")[2]
    (kin_home() / "agents").mkdir(parents=True)
    (kin_home() / "agents" / "strict.toml").write_text(settings)
    scope = await run("000", 27, names())
    agent = scope["agent"]
    assert set(agent.tool_manager.available_tools()) == {"grep", "read_file", "todo"}
    assert agent.config.compact_at(agent.config.get_active_model()) == 50_000
    assert agent.config.context_warnings is True
    await agent.aclose()


# Seed 002


async def test_002_messages_are_made_as_shown():
    scope = await run("002", 2, names())
    assert scope["assistant_msg"].tool_calls[0].function.name == "read_file"
    assert scope["tool_msg"].tool_call_id == "call_123"


async def test_002_a_stop_is_told_from_a_reply(model_server, config, capsys):
    agent = Agent(config, max_turns=1)
    model_server.enqueue("Looking.", calls=[tool_call("list_dir", path=".")])
    await run("002", 8, names(agent=agent, prompt="go"))
    assert capsys.readouterr().out.split("\n")[-3:] == [
        "limit of 1 model request reached",
        "[Stopped by middleware]",
        "",
    ]
    await agent.aclose()


async def test_002_results_are_told_from_errors(model_server, trusted, capsys):
    loop = "async for event in agent.act('go'):\n    match event:\n" + textwrap.indent(blocks("002")[12], "        ")
    model_server.enqueue(calls=[tool_call("list_dir", path="."), tool_call("read_file", path="missing")])
    model_server.enqueue("Done.")
    await run_code(loop, names(agent=trusted))
    out = capsys.readouterr().out
    assert "Tool list_dir succeeded: " in out
    assert "Tool read_file failed: " in out


async def test_002_statistics_are_complete(model_server, trusted, capsys):
    usage = {"prompt_tokens": 1_000, "completion_tokens": 500}
    model_server.enqueue(calls=[tool_call("list_dir", path=".")], usage=usage)
    model_server.enqueue("Done.", usage=usage)
    await run_turn(trusted)
    await run("002", 16, names(agent=trusted))
    assert capsys.readouterr().out.splitlines() == [
        "Turns: 2",
        "Total tokens: 3000",
        "Estimated cost: $0.0040",
        "Tools succeeded: 1",
    ]


def test_002_a_schema_has_the_shape_shown(config):
    shown = ast.literal_eval(blocks("002")[23])
    grep = next(tool.function for tool in ToolManager(config).schemas() if tool.function.name == "grep")
    assert set(grep.model_dump()) == set(shown)
    assert set(shown["parameters"]) <= set(grep.parameters)
    assert set(shown["parameters"]["properties"]) <= set(grep.parameters["properties"])
    assert grep.parameters["required"] == shown["parameters"]["required"]


async def test_002_an_approval_callback_decides(model_server, config, workspace):
    agent = Agent(config)
    from pydantic import BaseModel

    await run("002", 26, names(agent=agent, BaseModel=BaseModel))
    model_server.enqueue(calls=[tool_call("write_file", path="new.py", content="1")])
    model_server.enqueue("I see.")
    record = (await run_turn(agent))[-1].record
    assert "Tool not allowed" in record.calls[0].output
    assert not (workspace / "new.py").exists()
    await agent.aclose()
