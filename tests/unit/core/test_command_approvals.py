"""An approval of a line of several commands, in a session with a model."""

from __future__ import annotations

import tomllib

from kin_nb.core.agent import Agent
from kin_nb.core.paths import kin_home
from kin_nb.core.safety.decision import ApprovalDecision, ApprovalRequest, Risk
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn


async def asked_about(agent: Agent, model_server, answers: list[ApprovalDecision], lines: list[str]):
    """The questions of a turn in which the model runs the lines one by one, and the recorded calls."""
    questions: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> ApprovalDecision:
        questions.append(request)
        return answers[len(questions) - 1]

    agent.set_ask(ask)
    for line in lines:
        model_server.enqueue(calls=[tool_call("bash", command=line)])
    model_server.enqueue("Done.")
    return questions, (await run_turn(agent))[-1].record.calls


async def test_one_question_covers_several_commands_and_later_lines_of_them(model_server, agent, workspace):
    lines = [
        "mkdir one && touch two 2>&1",
        "timeout 20 mkdir -p three; echo $?",
        "CI=1 touch four | tail",
        "touch five && rm a.py",
    ]
    answers = [ApprovalDecision(True, scope="session"), ApprovalDecision(False, "keep it")]
    questions, calls = await asked_about(agent, model_server, answers, lines)
    assert [question.args.command for question in questions] == [lines[0], lines[3]]
    assert [grant.label for grant in questions[0].scopes] == [
        "commands that start with `mkdir`; commands that start with `touch`",
        "exactly this command",
    ]
    assert [call.decision.scope for call in calls] == ["session", "once", "once", "once"]
    assert calls[1].decision.reason == "approved for this session: commands that start with `mkdir`"
    assert (workspace / "four").exists()
    assert not (workspace / "five").exists()


async def test_always_for_several_commands_writes_a_rule_for_each(model_server, agent):
    _, calls = await asked_about(
        agent, model_server, [ApprovalDecision(True, scope="always")], ["mkdir one && touch two"]
    )
    assert calls[0].decision.scope == "always"
    tools = tomllib.loads((kin_home() / "config.toml").read_text())["tools"]
    assert tools["bash"]["allowlist"] == ["mkdir", "touch"]


async def test_a_test_run_is_asked_about_without_the_words_high_risk(model_server, agent):
    questions, _ = await asked_about(
        agent, model_server, [ApprovalDecision(False, "no")] * 2, ["pytest --version", "pytest -p evil"]
    )
    assert [question.risk for question in questions] == [Risk.MEDIUM, Risk.HIGH]
