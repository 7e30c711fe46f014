"""D-Mail: the model goes back within its turn, with a message; the person's words and the files stay."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.events import CheckpointEvent, DMailEvent, ToolResultEvent, TurnEndEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import RecordedDMail
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

LOOK = tool_call("read_file", path="a.py")
WRITE = tool_call("write_file", path="b.py", content="y\n")


def mail(checkpoint_id: int, message: str = "It is all in b.py.") -> dict[str, Any]:
    return tool_call("send_dmail", checkpoint_id=checkpoint_id, message=message)


@pytest.fixture
def config(config):
    config.dmail = True
    return config


async def resumed(agent: Agent) -> Agent:
    await agent.aclose()
    return Agent.resume(agent.base_config, mode=AgentMode.AUTO_APPROVE)


async def assert_resumes(agent: Agent) -> None:
    records = SessionState.of(read_lines(agent.log.path)).records
    assert records == agent.records
    again = await resumed(agent)
    assert again.messages[1:] == agent.messages[1:]
    assert again.history.fingerprint() == agent.history.fingerprint()
    assert again.history.last_request == agent.history.last_request
    await again.aclose()


CHECKPOINT = "Checkpoint {} is here, before your next reply."


def contents(request: dict[str, Any]) -> list[str]:
    return [message.get("content") or "" for message in request["messages"][1:]]


async def test_the_tool_and_the_checkpoints_are_there_only_when_asked_for(model_server, config):
    config.dmail = False
    without = Agent(config, AgentMode.AUTO_APPROVE)
    with_it = Agent(config.model_copy(update={"dmail": True}), AgentMode.AUTO_APPROVE)
    for agent in (without, with_it):
        model_server.enqueue("Hello.")
        await run_turn(agent)
        await agent.aclose()
    told = [
        ("send_dmail" in {tool["function"]["name"] for tool in request["tools"]}, "[kin_nb: Checkpoint" in str(request))
        for request in model_server.requests
    ]
    assert told == [(False, False), (True, True)]


async def test_without_it_a_dmail_is_an_unknown_tool(model_server, config):
    agent = Agent(config.model_copy(update={"dmail": False}), AgentMode.AUTO_APPROVE)
    model_server.enqueue(None, calls=[mail(1)])
    model_server.enqueue("I see.")
    (call,) = (await run_turn(agent))[-1].record.calls
    assert (call.status, "send_dmail" in call.output) == ("error", True)
    await agent.aclose()


async def test_what_followed_is_forgotten_but_the_message_and_the_files_stay(model_server, trusted, workspace):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("I write.", calls=[WRITE])
    model_server.enqueue("Back.", calls=[mail(2)])
    model_server.enqueue("Done.")
    events = await run_turn(trusted, "change something")
    (sent,) = [event for event in events if isinstance(event, DMailEvent)]
    assert (sent.checkpoint_id, sent.message) == (2, "It is all in b.py.")
    said = contents(model_server.requests[-1])
    assert said[:2] == [f"change something\n\n[kin_nb: {CHECKPOINT.format(1)}]", "I look."]
    assert len(said) == 4
    assert "D-Mail" in said[3]
    assert "It is all in b.py." in said[3]
    assert (workspace / "b.py").read_text() == "y\n"
    record = trusted.turns[0]
    assert [step.content for step in record.steps] == ["I look.", "I write.", "Back.", "Done."]
    assert record.steps[3].dmail == RecordedDMail(step=2, message="It is all in b.py.")
    assert [change.path for call in record.calls for change in call.files] == ["b.py"]
    await assert_resumes(trusted)


async def test_the_other_calls_of_the_reply_end_first(model_server, trusted, workspace):
    model_server.enqueue("All at once.", calls=[WRITE, mail(1), tool_call("bash", command="sleep 0.2; touch late")])
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    kinds = [type(event) for event in events if isinstance(event, ToolResultEvent | DMailEvent)]
    assert kinds == [ToolResultEvent] * 3 + [DMailEvent]
    assert [call.status for call in trusted.turns[0].calls] == ["ok"] * 3
    assert {"b.py", "late"} < {path.name for path in workspace.iterdir()}
    await assert_resumes(trusted)


async def test_undo_takes_the_files_of_the_forgotten_steps_back_too(model_server, trusted, workspace):
    model_server.enqueue("I write.", calls=[WRITE])
    model_server.enqueue("Back.", calls=[mail(1)])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    await trusted.undo()
    assert not (workspace / "b.py").exists()
    assert trusted.messages[1:] == []
    await trusted.redo()
    assert (workspace / "b.py").exists()
    await assert_resumes(trusted)


@pytest.mark.parametrize(
    ("checkpoint", "message", "why"),
    [
        (0, "x", r"Checkpoint 0 does not exist in this turn. Choose one of: 4."),
        (3, "x", r"Checkpoint 3 does not exist in this turn. Choose one of: 4."),
        (1, "x", r"Checkpoint 1 does not exist in this turn. Choose one of: 4."),
        (99, "x", r"Checkpoint 99 does not exist in this turn. Choose one of: 4."),
        (4, " ", r"The D-Mail is empty"),
    ],
)
async def test_what_the_person_asked_cannot_be_erased_nor_a_turn_before(
    model_server, trusted, checkpoint, message, why
):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("Seen.")
    await run_turn(trusted, "one")
    model_server.enqueue(None, calls=[mail(checkpoint, message)])
    model_server.enqueue("I see.")
    events = await run_turn(trusted, "two")
    (call,) = events[-1].record.calls
    assert call.status == "error"
    assert why in call.output
    assert not [event for event in events if isinstance(event, DMailEvent)]
    assert [m.content for m in trusted.messages if m.role.value == "user"] == ["one", "two"]


async def test_two_in_one_reply_are_one_too_many(model_server, trusted):
    model_server.enqueue(None, calls=[mail(1, "first"), mail(1, "second")])
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    assert [event.message for event in events if isinstance(event, DMailEvent)] == ["first"]
    assert [call.status for call in events[-1].record.calls] == ["ok", "error"]
    assert "on its way already" in events[-1].record.calls[1].output


async def test_after_three_there_are_no_more_until_the_next_turn(model_server, trusted):
    for number in range(4):
        model_server.enqueue(f"Try {number}.", calls=[mail(1, f"message {number}")])
    model_server.enqueue("Done.")
    events = await run_turn(trusted)
    assert [e.message for e in events if isinstance(e, DMailEvent)] == [f"message {number}" for number in range(3)]
    last = events[-1].record.calls[-1]
    assert (last.status, last.output) == (
        "error",
        "3 D-Mails were sent in this turn; there will be no more. Continue from here.",
    )
    await assert_resumes(trusted)
    again = await resumed(trusted)
    shown = len(model_server.requests)
    model_server.enqueue("Anew.", calls=[mail(6)])
    model_server.enqueue("Done.")
    events = await run_turn(again, "two")
    (mine,) = [e.checkpoint_id for e in events if isinstance(e, CheckpointEvent) and e.kind == "step"][:1]
    assert CHECKPOINT.format(mine) in contents(model_server.requests[shown])[-1]
    await again.aclose()


async def test_a_refusal_without_a_word_discards_it(model_server, config):
    agent = Agent(config)

    async def refuse(request):
        return ApprovalDecision(False)

    agent.set_ask(refuse)
    model_server.enqueue(None, calls=[mail(1), tool_call("bash", command="touch x")])
    events = await run_turn(agent)
    assert [call.status for call in events[-1].record.calls] == ["ok", "refused"]
    assert events[-1].record.outcome == "stopped"
    assert not [event for event in events if isinstance(event, DMailEvent)]
    model_server.enqueue("Hello.")
    events = await run_turn(agent, "and now")
    assert not [event for event in events if isinstance(event, DMailEvent)]
    assert agent.turns[1].steps[0].dmail is None
    await agent.aclose()


async def test_a_compaction_in_between_is_not_in_the_past(model_server, config):
    config.models[0].context_window = 10_000
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    model_server.enqueue("I look.", calls=[LOOK], usage={"prompt_tokens": 100})
    model_server.enqueue("Again.", calls=[WRITE], usage={"prompt_tokens": 9_500})
    model_server.enqueue("A summary.", usage={"prompt_tokens": 10})
    model_server.enqueue("Back.", calls=[mail(2)], usage={"prompt_tokens": 200})
    model_server.enqueue("Done.", usage={"prompt_tokens": 100})
    ended = (await run_turn(agent, "look"))[-1]
    assert isinstance(ended, TurnEndEvent)
    assert (ended.record.outcome, len(ended.record.compactions)) == ("done", 1)
    assert contents(model_server.requests[-1])[:2] == [f"look\n\n[kin_nb: {CHECKPOINT.format(1)}]", "I look."]
    await assert_resumes(agent)


async def test_a_later_compaction_does_not_take_the_mail_for_the_persons_words(model_server, trusted):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("Back.", calls=[mail(1, "the secret of the mail")])
    model_server.enqueue("Done.")
    await run_turn(trusted, "look for me")
    assert (trusted.messages[1].content, trusted.messages[1].note) == ("look for me", "")
    again = await resumed(trusted)
    for number in range(6):
        model_server.enqueue(f"Answer {number}.")
        await run_turn(again, f"question {number}")
    model_server.enqueue("A summary.")
    await again.compact()
    assert "look for me" in again.messages[1].content
    assert "the secret of the mail" not in again.messages[1].content
    await again.aclose()


async def test_the_checkpoints_shown_are_those_that_can_be_gone_back_to(model_server, trusted):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("Done.")
    await run_turn(trusted)
    shown = [re.findall(r"Checkpoint (\d+) is here", str(request["messages"])) for request in model_server.requests]
    assert shown == [["1"], ["1", "2"]]
    assert all("Checkpoints" not in (message.content or "") for message in trusted.messages)
