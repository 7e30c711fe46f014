"""What a compaction leaves: the last messages, the person's words; summaries of parts; the same again after a resume."""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.context.compaction import CompactionResult, truncate_user_text
from kin_nb.core.context.history import History, user_message
from kin_nb.core.events import CompactEndEvent, CompactStartEvent, ErrorEvent, PruneEvent
from kin_nb.core.messages import LLMMessage, LLMUsage, Role
from kin_nb.core.modes import AgentMode
from kin_nb.core.session.log import read_lines
from kin_nb.core.session.state import SessionState
from kin_nb.render import render_compaction
from kin_nb.replay.rerun.turn_replayer import TurnReplayer
from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.core.test_providers_agree import STYLES

FULL = {"prompt_tokens": 8_500, "completion_tokens": 500}
SMALL = {"prompt_tokens": 200, "completion_tokens": 20}
LOOK = tool_call("read_file", path="a.py")
TOO_LONG = {"error": {"message": "maximum context length is 10000 tokens"}}


def small_window(url: str, workspace, window: int = 10_000, **settings) -> KinConfig:
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[ProviderConfig(name="p", api_base=url)],
        models=[ModelConfig(name="m", provider="p", context_window=window)],
        **settings,
    )


@pytest.fixture
def config(model_server, workspace):
    return small_window(model_server.url, workspace)


async def chat(agent: Agent, server, turns: int, usage: dict[str, int] = SMALL) -> None:
    """`turns` turns of two messages each; the last one uses `usage`."""
    for number in range(turns):
        server.enqueue(f"Answer {number}.", usage=usage if number == turns - 1 else SMALL)
        await run_turn(agent, f"question {number}")


def resumed(agent: Agent) -> History:
    turns = SessionState.of(read_lines(agent.log.path)).records
    again = History(agent.messages[0].content, agent.redact)
    again.extend_from(turns, agent.parts.settings.expand_paths)
    return again


def assert_resumes(agent: Agent) -> None:
    again = resumed(agent)
    assert again.messages == agent.messages
    assert again.fingerprint() == agent.history.fingerprint()
    assert again.last_request == agent.history.last_request


async def test_the_last_ten_messages_stay_and_the_persons_words_with_the_summary(model_server, trusted):
    await chat(trusted, model_server, 8, FULL)
    before = list(trusted.messages)
    model_server.enqueue("A summary.", usage=SMALL)
    model_server.enqueue("Done.", usage=SMALL)
    events = await run_turn(trusted, "question 8")
    _, summary, *tail = trusted.messages
    assert summary.content == (
        "The conversation so far, summed up by you:\n\nA summary.\n\nThe person's words so far, oldest first:\n\n"
        + "\n\n".join(f"- question {number}" for number in range(4))
    )
    assert [m.content for m in tail] == [m.content for m in before[8:]] + ["question 8", "Done."]
    assert all(a is b for a, b in zip(tail, before[8:], strict=False))
    asked = model_server.requests[-2]["messages"]
    assert [m["content"] for m in asked[1:-1]] == [m.content for m in before[1:8]]
    end = next(event for event in events if isinstance(event, CompactEndEvent))
    assert (end.compaction.summarised, end.compaction.kept) == (7, 10)
    card = render_compaction(end.compaction, turn=9, step=1).data["text/plain"]
    assert card.startswith("[conversation compacted: 9,000 tokens became ")
    assert "; 7 messages summarized, 10 kept]" in card
    assert_resumes(trusted)


async def test_all_of_the_persons_words_stay_where_the_window_has_room_for_them(model_server, workspace):
    agent = Agent(small_window(model_server.url, workspace, 200_000), AgentMode.AUTO_APPROVE)
    words = [f"Rule {number}: " + f"never do {number}. " * 250 for number in range(14)]
    for number, text in enumerate(words):
        model_server.enqueue(f"Answer {number}.", usage=SMALL)
        await run_turn(agent, text)
    model_server.enqueue("A summary.", usage=SMALL)
    await agent.compact()
    left = "\n".join(message.content or "" for message in agent.messages)
    assert [text for text in words if text not in left] == []
    model_server.enqueue("Fine.", usage=SMALL)
    await run_turn(agent, "on")
    assert_resumes(agent)
    await agent.aclose()


