"""Pruning: old tool results give way to stubs when the window fills, and a resume makes the same ones."""

from __future__ import annotations

import base64
import json

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.context.context_window import prunable
from kin_nb.core.context.history import History, tool_message, user_message
from kin_nb.core.events import PruneEvent
from kin_nb.core.messages import FunctionCall, ImageContent, LLMMessage, Role, ToolCall
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

SMALL = {"prompt_tokens": 2_000, "completion_tokens": 0}
FULL = {"prompt_tokens": 8_100, "completion_tokens": 0}


@pytest.fixture
def config(model_server, workspace):
    for name in ("one", "two"):
        (workspace / f"{name}.txt").write_text(f"{name} word\n" * 250)
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=model_server.url)],
        models=[ModelConfig(name="m", provider="p", context_window=10_000)],
    )


async def read_much(agent: Agent, server) -> list[str]:
    """A turn of 14 messages that ends with 81 % of the window in use. Returns the ids of its two large results."""
    for name in ("one.txt", "two.txt", "a.py", "a.py", "a.py", "a.py"):
        server.enqueue(calls=[tool_call("read_file", path=name)], usage=SMALL)
    server.enqueue("Read.", usage=FULL)
    record = (await run_turn(agent, "read"))[-1].record
    return [call.id for call in record.calls][:2]


async def test_old_results_become_stubs_when_four_fifths_of_the_window_are_used(model_server, trusted):
    calls = await read_much(trusted, model_server)
    before = list(trusted.messages)
    model_server.enqueue("Done.", usage=SMALL)
    events = await run_turn(trusted, "go on")
    (event,) = [event for event in events if isinstance(event, PruneEvent)]
    assert event.calls == tuple(calls)
    assert event.new_context_tokens < 6_000
    assert 8_100 <= event.old_context_tokens < 8_200
    sent = model_server.requests[-1]["messages"]
    size = len(before[3].content)
    assert sent[3]["content"] == f"[read_file one.txt: {size:,} characters were here; call it again to see them]"
    assert sent[5]["content"].startswith("[read_file two.txt: ")
    kept = [message for number, message in enumerate(before) if number not in {3, 5}]
    assert all(
        a is b for a, b in zip(kept, [m for n, m in enumerate(trusted.messages) if n not in {3, 5}], strict=False)
    )
    assert [step.pruned for step in trusted.turns[1].steps] == [tuple(calls)]


async def test_the_record_keeps_the_results_and_a_resume_has_the_same_messages(model_server, trusted):
    await read_much(trusted, model_server)
    model_server.enqueue("Done.", usage=SMALL)
    await run_turn(trusted, "go on")
    turns = SessionState.of(read_lines(trusted.log.path)).records
    assert turns == trusted.turns
    assert turns[0].calls[0].output.count("one word") == 250
    again = History(trusted.messages[0].content, trusted.redact)
    again.extend_from(turns, trusted.parts.settings.expand_paths)
    assert again.messages == trusted.messages
    assert again.fingerprint() == trusted.history.fingerprint()


async def test_it_does_not_happen_again_at_the_next_step(model_server, trusted):
    await read_much(trusted, model_server)
    model_server.enqueue(calls=[tool_call("read_file", path="a.py")], usage={"prompt_tokens": 8_100})
    model_server.enqueue("Done.", usage=SMALL)
    events = await run_turn(trusted, "go on")
    assert [type(event) for event in events].count(PruneEvent) == 1
    first, second = (request["messages"] for request in model_server.requests[-2:])
    assert second[: len(first)] == first


async def test_a_step_that_fails_leaves_the_pruning_to_be_recorded_by_the_next(model_server, trusted):
    calls = await read_much(trusted, model_server)
    model_server.enqueue(status=401)
    await run_turn(trusted, "go on")
    model_server.enqueue("Done.", usage=SMALL)
    await run_turn(trusted, "again")
    assert [step.pruned for turn in trusted.turns[1:] for step in turn.steps] == [tuple(calls)]
    again = History(trusted.messages[0].content, trusted.redact)
    again.extend_from(trusted.turns, trusted.parts.settings.expand_paths)
    assert again.fingerprint() == trusted.history.fingerprint()


async def test_large_results_count_before_the_server_has_counted_them(model_server, trusted, workspace):
    """Eight thousand tokens of results come in one step: there is no figure for them yet."""
    (workspace / "three.txt").write_text("three word\n" * 2_000)
    await read_much(trusted, model_server)
    trusted.stats.context_tokens = 3_000
    model_server.enqueue(calls=[tool_call("bash", command="cat three.txt")], usage={"prompt_tokens": 3_500})
    model_server.enqueue("Done.", usage=SMALL)
    events = await run_turn(trusted, "go on")
    assert [type(event).__name__ for event in events].count("PruneEvent") == 1


async def test_a_pruning_that_nothing_records_yet_is_part_of_a_state_gone_back_to(model_server, trusted):
    calls = await read_much(trusted, model_server)
    trusted.history.prune(calls, trusted.parts.settings.expand_paths)
    state = trusted.history.state()
    trusted.history.take_pruned()
    trusted.history.append(user_message("more"))
    trusted.history.restore(state)
    assert trusted.history.take_pruned() == tuple(calls)


