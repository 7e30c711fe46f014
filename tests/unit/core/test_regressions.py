"""Where one thing meets another: what a review proved wrong once."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import ConfigError, SessionLoggingConfig
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.context.history import History
from kin_nb.core.conversation import TurnRunningError
from kin_nb.core.events import ToolOutputEvent
from kin_nb.core.messages import LLMMessage, Role
from kin_nb.core.modes import AgentMode
from kin_nb.core.redaction import Redactor
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.session.errors import SessionInUseError
from kin_nb.core.tool_types import BaseToolConfig
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

GITHUB = "ghp_" + "a1B2c3D4" * 5


async def test_a_secret_at_the_beginning_of_a_line_of_an_argument_is_not_recorded(model_server, trusted, workspace):
    text = f"# keys\n{GITHUB}\n{workspace}/a.py\n"
    model_server.enqueue(calls=[tool_call("write_file", path="k.txt", content=text)])
    model_server.enqueue("Done.")
    call = (await run_turn(trusted))[-1].record.calls[0]
    assert json.loads(call.arguments)["content"] == "# keys\n[secret]\n{workspace}/a.py\n"
    assert GITHUB not in trusted.log.path.read_text()


async def test_arguments_without_a_secret_are_recorded_verbatim(model_server, trusted):
    odd = '{"path":  "c.txt", "content": "home http://example.com", "note": "bob@example.com"}'
    call = tool_call("write_file")
    call["function"]["arguments"] = odd
    model_server.enqueue(calls=[call])
    model_server.enqueue("Done.")
    assert (await run_turn(trusted))[-1].record.calls[0].arguments == odd


def test_the_fingerprint_of_a_path_after_a_line_break_does_not_depend_on_the_folder(tmp_path):
    prints = set()
    for name in ("one", "two"):
        history = History("system", Redactor((), tmp_path / name).text)
        history.append(LLMMessage(role=Role.user, content=f"see\n{tmp_path / name}/a.py"))
        prints.add(history.fingerprint())
    assert len(prints) == 1


async def test_a_note_with_a_secret_is_not_recorded(model_server, config, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "tokentokentoken123")
    agent = Agent(config)

    async def refuse(request):
        return ApprovalDecision(False, "use tokentokentoken123 instead")

    agent.set_ask(refuse)
    model_server.enqueue(calls=[tool_call("bash", command="touch x")])
    model_server.enqueue("Done.")
    assert (await run_turn(agent))[-1].record.calls[0].decision.note == "use [secret] instead"
    assert "tokentokentoken123" not in agent.log.path.read_text()
    await agent.aclose()


async def test_a_second_turn_waits_for_no_one_and_breaks_nothing(model_server, trusted):
    model_server.enqueue("Hello.")
    async with aclosing(trusted.act("one")) as events:
        await anext(events)
        with pytest.raises(TurnRunningError, match="still ending"):
            await run_turn(trusted, "two")
    assert [turn.prompt for turn in trusted.turns] == ["one"]
    await run_turn(trusted, "three")
    assert [turn.prompt for turn in trusted.turns] == ["one", "three"]


@pytest.mark.parametrize("what", ["clear", "compact"])
async def test_what_happened_after_the_last_turn_is_resumed_too(model_server, config, what):
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    model_server.enqueue("Hello.")
    await run_turn(agent, "a secret plan")
    if what == "compact":
        model_server.enqueue("We greeted.")
        await agent.compact()
    else:
        await agent.clear_history()
    await agent.aclose()
    again = Agent.resume(config)
    assert again.messages[1:] == agent.messages[1:]
    assert again.session_id == agent.session_id
    assert again.stats.session_cost == pytest.approx(agent.stats.session_cost)
    model_server.enqueue("Fine.")
    record = (await run_turn(again, "go on"))[-1].record
    move = again.moves[-1]
    assert (move.type, record.parent) == (what, move.head)
    assert move == agent.moves[-1]
    await again.aclose()


async def test_two_compactions_in_a_row_are_both_paid_for(model_server, trusted):
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    model_server.enqueue("Hello.", usage=usage)
    await run_turn(trusted)
    for summary in ("One.", "Two."):
        model_server.enqueue(summary, usage=usage)
        await trusted.compact()
    paid = [(record.prompt_tokens, record.completion_tokens) for record in trusted.records]
    assert paid == [(100, 10)] * 3
    assert trusted.stats.session_prompt_tokens == 300


async def test_a_mode_that_cannot_be_applied_leaves_the_one_before(config):
    agent = Agent(config)
    mode = CustomMode(name="careful", overrides={"system_prompt_id": "gone"})
    with pytest.raises(ConfigError, match="gone"):
        agent.switch_mode(mode)
    assert (agent.mode, agent.config.system_prompt_id) == (AgentMode.DEFAULT, "default")
    await agent.aclose()


async def test_skills_are_there_after_a_mode_that_hid_their_tool(model_server, config):
    from kin_nb.core.paths import kin_home

    folder = kin_home() / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: How to tidy\n---\nSort.\n")
    agent = Agent(config, CustomMode(name="narrow", overrides={"enabled_tools": ["read_file"]}))
    agent.switch_mode(AgentMode.DEFAULT)
    model_server.enqueue(calls=[tool_call("skill", name="tidy")])
    model_server.enqueue("Done.")
    assert "Sort." in (await run_turn(agent))[-1].record.calls[0].output
    await agent.aclose()


async def test_a_prompt_that_was_interrupted_before_the_model_saw_it_is_resumed_too(model_server, config):
    agent = Agent(config)
    async with aclosing(agent.act("interrupted")) as events:
        await anext(events)
    await agent.aclose()
    again = Agent.resume(config)
    assert [m.content for m in again.messages[1:]] == [m.content for m in agent.messages[1:]] == ["interrupted"]
    await again.aclose()


async def test_a_resume_that_fails_leaves_the_session_free(model_server, config):
    agent = Agent(config)
    model_server.enqueue("Hello.")
    await run_turn(agent)
    await agent.aclose()
    with pytest.raises(ConfigError):
        Agent.resume(config.model_copy(update={"system_prompt_id": "gone"}))
    try:
        await Agent.resume(config).aclose()
    except SessionInUseError:
        pytest.fail("the lock was left")


async def test_nothing_is_written_on_a_resume_without_logging(model_server, config):
    agent = Agent(config)
    model_server.enqueue("Hello.")
    await run_turn(agent)
    await agent.aclose()
    before = agent.log.path.read_bytes()
    off = config.model_copy(update={"session_logging": SessionLoggingConfig(enabled=False)})
    again = Agent.resume(off)
    model_server.enqueue("Again.")
    await run_turn(again, "PRIVATE")
    await again.aclose()
    assert agent.log.path.read_bytes() == before


async def test_a_person_cannot_edit_a_call_into_what_is_forbidden(model_server, config):
    config.tools["bash"] = BaseToolConfig(denylist=["echo evil"])
    agent = Agent(config)

    async def edit(request):
        return ApprovalDecision(True, edited_args={"command": "echo evil"}, scope="session")

    agent.set_ask(edit)
    model_server.enqueue(calls=[tool_call("bash", command="touch good")])
    model_server.enqueue("I see.")
    assert (await run_turn(agent))[-1].record.calls[0].status == "refused"
    await agent.aclose()


async def test_a_file_that_cannot_be_read_is_an_error_of_one_call(model_server, trusted, workspace, monkeypatch):
    from pathlib import Path

    read = Path.read_bytes

    def refuse(self):
        if self.name == "locked.txt":
            raise PermissionError(13, "Permission denied")
        return read(self)

    (workspace / "locked.txt").write_text("x")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    calls = [tool_call("write_file", path="locked.txt", content="1"), tool_call("read_file", path="a.py")]
    model_server.enqueue(calls=calls)
    model_server.enqueue("I see.")
    record = (await run_turn(trusted))[-1].record
    assert record.outcome == "done"
    assert record.calls[1].status == "ok"


async def test_a_call_that_had_ended_keeps_its_result_when_the_listener_leaves(model_server, trusted):
    model_server.enqueue(calls=[tool_call("bash", command="echo one")])
    async with aclosing(trusted.act("go")) as events:
        async for event in events:
            if isinstance(event, ToolOutputEvent):
                while b'"type":"result"' not in trusted.log.path.read_bytes():  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0)
                break
    assert (trusted.turns[-1].calls[0].status, trusted.turns[-1].calls[0].exit) == ("ok", 0)
    model_server.enqueue("Still valid.")
    await run_turn(trusted)


async def test_the_model_gets_no_part_of_a_secret_from_a_long_line_that_grep_shows(
    model_server, config, workspace, monkeypatch
):
    key = "tok-5f0c9e77a1-AAAABBBBCCCCDDDD"
    monkeypatch.setenv("BUILD_TOKEN", key)
    (workspace / "long.json").write_text(f'{{"{"z" * 460}": "token", "b": "{key}"}}\n')
    model_server.enqueue(calls=[tool_call("grep", pattern="token", path="long.json")])
    model_server.enqueue("ok")
    agent = Agent(config)
    await run_turn(agent)
    await agent.aclose()
    sent = json.dumps(model_server.requests[-1]["messages"])
    assert "[secret]" in sent
    assert key[:10] not in sent


async def test_a_secret_across_the_cut_of_a_long_result_is_not_recorded_in_halves(model_server, trusted, workspace):
    (workspace / "long.py").write_text("print('x' * 19_990 + '" + GITHUB + "' + 'x' * 39_000)\n")
    model_server.enqueue(calls=[tool_call("bash", command="python3 long.py")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert GITHUB[:10] not in trusted.log.path.read_text()


def test_a_mistake_in_a_tools_settings_is_reported_with_its_line(subtests):
    for settings, said in [
        ('[tools.wirte_file]\ndenylist = ["data/*"]\n', ":1: tools.wirte_file: unknown tool; did you mean write_file?"),
        (
            '[tools.write_file]\ndenlyist = ["data/*"]\n',
            ":2: tools.write_file.denlyist: unknown setting; did you mean denylist?",
        ),
        ('[tools.jira_search]\npermission = "always"\n', ""),
    ]:
        with subtests.test(settings=settings, said=said):
            from kin_nb.core.config import KinConfig
            from kin_nb.core.paths import kin_home
            from kin_nb.core.tools.manager import ToolManager

            kin_home().mkdir(exist_ok=True)
            (kin_home() / "config.toml").write_text(settings)
            warnings = ToolManager(KinConfig.load()).warnings
            assert [warning.endswith(said) for warning in warnings] == ([True] if said else [])
