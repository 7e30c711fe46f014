"""Undo, redo and going back to a checkpoint: the conversation and the files, live and after a resume."""

from __future__ import annotations

import random
import signal
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.conversation import TurnRunningError
from kin_nb.core.documents.document import session_document
from kin_nb.core.events import CheckpointEvent, LoopEvent, TurnEndEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.paths import kin_home
from kin_nb.core.records import Ref, TurnRecord
from kin_nb.core.session.errors import SessionError
from kin_nb.core.session.log import SessionLog
from kin_nb.core.undo import UndoError
from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.core.test_providers_agree import STYLES
from tests.unit.file_history.tree import bash, git_state, make_repository, tree
from tests.unit.session.killed import HALFWAY, Moment, killed

CHANGES = "sed -i.bak s/1/7/ a.py && rm a.py.bak && mv b.txt c.txt && rm d.txt && mkdir new && echo n > new/n.txt"


def write(path: str, content: str) -> dict[str, Any]:
    return tool_call("write_file", path=path, content=content, overwrite=True)


async def turn(agent: Agent, server: ModelServer, *calls: dict[str, Any], prompt: str = "go") -> list[Any]:
    """One turn: a reply for each call, then a text."""
    for call in calls:
        server.enqueue(None, calls=[call])
    server.enqueue(f"Answer to {prompt}.")
    return await run_turn(agent, prompt)


async def taken_up_again(agent: Agent) -> Agent:
    await agent.aclose()
    return Agent.resume(agent.base_config, mode=AgentMode.AUTO_APPROVE)


def stand(agent: Agent) -> tuple[Any, ...]:
    """Where a conversation stands."""
    numbers = [active.turn for active in agent.undos.active]
    where = agent.conversation.lineage.position
    return agent.messages[1:], agent.history.fingerprint(), numbers, agent.stats.context_tokens, where


def ids(events: list[Any], kind: str) -> list[int]:
    return [event.checkpoint_id for event in events if isinstance(event, CheckpointEvent) and event.kind == kind]


async def test_undo_undoes_messages_and_files_and_redo_gives_them_back(model_server, trusted, workspace):
    await turn(trusted, model_server, prompt="hello")
    before, files = stand(trusted), tree(workspace)
    await turn(trusted, model_server, write("a.py", "x = 2\n"), write("new/b.py", "y\n"), prompt="change it")
    after, changed = stand(trusted), tree(workspace)
    undone = await trusted.undo()
    first, second = trusted.turns
    assert (undone.type, undone.turns, undone.turn_ids) == ("undo", (2,), (second.id,))
    assert (undone.parent, undone.head) == (second.head, first.head)
    assert [(change.path, change.after_mode) for change in undone.files] == [("a.py", "100644"), ("new/b.py", "")]
    assert stand(trusted)[:4] == before[:4]
    assert tree(workspace) == files
    assert (await trusted.redo()).head == second.head
    assert stand(trusted) == after
    assert tree(workspace) == changed
    assert [record.type for record in trusted.undone] == ["undo", "redo"]


@pytest.mark.parametrize("many", [3, 1000])
async def test_several_turns_are_undone_at_once_or_one_by_one(model_server, trusted, workspace, many):
    files = [tree(workspace)]
    for number in range(3):
        await turn(trusted, model_server, write("a.py", f"x = {number}\n"), prompt=f"make it {number}")
        files.append(tree(workspace))
    assert (await trusted.undo(many)).turns == (1, 2, 3)
    assert (trusted.messages[1:], tree(workspace)) == ([], files[0])
    await trusted.redo()
    for expected in files[2::-1]:
        await trusted.undo()
        assert tree(workspace) == expected
    for expected in files[1:]:
        await trusted.redo()
        assert tree(workspace) == expected
    with pytest.raises(UndoError, match="nothing to redo"):
        await trusted.redo()


async def test_what_cannot_be_undone_is_reported_and_changes_nothing(model_server, trusted):
    with pytest.raises(UndoError, match="nothing to undo"):
        await trusted.undo()
    await turn(trusted, model_server)
    for turns in (0, -1):
        with pytest.raises(UndoError, match="must be 1 or more"):
            await trusted.undo(turns)
    with pytest.raises(UndoError, match=r"Checkpoint 9 does not exist\. Kept: 0, 1\."):
        await trusted.revert_to(9)
    await trusted.undo()
    with pytest.raises(UndoError, match="was undone"):
        await trusted.revert_to(1)
    with pytest.raises(UndoError, match="nothing to undo"):
        await trusted.undo()
    assert len(trusted.undone) == 1


