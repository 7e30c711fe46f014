"""Walking a flow: with a real agent and a model server, and with turns made up where only their end matters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.events import AssistantEvent, BaseEvent, ErrorEvent, FlowStepEvent, TurnEndEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import Outcome, RecordedStep, TurnRecord
from kin_nb.core.skills.flows import Flow, FlowRunner, read_flow
from kin_nb.core.skills.flows.runner import answered, choice, question
from tests.model_server import ModelServer, tool_call
from tests.table import each_row

STRAIGHT = "flowchart TD\nBEGIN --> look[Look at a.py.] --> tell[Tell what it does.] --> END"
LOOPING = """flowchart TD
BEGIN --> write[Write a line into log.txt.]
write --> enough{Are there two lines in log.txt?}
enough -->|Yes| END
enough -->|not yet| write
"""


def flow_of(folder: Path, diagram: str) -> Flow:
    path = folder / "f" / "SKILL.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"---\nname: f\ndescription: d\ntype: flow\n---\n```mermaid\n{diagram}\n```\n")
    return read_flow(path)


def steps(events: list[BaseEvent]) -> list[str]:
    return [f"{event.move} {event.node}" for event in events if isinstance(event, FlowStepEvent)]


@pytest.fixture
async def agent(model_server: ModelServer, config: KinConfig) -> AsyncIterator[Agent]:
    provider = ProviderConfig(name="p", api_base=model_server.url)
    settings = {"active_model": "m", "providers": [provider], "models": [ModelConfig(name="m", provider="p")]}
    agent = Agent(config.model_copy(update=settings), AgentMode.AUTO_APPROVE)
    yield agent
    await agent.aclose()


async def test_a_straight_flow_is_a_turn_for_each_node_in_one_conversation(model_server, agent, tmp_path):
    model_server.enqueue("It adds.")
    model_server.enqueue("It adds two numbers.")
    events = [event async for event in FlowRunner(flow_of(tmp_path, STRAIGHT), agent.act).run(" Be brief. ")]
    assert steps(events) == ["1 Look at a.py.", "2 Tell what it does.", "3 END"]
    assert isinstance(events[-1], FlowStepEvent)
    assert [turn.prompt for turn in agent.turns] == ["Look at a.py.\n\nBe brief.", "Tell what it does."]
    assert [turn.outcome for turn in agent.turns] == ["done", "done"]
    sent = [message["content"] for message in model_server.requests[1]["messages"][1:]]
    assert sent == ["Look at a.py.\n\nBe brief.", "It adds.", "Tell what it does."]


async def test_a_decision_leads_round_until_it_leads_out(model_server, agent, tmp_path):
    append = tool_call("bash", command="echo line >> log.txt")
    for answer in (
        "There is one. <choice>NOT  yet</choice>",
        "I see <choice>not yet</choice>? No: <choice>yes</choice>",
    ):
        model_server.enqueue(calls=[append])
        model_server.enqueue("Written. <choice>Yes</choice>")  # no decision: nobody asked
        model_server.enqueue(answer)
    events = [event async for event in FlowRunner(flow_of(tmp_path, LOOPING), agent.act).run()]
    enough, write = "Are there two lines in log.txt?", "Write a line into log.txt."
    assert steps(events) == [f"1 {write}", f"2 {enough}", f"3 {write}", f"4 {enough}", "5 END"]
    assert (agent.workspace.root / "log.txt").read_text() == "line\nline\n"
    assert agent.turns[1].prompt == (
        f"{enough}\n\nEnd your reply with the one of these lines that applies:\n"
        "<choice>Yes</choice>\n<choice>not yet</choice>"
    )


async def test_a_wrong_choice_is_asked_again_and_may_then_be_right(model_server, agent, tmp_path):
    model_server.enqueue("Done.")
    for answer in ("I think so.", "<choice>perhaps</choice>", "<choice> yes </choice>"):
        model_server.enqueue(answer)
    events = [event async for event in FlowRunner(flow_of(tmp_path, LOOPING), agent.act).run()]
    assert steps(events)[-1] == "3 END"
    assert agent.turns[2].prompt.startswith(
        "Your reply names no choice. End it with exactly one of these lines:\n<choi"
    )
    assert agent.turns[3].prompt.startswith("Your reply chooses “perhaps”, which is none of the choices. End it with")


async def test_a_choice_that_stays_wrong_stops_the_flow(model_server, agent, tmp_path):
    for _ in range(5):
        model_server.enqueue("<choice>perhaps</choice>")
    events = [event async for event in FlowRunner(flow_of(tmp_path, LOOPING), agent.act).run()]
    assert len(model_server.requests) == 5
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].message == (
        "The flow f stopped at “Are there two lines in log.txt?”: the model was asked 4 times and chose none of "
        "“Yes”, “not yet”."
    )


async def test_a_turn_that_fails_ends_the_flow_and_says_why(model_server, agent, tmp_path):
    model_server.enqueue(status=401, body={"error": {"message": "no such key"}})
    events = [event async for event in FlowRunner(flow_of(tmp_path, STRAIGHT), agent.act).run()]
    assert steps(events) == ["1 Look at a.py."]
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].message.startswith("The flow f stopped at “Look at a.py.”: its turn did not end well (error: ")
    assert len(agent.turns) == 1


async def test_a_flow_that_is_left_leaves_its_turn_closed(model_server, agent, tmp_path):
    model_server.enqueue("A longer answer that comes in several pieces, one after the other.")
    async with aclosing(FlowRunner(flow_of(tmp_path, STRAIGHT), agent.act).run()) as events:
        async for event in events:
            if isinstance(event, AssistantEvent):
                break
    assert agent.turns[0].outcome == "interrupted"
    assert not agent.busy


def acting(*replies: str, outcome: Outcome = "done", message: str = "", steps: int = 1):
    """Turns that end with these replies, the last of them again and again; and the prompts that they were given."""
    prompts: list[str] = []

    async def act(prompt: str) -> AsyncGenerator[BaseEvent, None]:
        prompts.append(prompt)
        reply = replies[min(len(prompts), len(replies)) - 1]
        recorded = tuple(RecordedStep(content=reply) for _ in range(steps))
        yield TurnEndEvent(record=TurnRecord(turn=1, prompt=prompt, steps=recorded, outcome=outcome, message=message))

    return act, prompts


async def test_moves_are_bounded(tmp_path):
    act, prompts = acting("<choice>not yet</choice>")
    events = [event async for event in FlowRunner(flow_of(tmp_path, LOOPING), act).run()]
    assert len(prompts) == 100
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].message == (
        "The flow f stopped at “Write a line into log.txt.”: 100 moves were made and END was not reached."
    )


async def test_as_many_moves_as_it_takes_are_enough(tmp_path):
    act, _ = acting("Done.")
    events = [event async for event in FlowRunner(flow_of(tmp_path, STRAIGHT), act, max_moves=2).run()]
    assert steps(events)[-1] == "3 END"
    events = [event async for event in FlowRunner(flow_of(tmp_path, STRAIGHT), act, max_moves=1).run()]
    assert isinstance(events[-1], ErrorEvent)


@pytest.mark.parametrize(
    ("outcome", "message", "said"),
    [
        ("stopped", "you refused bash", "its turn did not end well (stopped: you refused bash)."),
        ("interrupted", "", "its turn did not end well (interrupted)."),
    ],
)
async def test_a_turn_that_is_stopped_ends_the_flow(tmp_path, outcome, message, said):
    act, prompts = acting("", outcome=outcome, message=message)
    events = [event async for event in FlowRunner(flow_of(tmp_path, STRAIGHT), act).run()]
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].message.endswith(said)
    assert len(prompts) == 1


async def test_a_turn_without_an_end_or_without_a_reply_is_no_choice(tmp_path):
    async def endless(prompt: str) -> AsyncGenerator[BaseEvent, None]:
        yield AssistantEvent(content=prompt)

    events = [event async for event in FlowRunner(flow_of(tmp_path, STRAIGHT), endless).run()]
    assert isinstance(events[-1], ErrorEvent)
    act, prompts = acting("", steps=0)
    events = [event async for event in FlowRunner(flow_of(tmp_path, LOOPING), act).run()]
    assert isinstance(events[-1], ErrorEvent)
    assert len(prompts) == 5


async def test_the_request_goes_with_the_first_prompt_alone_be_it_a_decision(tmp_path):
    flow = flow_of(tmp_path, "graph TD\nBEGIN --> a{Which?} -->|x| b --> END\na -->|y| END")
    act, prompts = acting("<choice>x</choice>")
    async for _ in FlowRunner(flow, act).run("The request."):
        pass
    assert prompts[0].startswith("Which?\n\nThe request.\n\nEnd your reply with")
    assert prompts[1] == "b"


async def test_one_runner_may_run_again(tmp_path):
    act, prompts = acting("Done.")
    runner = FlowRunner(flow_of(tmp_path, STRAIGHT), act)
    for request in ("one", "two"):
        async for _ in runner.run(request):
            pass
    assert prompts == ["Look at a.py.\n\none", "Tell what it does.", "Look at a.py.\n\ntwo", "Tell what it does."]


@each_row(
    ("reply", "answer"),
    [
        ("", None),
        ("yes", None),
        ("<choice>yes", None),
        ("yes</choice>", None),
        ("<choice>yes</choice>", "yes"),
        ("<CHOICE>\n yes,\n please </Choice> indeed", "yes, please"),
        ("<choice>a</choice> no, <choice>b</choice>", "b"),
        ("<choice>a</choice> no, <choice>b", "a"),
        ("<choice>a <choice>b</choice></choice>", "b"),
        ("<choice></choice>", ""),
        ("<choice>a < b</choice>", "a < b"),
    ],
)
def test_what_a_reply_chooses(reply, answer):
    assert answered(reply) == answer


def test_case_matters_only_where_labels_differ_in_case_alone(tmp_path):
    flow = flow_of(tmp_path, "graph TD\nBEGIN --> a -->|Yes| END\na -->|yes| a\na -->|No| a")
    node = flow.nodes["a"]
    for answer, label in (("Yes", "Yes"), ("yes", "yes"), ("YES", None), ("nO", "No"), ("", None)):
        edge = choice(node, f"<choice>{answer}</choice>")
        assert (edge and edge.label) == label


def test_a_task_asks_for_no_choice(tmp_path):
    flow = flow_of(tmp_path, "graph TD\nBEGIN --> a[Do it.] -->|whatever| END")
    assert question(flow.nodes["a"]) == "Do it."
    assert choice(flow.nodes["a"], "") is flow.nodes["a"].edges[0]