async def test_of_words_that_fill_more_than_the_room_the_oldest_go_and_that_is_reported(model_server, workspace):
    agent = Agent(small_window(model_server.url, workspace, 30_000), AgentMode.AUTO_APPROVE)
    for number in range(12):
        model_server.enqueue("Noted.", usage=SMALL)
        await run_turn(agent, f"Rule {number}: " + "word " * 1_600)
    model_server.enqueue("A summary.", usage=SMALL)
    await agent.compact()
    left = "\n".join(message.content or "" for message in agent.messages)
    assert "earlier requests left out]" in left
    kept = [number for number in range(12) if f"Rule {number}: " + "word " * 1_600 in left]
    assert kept == list(range(12))[-len(kept) :]
    assert sum(len("word ") * 1_600 for _ in kept) > 0.4 * 0.6 * 30_000 * 4
    assert agent.stats.context_tokens < 0.65 * 30_000
    await agent.aclose()


async def test_what_stays_begins_with_the_call_of_its_answers(model_server, trusted):
    await chat(trusted, model_server, 2)
    model_server.enqueue(calls=[LOOK] * 12, usage=SMALL)
    model_server.enqueue("Read.", usage=SMALL)
    await run_turn(trusted, "look twelve times")
    model_server.enqueue("A summary.")
    await trusted.compact()
    assert [m.role.value for m in trusted.messages[:4]] == ["system", "user", "assistant", "tool"]
    assert len(trusted.messages) == 2 + 14
    assert trusted.messages[1].content.endswith("in their words:\n\nlook twelve times")
    model_server.enqueue("Fine.", usage=SMALL)
    await run_turn(trusted, "on")
    assert_resumes(trusted)


async def test_fewer_messages_stay_when_they_fill_too_much_of_the_window(model_server, trusted, workspace):
    (workspace / "long.txt").write_text("word " * 3_000)
    trusted.config.models[0].context_window = 20_000
    for _ in range(6):
        model_server.enqueue(calls=[tool_call("bash", command="cat long.txt")], usage=SMALL)
    model_server.enqueue("Read.", usage=SMALL)
    await run_turn(trusted, "read it")
    model_server.enqueue("A summary.", usage=SMALL)
    await trusted.compact()
    assert [m.role.value for m in trusted.messages[2:]] == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert trusted.messages[1].content.endswith("in their words:\n\nread it")
    trusted.config.models[0].context_window = 4_000
    model_server.enqueue("A summary.", usage=SMALL)
    await run_turn(trusted, "on")
    assert "word word" not in str(trusted.messages[1:])


async def test_what_does_not_fit_is_summed_up_part_by_part(model_server, trusted, workspace):
    (workspace / "long.txt").write_text("first\n" + "word " * 3_000 + "\nlast")
    for number in range(6):
        model_server.enqueue(calls=[tool_call("bash", command=f"cat long.txt # {number}")], usage=SMALL)
    model_server.enqueue("Read.", usage=SMALL)
    await run_turn(trusted, "read it")
    before = len(model_server.requests)
    trusted.config.models[0].context_window = 6_000
    model_server.enqueue("Summary one.", usage=SMALL)
    model_server.enqueue("Summary two.", usage=SMALL)
    assert await trusted.compact() == "Summary two."
    parts = model_server.requests[before:]
    assert [("tools" in part, [m["role"] for m in part["messages"]]) for part in parts] == [
        (False, ["system", "user"])
    ] * len(parts)
    first, second = (part["messages"][1]["content"] for part in parts)
    assert first.startswith(
        "The summary so far:\n\n(nothing yet)\n\nPart 1 of 2 of the conversation:\n\nThe user:\nread it"
    )
    assert 'The agent called bash {"command": "cat long.txt # 0"}\nOutcome:\nfirst\nword' in first
    assert second.startswith("The summary so far:\n\nSummary one.\n\nPart 2 of 2")
    assert "last" in second
    assert (trusted.moves[-1].compaction.prompt_tokens, trusted.moves[-1].compaction.completion_tokens) == (400, 40)