async def test_what_the_person_changed_since_is_kept_and_named(model_server, trusted, workspace):
    await turn(trusted, model_server, write("a.py", "x = 2\n"), write("b.py", "y\n"))
    (workspace / "a.py").write_text("mine\n")
    undone = await trusted.undo()
    assert [(kept.path, kept.why) for kept in undone.kept] == [("a.py", "you changed it since")]
    assert (workspace / "a.py").read_text() == "mine\n"
    assert not (workspace / "b.py").exists()


async def test_a_turn_after_an_undo_says_where_it_continues_from(model_server, trusted):
    for prompt in ("one", "two", "three"):
        await turn(trusted, model_server, prompt=prompt)
    await trusted.undo(2)
    await turn(trusted, model_server, prompt="other")
    one, two, _, other = trusted.turns
    assert (two.parent, other.parent) == (one.head, one.head)
    assert [m.content for m in trusted.messages if m.role.value == "user"] == ["one", "other"]
    assert [m["content"] for m in model_server.requests[-1]["messages"][1:]] == ["one", "Answer to one.", "other"]
    with pytest.raises(UndoError, match="nothing to redo"):
        await trusted.redo()
    again = await taken_up_again(trusted)
    assert stand(again) == stand(trusted)
    assert [record.turns for record in again.undone] == [(2, 3)]
    assert (await again.undo()).head == one.head
    await again.aclose()


async def test_each_record_has_an_id_and_names_the_place_that_it_continues_from(model_server, trusted):
    first, second, third = [await numbered(trusted, model_server, prompt) for prompt in ("one", "two", "three")]
    assert (first.parent, second.parent, third.parent) == (None, Ref(id=first.id), Ref(id=second.id))
    assert third.ancestors == (second.id, first.id)
    undone = await trusted.undo(2)
    assert (undone.parent, undone.head, undone.ancestors) == (Ref(id=third.id), Ref(id=first.id), (first.id,))
    again = await trusted.redo()
    assert (again.parent, again.head) == (undone.head, undone.parent)
    agent = await taken_up_again(trusted)
    await agent.undo(3)
    assert agent.undone[-1].head is None
    other = await numbered(agent, model_server, "other")
    assert (other.parent, other.ancestors) == (None, ())
    await agent.clear_history(key="k", cell_id="c")
    anew = await numbered(agent, model_server, "anew")
    assert (anew.parent, anew.ancestors) == (None, ())
    model_server.enqueue("A summary.")
    await agent.compact()
    last = await numbered(agent, model_server, "last")
    *_, cleared, _, compacted, _ = agent.records
    assert (cleared.type, cleared.parent, cleared.key, cleared.cell_id) == ("clear", Ref(id=other.id), "k", "c")
    assert (compacted.type, compacted.parent, compacted.compaction.summary) == (
        "compact",
        Ref(id=anew.id),
        "A summary.",
    )
    assert (last.parent, last.ancestors) == (Ref(id=compacted.id), (compacted.id, anew.id))
    assert [each.seq for each in agent.records] == [*range(1, len(agent.records) + 1)]
    assert len({each.id for each in agent.records}) == len(agent.records)
    again = await taken_up_again(agent)
    assert again.records == agent.records
    await again.aclose()


async def test_a_turn_after_going_back_into_one_names_the_step(model_server, trusted):
    events = await turn(trusted, model_server, write("a", "1"), write("a", "2"))
    await trusted.revert_to(ids(events, "step")[1])
    (whole,) = trusted.turns
    assert trusted.undone[0].head == Ref(id=whole.id, step=2)
    assert (await numbered(trusted, model_server, "on")).parent == Ref(id=whole.id, step=2)


async def numbered(agent: Agent, server: ModelServer, prompt: str) -> TurnRecord:
    await turn(agent, server, prompt=prompt)
    return agent.turns[-1]


