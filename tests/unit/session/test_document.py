"""The one JSON document of a session: the seed's shape, from the log alone."""

from __future__ import annotations

import json
import stat

import pytest

from kin_nb.core.documents.document import SessionMetadata, session_document, total_cost, write_document
from kin_nb.core.messages import LLMMessage
from kin_nb.core.records import RecordedCompaction, RecordedDecision, RecordedImage, RecordedStep, TurnRecord
from kin_nb.core.session.errors import UnreadableSessionError
from kin_nb.core.session.log import SessionLog
from kin_nb.core.session.metadata import config_snapshot
from kin_nb.core.usage_stats import AgentStats
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn
from tests.unit.session.conftest import STEP, call, write_clear, write_compaction, write_turns

SURROUNDINGS = {
    "start_time": "2024-01-26T10:30:00+01:00",
    "git_commit": "a" * 40,
    "git_branch": "main",
    "username": "blake",
    "environment": {"working_directory": "/w"},
    "auto_approve": False,
    "system_prompt_text": "You are Kin.",
    "config": {"active_model": "m", "models": [{"alias": "m", "input_price": 1.0, "output_price": 2.0}], "tools": {}},
}
ALLOWED = RecordedDecision(verdict="allow", by="person", reason="asked")
DENIED = RecordedDecision(verdict="deny", by="person", reason="asked")


