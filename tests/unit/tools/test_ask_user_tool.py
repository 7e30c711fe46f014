"""ask_user: the question, who answers it, and what an answer on stdin means."""

from __future__ import annotations

import json

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.modes import AgentMode
from kin_nb.core.questions import Question, no_user
from kin_nb.core.tool_types import BaseToolConfig, ToolError, ToolPermission
from kin_nb.core.tools.builtins.ask_user import AskUser, AskUserConfig
from kin_nb.notebook.approval.question import ask_question_by_stdin, prompt_text, read_reply
from tests.model_server import tool_call

DATABASE = Question("Which database?", ("SQLite", "Postgres"))


@pytest.fixture
def tool() -> AskUser:
    return AskUser.from_config(AskUserConfig())


@pytest.fixture
async def agent(model_server, workspace):
    agent = Agent(
        KinConfig(
            workdir=workspace,
            active_model="m",
            providers=[ProviderConfig(name="p", api_base=model_server.url)],
            models=[ModelConfig(name="m", provider="p")],
        ),
        AgentMode.PLAN,
    )
    agent.tool_manager.register({"ask_user": AskUser})
    yield agent
    await agent.aclose()


async def turn(agent, model_server, **asked: object):
    model_server.enqueue(calls=[tool_call("ask_user", **asked)])
    model_server.enqueue("Fine.")
    async for _ in agent.act("go"):
        pass
    return agent.turns[-1].calls[0]


async def test_the_answer_is_the_result_unasked_in_every_mode(agent, model_server):
    questions = []

    async def answer(question: Question) -> str:
        questions.append(question)
        return "SQLite"

    agent.approvals.ask_question = answer
    call = await turn(agent, model_server, question=" Which database? ", choices=["SQLite", "Postgres"])
    assert questions == [Question("Which database?", ("SQLite", "Postgres"), multiple=False, call_id=call.id)]
    assert (call.status, call.output, call.summary) == ("ok", "SQLite", "Which database?")
    assert agent.messages[-2].content == "SQLite"


async def test_where_no_one_can_be_asked_the_model_is_shown_to_decide(agent, model_server):
    call = await turn(agent, model_server, question="Which?")
    assert call.status == "error"
    assert call.output == "No one can be asked here. Decide yourself, and say what you assumed."


async def test_outside_a_session_no_one_answers(tool):
    with pytest.raises(ToolError, match="No one can be asked"):
        await tool.invoke(question="Which?")
    with pytest.raises(ToolError, match="No one can be asked"):
        await no_user(DATABASE)


def test_a_question_that_cannot_be_shown_is_not_asked(subtests, tool):
    for number, (args, reason) in enumerate(
        [
            ({"question": " "}, "question.*must have 1 to 4,000 characters, got 0"),
            ({"question": "x" * 4_001}, "1 to 4,000 characters, got 4,001"),
            ({"question": "q", "choices": [str(n) for n in range(7)]}, "at most 6"),
            ({"question": "q", "choices": ["a", " "]}, "one line of 1 to 200"),
            ({"question": "q", "choices": ["a\nb"]}, "one line of 1 to 200"),
            ({"question": "q", "choices": ["a" * 201]}, "one line of 1 to 200"),
            ({"question": "q", "choices": ["a", "a "]}, "two choices are the same"),
        ]
    ):
        with subtests.test(number=number), pytest.raises(ToolError, match=reason):
            tool.parse_args(args)


def test_it_touches_nothing_and_needs_no_approval(tool):
    args = tool.parse_args({"question": "Which?"})
    assert tool.accesses(args).only_reads
    assert tool.config.permission is ToolPermission.ALWAYS
    assert AskUser.from_config(BaseToolConfig(permission=ToolPermission.NEVER)).config.permission == "never"


def test_what_the_model_is_shown_takes_little_room():
    info = AskUser.get_info()
    assert len(f"{info.name}{info.description}{json.dumps(info.parameters)}".encode()) < 800


def test_a_line_is_a_choice_or_an_answer_of_ones_own(subtests):
    for typed, choices, answer in [
        ("1", ("a", "b"), "a"),
        (" 2) ", ("a", "b"), "b"),
        ("2.", ("a", "b"), "b"),
        ("B", ("a", "b"), "b"),
        ("b", ("B", "b"), "b"),
        ("3", ("a", "b"), "3"),
        ("0", ("a", "b"), "0"),
        ("²", ("a", "b"), "²"),
        ("1", (), "1"),
        ("2", ("2", "4"), "2"),
        ("8", ("2", "4"), "8"),
        ("1, 2", ("a", "b"), "1, 2"),
        ("neither of these", ("a", "b"), "neither of these"),
        ("  ", ("a", "b"), ""),
    ]:
        with subtests.test(typed=typed, choices=choices, answer=answer):
            assert read_reply(typed, Question("?", choices)) == answer


def test_several_may_be_chosen(subtests):
    for typed, answer in [
        ("1,3", "a\nc, d"),
        ("3, a,", "c, d\na"),
        ("1,1", "a"),
        ("2", "b"),
        ("c, d", "c, d"),
        ("1, 7", "1, 7"),
        ("a and b", "a and b"),
        (",", ""),
    ]:
        with subtests.test(typed=typed, answer=answer):
            assert read_reply(typed, Question("?", ("a", "b", "c, d"), multiple=True)) == answer


def test_the_prompt_numbers_the_choices_and_hides_nothing():
    assert prompt_text(DATABASE) == (
        "The agent asks:\n  Which database?\n  1) SQLite\n  2) Postgres\nanswer or number: "
    )
    question = Question("a\n\x1b[2Jb\u202ec", ("x\u200by",), multiple=True)
    assert prompt_text(question) == (
        "The agent asks:\n  a\n  ⟨U+001B⟩[2Jb⟨U+202E⟩c\n  1) x⟨U+200B⟩y\nanswer, or numbers with commas: "
    )
    assert prompt_text(Question("Name?")).endswith("Name?\nanswer: ")


async def typed(*lines: str) -> str:
    """What `ask_question_by_stdin` makes of these lines."""
    left = list(lines)

    async def submit_main(_):
        return left.pop(0)

    answer = await ask_question_by_stdin(DATABASE, submit_main)
    assert left == []
    return answer


async def test_an_empty_line_asks_again_but_not_forever():
    assert await typed("", " ", "2") == "Postgres"
    with pytest.raises(ToolError, match="gave no answer"):
        await typed("", "", "")
