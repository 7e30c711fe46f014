"""What a server sends with a tool call for itself (a signature, its own id) goes back to that server, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.config import Backend, KinConfig, ModelConfig, ProviderConfig
from kin_nb.core.documents.document import session_document
from kin_nb.core.documents.session import Session
from kin_nb.core.llm.adapters.encoding import Destination
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import CallOrigin, TurnRecord
from kin_nb.core.wire import to_wire
from kin_nb.render import render_turn
from kin_nb.replay.format.notebook_codec import read_recording
from kin_nb.replay.rerun.stubs import ReplayBackend
from kin_nb.replay.saving.build import session_notebook
from kin_nb.replay.saving.sources import session_from_log
from tests.anthropic_server import AnthropicServer
from tests.model_server import ModelServer, tool_call
from tests.unit.core.conftest import run_turn

OWN_ID = "function-call-1234567890"
SIGNATURE = "EpwBCpkB/sk-abcdefghijklmnopqrstuvwxyz0123456789+/root=="  # with what looks like a key in it
EXTRA = {"google": {"thought_signature": SIGNATURE}}


def signed(identity: str = OWN_ID, path: str = "a.py", **fields: Any) -> dict[str, Any]:
    return {"id": identity, "extra_content": EXTRA, **tool_call("read_file", path=path), **fields}


def sent_call(server: ModelServer, request: int = -1) -> dict[str, Any]:
    """The last call in a request, with the id that its answer names."""
    messages = server.requests[request]["messages"]
    last = next(message for message in reversed(messages) if message.get("tool_calls"))
    call = last["tool_calls"][-1]
    answers = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert call["id"] in answers
    return {**call, "function": call["function"]["name"]}


def is_signed(call: dict[str, Any]) -> bool:
    return call == {"id": OWN_ID, "type": "function", "function": "read_file", "extra_content": EXTRA}


def is_bare(call: dict[str, Any]) -> bool:
    return call.keys() == {"id", "type", "function"} and len(call["id"]) == 9 and call["id"].isalnum()


@pytest.fixture
def config(model_server: ModelServer, workspace: Path) -> KinConfig:
    """Two models of the provider p, one of q, one of Mistral's own API; all at one address."""
    p, q = (ProviderConfig(name=name, api_base=model_server.url) for name in "pq")
    mistral = ProviderConfig(name="mistral", api_base=model_server.url, backend=Backend.MISTRAL)
    names = {"m": "p", "other": "p", "elsewhere": "q", "devstral": "p", "medium": "mistral"}
    return KinConfig(
        workdir=workspace,
        active_model="m",
        providers=[p, q, mistral],
        models=[ModelConfig(name=name, provider=provider) for name, provider in names.items()],
    )


@pytest.fixture
async def agent(config: KinConfig) -> AsyncIterator[Agent]:
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    yield agent
    await agent.aclose()


async def ask_signed(agent: Agent, server: ModelServer, *calls: dict[str, Any]) -> TurnRecord:
    server.enqueue(reasoning="Look.", calls=calls or [signed()])
    server.enqueue("Looked.")
    await run_turn(agent)
    return agent.turns[-1]


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_signature_and_the_servers_own_id_go_back_with_the_next_request(
    streaming: bool, config: KinConfig, model_server: ModelServer
) -> None:
    agent = Agent(config, enable_streaming=streaming)
    await ask_signed(agent, model_server)
    await agent.aclose()
    assert is_signed(sent_call(model_server))