async def test_a_request_that_cannot_fit_is_not_sent_to_a_server_that_might_cut_it(model_server, trusted):
    await chat(trusted, model_server, 3, {"prompt_tokens": 12_000, "completion_tokens": 0})
    model_server.enqueue("A summary.", usage=SMALL)
    await trusted.compact()
    assert [m["role"] for m in model_server.requests[-1]["messages"]] == ["system", "user"]
    assert "Part 1 of 1" in model_server.requests[-1]["messages"][1]["content"]


async def test_a_part_that_is_no_summary_changes_nothing(model_server, trusted):
    await chat(trusted, model_server, 3)
    before = list(trusted.messages)
    model_server.enqueue(status=400, body=TOO_LONG)
    model_server.enqueue(status=400, body=TOO_LONG)
    with pytest.raises(Exception, match="no longer fits"):
        await trusted.compact()
    assert trusted.messages == before
    assert trusted.moves == []


async def test_a_window_smaller_than_the_prompt_is_a_sentence_and_no_request(model_server, workspace):
    agent = Agent(small_window(model_server.url, workspace, 300))
    events = await run_turn(agent, "Hello")
    (error,) = [event for event in events if isinstance(event, ErrorEvent)]
    assert "more than the 300 of m's window" in error.message
    assert "larger window" in error.message
    assert model_server.requests == []
    await agent.aclose()


async def test_a_request_larger_than_the_window_is_a_sentence_in_the_middle_of_a_conversation_too(
    model_server, trusted
):
    await chat(trusted, model_server, 7)
    before = len(model_server.requests)
    events = await run_turn(trusted, "word " * 20_000)
    assert "The prompt alone takes at least" in next(e for e in events if isinstance(e, ErrorEvent)).message
    assert CompactStartEvent not in [type(event) for event in events]
    assert len(model_server.requests) == before


async def test_another_strategy_takes_the_place_of_the_built_in_one(model_server, trusted):
    class KeepTwo:
        async def compact(self, messages, *, ask, window):
            assert (messages[0].role, window <= 10_000) == (Role.system, True)
            reply = await ask([*messages, user_message("Sum up.")])
            return CompactionResult(reply.message.content, 2, LLMUsage(), words=5)

    trusted.use(compaction=KeepTwo())
    await chat(trusted, model_server, 3)
    tail = trusted.messages[-2:]
    model_server.enqueue("Mine.")
    assert await trusted.compact() == "Mine."
    assert trusted.messages[2:] == tail
    assert "question" not in trusted.messages[1].content, "five characters hold none of the person's words"
    model_server.enqueue("Fine.", usage=SMALL)
    await run_turn(trusted, "on")
    assert_resumes(trusted)


async def test_a_small_window_continues_forever(subtests, model_server, workspace):
    for window, characters in [(8_192, 2_000), (16_000, 5_000), (32_000, 9_000)]:
        with subtests.test(window=window):
            agent = Agent(small_window(model_server.url, workspace, window), AgentMode.AUTO_APPROVE)
            compacted = []
            for number in range(16):
                model_server.enqueue("A short answer.")
                async for event in agent.act(f"{number} {'code ' * (characters // 5)}"):
                    if isinstance(event, CompactStartEvent):
                        front(model_server, "A summary of all that. " * 40)
                    elif isinstance(event, CompactEndEvent):
                        compacted.append(event)
                assert agent.turns[-1].outcome == "done", agent.turns[-1].message
            assert all(event.new_context_tokens < 0.65 * window for event in compacted)
            assert 1 <= len(compacted) <= 4
            await agent.aclose()
            assert_resumes(agent)


