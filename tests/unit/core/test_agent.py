"""The loop: what is sent, what is run, what is left behind, however the turn ends."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import ModelConfig, ProviderConfig
from kin_nb.core.context.history import History
from kin_nb.core.events import (
    ApprovalDecisionEvent,
    ApprovalRequestEvent,
    AssistantEvent,
    ErrorEvent,
    ReasoningEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.resume import SessionReplay
from kin_nb.core.safety.approvals import ApprovalResponse
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

LOCAL = ProviderConfig(name="local", api_base="http://127.0.0.1:9/v1")
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")


def raw_call(name: str, arguments: str) -> dict:
    call = tool_call(name)
    call["function"]["arguments"] = arguments
    return call


def sent(server: ModelServer, request: int) -> list[dict]:
    """The messages of the n-th request (from 1) after the system message."""
    return server.requests[request - 1]["messages"][1:]


def text_of(events: list, kind: type) -> str:
    return "".join(event.content for event in events if isinstance(event, kind))


async def test_a_reply_without_tools_is_one_step(model_server, agent):
    model_server.enqueue("Pong, and a little more so that it comes in pieces.", reasoning="ping?")
    events = await run_turn(agent, "Ping?")
    assert isinstance(events[0], TurnStartEvent)
    assert text_of(events, ReasoningEvent) == "ping?"
    assert text_of(events, AssistantEvent).startswith("Pong")
    record = events[-1].record
    assert (record.outcome, len(record.steps), record.prompt) == ("done", 1, "Ping?")
    assert [m.role for m in agent.messages] == ["system", "user", "assistant"]


async def test_reasoning_comes_before_the_text_that_follows_it(model_server, agent):
    model_server.enqueue("b" * 60, reasoning="a" * 60)
    kinds = [type(e) for e in await run_turn(agent) if isinstance(e, AssistantEvent | ReasoningEvent)]
    assert kinds == sorted(kinds, key=lambda kind: kind is AssistantEvent)
    assert kinds.count(AssistantEvent) > 1


async def test_the_first_piece_is_shown_while_the_rest_is_awaited(model_server, agent):
    hold = threading.Event()
    model_server.enqueue("The beginning.", hold=hold, chunk=4)
    async with aclosing(agent.act("go")) as events:
        async for event in events:
            if isinstance(event, AssistantEvent):
                assert event.content == "The "
                hold.set()
                break


async def test_both_calls_of_a_reply_are_answered_in_order(model_server, agent):
    model_server.enqueue("Looking.", calls=[tool_call("read_file", path="a.py"), tool_call("list_dir", path=".")])
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    kinds = [type(e) for e in events]
    assert kinds.index(ToolResultEvent) > max(i for i, kind in enumerate(kinds) if kind is ToolCallEvent)
    roles = [(m["role"], m.get("name")) for m in sent(model_server, 2)]
    assert roles == [("user", None), ("assistant", None), ("tool", "read_file"), ("tool", "list_dir")]
    assert "x = 1" in sent(model_server, 2)[2]["content"]
    assert agent.stats.tool_calls_succeeded == 2


async def test_bash_output_is_shown_while_it_runs_and_its_exit_code_recorded(model_server, trusted):
    model_server.enqueue(calls=[tool_call("bash", command="echo one; exit 3")])
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    assert "one" in "".join(e.text for e in events if isinstance(e, ToolOutputEvent))
    call = events[-1].record.calls[0]
    assert (call.status, call.exit) == ("ok", 3)


async def test_calls_without_ids_of_their_own_are_told_apart(subtests, model_server, agent, workspace):
    for ids in [("", ""), ("same", "same"), ("call_0", "call_1")]:
        with subtests.test(ids=ids):
            (workspace / "b.py").write_text("b\n")
            for _ in range(2):  # the second reply repeats the first one's ids
                calls = [
                    {"id": i, **tool_call("read_file", path=p)} for i, p in zip(ids, ("a.py", "b.py"), strict=True)
                ]
                model_server.enqueue(calls=calls)
            model_server.enqueue("Done.")
            record = (await run_turn(agent))[-1].record
            assert [call.output.split()[1] for call in record.calls] == ["x", "b", "x", "b"]
            assert len({call.id for call in record.calls}) == 4


async def test_a_call_that_cannot_be_run_is_an_answer_to_the_model(subtests, model_server, agent):
    for call, said in [
        (tool_call("nope"), "Unknown tool 'nope'"),
        (tool_call("read_file"), "path: required"),
        (raw_call("read_file", '{"path": "a'), "not valid JSON"),
        (raw_call("read_file", "[1]"), "must be a JSON object"),
        (tool_call("read_file", path="a\0b"), "control character"),
        (tool_call("read_file", path="missing.py"), "missing.py"),
    ]:
        with subtests.test(call=call, said=said):
            model_server.clear()
            model_server.enqueue(calls=[call])
            model_server.enqueue("I see.")
            events = await run_turn(agent)
            result = next(e for e in events if isinstance(e, ToolResultEvent))
            assert said in result.error
            assert said in sent(model_server, 2)[-1]["content"]
            assert events[-1].record.outcome == "done"


async def test_a_stream_cut_after_complete_arguments_runs_no_tool(model_server, trusted, workspace):
    model_server.enqueue(calls=[tool_call("write_file", path="new.py", content="1")], cut_before="finish_reason")
    events = await run_turn(trusted)
    assert not (workspace / "new.py").exists()
    assert isinstance(events[-2], ErrorEvent)
    assert "ended early" in events[-2].message
    assert events[-1].record.outcome == "error"
    model_server.enqueue("Fine.")
    await run_turn(trusted, "again")  # the server checks that the history is valid


async def test_text_that_had_arrived_before_a_cut_is_kept_without_its_calls(model_server, trusted):
    model_server.enqueue("I was saying", calls=[tool_call("bash", command="true")], cut_before="finish_reason")
    events = await run_turn(trusted)
    assert [(s.content, s.calls) for s in events[-1].record.steps] == [("I was saying", ())]
    assert trusted.messages[-1].content == "I was saying"


async def test_a_server_error_ends_the_turn_and_not_the_session(model_server, agent):
    model_server.enqueue(status=401)
    events = await run_turn(agent)
    assert events[-1].record.outcome == "error"
    model_server.enqueue("Back.")
    assert (await run_turn(agent))[-1].record.outcome == "done"


async def test_no_one_to_ask_means_refused_with_a_way_to_allow_it(model_server, agent, workspace):
    model_server.enqueue(calls=[EDIT, tool_call("read_file", path="a.py")])
    model_server.enqueue("Then not.")
    events = await run_turn(agent)
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
    answer = sent(model_server, 2)[2]["content"]
    assert "no one can approve it" in answer
    assert "--mode" in answer
    assert [c.status for c in events[-1].record.calls] == ["refused", "ok"]
    assert agent.stats.tool_calls_rejected == 1


async def asked(agent: Agent, *answers: ApprovalDecision) -> list[ApprovalRequest]:
    """Answer the agent's questions in order; returns the list that the questions will be in."""
    questions: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        questions.append(request)
        return answers[len(questions) - 1]

    agent.set_ask(ask)
    return questions


