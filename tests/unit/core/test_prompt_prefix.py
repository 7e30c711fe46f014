"""Each request begins with what the one before held, in every mode and after a resume: providers cache such prompts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import ProjectContextConfig
from kin_nb.core.host_facts import COMMAND_LINE
from kin_nb.core.middleware import PLAN_REMINDER, BuiltinMiddleware, MiddlewareAction, MiddlewareResult
from kin_nb.core.modes import AgentMode
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

LOOK = tool_call("read_file", path="a.py")


@pytest.fixture
def config(config):
    """With time to list the files on a busy machine."""
    return config.model_copy(update={"project_context": ProjectContextConfig(timeout_seconds=60)})


def assert_prefixes(requests: list[dict[str, Any]]) -> None:
    """All messages of a request are in the next one, in their places; its tools too."""
    for before, after in itertools.pairwise(requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]


async def talk(server: ModelServer, agent: Agent, *prompts: str) -> None:
    for prompt in prompts:
        server.enqueue("I look.", calls=[LOOK])
        server.enqueue("I look again.", calls=[tool_call("list_dir", path=".")])
        server.enqueue("Done.")
        await run_turn(agent, prompt)


@pytest.mark.parametrize("mode", list(AgentMode))
async def test_in_each_mode(model_server, config, mode):
    agent = Agent(config, mode)
    await talk(model_server, agent, "one", "two")
    assert_prefixes(model_server.requests)
    await agent.aclose()


async def test_when_the_mode_changes(model_server, config):
    agent = Agent(config, AgentMode.PLAN)
    await talk(model_server, agent, "plan it")
    agent.switch_mode(AgentMode.ACCEPT_EDITS)
    await talk(model_server, agent, "do it")
    agent.switch_mode(AgentMode.PLAN)
    await talk(model_server, agent, "plan more")
    assert_prefixes(model_server.requests)
    await agent.aclose()


async def test_with_checkpoints_and_with_reminders_of_middleware(model_server, config):
    class Reminds(BuiltinMiddleware):
        async def before_turn(self, context) -> MiddlewareResult:
            return MiddlewareResult(MiddlewareAction.INJECT_MESSAGE, message=f"{len(context.messages)} messages")

    agent = Agent(config.model_copy(update={"dmail": True}), AgentMode.AUTO_APPROVE)
    agent.middleware_pipeline.add(Reminds())
    await talk(model_server, agent, "one", "two")
    assert_prefixes(model_server.requests)
    await agent.aclose()


@pytest.mark.parametrize("mode", [AgentMode.DEFAULT, AgentMode.PLAN])
async def test_after_a_resume_in_a_project_that_has_changed(model_server, config, workspace, mode):
    agent = Agent(config, mode)
    await talk(model_server, agent, "one")
    await agent.aclose()
    (workspace / "new.py").write_text("y = 1\n")
    again = Agent.resume(config, agent.journal.root_id, mode=mode)
    await talk(model_server, again, "two")
    assert_prefixes(model_server.requests)
    note = f"\n\n[kin_nb: {PLAN_REMINDER}]" if mode is AgentMode.PLAN else ""
    assert model_server.requests[3]["messages"][-1]["content"] == f"two{note}"
    await again.aclose()


async def test_after_a_resume_by_another_program_the_model_reads_where_it_is_now(model_server, config):
    agent = Agent(config)
    await talk(model_server, agent, "one")
    await agent.aclose()
    again = Agent.resume(config, agent.journal.root_id, host=COMMAND_LINE)
    await talk(model_server, again, "two")
    prompt = model_server.requests[3]["messages"][-1]["content"]
    assert prompt.startswith("two\n\n[kin_nb: This has changed since the system prompt was written")
    assert "No one can answer questions" in prompt
    assert model_server.requests[3]["messages"][0] == model_server.requests[2]["messages"][0]
    await again.aclose()


async def test_a_changed_instruction_is_a_note_and_the_system_prompt_stays(model_server, config):
    agent = Agent(config)
    await talk(model_server, agent, "one")
    agent.switch_config(config.model_copy(update={"instructions": "Answer in rhymes."}))
    agent.switch_config(config.model_copy(update={"instructions": "Answer in rhymes.", "max_steps_per_turn": 9}))
    await talk(model_server, agent, "two", "three")
    assert_prefixes(model_server.requests)
    prompts = [m["content"] for m in model_server.requests[-1]["messages"] if m["role"] == "user"]
    assert [prompt.count("Answer in rhymes.") for prompt in prompts] == [0, 1, 0]
    await agent.aclose()


async def test_without_a_change_a_resume_adds_nothing(model_server, config):
    agent = Agent(config)
    await talk(model_server, agent, "one")
    await agent.aclose()
    again = Agent.resume(config, agent.journal.root_id)
    await talk(model_server, again, "two")
    assert model_server.requests[3]["messages"][-1]["content"] == "two"
    await again.aclose()


async def test_a_new_conversation_has_a_new_system_prompt_which_a_resume_keeps(model_server, config, workspace):
    agent = Agent(config)
    await talk(model_server, agent, "one")
    (workspace / "new.py").write_text("y = 1\n")
    agent.clear()
    await talk(model_server, agent, "two")
    await agent.aclose()
    (workspace / "newer.py").write_text("y = 1\n")
    again = Agent.resume(config, agent.journal.root_id)
    await talk(model_server, again, "three")
    assert "new.py" not in model_server.requests[0]["messages"][0]["content"]
    assert "new.py" in model_server.requests[3]["messages"][0]["content"]
    assert_prefixes(model_server.requests[3:])
    await again.aclose()


async def test_in_a_moved_workspace_the_system_prompt_is_built_again(
    model_server, config, workspace, monkeypatch, tmp_path
):
    """It names another folder now."""
    agent = Agent(config)
    await talk(model_server, agent, "one")
    await agent.aclose()
    moved = tmp_path / "moved"
    workspace.rename(moved)
    again = Agent.resume(config.model_copy(update={"workdir": moved}), agent.journal.root_id)
    await talk(model_server, again, "two")
    assert str(moved) in model_server.requests[3]["messages"][0]["content"]
    await again.aclose()


async def test_a_secret_that_is_known_since_is_not_sent_again(model_server, config, monkeypatch):
    agent = Agent(config.model_copy(update={"instructions": "The password is hunter2-hunter2."}))
    await talk(model_server, agent, "one")
    await agent.aclose()
    monkeypatch.setenv("SERVICE_PASSWORD", "hunter2-hunter2")
    again = Agent.resume(
        config.model_copy(update={"instructions": "The password is hunter2-hunter2."}), agent.journal.root_id
    )
    await talk(model_server, again, "two")
    assert "hunter2" in model_server.requests[2]["messages"][0]["content"]
    assert "hunter2" not in str(model_server.requests[3]["messages"][0])
    await again.aclose()