async def test_undo_and_redo_continue_after_a_resume(model_server, trusted, workspace):
    files = tree(workspace)
    await turn(trusted, model_server, write("a.py", "x = 2\n"))
    await turn(trusted, model_server, write("a.py", "x = 3\n"))
    whole, changed = stand(trusted), tree(workspace)
    again = await taken_up_again(trusted)
    await again.undo(2)
    assert tree(workspace) == files
    third = await taken_up_again(again)
    assert stand(third) == stand(again)
    await third.redo()
    assert (stand(third), tree(workspace)) == (whole, changed)
    await third.aclose()


@pytest.mark.parametrize("between", ["clear", "compact", "compact by itself"])
async def test_undo_goes_back_past_a_clear_and_a_compaction(model_server, workspace, config, between):
    config.models[0].context_window = 10_000
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    await turn(agent, model_server, prompt="one")
    one = stand(agent)
    full = {"prompt_tokens": 9_500} if between == "compact by itself" else True
    model_server.enqueue("Two.", usage=full)
    await run_turn(agent, "two")
    if between == "clear":
        await agent.clear_history()
    else:
        model_server.enqueue("A summary.", usage={"prompt_tokens": 10})
        if between == "compact":
            await agent.compact()
    await turn(agent, model_server, write("a.py", "x = 2\n"), prompt="three")
    assert len(agent.messages) < 8
    files = (workspace / "a.py").read_text()
    await agent.undo(2)
    assert stand(agent)[:3] == one[:3]
    again = await taken_up_again(agent)
    assert stand(again) == stand(agent)
    assert again.records == agent.records
    await again.redo()
    assert (workspace / "a.py").read_text() == files
    await again.aclose()


async def test_an_undo_that_goes_back_past_a_clear_says_so(model_server, trusted):
    await turn(trusted, model_server, prompt="one")
    await trusted.clear_history()
    await turn(trusted, model_server, prompt="two")
    assert (await trusted.undo()).warnings == ()
    record = await trusted.undo()
    expected = "turn 1 came before the last clear, so the conversation from before the clear continues"
    assert record.warnings == (expected,)
    assert trusted.undone[-1].warnings == (expected,)


@pytest.mark.parametrize("what", ["clear", "compact"])
async def test_redo_restores_what_no_turn_held_yet(model_server, trusted, what):
    await turn(trusted, model_server, prompt="one")
    await turn(trusted, model_server, prompt="two")
    model_server.enqueue("A summary.", usage={"prompt_tokens": 50, "completion_tokens": 5})
    await (trusted.clear_history() if what == "clear" else trusted.compact())
    after, paid = stand(trusted), trusted.stats.session_cost
    await trusted.undo()
    assert [m.content for m in trusted.messages[1:]] == ["one", "Answer to one."]
    await trusted.redo()
    assert stand(trusted) == after
    again = await taken_up_again(trusted)
    assert stand(again) == after
    assert again.stats.session_cost == pytest.approx(paid)
    with ModelServer.start() as server:
        again.config.providers[0].api_base = server.url
        server.enqueue("Three.")
        record = (await run_turn(again, "three"))[-1].record
    assert record.parent == trusted.moves[-1].head
    assert float(record.cost) > 0
    third = await taken_up_again(again)
    assert stand(third) == stand(again)
    await third.aclose()


async def test_a_log_that_continues_from_nowhere_is_an_error_that_names_it(model_server, trusted):
    for _ in range(2):
        await turn(trusted, model_server)
    await trusted.aclose()
    log = trusted.log.path
    parent = f'"parent":{{"id":"{trusted.turns[0].id}","step":-1}}'
    assert parent in log.read_text()
    log.write_text(log.read_text().replace(parent, parent.replace("-1", "9")))
    with pytest.raises(SessionError, match="cannot be continued") as error:
        Agent.resume(trusted.base_config)
    assert str(log) in str(error.value)
    SessionLog.lock(trusted.session_id, log.parent).close()  # nobody holds the lock