async def test_an_approved_edit_shows_its_diff_first_and_is_recorded(model_server, agent, workspace):
    questions = await asked(agent, ApprovalDecision(True))
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    assert "-x = 1\n+x = 3" in questions[0].preview.body
    assert (workspace / "a.py").read_text() == "x = 3\ny = 2\n"
    call = events[-1].record.calls[0]
    assert call.decision.by == "person"
    assert call.files[0].path == "a.py"
    assert "-x = 1\n+x = 3" in call.files[0].patch
    kinds = [type(e) for e in events]
    assert kinds.index(ApprovalRequestEvent) < kinds.index(ApprovalDecisionEvent) < kinds.index(ToolResultEvent)


async def test_a_rejection_with_a_note_continues_and_the_note_reaches_the_model(model_server, agent, workspace):
    await asked(agent, ApprovalDecision(False, "use y instead"))
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("All right.")
    events = await run_turn(agent)
    assert "use y instead" in sent(model_server, 2)[-1]["content"]
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
    assert events[-1].record.outcome == "done"


async def test_a_rejection_without_a_word_stops_the_turn_with_every_call_answered(model_server, agent):
    await asked(agent, ApprovalDecision(False))
    model_server.enqueue(calls=[EDIT, tool_call("bash", command="touch x")])
    events = await run_turn(agent)
    record = events[-1].record
    assert record.outcome == "stopped"
    assert [c.status for c in record.calls] == ["refused", "refused"]
    model_server.enqueue("Yes?")
    await run_turn(agent, "do it otherwise")
    assert len(model_server.requests) == 2