def test_it_has_the_shape_of_the_seed(write_session):
    log = write_session("aaaa-1", "Hello", **SURROUNDINGS)
    document = session_document(log.folder)
    assert list(document) == ["metadata", "messages", "stats", "config_snapshot"]
    assert list(document["metadata"]) == list(SessionMetadata.model_fields)
    assert document["metadata"]["end_time"]
    assert document["metadata"] | {"end_time": None} == {
        "session_id": "aaaa-1",
        "start_time": "2024-01-26T10:30:00+01:00",
        "end_time": None,
        "git_commit": "a" * 40,
        "git_branch": "main",
        "environment": {"working_directory": "/w"},
        "auto_approve": False,
        "username": "blake",
    }
    assert document["messages"] == [
        {"role": "system", "content": "You are Kin."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Answer.", "tool_calls": None},
    ]
    assert document["config_snapshot"] == SURROUNDINGS["config"]
    assert json.loads(json.dumps(document)) == document


def test_calls_results_and_pictures_are_messages_that_read_back(write_session):
    image = RecordedImage(media_type="image/png", data="AAAA")
    step = RecordedStep(reasoning="hm", calls=(call(output="built", status="ok", images=(image,)),))
    log = write_session("aaaa-1", "Build it", steps=(step, STEP))
    messages = session_document(log.folder)["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2]["tool_calls"] == [
        {"id": "c1", "index": 0, "function": {"name": "bash", "arguments": '{"command": "make"}'}, "type": "function"}
    ]
    assert messages[3] == {
        "role": "tool",
        "content": "built",
        "name": "bash",
        "tool_call_id": "c1",
        "images": [{"media_type": "image/png", "data": "AAAA"}],
    }
    assert [LLMMessage.model_validate(message).role for message in messages] == [m["role"] for m in messages]


async def test_messages_and_stats_are_those_of_the_agent(model_server, trusted):
    model_server.enqueue("Looking.", calls=[tool_call("read_file", path="a.py"), tool_call("bash", command="exit 3")])
    model_server.enqueue(calls=[tool_call("nope")])
    model_server.enqueue("Done.")
    model_server.enqueue("And again.")
    await run_turn(trusted, "first")
    await run_turn(trusted, "second")
    document = session_document(trusted.log.folder)
    said = [(m["role"], m.get("content"), m.get("tool_call_id")) for m in document["messages"][1:]]
    assert said == [(m.role, m.content and trusted.redact(m.content), m.tool_call_id) for m in trusted.messages[1:]]
    live = trusted.stats.model_dump(exclude={"input_price_per_million", "output_price_per_million"})
    found = {name: document["stats"][name] for name in live}
    assert found.pop("last_turn_duration") == pytest.approx(live.pop("last_turn_duration"), abs=0.001)
    assert found == live
    assert document["stats"]["session_total_llm_tokens"] == trusted.stats.session_total_llm_tokens
    assert document["stats"]["session_cost"] == pytest.approx(trusted.stats.session_cost, abs=1e-6)


def test_stats_count_what_was_decided_and_how_it_ended(write_session):
    calls = (
        call(id="c1", decision=ALLOWED, status="ok"),
        call(id="c2", decision=ALLOWED, status="error"),
        call(id="c3", decision=DENIED, status="refused"),
        call(id="c4", status="refused"),
        call(id="c5", status="error"),
        call(id="c6", decision=ALLOWED, status="interrupted"),
    )
    log = write_session("aaaa-1", "x", steps=(STEP.model_copy(update={"calls": calls}), STEP), **SURROUNDINGS)
    stats = session_document(log.folder)["stats"]
    assert {name: stats[name] for name in stats if name.startswith("tool_calls")} == {
        "tool_calls_agreed": 3,
        "tool_calls_rejected": 1,
        "tool_calls_failed": 2,
        "tool_calls_succeeded": 1,
    }
    assert (stats["steps"], stats["context_tokens"], stats["tokens_per_second"]) == (2, 110, 20.0)
    assert (stats["session_prompt_tokens"], stats["session_completion_tokens"]) == (200, 20)
    assert (stats["last_turn_duration"], stats["last_turn_total_tokens"]) == (0.5, 110)
    assert (stats["input_price_per_million"], stats["output_price_per_million"]) == (1.0, 2.0)
    assert stats["session_cost"] == pytest.approx(0.00012)
    assert set(AgentStats.model_fields) <= set(stats)


def test_everything_said_is_there_in_order_and_a_compaction_where_it_happened(root):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    log.append("session", session="aaaa-1", workspace="/w", model="m", **SURROUNDINGS)
    compaction = RecordedCompaction(summary="SUM", new_tokens=40, prompt_tokens=5, completion_tokens=6)
    write_turns(log, "one")
    write_turns(log, "two", first=2, steps=(STEP.model_copy(update={"compaction": compaction}),))
    log.append("renamed", session_id="bbbb-1", why="compact")
    write_turns(log, "three", first=3, parent=write_compaction(log, 2, compaction))
    log.append("renamed", session_id="cccc-1", why="clear")
    write_clear(log, 3)
    write_turns(log, "four", first=4, parent=None, steps=())
    log.close()
    document = session_document(log.folder)
    contents = [message["content"] for message in document["messages"]]
    places = [i for i, text in enumerate(contents) if "SUM" in text]
    assert [text for text in contents if "SUM" not in text] == [
        *("You are Kin.", "one", "Answer.", "two", "Answer.", "three", "Answer.", "four")
    ]
    assert places == [4, 6]
    assert "two" in contents[4]
    assert "two" in contents[6], "the last request before it"
    assert document["metadata"]["session_id"] == "cccc-1"
    assert document["stats"]["session_prompt_tokens"] == 310
    assert document["stats"]["context_tokens"] == 0, "a new conversation, nothing sent yet"


def test_an_old_log_says_what_it_knows(write_session):
    log = write_session("aaaa-1", "Hello")
    document = session_document(log.folder)
    assert document["metadata"]["start_time"] == document["metadata"]["end_time"] != ""
    assert document["metadata"]["git_branch"] is None
    assert document["metadata"]["username"] == ""
    assert document["messages"][0] == {"role": "system", "content": ""}
    assert document["config_snapshot"] == {"active_model": "m"}
    assert document["stats"]["input_price_per_million"] == 0.0


def test_a_turn_that_ran_all_unasked_is_reported(root):
    log = SessionLog("aaaa-1", folder=root / "aaaa-1")
    log.append("session", session="aaaa-1", workspace="/w", model="m", **SURROUNDINGS)
    write_turns(log, "x", mode="auto_approve")
    write_turns(log, "y", first=2)
    log.close()
    assert session_document(log.folder)["metadata"]["auto_approve"] is True


def test_a_header_of_other_types_is_an_error_that_names_the_field(write_session):
    log = write_session("aaaa-1", "x", environment=[1])
    with pytest.raises(UnreadableSessionError, match="environment in its header is not valid") as error:
        session_document(log.folder)
    assert str(log.path) in str(error.value)


@pytest.mark.parametrize("models", [None, 3, [3], [{"alias": "m"}], [{"alias": [], "input_price": "x"}]])
def test_a_snapshot_of_another_shape_costs_only_the_prices(write_session, models):
    log = write_session("aaaa-1", "x", config={"models": models})
    assert session_document(log.folder)["stats"]["input_price_per_million"] == 0.0


def test_an_unknown_cost_is_not_a_cost_of_nothing():
    def turn(cost: str) -> TurnRecord:
        return TurnRecord(turn=1, prompt="x", cost=cost)

    assert total_cost([turn(""), turn("cheap")]) is None
    assert total_cost([turn("0.5"), turn(""), turn("0.25")]) == 0.75


def test_the_written_document_is_the_owners_alone_and_leaves_nothing_else(write_session, tmp_path):
    log = write_session("aaaa-1", "x \ud83d")
    path = write_document(log.folder, tmp_path / "out.json")
    path.chmod(0o644)
    write_document(log.folder, path)
    assert json.loads(path.read_text()) == session_document(log.folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "sessions"]


def test_a_document_that_cannot_be_written_leaves_the_old_one(write_session, tmp_path):
    log = write_session("aaaa-1", "x")
    (tmp_path / "out.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_document(log.folder, tmp_path / "out.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "sessions"]


# config_snapshot


def test_the_snapshot_names_models_and_tools_and_no_secret(config, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "value-of-the-key")
    settings = type(config).model_validate(
        {
            **config.model_dump(),
            "providers": [
                {"name": "p", "api_base": "https://u:hunter22@host/v1", "extra_headers": {"X-Token": "t0ps"}}
            ],
            "tools": {
                "bash": {"permission": "always", "allowlist": ["echo value-of-the-key"]},
                "web": {"api_key": "k3y", "tokens": ["t1"], "limit": 3, "nested": {"password": "pw"}},
            },
            "mcp_servers": [{"name": "git", "command": "serve --token abc", "env": {"GIT_TOKEN": "s3cret"}}],
        }
    )
    snapshot = config_snapshot(settings)
    assert snapshot["active_model"] == "m"
    assert snapshot["models"][0]["output_price"] == 2.0
    assert snapshot["models"][0]["max_tokens"] is None
    assert snapshot["tools"]["bash"] == {"permission": "always", "allowlist": ["echo [secret]"]}
    assert snapshot["tools"]["web"]["limit"] == 3
    assert snapshot["mcp_servers"] == ["git"]
    text = json.dumps(snapshot)
    assert [
        s for s in ("value-of-the-key", "hunter22", "t0ps", "k3y", "t1", '"pw"', "abc", "s3cret") if s in text
    ] == []


def test_the_snapshot_gives_the_document_its_prices(write_session, config):
    log = write_session("aaaa-1", "x", config=config_snapshot(config))
    stats = session_document(log.folder)["stats"]
    assert (stats["input_price_per_million"], stats["output_price_per_million"]) == (1.0, 2.0)
