"""A history that someone else put together is fixed before it is sent; one that is in order costs nothing."""

from __future__ import annotations

from kin_nb.core.context.history import UNANSWERED, repaired
from kin_nb.core.messages import FunctionCall, LLMMessage, Role, ToolCall
from tests.unit.core.conftest import run_turn


def said(role: str, content: str | None = None, *, calls: str = "", of: str | None = None) -> LLMMessage:
    """`calls`: one letter for the id of each tool call."""
    wanted = [ToolCall(id=c, function=FunctionCall(name="t", arguments="{}")) for c in calls]
    return LLMMessage(role=Role(role), content=content, tool_calls=wanted or None, tool_call_id=of)


def outline(messages: list[LLMMessage]) -> str:
    return " ".join(f"{m.role.value[0]}{m.tool_call_id or ''}" for m in messages)


def test_every_call_is_answered_once_and_right_after_it(subtests):
    for messages, expected in [
        ([said("user", "x"), said("assistant", "y")], "u a"),
        ([said("user"), said("assistant", calls="ab"), said("tool", "1", of="a")], "u a ta tb"),
        (
            [said("user"), said("assistant", calls="ab"), said("tool", "2", of="b"), said("tool", "1", of="a")],
            "u a ta tb",
        ),
        ([said("user"), said("tool", "1", of="z"), said("assistant", "y")], "u a"),
        ([said("assistant", calls="a"), said("tool", "1", of="a"), said("tool", "2", of="a")], "a ta"),
        ([said("assistant", calls="a"), said("user", "stop"), said("tool", "late", of="a")], "a ta u"),
        ([said("user"), said("assistant"), said("user")], "u u"),
        ([said("user"), said("assistant", "")], "u"),
    ]:
        with subtests.test(messages=messages, expected=expected):
            assert outline(repaired(messages)) == expected


def test_a_missing_answer_says_so_and_the_rest_are_the_same_objects():
    messages = [said("user", "x"), said("assistant", calls="a"), said("user", "y")]
    mended = repaired(messages)
    assert mended[2].content == UNANSWERED
    assert [mended[0], mended[1], mended[3]] == messages
    assert mended[3] is messages[2]


async def test_messages_that_were_added_are_fixed_before_the_next_request(model_server, agent):
    agent.add_message(said("user", "earlier"))
    agent.add_message(said("assistant", calls="a"))
    model_server.enqueue("I see.")
    await run_turn(agent, "and now?")  # the server refuses a call without an answer
    sent = model_server.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "user"]
    assert model_server.violations == []


async def test_a_message_appended_to_the_list_itself_is_seen_too(model_server, agent):
    agent.messages.append(said("tool", "of nothing", of="x"))
    model_server.enqueue("I see.")
    await run_turn(agent, "and now?")
    assert [m["role"] for m in model_server.requests[0]["messages"]] == ["system", "user"]
    assert [m.role for m in agent.messages] == ["system", "user", "assistant"]
