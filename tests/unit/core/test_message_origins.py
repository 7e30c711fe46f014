"""What a server sends with a whole reply for itself (OpenRouter's reasoning_details) goes back to that server's same model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.documents.document import session_document
from kin_nb.core.documents.session import Session
from kin_nb.core.modes import AgentMode
from kin_nb.core.wire import to_wire
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.rerun.stubs import ReplayBackend
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.sources import session_from_log
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

OWN_ID = "tool_0_read_file"
SIGNED = {"type": "reasoning.text", "text": "Let me look.", "format": "anthropic-claude-v1", "signature": "c2ln"}
SECRET_PART = {"type": "reasoning.encrypted", "data": "ZW5jcnlwdGVk", "id": OWN_ID, "format": "google-gemini-v1"}
DETAILS = [
    {**SIGNED, "index": 0},
    {**SECRET_PART, "index": 0},
    {"type": "reasoning.summary", "summary": "S", "index": 1},
]
EXTRA = {"google": {"thought_signature": "R2VtaW5p"}}
CALL = {"id": OWN_ID, "type": "function", **tool_call("read_file", path="a.py")}

Delta = dict[str, Any]


def stream(*deltas: Delta, finish: str = "stop") -> bytes:
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"delta": {}, "finish_reason": finish}]}]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def in_pieces() -> bytes:
    """As OpenRouter streams: texts in pieces, the signature in a last one without text, the encrypted part whole."""
    first = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    return stream(
        {"reasoning": "Let", "reasoning_details": [{**first, "text": "Let"}]},
        {"reasoning": " me look.", "reasoning_details": [{**first, "text": " me look."}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", "index": 0}]},
        {"reasoning_details": [DETAILS[1], DETAILS[2]]},
        {"content": "I look.", "tool_calls": [{"index": 0, **CALL}]},
        {"extra_content": EXTRA},
        finish="tool_calls",
    )


def whole() -> dict[str, Any]:
    message = {"role": "assistant", "content": "I look.", "reasoning": "Let me look.", "reasoning_details": DETAILS}
    message |= {"tool_calls": [CALL], "extra_content": EXTRA, "annotations": [], "refusal": None}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def sent(server: ModelServer, request: int = -1) -> dict[str, Any]:
    """The last reply with a call in a request."""
    messages = server.requests[request]["messages"]
    found: dict[str, Any] = next(message for message in reversed(messages) if message.get("tool_calls"))
    return found


def is_whole(message: dict[str, Any]) -> bool:
    own = {key: message.get(key) for key in ("reasoning_details", "extra_content")}
    return own == {"reasoning_details": DETAILS, "extra_content": EXTRA} and message["tool_calls"][0]["id"] == OWN_ID


def is_bare(message: dict[str, Any]) -> bool:
    return message.keys() <= {"role", "content", "tool_calls", "reasoning_content"}


@pytest.fixture
def config(model_server: ModelServer, workspace: Path) -> KinConfig:
    """Two models of the provider p, one of q; all at one address."""
    providers = [ProviderConfig(name=name, api_base=model_server.url) for name in "pq"]
    names = {"m": "p", "other": "p", "elsewhere": "q", "devstral": "p"}
    models = [ModelConfig(name=name, provider=provider) for name, provider in names.items()]
    return KinConfig(workdir=workspace, active_model="m", providers=providers, models=models)


@pytest.fixture
async def agent(config: KinConfig) -> AsyncIterator[Agent]:
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    yield agent
    await agent.aclose()


async def ask(agent: Agent, server: ModelServer, reply: bytes | None = None) -> None:
    server.enqueue(raw=reply or in_pieces())
    server.enqueue("Looked.")
    await run_turn(agent)
    assert agent.turns[-1].outcome == "done", agent.turns[-1].message


@pytest.mark.parametrize("streaming", [True, False])
async def test_what_came_with_a_reply_goes_back_with_the_next_request(
    streaming: bool, config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(config, AgentMode.AUTO_APPROVE, enable_streaming=streaming)
    if streaming:
        model_server.enqueue(raw=in_pieces())
    else:
        model_server.enqueue(status=200, body=whole())
    model_server.enqueue("Looked.")
    await run_turn(agent)
    await agent.aclose()
    assert is_whole(sent(model_server))
    assert is_bare({k: v for k, v in sent(model_server).items() if k not in {"reasoning_details", "extra_content"}})
    assert "reasoning_content" not in sent(model_server), "the details say it"


async def test_only_that_model_of_that_provider_gets_it(agent: Agent, model_server: ModelServer) -> None:
    await ask(agent, model_server)
    for model in ("other", "elsewhere", "devstral", "m"):
        agent.switch_config(agent.config.model_copy(update={"active_model": model}))
        model_server.enqueue("Yes.")
        await run_turn(agent)
        message = sent(model_server)
        assert (is_whole if model == "m" else is_bare)(message), model


async def test_a_reply_without_calls_keeps_it_too(agent: Agent, model_server: ModelServer) -> None:
    model_server.enqueue(raw=stream({"content": "Hello."}, {"reasoning_details": [DETAILS[0]]}))
    model_server.enqueue("Again.")
    await run_turn(agent)
    await run_turn(agent)
    reply = next(m for m in model_server.requests[-1]["messages"] if m["role"] == "assistant")
    assert reply == {"role": "assistant", "content": "Hello.", "reasoning_details": [DETAILS[0]]}


async def test_a_call_that_gets_another_id_is_named_by_it_in_the_details_too(
    agent: Agent, model_server: ModelServer
) -> None:
    """A server that counts its calls again in each reply."""
    await ask(agent, model_server)
    await ask(agent, model_server)
    first, second = (m for m in model_server.requests[-1]["messages"] if m.get("tool_calls"))
    assert is_whole(first)
    identity = second["tool_calls"][0]["id"]
    assert identity != OWN_ID
    assert [entry.get("id") for entry in second["reasoning_details"]] == [None, identity, None]


async def test_parts_of_one_index_and_another_call_are_kept_apart(agent: Agent, model_server: ModelServer) -> None:
    parts = [{"type": "reasoning.encrypted", "data": data, "id": name, "index": 0} for name, data in ("aX", "bY")]
    odd = [{"type": "reasoning.text", "text": "no index"}, "no object", {"type": "reasoning.text", "text": "neither"}]
    model_server.enqueue(raw=stream({"content": "Hello.", "reasoning_details": [*parts, *odd]}))
    model_server.enqueue("Again.")
    await run_turn(agent)
    await run_turn(agent)
    reply = next(m for m in model_server.requests[-1]["messages"] if m["role"] == "assistant")
    assert reply["reasoning_details"] == [*parts, *odd]


async def test_a_reply_that_breaks_off_keeps_its_text_alone(agent: Agent, model_server: ModelServer) -> None:
    model_server.enqueue(raw=in_pieces().rpartition(b"data: ")[0])
    await run_turn(agent)
    assert agent.turns[0].outcome == "error"
    model_server.enqueue("Yes.")
    await run_turn(agent)
    reply = next(m for m in model_server.requests[-1]["messages"] if m["role"] == "assistant")
    assert is_bare(reply)
    assert agent.turns[0].steps[0].provider_data == ""


async def test_a_session_that_continues_sends_it(agent: Agent, config: KinConfig, model_server: ModelServer) -> None:
    """Resumed from the log, continued from a notebook, loaded from a document."""
    await ask(agent, model_server)
    await agent.aclose()
    turns = session_from_log(agent.log.session_id, config.effective_workdir).recording
    text = nbformat.writes(session_notebook(turns))
    continued = Agent(config, AgentMode.AUTO_APPROVE)
    continued.continue_from(read_recording(nbformat.reads(text, as_version=4)).turns)
    resumed = Agent.resume(config, agent.log.session_id, mode=AgentMode.AUTO_APPROVE)
    document = json.loads(json.dumps(Session(resumed).to_dict()))
    loaded = Session.from_dict(document, config).agent
    for again in (continued, resumed, loaded):
        model_server.enqueue("Yes.")
        await run_turn(again)
        await again.aclose()
        assert is_whole(sent(model_server))


async def test_a_rerun_records_it_again(agent: Agent, config: KinConfig, model_server: ModelServer) -> None:
    await ask(agent, model_server)
    again = Agent(config, backend=ReplayBackend(agent.turns[0]))
    await run_turn(again)
    await again.aclose()
    recorded = [[(step.provider_data, step.fingerprint) for step in each.turns[0].steps] for each in (agent, again)]
    assert recorded[0] == recorded[1]
    assert recorded[0][0][0] != ""


async def test_it_is_shown_nowhere_and_not_recorded_with_a_secret(
    config: KinConfig, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "correct-horse-battery")
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    model_server.enqueue(raw=in_pieces())
    model_server.enqueue(raw=stream({"content": "Hm.", "extra_content": {"key": "correct-horse-battery"}}))
    lines = [json.dumps(to_wire(event, agent.redact)) async for event in agent.act("go")]
    first, second = agent.turns[0].steps
    assert "c2ln" in first.provider_data
    assert second.provider_data == ""
    await agent.aclose()
    for shown in ("".join(lines), json.dumps(session_document(agent.log.folder))):
        assert "ZW5jcnlwdGVk" not in shown
        assert "correct-horse" not in shown
    assert "correct-horse-battery" not in agent.log.path.read_text()