async def test_approved_for_the_session_is_not_asked_again_within_its_scope(model_server, agent):
    questions = await asked(agent, ApprovalDecision(True, scope="session"), ApprovalDecision(True))
    model_server.enqueue(calls=[tool_call("bash", command="python -m unittest -q")])
    model_server.enqueue(calls=[tool_call("bash", command="python -m unittest -q || rm x")])
    model_server.enqueue(calls=[tool_call("bash", command="python -m unittest -v -q")])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert [q.args.command for q in questions] == [
        "python -m unittest -q",
        "python -m unittest -q || rm x",  # the grant does not cover `rm`
    ]


async def test_arguments_edited_by_the_person_are_what_runs(model_server, agent, workspace):
    edited = {"path": "a.py", "old_string": "x = 1", "new_string": "x = 99"}
    await asked(agent, ApprovalDecision(True, edited_args=edited))
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    events = await run_turn(agent)
    assert (workspace / "a.py").read_text().startswith("x = 99")
    assert json.loads(events[-1].record.calls[0].edited_arguments)["new_string"] == "x = 99"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_seeds_callbacks_are_asked(model_server, agent, workspace, asynchronous):
    def sync(name, args, call_id):
        return ApprovalResponse.YES, None

    async def later(name, args, call_id):
        return sync(name, args, call_id)

    agent.set_approval_callback(later if asynchronous else sync)
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert (workspace / "a.py").read_text().startswith("x = 3")