@pytest.mark.parametrize("style", STYLES)
async def test_after_going_back_into_a_turn_every_provider_takes_the_history(workspace, style):
    server_class = AnthropicServer if style == "anthropic" else ModelServer
    name = {"openai": "m", "mistral": "mistral-medium-latest", "anthropic": "claude-sonnet-4-5"}[style]
    with server_class.start(rules="mistral" if style == "mistral" else "openai") as server:
        config = KinConfig(
            workdir=workspace,
            active_model="m",
            providers=[ProviderConfig(name="p", api_base=server.url, **STYLES[style])],
            models=[ModelConfig(name=name, alias="m", provider="p", thinking="high")],
        )
        agent = Agent(config, AgentMode.AUTO_APPROVE)
        calls = [write("a.py", "x = 2\n"), tool_call("read_file", path="a.py"), write("b.py", "y\n")]
        events = await turn(agent, server, *calls)
        text, *_ = ids(events, "turn")
        for checkpoint in [*ids(events, "step")[:0:-1], text]:
            await agent.revert_to(checkpoint)
            assert (workspace / "b.py").exists() is (checkpoint == ids(events, "step")[3])
        assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"
        for _ in range(2):
            await agent.redo()
        server.enqueue("Fine.")
        ended = (await run_turn(agent, "do it otherwise"))[-1]
        assert isinstance(ended, TurnEndEvent)
        assert (ended.record.outcome, ended.record.parent) == ("done", Ref(id=agent.turns[0].id, step=3))
        assert not server.violations
        again = await taken_up_again(agent)
        assert stand(again) == stand(agent)
        await again.aclose()


async def test_nothing_is_undone_while_a_turn_runs(model_server, trusted):
    await turn(trusted, model_server)
    model_server.enqueue("Hello.")
    async with aclosing(trusted.act("two")) as events:
        await anext(events)
        for act in (trusted.undo(), trusted.revert_to(0)):
            with pytest.raises(TurnRunningError):
                await act
    assert trusted.undone == []
    await trusted.undo()


async def test_what_was_paid_stays_paid_and_the_context_is_as_small_as_it_was(model_server, trusted):
    model_server.enqueue("One.", usage={"prompt_tokens": 100, "completion_tokens": 10})
    await run_turn(trusted, "one")
    model_server.enqueue("Two.", usage={"prompt_tokens": 900, "completion_tokens": 50})
    await run_turn(trusted, "two")
    cost, steps = trusted.stats.session_cost, trusted.stats.steps
    await trusted.undo()
    assert trusted.stats.context_tokens == 110
    assert (trusted.stats.session_cost, trusted.stats.steps) == (cost, steps)
    await trusted.undo()
    assert trusted.stats.context_tokens == 0


async def test_after_an_undo_and_a_prompt_that_failed_a_resume_has_the_context_of_the_live_session(
    model_server, trusted
):
    model_server.enqueue("One.", usage={"prompt_tokens": 100, "completion_tokens": 10})
    await run_turn(trusted, "one")
    model_server.enqueue("Two.", usage={"prompt_tokens": 91_000, "completion_tokens": 10})
    await run_turn(trusted, "two")
    await trusted.undo()
    model_server.enqueue(status=400, body="no")
    assert (await run_turn(trusted, "three"))[-1].record.outcome == "error"
    assert trusted.stats.context_tokens == 110
    again = await taken_up_again(trusted)
    assert stand(again) == stand(trusted)
    await again.undo()
    assert again.stats.context_tokens == 110
    await again.aclose()


async def test_what_a_d_mail_undid_is_in_no_measure_of_the_context(model_server, config):
    agent = Agent(config.model_copy(update={"dmail": True}), AgentMode.AUTO_APPROVE)
    mail = tool_call("send_dmail", checkpoint_id=1, message="a.py is long")
    model_server.enqueue(None, calls=[mail], usage={"prompt_tokens": 91_000, "completion_tokens": 10})
    model_server.enqueue(status=400, body="no")
    record = (await run_turn(agent, "one"))[-1].record
    assert (record.outcome, record.dmail is not None, agent.stats.context_tokens) == ("error", True, 0)
    again = await taken_up_again(agent)
    assert stand(again) == stand(agent)
    await again.aclose()


def counts(agent: Agent) -> tuple[Any, ...]:
    stats = agent.stats
    costs = round(stats.session_cost, 9), round(stats.total_cost, 9)
    return stats.session_total_llm_tokens, stats.steps, stats.total_steps, *costs


