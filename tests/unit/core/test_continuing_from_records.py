"""An agent that continues after recorded turns: they stay as they were recorded, and what it makes comes after all of them."""

from __future__ import annotations

from kin_nb.core.agent import Agent
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import CompactRecord, RecordedCompaction, RecordedStep, Ref, TurnRecord
from kin_nb.core.session.store import SessionStore
from tests.unit.core.conftest import run_turn


def recorded(number: int, name: str, **fields) -> TurnRecord:
    steps = (RecordedStep(content=f"Answer to {name}."),)
    return TurnRecord(id=name * 16, turn=number, prompt=name, outcome="done", steps=steps, **fields)


ONE = recorded(1, "a", seq=1, key="k", cell_id="c")
TWO = recorded(1, "b", seq=4, parent=ONE.head, ancestors=(ONE.id,))
"""Its number is that of the first, as after a merge."""
BESIDE = recorded(9, "c", seq=6, parent=ONE.head, ancestors=(ONE.id,))
"""Of another branch: known, and not gone on from."""
COMPACTION = RecordedCompaction(summary="A and b were said.", summarised=4, prompt_tokens=30, new_tokens=9)
COMPACT = CompactRecord(
    id="d" * 16, parent=TWO.head, ancestors=(TWO.id, ONE.id), seq=5, key="kc", cell_id="cc", compaction=COMPACTION
)


def going_on(trusted: Agent, *more: CompactRecord) -> Agent:
    trusted.continue_from([ONE, TWO, *more], known=[ONE, TWO, BESIDE], last=9)
    return trusted


async def test_what_was_recorded_stays_as_it_was_recorded(trusted, model_server):
    agent = going_on(trusted)
    model_server.enqueue("On.")
    await run_turn(agent, "go on")
    *before, new = agent.records
    assert before == [ONE, TWO]
    assert (new.turn, new.seq, new.parent, new.ancestors) == (10, 7, TWO.head, (TWO.id, ONE.id))
    said = [message["content"] for message in model_server.requests[-1]["messages"][1:]]
    assert said == ["a", "Answer to a.", "b", "Answer to b.", "go on"]


async def test_the_log_has_the_continued_records_before_its_own(trusted, model_server):
    agent = going_on(trusted)
    model_server.enqueue("On.")
    await run_turn(agent, "go on")
    await agent.undo()
    await agent.clear_history(key="k", cell_id="c")
    await agent.aclose()
    stored = SessionStore.from_config(agent.config.session_logging).find(agent.log.session_id)
    assert [*stored.records[:2]] == [ONE, TWO]
    assert [*stored.moves] == agent.moves
    assert [*stored.records[2:]] == agent.records[2:]
    assert [record.type for record in stored.records] == ["turn", "turn", "turn", "undo", "clear"]


async def test_a_compaction_that_the_conversation_ends_with_comes_before_the_next_turn(trusted, model_server):
    agent = going_on(trusted, COMPACT)
    resumed = await resumed_after(agent)
    for each in (resumed, going_on(Agent(agent.base_config, AgentMode.AUTO_APPROVE), COMPACT)):
        model_server.enqueue("On.")
        await run_turn(each, "go on")
        assert (each.turns[-1].parent, each.turns[-1].ancestors) == (Ref(id=COMPACT.id), (COMPACT.id, TWO.id, ONE.id))
        assert COMPACT in each.records
        assert COMPACTION.summary in model_server.requests[-1]["messages"][1]["content"]
        await each.aclose()


async def resumed_after(agent: Agent) -> Agent:
    await agent.aclose()
    return Agent.resume(agent.base_config, agent.log.session_id, mode=AgentMode.AUTO_APPROVE)