async def test_nothing_is_pruned_below_the_threshold_nor_when_it_is_off(subtests, config, model_server):
    for prune_at, usage in [(0, FULL), (80, {"prompt_tokens": 7_900}), (90, FULL)]:
        with subtests.test(prune_at=prune_at, usage=usage):
            agent = Agent(config.model_copy(update={"prune_at": prune_at}), AgentMode.AUTO_APPROVE)
            await read_much(agent, model_server)
            agent.stats.context_tokens = usage["prompt_tokens"]
            model_server.enqueue("Done.")
            events = await run_turn(agent, "go on")
            assert PruneEvent not in [type(event) for event in events]
            assert "one word" in json.dumps(model_server.requests[-1]["messages"])
            await agent.aclose()


def called(name: str, arguments: str, result: str, images: tuple = ()) -> list[LLMMessage]:
    call = ToolCall(id="c", function=FunctionCall(name=name, arguments=arguments))
    return [LLMMessage(role=Role.assistant, tool_calls=[call]), tool_message("c", name, result, images)]


def pruned(*messages: LLMMessage, redact=str, expand=str) -> History:
    history = History("system", redact)
    for message in (user_message("go"), *messages):
        history.append(message)
    history.prune(["c"], expand)
    return history


def test_a_stub_says_what_was_there(subtests):
    for number, (name, arguments, head) in enumerate(
        [
            ("read_file", '{"offset": 3, "path": "src/a.py"}', "[read_file src/a.py: 2,000 characters"),
            ("grep", '{"path": "src", "pattern": "x"}', "[grep src: "),
            ("bash", '{"command": "pytest -q\\n  -x", "timeout": 5}', "[bash pytest -q -x: "),
            ("write_file", '{"content": "text", "path": "b.py"}', "[write_file b.py: "),
            ("jira_find", '{"limit": 5, "text": "bug"}', "[jira_find bug: "),
            ("jira_list", '{"limit": 5}', "[jira_list: "),
            ("read_file", '{"path": "' + "d/" * 100, "[read_file {"),
            ("read_file", "[" * 100_000, "[read_file [["),
            ("read_file", "[1]", "[read_file: "),
        ]
    ):
        with subtests.test(number=number):
            content = pruned(*called(name, arguments, "x" * 2_000)).messages[3].content
            assert content.startswith(head)
            assert " were here; call it again " in content
            assert len(content) < 400


def test_a_failing_call_keeps_its_first_and_last_line():
    output = "\n".join(["", "boom", *["trace"] * 500, "[exit code 1]"])
    content = pruned(*called("bash", '{"command": "make"}', output)).messages[3].content
    head, *rest = content.split("\n")
    assert head.endswith("call it again only if that does no harm]")
    assert rest == ["boom", "[exit code 1]"]


def test_pictures_go_with_the_text_and_a_stub_is_not_made_a_stub_again():
    picture = ImageContent(media_type="image/png", data=base64.b64encode(b"png").decode())
    history = pruned(*called("read_file", '{"path": "a.png"}', "A picture.", (picture,)))
    message = history.messages[3]
    assert message.content == "[read_file a.png: 10 characters and 1 picture were here; call it again to see them]"
    assert message.images is None
    assert message.is_stub
    assert history.prune(["c"]) == ()


def test_stubs_are_the_same_in_another_folder():
    """Paths of another length, and a secret that only one of the two has in the clear."""

    def made(root: str, key: str) -> History:
        def redact(text: str) -> str:
            return text.replace(root, "{workspace}").replace(key, "[secret]")

        result = f"{root}/a.py: {key}\n" * 300
        arguments = json.dumps({"command": f"cat {root}/" + "deep/" * 14})
        return pruned(
            *called("bash", arguments, result), redact=redact, expand=lambda t: t.replace("{workspace}", root)
        )

    one, two = made("/w", "tokentokentoken"), made("/home/somebody/else/with/a/longer/path", "[secret]")
    assert one.fingerprint() == two.fingerprint()
    assert one.messages[3].content.startswith("[bash cat /w/deep/")
    assert "/home/somebody/else/with/a/longer/path/a.py: [secret]" in two.messages[3].content


def test_what_stays_is_not_redacted_again():
    redacted: list[str] = []

    def redact(text: str) -> str:
        redacted.append(text)
        return text

    history = History("s", redact)
    for message in conversation([1000, 900, 800])[1:]:
        history.append(message)
    before = history.fingerprint()
    redacted.clear()
    assert history.prune(["0"]) == ("0",)
    assert {len(text) for text in redacted if text.startswith("x")} == {1000}
    assert history.fingerprint() != before
    anew = History("s", redact)
    for message in history.messages[1:]:
        anew.append(message)
    assert history.fingerprint() == anew.fingerprint()


def conversation(sizes: list[int]) -> list[LLMMessage]:
    messages = [LLMMessage(role=Role.system, content="s" * 100)]
    for number, size in enumerate(sizes):
        call = ToolCall(id=str(number), function=FunctionCall(name="read_file", arguments="{}"))
        messages += [
            LLMMessage(role=Role.assistant, tool_calls=[call]),
            tool_message(str(number), "read_file", "x" * size),
        ]
    return messages


def test_which_results_go(subtests):
    for sizes, target, calls in [
        ([1000] * 20, 600, "012345678"),  # the oldest, until there is room
        ([1000] * 20, 0, "0123456789 10 11 12 13 14"),  # never the last ten messages
        ([5000, 300, 5000, *[1000] * 8], 0, "02345"),  # small ones stay
        ([500, *[9000] * 5], 0, ""),  # too little to be worth it
    ]:
        with subtests.test(sizes=sizes, target=target, calls=calls):
            wanted = [*calls.partition(" ")[0], *calls.partition(" ")[2].split()]
            assert list(prunable(conversation(sizes), 1000, target)) == wanted