@pytest.mark.parametrize("clears", [1, 2])
async def test_a_clear_that_was_undone_takes_nothing_from_the_counts_and_a_redo_does(model_server, trusted, clears):
    await turn(trusted, model_server, prompt="one")
    await turn(trusted, model_server, prompt="two")
    before = counts(trusted)
    for _ in range(clears):
        await trusted.clear_history()
    cleared = counts(trusted)
    assert (cleared[:2], cleared[2], cleared[4]) == ((0, 0), before[2], before[4])
    await trusted.undo()
    assert counts(trusted) == before
    await trusted.redo()
    assert counts(trusted) == cleared
    await trusted.undo()
    for live in (trusted, again := await taken_up_again(trusted)):
        assert counts(live) == before
    await turn(again, model_server, prompt="three")
    third = await taken_up_again(again)
    assert counts(third) == counts(again)
    assert third.stats.steps == 3
    await third.aclose()


async def test_a_compaction_whose_request_failed_and_whose_turn_is_undone_stays_paid(model_server, config):
    config.models[0].context_window = 100_000
    trusted = Agent(config, AgentMode.AUTO_APPROVE)
    model_server.enqueue("One.", usage={"prompt_tokens": 95_000, "completion_tokens": 10})
    await run_turn(trusted, "one")
    summary = {"prompt_tokens": 91_000, "completion_tokens": 2_000}
    model_server.enqueue("A summary.", usage=summary)
    model_server.enqueue(status=400, body="no")
    assert (await run_turn(trusted, "two"))[-1].record.outcome == "error"
    await trusted.undo(2)
    paid = session_document(trusted.log.folder)["stats"]
    assert (paid["session_prompt_tokens"], paid["session_completion_tokens"]) == (186_000, 2_010)
    assert paid["session_cost"] == pytest.approx(trusted.stats.session_cost)
    again = await taken_up_again(trusted)
    assert counts(again) == counts(trusted)
    model_server.enqueue("Three.", usage={"prompt_tokens": 50, "completion_tokens": 5})
    await run_turn(again, "three")
    assert sum(float(turn.cost) for turn in again.turns) == pytest.approx(again.stats.session_cost)
    third = await taken_up_again(again)
    assert counts(third) == counts(again)
    document = session_document(again.log.folder)["stats"]
    assert document["session_total_llm_tokens"] == counts(third)[0]
    assert document["session_cost"] == pytest.approx(third.stats.session_cost)
    await third.aclose()


async def test_calls_that_were_undone_count_towards_no_loop(model_server, trusted):
    look = tool_call("read_file", path="a.py")
    for _ in range(3):
        events = await turn(trusted, model_server, look, look)
        assert not [event for event in events if isinstance(event, LoopEvent)]
        await trusted.undo()


@pytest.mark.parametrize("kind", ["git", "no git"])
async def test_undo_of_a_command_leaves_the_tree_as_it_was_and_git_alone(model_server, trusted, workspace, kind):
    for name in ("b.txt", "d.txt"):
        (workspace / name).write_text("1\n")
    if kind == "git":
        make_repository(workspace)
        bash(workspace, "git status")  # its own look at the index is done
    before = tree(workspace)
    git_before = git_state(workspace) if kind == "git" else None
    events = await turn(trusted, model_server, tool_call("bash", command=CHANGES))
    assert events[-1].record.calls[0].status == "ok"
    changed = tree(workspace)
    assert {b"c.txt", b"new/n.txt"} < changed.keys()
    undone = await trusted.undo()
    assert (undone.kept, undone.uncovered) == ((), ())
    assert tree(workspace) == before
    assert git_before is None or git_state(workspace) == git_before
    await trusted.redo()
    assert tree(workspace) == changed
    assert kind == "git" or not Path(workspace / ".git").exists()