async def test_a_signature_may_come_in_deltas_of_its_own(agent: Agent, model_server: ModelServer) -> None:
    call = tool_call("read_file", path="a.py")
    deltas: list[dict[str, Any]] = [
        {"index": 0, "id": OWN_ID, **call, "custom": None},
        {"index": 0, "extra_content": {"google": {"thought_signature": SIGNATURE[:9]}}},
        {"index": 0, "function": {"signature": "f"}, "extra_content": {"google": {"thought_signature": SIGNATURE[9:]}}},
        {"index": 0, "extra_content": EXTRA, "order": 1},
        {"index": 0, "order": 2},
    ]
    chunks = [{"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas]
    chunks += [{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]
    model_server.enqueue(raw=b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks))
    model_server.enqueue("Looked.")
    await run_turn(agent)
    sent = model_server.requests[1]["messages"][-2]["tool_calls"][0]
    assert sent == {
        "id": OWN_ID,
        "type": "function",
        "function": {**call["function"], "signature": "f"},
        "extra_content": EXTRA,
        "order": 2,
    }


async def test_another_provider_gets_ids_that_all_take_and_no_fields(agent: Agent, model_server: ModelServer) -> None:
    await ask_signed(agent, model_server)
    for model, check in (("elsewhere", is_bare), ("medium", is_bare), ("devstral", is_bare), ("m", is_signed)):
        agent.switch_config(agent.config.model_copy(update={"active_model": model}))
        model_server.enqueue("Yes.")
        await run_turn(agent)
        assert check(sent_call(model_server)), model


async def test_another_model_of_the_provider_gets_the_fields_and_a_new_id(
    agent: Agent, model_server: ModelServer
) -> None:
    await ask_signed(agent, model_server)
    agent.switch_config(agent.config.model_copy(update={"active_model": "other"}))
    model_server.enqueue("Yes.")
    await run_turn(agent)
    call = sent_call(model_server)
    assert call.pop("extra_content") == EXTRA
    assert is_bare(call)


async def test_another_address_under_the_same_providers_name_gets_nothing_of_the_old_one(
    agent: Agent, model_server: ModelServer
) -> None:
    await ask_signed(agent, model_server)
    configured = agent.config
    with ModelServer.start() as other:
        moved = configured.providers[0].model_copy(update={"api_base": other.url})
        agent.switch_config(configured.model_copy(update={"providers": [moved, *configured.providers[1:]]}))
        other.enqueue("Yes.")
        await run_turn(agent)
        assert is_bare(sent_call(other))
    agent.switch_config(configured)
    model_server.enqueue("Yes.")
    await run_turn(agent)
    assert is_signed(sent_call(model_server))


def test_another_path_is_the_same_server_and_an_old_record_names_none() -> None:
    provider = ProviderConfig(name="p", api_base="https://user:key@models.example:8443/v1")
    again, moved = (
        provider.model_copy(update={"api_base": base})
        for base in ("https://MODELS.example:8443/v2/", "https://models.example/v1")
    )
    origin = CallOrigin(provider="p", model="m", address=Destination.of(provider, "m").address)
    assert "models" not in origin.to_text()
    assert [Destination.of(to, "m").made(origin) for to in (provider, again, moved)] == [True, True, False]
    assert Destination.of(moved, "m").made(CallOrigin(provider="p", model="m"))
    assert not Destination.of(moved, "m").made(CallOrigin(provider="q", model="m"))


async def test_an_id_that_comes_again_is_replaced(agent: Agent, model_server: ModelServer) -> None:
    await ask_signed(agent, model_server, signed("call_0"), signed("call_0", "b.py"))
    await ask_signed(agent, model_server, signed("call_0"))
    calls = [call for message in model_server.requests[-1]["messages"] for call in message.get("tool_calls", ())]
    assert [call["id"] == "call_0" for call in calls] == [True, False, False]
    assert all(call["extra_content"] == EXTRA for call in calls)
    assert len({call["id"] for call in calls}) == 3


async def test_nothing_is_kept_of_a_call_that_brings_nothing(agent: Agent, model_server: ModelServer) -> None:
    turn = await ask_signed(agent, model_server, tool_call("read_file", path="a.py"))
    assert [(call.id, call.provider_data) for call in turn.calls] == [("call00001", "")]


async def test_undo_and_compaction_leave_the_signatures_of_what_stays(agent: Agent, model_server: ModelServer) -> None:
    await ask_signed(agent, model_server)
    model_server.enqueue("Undone.")
    await run_turn(agent)
    await agent.undo()
    agent.history.compact("Summed up.", kept=3)
    model_server.enqueue("Yes.")
    await run_turn(agent)
    assert any("Summed up." in str(message["content"]) for message in model_server.requests[-1]["messages"])
    assert is_signed(sent_call(model_server))


async def test_a_resumed_session_sends_them(agent: Agent, config: KinConfig, model_server: ModelServer) -> None:
    await ask_signed(agent, model_server)
    await agent.aclose()
    resumed = Agent.resume(config, "latest", mode=AgentMode.AUTO_APPROVE)
    model_server.enqueue("Yes.")
    await run_turn(resumed)
    await resumed.aclose()
    assert is_signed(sent_call(model_server))
    assert resumed.turns[-1].steps[0].fingerprint != ""


async def test_a_session_notebook_keeps_them(agent: Agent, config: KinConfig, model_server: ModelServer) -> None:
    await ask_signed(agent, model_server)
    await agent.aclose()
    notebook = session_notebook(session_from_log(agent.log.session_id, config.effective_workdir).recording)
    text = nbformat.writes(notebook)
    assert text.count(SIGNATURE) == 1  # in the record, and in nothing that is shown
    recorded = read_recording(nbformat.reads(text, as_version=4)).turns
    assert [turn.steps for turn in recorded] == [turn.steps for turn in agent.turns]
    continued = Agent(config)
    continued.continue_from(recorded)
    model_server.enqueue("Yes.")
    await run_turn(continued)
    await continued.aclose()
    assert is_signed(sent_call(model_server))


async def test_a_session_document_keeps_them(agent: Agent, config: KinConfig, model_server: ModelServer) -> None:
    await ask_signed(agent, model_server)
    loaded = Session.from_dict(json.loads(json.dumps(Session(agent).to_dict())), config)
    model_server.enqueue("Yes.")
    await run_turn(loaded.agent)
    await loaded.agent.aclose()
    assert is_signed(sent_call(model_server))


async def test_a_rerun_records_them_again_and_its_fingerprints_agree(
    agent: Agent, config: KinConfig, model_server: ModelServer
) -> None:
    turn = await ask_signed(agent, model_server)
    again = Agent(config, backend=ReplayBackend(turn))
    await run_turn(again)
    await again.aclose()
    assert [call.provider_data for call in again.turns[0].calls] == [call.provider_data for call in turn.calls]
    assert [step.fingerprint for step in again.turns[0].steps] == [step.fingerprint for step in turn.steps]


async def test_fingerprints_are_those_of_the_words_alone(config: KinConfig, model_server: ModelServer) -> None:
    fingerprints = []
    for call in ({"id": "call00001", **tool_call("read_file", path="a.py")}, signed("call00001")):
        agent = Agent(config, AgentMode.AUTO_APPROVE)
        turn = await ask_signed(agent, model_server, call)
        await agent.aclose()
        fingerprints.append([step.fingerprint for step in turn.steps])
    assert fingerprints[0] == fingerprints[1]


async def test_they_are_recorded_verbatim_and_never_shown(agent: Agent, model_server: ModelServer) -> None:
    assert agent.redact(SIGNATURE) != SIGNATURE
    model_server.enqueue(calls=[signed(note=f"in {agent.workspace.root}")])
    model_server.enqueue("Looked.")
    lines = [json.dumps(to_wire(event, agent.redact)) async for event in agent.act("go")]
    [call] = agent.turns[-1].calls
    origin = CallOrigin.from_text(call.provider_data)
    fields = {"extra_content": EXTRA, "note": f"in {agent.workspace.root}"}
    address = Destination.of(agent.config.providers[0], "m").address
    assert origin == CallOrigin(provider="p", address=address, model="m", id=OWN_ID, fields=fields)
    shown = [json.dumps(output.data) for output in render_turn(agent.turns[-1])]
    for text in [*lines, *shown]:
        assert "EpwBCpkB" not in text
        assert OWN_ID not in text


async def test_they_are_in_no_document_that_is_printed(agent: Agent, model_server: ModelServer) -> None:
    turn = await ask_signed(agent, model_server)
    await agent.aclose()
    printed = json.dumps(session_document(agent.log.folder))
    assert turn.calls[0].id in printed
    assert SIGNATURE not in printed
    assert OWN_ID not in printed


async def test_a_key_that_a_server_quotes_is_not_recorded(
    config: KinConfig, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "correct-horse-battery")
    agent = Agent(config, AgentMode.AUTO_APPROVE)
    turn = await ask_signed(agent, model_server, signed(debug="Bearer correct-horse-battery"))
    await agent.aclose()
    assert turn.calls[0].provider_data == ""
    assert "correct-horse-battery" not in agent.log.path.read_text()


async def test_anthropics_ids_and_signed_thinking_go_back(workspace: Path) -> None:
    with AnthropicServer.start() as server:
        provider = ProviderConfig(name="p", api_base=server.url, api_style="anthropic")
        model = ModelConfig(name="claude-sonnet-4-5", alias="m", provider="p", thinking="high")
        config = KinConfig(workdir=workspace, active_model="m", providers=[provider], models=[model])
        agent = Agent(config, AgentMode.AUTO_APPROVE)
        server.enqueue(reasoning="Look.", calls=[tool_call("read_file", path="a.py")])
        server.enqueue("Looked.")
        await run_turn(agent)
        await agent.aclose()
        thought, call = server.requests[1]["messages"][1]["content"]
        assert thought["signature"]
        assert call["id"].startswith("toolu_")
        assert server.requests[1]["messages"][2]["content"][0]["tool_use_id"] == call["id"]
        resumed = Agent.resume(config, "latest")
        server.enqueue("Yes.")
        await run_turn(resumed)
        await resumed.aclose()
        assert call in server.requests[2]["messages"][1]["content"]
        assert not server.violations