async def test_cancelling_ends_the_command_and_answers_every_call(model_server, trusted, workspace):
    command = "echo $$ > pid; echo started; sleep 60"
    model_server.enqueue(calls=[tool_call("bash", command=command), tool_call("read_file", path="a.py")])
    started = asyncio.Event()

    async def turn():
        async with aclosing(trusted.act("go")) as events:
            async for event in events:
                if isinstance(event, ToolOutputEvent) and "started" in event.text:
                    started.set()

    task = asyncio.create_task(turn())
    await asyncio.wait_for(started.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{(workspace / 'pid').read_text().strip()}").exists()
    record = trusted.turns[-1]
    assert record.outcome == "interrupted"
    assert [c.status for c in record.calls] == ["interrupted", "interrupted"]
    model_server.enqueue("Here again.")
    await run_turn(trusted, "and now?")


@pytest.mark.parametrize("last", range(12))
async def test_closing_the_generator_after_any_event_leaves_a_valid_session(model_server, trusted, last):
    both = [tool_call("read_file", path="a.py"), tool_call("list_dir", path=".")]
    model_server.enqueue("Looking.", calls=both)
    for _ in range(2):  # the turn's second step, if it gets there, and the next turn
        model_server.enqueue("Still valid.")
    async with aclosing(trusted.act("go")) as events:
        seen = [event async for event in _first(last + 1, events)]
    assert len(seen) == last + 1
    calls = trusted.turns[-1].calls
    assert all(call.status in {"ok", "interrupted"} for call in calls)
    await run_turn(trusted)  # the server checks that the history is valid
    assert SessionState.of(read_lines(trusted.log.path)).records == trusted.turns


async def _first(count: int, events):
    """The first `count` events, and no look at the next."""
    for _ in range(count):
        yield await anext(events)


async def test_the_prompt_prefix_never_moves(model_server, agent):
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue("Done.")
    await run_turn(agent)
    first, second = model_server.requests
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert first["tools"] == second["tools"]


async def test_the_cost_is_known_only_with_prices(model_server, config):
    model_server.enqueue("Hello.")
    priced = Agent(config)
    record = (await run_turn(priced))[-1].record
    assert float(record.cost) > 0
    await priced.aclose()
    config.models[0].input_price = config.models[0].output_price = 0
    model_server.enqueue("Hello.")
    free = Agent(config)
    assert (await run_turn(free))[-1].record.cost == ""
    await free.aclose()


async def test_no_path_of_this_machine_and_no_secret_is_recorded(model_server, trusted, workspace, monkeypatch):
    model_server.enqueue(
        calls=[tool_call("bash", command=f"echo sk-abcdefghijklmnopqrstu1234; cat {workspace}/a.py; pwd")]
    )
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    recorded = events[-1].record.model_dump_json() + trusted.log.path.read_text().split("\n", 1)[1]
    assert str(workspace) not in recorded
    assert "sk-abcdefgh" not in recorded
    assert str(workspace) in sent(model_server, 2)[-1]["content"]  # the model needs the real one


OPENAI_KEY = "sk-proj-abcdefghijklmnopqrstu1234"
GITHUB_KEY = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


async def test_no_secret_of_a_result_reaches_the_model(subtests, model_server, trusted, workspace, monkeypatch):
    for call in [
        tool_call("read_file", path="keys.py"),
        tool_call("read_file", path="keys.ipynb"),
        tool_call("grep", pattern="="),
        tool_call("bash", command="cat keys.py; echo $BLAND", timeout=60),
        tool_call("bash", command="yes 0123456789 | head -9000; cat keys.py; yes 0123456789 | head -9000", timeout=60),
        tool_call("bash", command="cat keys.py no-such-file; exit 3", timeout=60),
    ]:
        with subtests.test(call=call), monkeypatch.context() as patch:
            patch.setenv("SERVICE_TOKEN", "correct-horse-battery")
            patch.setenv("BLAND", "correct-horse-battery")
            text = f"a = '{OPENAI_KEY}'\nb = '{GITHUB_KEY}'\nc = 'correct-horse-battery'\n"
            (workspace / "keys.py").write_text(text)
            cell = {
                "cell_type": "code",
                "id": "a",
                "metadata": {},
                "source": text,
                "outputs": [],
                "execution_count": None,
            }
            notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
            (workspace / "keys.ipynb").write_text(json.dumps(notebook))
            model_server.clear()
            model_server.enqueue(calls=[call])
            model_server.enqueue("Done.")
            await run_turn(trusted)
            content = sent(model_server, 2)[-1]["content"]
            for secret in (OPENAI_KEY, GITHUB_KEY, "correct-horse", "abcdefghijkl"):
                assert secret not in content
            if "0123456789\n" not in content:
                assert "a = '[secret]'" in content


async def test_no_secret_reaches_the_model_in_the_system_prompt(model_server, config, workspace, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "correct-horse-battery")
    (workspace / "name-correct-horse-battery.txt").touch()
    agent = Agent(config, mode=AgentMode.AUTO_APPROVE)
    assert "name-[secret].txt" in agent.messages[0].content
    assert "correct-horse" not in agent.messages[0].content
    agent.switch_mode(AgentMode.PLAN)
    assert "correct-horse" not in agent.messages[0].content
    model_server.enqueue("Done.")
    await run_turn(agent)
    assert "correct-horse" not in json.dumps(sent(model_server, 1))
    monkeypatch.setenv("LATER_TOKEN", "wrong-donkey-battery")
    (workspace / "name-wrong-donkey-battery.txt").touch()
    await agent.clear_history()
    assert "wrong-donkey" not in agent.messages[0].content
    await agent.aclose()


async def test_the_system_prompt_is_redacted_again_for_a_new_secret_alone(model_server, trusted, monkeypatch):
    redacted = []
    redact = trusted.journal.without_secrets
    monkeypatch.setattr(trusted.journal, "without_secrets", lambda text: redacted.append(text) or redact(text))
    prompt = trusted.messages[0].content
    for value, times in (("", 0), ("zq-9988-xyzzy", 1), ("zq-9988-xyzzy", 1)):
        monkeypatch.setenv("SERVICE_TOKEN", value)
        model_server.enqueue("Yes.")
        await run_turn(trusted)
        assert redacted.count(prompt) == times


async def test_a_resumed_conversation_is_the_same_where_a_result_had_a_secret(model_server, trusted, config, workspace):
    (workspace / "keys.py").write_text(f"a = '{OPENAI_KEY}'\n" * 3_000)
    model_server.enqueue(calls=[tool_call("bash", command=f"cat {workspace}/keys.py")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    resumed = Agent(config)
    SessionReplay(resumed.parts, resumed.undos).replay(trusted.turns)
    assert resumed.history.fingerprint() == trusted.history.fingerprint()
    assert [m.content for m in resumed.messages[1:]] == [m.content for m in trusted.messages[1:]]
    await resumed.aclose()


async def test_an_ordinary_word_that_a_variable_holds_is_no_secret_for_the_model(model_server, trusted, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    monkeypatch.setenv("APP_CREDENTIALS", "/etc/hostname")
    model_server.enqueue(calls=[tool_call("bash", command="echo postgresql /etc/hostname")])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert sent(model_server, 2)[-1]["content"] == "postgresql /etc/hostname"


async def test_a_secret_that_the_model_was_not_shown_is_not_overwritten(model_server, trusted, workspace):
    before = f"a = '{OPENAI_KEY}'\nb = 1\n"
    (workspace / "keys.py").write_text(before)
    block = "<<<<<<< SEARCH\na = '[secret]'\n=======\na = 2\n>>>>>>> REPLACE"
    calls = [
        tool_call("read_file", path="keys.py"),
        tool_call("edit_file", path="keys.py", old_string="a = '[secret]'\nb = 1", new_string="a = '[secret]'\nb = 2"),
        tool_call("search_replace", path="keys.py", content=block),
        tool_call("write_file", path="keys.py", content="a = '[secret]'\nb = 2\n", overwrite=True),
    ]
    for call in calls:
        model_server.enqueue(calls=[call])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    answers = [message["content"] for message in sent(model_server, 5) if message["role"] == "tool"]
    assert all("[secret]" in answer and "hidden" in answer for answer in answers[1:])
    assert (workspace / "keys.py").read_text() == before
    model_server.enqueue(
        calls=[tool_call("edit_file", path="keys.py", old_string="b = 1", new_string="b = '[secret]'")]
    )
    model_server.enqueue("Done.")
    await run_turn(trusted)
    assert (workspace / "keys.py").read_text() == before.replace("1\n", "'[secret]'\n")


async def test_the_fingerprint_does_not_depend_on_the_folder(model_server, config, tmp_path):
    prints = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        model_server.enqueue(calls=[{"id": "callpwd01", **tool_call("bash", command="pwd")}])
        model_server.enqueue("Done.")
        agent = Agent(config.model_copy(update={"workdir": folder}), AgentMode.AUTO_APPROVE)
        record = (await run_turn(agent))[-1].record
        assert str(folder) in sent(model_server, len(model_server.requests))[-1]["content"]
        prints.append([step.fingerprint for step in record.steps])
        await agent.aclose()
    assert prints[0] == prints[1]


async def test_turn_end_carries_the_record_that_the_agent_keeps(model_server, agent):
    model_server.enqueue("Hello.")
    events = await run_turn(agent)
    assert isinstance(events[-1], TurnEndEvent)
    assert events[-1].record == agent.turns[-1]


async def test_a_key_set_during_the_session_is_not_recorded_either(model_server, trusted, monkeypatch):
    model_server.enqueue("Hello.")
    await run_turn(trusted)
    monkeypatch.setenv("SERVICE_TOKEN", "very-secret-value-9")
    model_server.enqueue("It is very-secret-value-9.")
    record = (await run_turn(trusted))[-1].record
    assert record.steps[0].content == "It is [secret]."


async def test_a_configuration_that_became_wrong_is_one_line_and_no_stack_trace(config, model_server):
    config.providers[0].api_style = "nonsense"
    agent = Agent(config)
    events = await run_turn(agent)
    assert events[-1].record.outcome == "error"
    assert events[-1].record.message.startswith('Provider "p": unknown api_style')
    await agent.aclose()


async def test_an_empty_reply_is_asked_for_again_once_and_never_enters_the_history(model_server, agent):
    model_server.enqueue("")
    model_server.enqueue("")
    record = (await run_turn(agent))[-1].record
    assert record.outcome == "error"
    assert "empty" in record.message
    assert [m.role for m in agent.messages] == ["system", "user"]


async def test_a_reply_cut_off_at_the_models_limit_says_so(model_server, agent):
    model_server.enqueue("And then the", finish_reason="length")
    record = (await run_turn(agent))[-1].record
    assert record.outcome == "stopped"
    assert "cut off" in record.message


async def test_a_session_grant_is_offered_only_where_it_would_hold(subtests, model_server, agent):
    for path, offers in [("a.py", 2), (".env", 0), ("../outside.txt", 0)]:
        with subtests.test(path=path, offers=offers):
            questions = await asked(agent, ApprovalDecision(False, "no"))
            model_server.enqueue(calls=[tool_call("write_file", path=path, content="1", overwrite=True)])
            model_server.enqueue("All right.")
            await run_turn(agent)
            assert len(questions[0].scopes) == offers


async def test_a_provider_has_one_client_however_often_the_model_changes(config):
    other = config.model_copy(update={"active_model": "local", "providers": [*config.providers, LOCAL]})
    other = other.model_copy(
        update={"models": [*config.models, ModelConfig(name="x", provider="local", alias="local")]}
    )
    agent = Agent(config)
    first = agent.backend
    agent.switch_config(other)
    assert agent.backend is not first
    agent.switch_config(config)
    assert agent.backend is first
    await agent.aclose()


async def test_a_command_after_a_failed_edit_says_what_it_shows(model_server, trusted):
    wrong = tool_call("edit_file", path="a.py", old_string="z = 9", new_string="z = 8")
    model_server.enqueue(calls=[wrong, tool_call("read_file", path="a.py"), tool_call("bash", command="cat a.py")])
    model_server.enqueue(calls=[tool_call("bash", command="cat a.py")])
    model_server.enqueue("I see.")
    calls = (await run_turn(trusted))[-1].record.calls
    note = "[note: an earlier call in this reply failed and changed nothing: edit_file]"
    assert [note in call.output for call in calls] == [False, False, True, False]


async def test_a_skill_named_in_a_prompt_is_sent_and_the_prompt_stays_as_it_was_typed(model_server, config):
    folder = kin_home() / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: How to tidy\n---\nSort the imports.\n")
    agent = Agent(config)
    model_server.enqueue("Done.")
    record = (await run_turn(agent, "/skill:tidy a.py"))[-1].record
    assert record.prompt == "/skill:tidy a.py"
    assert "Sort the imports." in sent(model_server, 1)[0]["content"]
    assert sent(model_server, 1)[0]["content"].endswith("a.py")
    again = History(agent.messages[0].content, agent.redact)
    again.extend_from([record], lambda text: text.replace("{workspace}", str(config.effective_workdir)))
    assert again.fingerprint() == agent.history.fingerprint()
    await agent.aclose()


async def test_an_unknown_skill_is_an_error_that_names_the_nearest(model_server, config):
    folder = kin_home() / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: How to tidy\n---\nSort.\n")
    agent = Agent(config)
    events = await run_turn(agent, "/skill:tydi a.py")
    assert "tidy" in next(e.message for e in events if isinstance(e, ErrorEvent))
    assert model_server.requests == []
    await agent.aclose()


async def test_the_workspace_of_a_session_stays_when_the_process_goes_elsewhere(
    model_server, config, tmp_path, monkeypatch
):
    monkeypatch.chdir(config.workdir)
    config.workdir = None
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    monkeypatch.chdir(tmp_path)
    agent.switch_config(config.model_copy(update={"instructions": "Be brief."}))
    model_server.enqueue(calls=[tool_call("read_file", path="a.py"), tool_call("bash", command="pwd")])
    model_server.enqueue("Done.")
    record = (await run_turn(agent))[-1].record
    assert [call.status for call in record.calls] == ["ok", "ok"]
    assert record.calls[1].output.startswith("{workspace}")
    await agent.aclose()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # each loop took its connection with it
def test_an_agent_acts_and_is_closed_in_event_loops_of_their_own(model_server, config):
    agent = Agent(config)
    for _ in range(2):
        model_server.enqueue("Hello.")
        asyncio.run(run_turn(agent))
    asyncio.run(agent.aclose())
    model_server.enqueue("Again.")
    asyncio.run(run_turn(agent))
    asyncio.run(agent.aclose())
    assert [turn.outcome for turn in agent.turns] == ["done"] * 3
    gc.collect()  # while the warning is still expected