async def step(agent: Agent, server: ModelServer, chance: random.Random, known: dict[int, list[Any]]) -> Agent:
    """One thing that a person does. `known`: what the conversation was before each turn, in `messages[1:]`."""
    match chance.choice(["turn", "turn", "turn", "undo", "undo", "redo", "clear", "compact", "revert", "resume"]):
        case "turn":
            number = len(agent.turns) + 1
            known[number] = list(agent.messages[1:])
            content = f"{number}\n"
            await turn(agent, server, *[write(chance.choice("ab"), content)] * chance.randrange(3), prompt=f"p{number}")
        case "undo" if agent.undos.active:
            n = chance.randint(1, 3)
            first = agent.undos.active[-n:][0].turn
            await agent.undo(n)
            assert agent.messages[1:] == known[first]
        case "redo" if agent.undos._redo:
            await agent.redo()
        case "clear":
            await agent.clear_history()
        case "compact" if len(agent.messages) > 2:
            server.enqueue("A summary.")
            await agent.compact()
        case "revert" if agent.undos.active:
            active = agent.undos.active[-1].id
            marks = [mark for mark in agent.conversation.checkpoints._marks.values() if mark.place.id == active]
            await agent.revert_to(chance.choice([mark for mark in marks if mark.place.step >= 0]).id)
        case "resume" if agent.turns:
            return await taken_up_again(agent)
    return agent


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 8))])
async def test_whatever_is_done_a_resume_stands_where_the_live_session_does(model_server, trusted, workspace, seed):
    chance, known, agent = random.Random(seed), {}, trusted
    for _ in range(12):
        agent = await step(agent, model_server, chance, known)
    if not agent.turns:
        return
    again = await taken_up_again(agent)
    assert stand(again) == stand(agent)
    await turn(again, model_server, prompt="at last")
    third = await taken_up_again(again)
    assert stand(third) == stand(again)
    before = tree(workspace)
    if third.undos.active:
        await third.undo(1000)
        assert third.messages[1:] == []
        await third.redo()
        assert tree(workspace) == before
    await third.aclose()


@pytest.mark.parametrize("resumed", [False, True])
async def test_files_whose_names_hold_a_secret_come_back_and_no_record_names_them(
    model_server, config, workspace, monkeypatch, resumed
):
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    (workspace / "postgres").mkdir()
    (workspace / "postgres" / "init.sql").write_text("create table mine;\n")
    (workspace / "postgres.conf").write_text("a=1\n")
    (workspace / "postgres.bin").write_bytes(b"x" * 3_000_000)
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    command = "rm -r postgres postgres.bin; sed -i s/1/2/ postgres.conf"
    before = {name: what for name, what in tree(workspace).items() if name != b"postgres.bin"}
    await turn(agent, model_server, tool_call("bash", command=command))
    after = tree(workspace)
    call = agent.turns[-1].calls[0]
    assert [file.path for file in call.files] == ["[secret].conf", "[secret]/init.sql"]
    assert call.uncovered == "not covered: [secret].bin (3.0 MB) is gone and was over 2 MB"
    agent = await taken_up_again(agent) if resumed else agent
    assert (await agent.undo()).kept == ()
    assert tree(workspace) == before
    assert (await agent.redo()).kept == ()
    assert tree(workspace) == after
    await agent.aclose()


async def test_what_a_file_with_secrets_holds_is_neither_in_the_log_nor_in_the_undo(model_server, trusted, workspace):
    (workspace / ".env").write_text("DB_PASSWORD=correct-horse-battery\nDEBUG=0\n")
    await turn(trusted, model_server, tool_call("bash", command="sed -i s/DEBUG=0/DEBUG=1/ .env"))
    assert [file.path for file in trusted.turns[-1].calls[0].files] == [".env"]
    undone = await trusted.undo()
    assert [(file.path, file.patch) for file in undone.files] == [(".env", None)]
    logs = "".join(path.read_text() for path in kin_home().rglob("*.jsonl"))
    assert '".env"' in logs
    assert "correct-horse-battery" not in logs


async def test_what_a_killed_command_did_to_files_whose_names_hold_a_secret_comes_back(
    model_server, config, workspace, monkeypatch
):
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    (workspace / "postgres.conf").write_text("a=1\n")
    (workspace / "postgres.bin").write_bytes(b"x" * 3_000_000)
    command = f"rm postgres.bin; echo a=2 > postgres.conf; {HALFWAY}"
    model_server.enqueue(None, calls=[tool_call("bash", command=command)])
    before = {name: what for name, what in tree(workspace).items() if name != b"postgres.bin"}
    assert killed(kin_home(), workspace, model_server.url, ["go"], Moment()) == -signal.SIGKILL
    agent = Agent.resume(config, mode=AgentMode.AUTO_APPROVE)
    call = agent.turns[-1].calls[0]
    assert "[secret].conf" in [file.path for file in call.files]
    assert call.uncovered.endswith("; [secret].bin (3.0 MB) is gone and was over 2 MB")
    assert (await agent.undo()).kept == ()
    assert tree(workspace) == before
    await agent.aclose()
