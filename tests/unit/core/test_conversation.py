"""Conversation: what each way of moving it does to messages, size, notes, loops and middleware (the table in its module)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.middleware import MiddlewareResult, ResetReason
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import BEFORE_PROMPT, Ref
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

USAGE = {"prompt_tokens": 900, "completion_tokens": 100}
LESS = {"prompt_tokens": 90, "completion_tokens": 10}


class Told:
    """Middleware that keeps why it was reset."""

    def __init__(self) -> None:
        self.reasons: list[ResetReason] = []

    async def before_turn(self, context) -> MiddlewareResult:
        return MiddlewareResult()

    async def after_turn(self, context) -> MiddlewareResult:
        return MiddlewareResult()

    def reset(self, reset_reason: ResetReason = ResetReason.STOP) -> None:
        self.reasons.append(reset_reason)


@dataclass
class Talk:
    """Two turns of 100 and 1,000 tokens, with a note and a reminder for the next request."""

    agent: Agent
    server: ModelServer
    told: Told

    @property
    def said(self) -> list[str | None]:
        return [message.content for message in self.agent.messages[1:]]

    @property
    def tokens(self) -> int:
        return self.agent.stats.context_tokens


@pytest.fixture
async def talk(model_server, config) -> AsyncIterator[Talk]:
    agent, told = Agent(config, AgentMode.AUTO_APPROVE), Told()
    agent.middleware_pipeline.add(told)
    for prompt, usage in (("one", LESS), ("two", USAGE)):
        model_server.enqueue(f"Answer to {prompt}.", usage=usage)
        await run_turn(agent, prompt)
    agent.conversation.notes += ["a note", "a reminder"]
    agent.conversation.reminders.append("a reminder")
    yield Talk(agent, model_server, told)
    await agent.aclose()


async def clear(talk: Talk) -> None:
    await talk.agent.clear_history()


async def compact(talk: Talk) -> None:
    talk.server.enqueue("A summary.")
    await talk.agent.compact()


async def undo(talk: Talk) -> None:
    await talk.agent.undo()


async def redo(talk: Talk) -> None:
    await talk.agent.undo()
    talk.agent.conversation.notes.append("a note")
    talk.told.reasons.clear()
    await talk.agent.redo()


async def rewind(talk: Talk) -> None:
    conversation, turn = talk.agent.conversation, talk.agent.turns[1]
    conversation.rewind(conversation.checkpoints.at(Ref(id=turn.id, step=1)), "it is in b.py")


ONE, TWO = ["one", "Answer to one."], ["two", "Answer to two."]
WAYS: dict[Callable, tuple[list[str], int, bool, ResetReason]] = {
    clear: ([], 0, False, ResetReason.STOP),
    undo: (ONE, 100, False, ResetReason.COMPACT),
    redo: (ONE + TWO, 1_000, False, ResetReason.COMPACT),
    rewind: ([*ONE, "two", "it is in b.py"], 100, False, ResetReason.COMPACT),
}
"""What it leaves: the messages, the tokens, whether notes stay; and why middleware begins again."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_each_way_of_moving_the_conversation_resets_what_the_table_says(talk, way):
    said, tokens, notes, reason = WAYS[way]
    await way(talk)
    assert [text.rpartition("\n")[2] for text in talk.said] == said
    assert talk.tokens == tokens
    assert bool(talk.agent.conversation.notes or talk.agent.conversation.reminders) is notes
    assert talk.told.reasons == [reason]


async def test_a_compaction_keeps_the_notes_for_the_next_request(talk):
    await compact(talk)
    assert len(talk.said) == 1
    assert "A summary." in talk.said[0]
    assert talk.tokens == talk.agent.moves[-1].compaction.new_tokens > 0
    assert talk.agent.conversation.notes == ["a note", "a reminder"]
    assert talk.agent.conversation.reminders == ["a reminder"]
    assert talk.told.reasons == [ResetReason.COMPACT]
    talk.server.enqueue("Fine.")
    await run_turn(talk.agent, "three")
    assert "[kin_nb: a note\n\na reminder]" in talk.server.requests[-1]["messages"][-1]["content"]
    assert talk.agent.conversation.notes == talk.agent.conversation.reminders == []
    assert talk.agent.turns[-1].steps[0].reminder == "a reminder"


async def test_a_resume_has_the_messages_and_the_size_and_no_notes(talk):
    await talk.agent.aclose()
    again = Agent.resume(talk.agent.base_config, mode=AgentMode.AUTO_APPROVE)
    assert again.messages[1:] == talk.agent.messages[1:]
    assert again.stats.context_tokens == 1_000
    assert again.conversation.notes == again.conversation.reminders == []
    assert again.conversation.lineage.position == talk.agent.conversation.lineage.position
    await again.aclose()


async def test_loop_detection_begins_again(subtests, talk):
    for way in [*WAYS, compact]:
        with subtests.test(way=way):
            for _ in range(3):
                talk.agent.parts.loop_guard.detector.observe(
                    "bash", '{"command": "make"}', "failed", ok=False, call_id="c"
                )
            await way(talk)
            found = [
                talk.agent.parts.loop_guard.detector.observe(
                    "bash", '{"command": "make"}', "failed", ok=False, call_id=str(n)
                )
                for n in range(2)
            ]
            assert found == [None, None]


async def test_after_an_undo_the_warning_about_the_context_comes_again(model_server, config):
    own = config.model_copy(update={"context_warnings": True, "auto_compact_threshold": 0})
    agent = Agent(own, AgentMode.AUTO_APPROVE)
    full = {"prompt_tokens": agent.config.get_active_model().context_window * 6 // 10, "completion_tokens": 10}

    async def filled(prompt: str) -> bool:
        """Whether the model was told that the context fills up."""
        model_server.enqueue(calls=[tool_call("read_file", path="a.py")], usage=full)
        model_server.enqueue("Done.", usage=full)
        await run_turn(agent, prompt)
        return bool(agent.turns[-1].steps[-1].injected)

    assert await filled("one")
    assert not await filled("two"), "said once"
    await agent.undo(2)
    assert await filled("three")
    await agent.aclose()


async def test_a_snapshot_is_the_conversation_at_one_moment(talk):
    conversation, turn = talk.agent.conversation, talk.agent.turns[1]
    now = conversation.snapshot()
    before = conversation.snapshot_at(Ref(id=turn.id, step=BEFORE_PROMPT))
    conversation.restore(before)
    assert talk.said == ONE
    assert conversation.lineage.head == talk.agent.turns[0].head
    conversation.restore(now)
    assert talk.said == ONE + TWO
    assert conversation.lineage.head == turn.head
    assert conversation.snapshot() == now
