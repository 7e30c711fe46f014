"""Why a turn ended early, as a value in its record and in what is read from its log: no text has to be read for it."""

from __future__ import annotations

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.middleware import BuiltinMiddleware, MiddlewareAction, MiddlewareResult
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import TurnRecord
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.core.session.store import StoredSession
from kin_nb.core.stopping import ADVICE, CUT_OFF, refused, too_many_steps
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

LOOK = tool_call("read_file", path="a.py")


async def ended(agent: Agent) -> TurnRecord:
    """The turn's record, which its log has too."""
    record = (await run_turn(agent))[-1].record
    (stored,) = StoredSession.read(agent.log.folder).turns
    assert stored.stop_reason == record.stop_reason
    return record


async def test_a_turn_that_ends_well_has_none(model_server, agent):
    model_server.enqueue("Hello.")
    assert (await ended(agent)).stop_reason == ""


@pytest.mark.parametrize(("limit", "reason"), [({"max_turns": 1}, "max_turns"), ({"max_price": 0.001}, "price")])
async def test_limits_of_the_session(model_server, config, limit, reason):
    agent = Agent(config, AgentMode.AUTO_APPROVE, **limit)
    model_server.enqueue(calls=[LOOK], usage={"prompt_tokens": 6_000, "completion_tokens": 0})
    record = await ended(agent)
    assert (record.outcome, record.stop_reason) == ("stopped", reason)
    await agent.aclose()


async def test_the_limit_of_steps_in_a_turn(model_server, config):
    agent = Agent(config.model_copy(update={"max_steps_per_turn": 1}))
    model_server.enqueue(calls=[LOOK])
    record = await ended(agent)
    assert (record.stop_reason, record.message) == ("max_steps", too_many_steps(1).message)
    await agent.aclose()


async def test_a_reply_that_was_cut_off(model_server, agent):
    model_server.enqueue("And then the", finish_reason="length")
    record = await ended(agent)
    assert (record.stop_reason, record.message) == ("cut_off", CUT_OFF.message)


async def test_a_refusal_without_a_word(model_server, agent):
    async def refuse(_) -> ApprovalDecision:
        return ApprovalDecision(False, by="person")

    agent.set_ask(refuse)
    model_server.enqueue(calls=[tool_call("bash", command="touch b")])
    record = await ended(agent)
    assert (record.stop_reason, record.message) == ("refused", refused("bash").message)


@pytest.mark.parametrize(
    "replies", [[{"calls": [LOOK]}] * 8, [{"text": "I look at the file and go on with it. " * 400}]]
)
async def test_a_model_that_goes_in_circles(model_server, agent, replies):
    for reply in replies:
        model_server.enqueue(**reply)
    record = await ended(agent)
    assert (record.outcome, record.stop_reason) == ("stopped", "loop")


async def test_a_reminder_is_in_the_record_apart_from_the_other_notes(model_server, config):
    agent = Agent(config, AgentMode.PLAN)
    for _ in range(3):
        model_server.enqueue(calls=[LOOK])
    model_server.enqueue("I stop.")
    *before, last = (await ended(agent)).steps
    assert [step.reminder for step in before] == [""] * 3
    assert last.reminder.startswith("You repeat yourself: the same call 3 times in a row")
    assert before[0].injected.startswith("plan mode is on.")
    assert last.injected == last.reminder
    await agent.aclose()


@pytest.mark.parametrize(("said", "reason"), [({}, "middleware"), ({"stop_reason": "what it likes"}, "middleware")])
async def test_middleware_of_a_program(model_server, agent, said, reason):
    class Stops(BuiltinMiddleware):
        async def before_turn(self, context) -> MiddlewareResult:
            return MiddlewareResult(MiddlewareAction.STOP, reason="limit of 1 model request reached", **said)

    agent.middleware_pipeline.add(Stops())
    record = await ended(agent)
    assert (record.stop_reason, record.message) == (reason, "limit of 1 model request reached")


async def test_an_error_of_kin_nb_itself(agent, monkeypatch):
    async def broken() -> list[str]:
        raise KeyError("x")

    monkeypatch.setattr(agent.toolset, "connect", broken)
    with pytest.raises(KeyError):
        await run_turn(agent)
    assert (agent.turns[0].outcome, agent.turns[0].stop_reason) == ("error", "crash")


def test_advice_is_what_a_message_ends_with():
    for stop in (too_many_steps(1), refused("bash"), CUT_OFF):
        assert stop.message.endswith(f"; {ADVICE[stop.reason]}")
