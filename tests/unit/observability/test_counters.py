"""Counters for Prometheus: correct text, sums over sessions, bounded labels."""

from __future__ import annotations

import stat
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kin_nb.core.events import SubagentEvent, TurnEndEvent
from kin_nb.core.observability.file_observers import MOST_NAMES, Counters
from kin_nb.core.records import RecordedCall, RecordedStep, TurnRecord
from tests.model_server import tool_call


def samples(path):
    """{(metric, labels): value}, as Prometheus reads it."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


@pytest.fixture
def path(home):
    return home / "kin.prom"


@pytest.fixture
def counters(make_agent):
    return Counters(make_agent(prometheus="kin.prom"))


def record(*names: str, **fields) -> TurnRecord:
    calls = tuple(RecordedCall(id=str(n), name=name, arguments="", status="ok") for n, name in enumerate(names))
    return TurnRecord(turn=1, prompt="p", model="m", outcome="done", steps=(RecordedStep(calls=calls),), **fields)


async def test_a_turn_is_counted(make_agent, model_server, watch, path):
    agent = make_agent(prometheus="kin.prom")
    model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.txt"), tool_call("read_file", path="none")])
    model_server.enqueue("Done.")
    events = await watch(agent, Counters(agent), "go")
    turn = events[-1].record
    found = samples(path)
    assert found["kin_nb_turns_total", ("agent", "main"), ("model", "m"), ("outcome", "done")] == 1
    assert found["kin_nb_steps_total", ("model", "m")] == 2
    assert found["kin_nb_tokens_total", ("kind", "input"), ("model", "m")] == turn.prompt_tokens > 0
    assert found["kin_nb_tokens_total", ("kind", "output"), ("model", "m")] == turn.completion_tokens > 0
    assert found["kin_nb_tool_calls_total", ("status", "ok"), ("tool", "read_file")] == 1
    assert found["kin_nb_tool_calls_total", ("status", "error"), ("tool", "read_file")] == 1
    assert found["kin_nb_turn_seconds_total", ("model", "m")] == turn.milliseconds / 1000
    assert found["kin_nb_cost_usd_total", ("model", "m")] == pytest.approx(float(turn.cost))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [file.name for file in path.parent.glob("*.prom*")] == ["kin.prom"]


def test_a_subagents_turn_counts_as_one_and_is_written_with_its_parents(counters, path):
    counters.on_event(SubagentEvent(tool_call_id="c", event=TurnEndEvent(record=record("grep"))))
    assert not path.exists()
    counters.on_event(TurnEndEvent(record=record("task")))
    found = samples(path)
    assert found["kin_nb_turns_total", ("agent", "sub"), ("model", "m"), ("outcome", "done")] == 1
    assert found["kin_nb_turns_total", ("agent", "main"), ("model", "m"), ("outcome", "done")] == 1
    assert found["kin_nb_tool_calls_total", ("status", "ok"), ("tool", "grep")] == 1


async def test_what_a_subagent_used_is_counted_once(make_agent, model_server, watch, path):
    agent = make_agent(prometheus="kin.prom")
    model_server.enqueue("I send one.", calls=[tool_call("task", description="look", prompt="read a.txt")])
    model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.txt")])
    model_server.enqueue("It has words.")
    model_server.enqueue("Done.")
    turn = (await watch(agent, Counters(agent), "go"))[-1].record
    assert [part.steps for part in turn.subagents] == [2]
    found = samples(path)
    assert found["kin_nb_tokens_total", ("kind", "input"), ("model", "m")] == turn.prompt_tokens
    assert found["kin_nb_tokens_total", ("kind", "output"), ("model", "m")] == turn.completion_tokens
    assert found["kin_nb_cost_usd_total", ("model", "m")] == pytest.approx(float(turn.cost))
    assert found["kin_nb_turns_total", ("agent", "sub"), ("model", "m"), ("outcome", "done")] == 1


def test_it_continues_where_another_session_stopped(make_agent, counters, path):
    counters.on_event(TurnEndEvent(record=record("grep", milliseconds=1500)))
    Counters(make_agent(prometheus="kin.prom")).on_event(TurnEndEvent(record=record("bash", milliseconds=250)))
    found = samples(path)
    assert found["kin_nb_steps_total", ("model", "m")] == 2
    assert found["kin_nb_turn_seconds_total", ("model", "m")] == 1.75
    assert found["kin_nb_tool_calls_total", ("status", "ok"), ("tool", "grep")] == 1


def test_sessions_at_the_same_time_lose_nothing(path, home):
    script = (
        "import sys; from kin_nb.core.config import KinConfig;"
        "from kin_nb.core.events import TurnEndEvent; from kin_nb.core.records import TurnRecord;"
        "from kin_nb.core.observability.file_observers import Counters;"
        "S = type('S', (), {'config': KinConfig(observability={'prometheus': 'kin.prom'})}); c = Counters(S());"
        "[c.on_event(TurnEndEvent(record=TurnRecord(turn=1, prompt='p', model='m', outcome='done'))) for _ in range(10)]"
    )
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    assert samples(path)["kin_nb_turns_total", ("agent", "main"), ("model", "m"), ("outcome", "done")] == 20


def test_labels_come_from_a_bounded_set(counters, path):
    invented = [f"tool_{n}" for n in range(MOST_NAMES + 50)]
    counters.on_event(TurnEndEvent(record=record('x"} 1\nkin_nb_evil 1', "a b", "ü", "n" * 101, *invented)))
    found = samples(path)
    tools = {dict(key[1:])["tool"] for key in found if key[0] == "kin_nb_tool_calls_total"}
    assert len(tools) == MOST_NAMES
    assert found["kin_nb_tool_calls_total", ("status", "ok"), ("tool", "other")] == 4 + 51
    counters.on_event(TurnEndEvent(record=record("tool_3")))
    assert samples(path)["kin_nb_tool_calls_total", ("status", "ok"), ("tool", "tool_3")] == 2


def test_someone_elses_file_stays_as_it_is(counters, path):
    path.write_text("my_metric 1\n")
    with pytest.raises(ValueError, match="holds something else"):
        counters.on_event(TurnEndEvent(record=record()))
    assert path.read_text() == "my_metric 1\n"


def test_a_line_that_is_broken_costs_that_line_only(counters, path):
    counters.on_event(TurnEndEvent(record=record("grep")))
    path.write_text(path.read_text() + 'kin_nb_steps_total{model="x"\nkin_nb_steps_total{model="y"} nonsense\n')
    counters.on_event(TurnEndEvent(record=record("grep")))
    assert samples(path)["kin_nb_steps_total", ("model", "m")] == 2


def test_the_folder_must_be_there_for_it_is_the_collectors(make_agent, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Counters(make_agent(prometheus=str(tmp_path / "none" / "kin.prom")))