async def test_tools_and_their_results_and_words_share_a_small_window(model_server, workspace):
    """Neither long results nor long requests push the other out."""
    (workspace / "long.txt").write_text("word " * 400)
    agent = Agent(small_window(model_server.url, workspace, 12_000, prune_at=0), AgentMode.AUTO_APPROVE)
    for number in range(3):
        for step in range(4):
            model_server.enqueue(calls=[tool_call("bash", command=f"cat long.txt # {step}")], usage=SMALL)
        model_server.enqueue("Read.", usage=SMALL)
        await run_turn(agent, f"request {number} " + "rule " * 400)
    model_server.enqueue("A summary.", usage=SMALL)
    await agent.compact()
    text = agent.messages[1].content
    assert "- request 1 rule rule" in text
    assert text.endswith("rule ") == ("in their words:" in text)
    assert "word word" in str(agent.messages[2:])
    assert agent.stats.context_tokens < 0.65 * 12_000
    await agent.aclose()


async def test_what_still_takes_too_much_is_summed_up_again(model_server, trusted):
    class KeepsMuch:
        asked: list[tuple[int, int]] = []  # noqa: RUF012

        async def compact(self, messages, *, ask, window):
            self.asked.append((len(messages), window))
            reply = await ask([*messages, user_message("Sum up.")])
            return CompactionResult(reply.message.content, 4 if len(self.asked) == 1 else 0, reply.usage)

    trusted.use(compaction=KeepsMuch())
    for number in range(4):
        model_server.enqueue("Read.", usage=SMALL)
        await run_turn(trusted, f"{number} " + "word " * 2_400)
    model_server.enqueue("First.", usage=SMALL)
    model_server.enqueue("Second.", usage=SMALL)
    assert await trusted.compact() == "Second."
    assert KeepsMuch.asked == [(9, 10_000), (6, 5_000)]
    assert "summed up by you:\n\nFirst." in model_server.requests[-1]["messages"][1]["content"]
    made = trusted.moves[-1].compaction
    assert (made.kept, made.words // 1_000, made.summarised) == (0, 10, 8)
    assert (made.prompt_tokens, made.completion_tokens) == (400, 40)
    assert trusted.stats.context_tokens < 9_000
    model_server.enqueue("Fine.", usage=SMALL)
    await run_turn(trusted, "on")
    assert_resumes(trusted)


async def test_a_request_that_leaves_no_room_is_a_sentence_and_a_shorter_one_continues(model_server, trusted):
    await chat(trusted, model_server, 2, {"prompt_tokens": 500})
    model_server.enqueue("A summary.")
    events = await run_turn(trusted, "word " * 6_900)
    assert "compacted and still takes" in next(e for e in events if isinstance(e, ErrorEvent)).message
    for _ in range(8):  # the parts of what no longer fits a request for a summary, and the answer
        model_server.enqueue("Said.")
    assert (await run_turn(trusted, "shorter"))[-1].record.outcome == "done"
    model_server._queue.clear()
    assert trusted.messages[1].content.endswith("in their words:\n\nshorter")
    assert_resumes(trusted)


def test_a_record_that_keeps_what_there_is_not_keeps_what_there_is(subtests):
    for kept, roles in [(-3, "su"), (0, "su"), (2, "suua"), (99, "suauaua")]:
        with subtests.test(kept=kept, roles=roles):
            history = History("system", str)
            for number in range(4):
                history.append(user_message(f"u{number}"))
                history.append(LLMMessage(role=Role.assistant, content="a"))
            history.compact("S", kept)
            assert "".join(m.role.value[0] for m in history.messages) == roles.replace(
                "suauaua", "suauauaua"[: len(history.messages)]
            )


def test_an_old_record_gives_what_it_gave():
    history = History("system", str)
    for text in ("one", "two"):
        history.append(user_message(text))
        history.append(LLMMessage(role=Role.assistant, content="a"))
    history.compact("S")
    assert [m.content for m in history.messages[1:]] == [
        "The conversation so far, summed up by you:\n\nS\n\nThe person's last request, in their words:\n\ntwo"
    ]


def test_the_persons_words_are_capped_the_oldest_first(subtests):
    for number, (said, most, expected) in enumerate(
        [
            (["a" * 300, "b" * 300], 600, ["a" * 300, "b" * 300]),
            (["a" * 300, "b" * 300], 520, ["a" * 220 + " [… 80 characters left out]", "b" * 300]),
            (["a" * 300, "b" * 300], 400, ["[… 1 earlier request left out]", "b" * 300]),
            (
                ["x", "a" * 900, "b"],
                301,
                ["[… 1 earlier request left out]", "a" * 300 + " [… 600 characters left out]", "b"],
            ),
            (["a", " ", "b"], 600, ["a", "b"]),
            (["a"], 0, []),
        ]
    ):
        with subtests.test(number=number):
            assert truncate_user_text(said, most, str) == expected


@pytest.mark.parametrize("root", ["/w", "/home/somebody/with/a/longer/path"])
def test_what_is_cut_is_cut_at_the_same_place_in_another_folder(root):
    said = [f"{root}/a " * 500]
    cut = truncate_user_text(said, 600, lambda text: text.replace(root, "{w}"), lambda text: text.replace("{w}", root))
    assert cut == [f"{root}/a " * 100 + " [… 2,400 characters left out]"]


async def test_carried_words_survive_a_second_compaction_and_the_oldest_give_way(model_server, trusted):
    await chat(trusted, model_server, 8)
    model_server.enqueue("One.")
    await trusted.compact()
    await chat(trusted, model_server, 4)
    model_server.enqueue("Two.")
    await trusted.compact()
    text = trusted.messages[1].content
    assert "One." not in text
    assert [line for line in text.split("\n\n") if line.startswith("- ")] == [
        *(f"- question {number}" for number in range(7)),
    ]
    model_server.enqueue("Fine.", usage=SMALL)
    await run_turn(trusted, "on")
    assert_resumes(trusted)


async def test_strict_servers_take_what_is_left(subtests, workspace):
    """Kept messages with reasoning, calls and answers right after the summary, in the middle of a turn and between."""
    for style in STYLES:
        with subtests.test(style=style):
            name = {"openai": "m", "mistral": "mistral-medium-latest", "anthropic": "claude-sonnet-5-5"}[style]
            starts = {"openai": ModelServer.start, "mistral": lambda: ModelServer.start(rules="mistral")}
            with ExitStack() as stack:
                server = stack.enter_context(starts.get(style, AnthropicServer.start)())
                config = KinConfig(
                    workdir=workspace,
                    active_model="m",
                    providers=[ProviderConfig(name="p", api_base=server.url, **STYLES[style])],
                    models=[ModelConfig(name=name, alias="m", provider="p", thinking="high")],
                    loop_detection=False,
                )
                agent = Agent(config, AgentMode.AUTO_APPROVE)
                for steps in (6, 7):
                    for _ in range(steps):
                        server.enqueue(reasoning="Hm.", calls=[LOOK, LOOK])
                    server.enqueue("Done.", reasoning="So.")
                    events = await run_turn(agent, "look")
                    assert not any(isinstance(event, ErrorEvent) for event in events), events
                    server.enqueue("A summary.")
                    await agent.compact()
                    assert agent.messages[2].role is Role.assistant
                    assert agent.moves[-1].compaction.kept >= 10
                for _ in range(5):
                    server.enqueue(reasoning="Hm.", calls=[LOOK])
                server.enqueue("Done.")
                events = await run_turn(agent, "and again")
                assert not any(isinstance(event, ErrorEvent) for event in events), events
                assert server.violations == []
                assert resumed(agent).fingerprint() == agent.history.fingerprint()
                await agent.aclose()


@pytest.fixture
def short_workspace():
    """With a path of the same length everywhere: when a window is full depends on what the prompts hold."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as folder:
        yield Path(folder).resolve()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_a_resumed_agent_has_the_fingerprint_of_the_live_one(model_server, short_workspace, seed):
    """Random turns, with prunings and compactions in the middle of them, by hand and after failures, and clears."""
    chance = random.Random(seed)
    (short_workspace / "long.txt").write_text(f"{short_workspace}/a.py says a word{' more' * 10}\n" * 12)
    agent = Agent(small_window(model_server.url, short_workspace), AgentMode.AUTO_APPROVE)
    seen = set()
    for number in range(chance.randint(8, 14)):
        what = chance.choice(["turn"] * 9 + ["compact", "clear", "fail"])
        if what == "clear":
            await agent.clear_history()
        elif what == "compact":
            for part in range(3):
                model_server.enqueue(f"Summary {number} of {short_workspace}, part {part}.", usage=SMALL)
            await agent.compact()
            model_server._queue.clear()
        elif what == "fail":
            model_server.enqueue(status=401)
            await run_turn(agent, f"fail {number} in {short_workspace}")
            model_server._queue.clear()
        else:
            seen |= await random_turn(agent, model_server, chance, f"prompt {number} in {short_workspace}")
        await agent.aclose()
        again = Agent.resume(agent.config, agent.log.session_id) if agent.turns else agent
        told = [turn.message for turn in agent.turns if turn.outcome == "error"]
        assert all("refused the key" in message or "needs a key" in message for message in told), told
        if not agent.history._to_record:  # what was pruned for a request that failed is recorded with the next
            assert again.messages[1:] == agent.messages[1:]
            assert again.history.fingerprint() == agent.history.fingerprint()
        await again.aclose()
    assert {PruneEvent, CompactEndEvent} <= seen


async def random_turn(agent: Agent, server, chance: random.Random, prompt: str) -> set[type]:
    """A turn whose figures make the agent prune and compact now and then: each request may be one for a summary."""
    events: set[type] = set()
    tokens = [chance.choice([500, 3_000, 8_200, 8_900]) for _ in range(chance.randint(0, 5))]
    for used in tokens:
        calls = [tool_call("bash", command=f"cat long.txt # {number}") for number in range(chance.randint(1, 3))]
        server.enqueue("I look.", calls=calls, usage={"prompt_tokens": used, "completion_tokens": 10})
    server.enqueue("Done.", usage={"prompt_tokens": chance.choice([500, 8_300]), "completion_tokens": 10})
    async for event in agent.act(prompt):
        events.add(type(event))
        if isinstance(event, CompactStartEvent):
            front(server, "A summary.")
    server._queue.clear()
    return events


def front(server: ModelServer, text: str) -> None:
    """This reply before all that are scripted: the next request asks for a summary."""
    server.enqueue(text, usage=SMALL)
    server._queue.rotate(1)


async def test_a_rerun_prunes_and_compacts_where_the_recording_did_whatever_its_window_is(
    model_server, config, workspace
):
    """The requests of the rerun, with tools run again in another folder, have the recorded fingerprints."""
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    for name in ("one", "two"):
        (workspace / f"{name}.txt").write_text(f"{name} word\n" * 250)
        model_server.enqueue(calls=[tool_call("read_file", path=f"{name}.txt")], usage=SMALL)
    for used in (SMALL, SMALL, SMALL, SMALL, {"prompt_tokens": 8_300}, FULL):
        model_server.enqueue(calls=[LOOK], usage=used)
    model_server.enqueue("A summary.", usage=SMALL)
    model_server.enqueue("Done.", usage=SMALL)
    await run_turn(agent, "look")
    await agent.aclose()
    (turn,) = agent.turns
    assert [len(step.pruned) for step in turn.steps] == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    assert [step.compaction and step.compaction.kept for step in turn.steps] == [None] * 8 + [10]
    other = workspace.parent / "a folder with another name"
    workspace.rename(other)
    rerun = TurnReplayer(turn, other, approve_recorded=True)
    again = Agent(small_window("http://127.0.0.1:9", other, 1_000_000), AgentMode.AUTO_APPROVE)
    rerun.prepare(again)
    await run_turn(again, rerun.prompt)
    await again.aclose()
    assert [step.fingerprint for step in again.turns[0].steps] == [step.fingerprint for step in turn.steps]
    assert again.turns[0].steps[7].pruned == turn.steps[7].pruned
    assert again.turns[0].steps[8].compaction.kept == 10
