"""One prompt from a program: what is written, and what comes back."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from kin_nb.core.config import KinConfig, MissingAPIKeyError
from kin_nb.core.modes import AgentMode
from kin_nb.core.output_formatters import OutputFormat
from kin_nb.core.programmatic import run_programmatic
from tests.model_server import tool_call

LOOK = tool_call("read_file", path="a.py")
EDIT = tool_call("edit_file", path="a.py", old_string="x = 1", new_string="x = 3")


@pytest.fixture
def written() -> list[str]:
    return []


async def test_text_is_the_last_thing_said_and_nothing_else(model_server, config, written):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("x is 1.")
    record = await run_programmatic(config, "What is x?", write=written.append)
    assert written == ["x is 1."]
    assert (record.outcome, record.prompt, len(record.steps)) == ("done", "What is x?", 2)


async def test_words_that_came_with_the_last_call_count_when_none_follow(model_server, config, written):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("")
    await run_programmatic(config, "What is x?", write=written.append)
    assert written == ["I look."]


async def test_without_a_word_nothing_is_written(model_server, config, written):
    model_server.enqueue(status=401, body={"error": {"message": "no"}})
    record = await run_programmatic(config, "What is x?", write=written.append)
    assert written == []
    assert record.outcome == "error"
    assert "401" in record.message


async def test_json_is_one_list_of_all_messages(model_server, config, written):
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("x is 1.")
    await run_programmatic(config, "What is x?", output_format=OutputFormat.JSON, write=written.append)
    (text,) = written
    assert [m["role"] for m in json.loads(text)] == ["system", "user", "assistant", "tool", "assistant"]


async def test_streaming_writes_each_message_when_it_is_there(model_server, config, written):
    """The messages until then are written while the server still holds the second reply back."""
    hold = threading.Event()
    model_server.enqueue("I look.", calls=[LOOK])
    model_server.enqueue("x is 1.", hold=hold)
    turn = asyncio.create_task(
        run_programmatic(config, "What is x?", output_format=OutputFormat.STREAMING, write=written.append)
    )
    await asyncio.to_thread(model_server.wait_for_request, 2)
    early = [json.loads(line)["role"] for line in written]
    hold.set()
    await turn
    assert early == ["system", "user", "assistant", "tool"]
    assert json.loads(written[-1]) == {"role": "assistant", "content": "x is 1."}
    assert not any("\n" in line for line in written)


async def test_no_one_is_asked_and_the_agent_is_shown_so(model_server, config, workspace, written):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("I may not.")
    record = await run_programmatic(config, "Make x 3.", write=written.append)
    (call,) = record.calls
    assert (call.status, call.decision.by) == ("refused", "headless")
    assert "--mode accept-edits" in model_server.requests[1]["messages"][-1]["content"]
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"


async def test_plan_mode_refuses_though_no_one_would_have_to_be_asked(model_server, config, workspace, written):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Here is my plan.")
    record = await run_programmatic(config, "Make x 3.", mode=AgentMode.PLAN, write=written.append)
    assert record.calls[0].decision.by == "DenyWhilePlanning"
    assert (workspace / "a.py").read_text() == "x = 1\ny = 2\n"


async def test_accept_edits_lets_it_edit(model_server, config, workspace, written):
    model_server.enqueue(calls=[EDIT])
    model_server.enqueue("Done.")
    await run_programmatic(config, "Make x 3.", mode=AgentMode.ACCEPT_EDITS, write=written.append)
    assert (workspace / "a.py").read_text() == "x = 3\ny = 2\n"


async def test_a_missing_key_is_reported_before_anything_is_sent_or_logged(written):
    with pytest.raises(MissingAPIKeyError):
        await run_programmatic(KinConfig(), "Hello?", write=written.append)
    assert written == []
