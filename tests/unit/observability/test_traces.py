"""Traces: spans as the conventions for generative AI have them, from turns of a real agent, through the real SDK."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import BaseModel

from kin_nb.core.events import (
    CompactEndEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from kin_nb.core.records import RecordedStep, TurnRecord
from kin_nb.core.tools.builtins.todo import Todo
from tests.model_server import tool_call
from tests.serving import serving
from tests.unit.observability.conftest import SECRET

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kin_nb.core.observability.tracing import Traces


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def tree(exporter):
    """{name: (span, name of its parent)}; a name that occurs again gets a number."""
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    found = {}
    for span in sorted(spans, key=lambda span: span.start_time):
        name = span.name if span.name not in found else f"{span.name} {len(found)}"
        found[name] = (span, names.get(span.parent.span_id) if span.parent else None)
    return found


async def test_a_turn_is_a_tree_of_spans(make_agent, model_server, watch, exporter, provider):
    agent = make_agent(otel=True)
    model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.txt"), tool_call("read_file", path="none")])
    model_server.enqueue("Done.")
    events = await watch(agent, Traces(agent, provider), "go")
    spans = tree(exporter)
    parents = {name.rstrip(" 0123456789"): parent for name, (_, parent) in spans.items()}
    assert parents == {
        "invoke_agent kin_nb": None,
        "chat m-": "invoke_agent kin_nb",
        "execute_tool read_file": "invoke_agent kin_nb",
    }
    turn = spans["invoke_agent kin_nb"][0]
    assert turn.kind is SpanKind.INTERNAL
    about = {
        "gen_ai.conversation.id": agent.session_id,
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "m-1",
        "server.address": "127.0.0.1",
    }
    record = events[-1].record
    usage = {
        "gen_ai.usage.input_tokens": record.prompt_tokens,
        "gen_ai.usage.output_tokens": record.completion_tokens,
    }
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "kin_nb", "kin_nb.turn.outcome": "done"}
    assert dict(turn.attributes).items() >= (about | usage | named).items()
    chat = spans["chat m-1"][0]
    assert chat.kind is SpanKind.CLIENT
    step = record.steps[0]
    usage = {"gen_ai.usage.input_tokens": step.prompt_tokens, "gen_ai.usage.output_tokens": step.completion_tokens}
    assert dict(chat.attributes).items() >= (about | usage | {"gen_ai.operation.name": "chat"}).items()
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert chat.end_time > chat.start_time


@pytest.mark.parametrize(
    ("said", "told"), [("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("a b\n", "other")]
)
async def test_every_reply_says_why_it_ended(said, told, make_agent, model_server, watch, exporter, provider):
    agent = make_agent(otel=True)
    model_server.enqueue("Some words.", finish_reason=said)
    await watch(agent, Traces(agent, provider), "go")
    assert tree(exporter)["chat m-1"][0].attributes["gen_ai.response.finish_reasons"] == (told,)


async def test_a_tools_span_names_the_call_and_says_how_it_ended(make_agent, model_server, watch, exporter, provider):
    agent = make_agent(otel=True)
    calls = [tool_call("bash", command="sleep 0.05"), tool_call("read_file", path="none")]
    model_server.enqueue("I look.", calls=calls)
    model_server.enqueue("Done.")
    await watch(agent, Traces(agent, provider), "go")
    spans = tree(exporter)
    bash = spans["execute_tool bash"][0]
    assert dict(bash.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": agent.session_id,
        "gen_ai.tool.name": "bash",
        "gen_ai.tool.call.id": "call00001",
        "gen_ai.tool.type": "function",
    }
    assert bash.kind is SpanKind.INTERNAL
    assert bash.status.status_code is StatusCode.UNSET
    assert 0.05e9 <= bash.end_time - bash.start_time < 30e9
    failed = spans["execute_tool read_file"][0]
    assert failed.attributes["error.type"] == "error"
    assert failed.status.status_code is StatusCode.ERROR


async def test_contents_leave_only_when_asked_for_and_without_secrets(
    make_agent, model_server, watch, exporter, provider
):
    for contents in (False, True):
        agent = make_agent(otel=True, contents=contents)
        model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.txt")])
        model_server.enqueue("It has words.")
        await watch(agent, Traces(agent, provider), f"line\n{SECRET}")
        spans = exporter.get_finished_spans()
        text = "".join(span.to_json() for span in spans)
        assert SECRET not in text
        for content in ("line", "I look.", "It has words.", "the file's words", "a.txt"):
            assert (content in text) is contents, content
        exporter.clear()
    turn = next(span for span in spans if span.name == "invoke_agent kin_nb")
    asked = json.loads(turn.attributes["gen_ai.input.messages"])
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "line\n[secret]"}]}]
    answered = json.loads(turn.attributes["gen_ai.output.messages"])
    assert answered == [{"role": "assistant", "parts": [{"type": "text", "content": "It has words."}]}]
    tool = next(span for span in spans if span.name == "execute_tool read_file")
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"])["path"] == "a.txt"
    assert "the file's words [secret]" in tool.attributes["gen_ai.tool.call.result"]


async def test_a_failing_model_server_is_an_error_of_the_request_and_the_turn(
    make_agent, model_server, watch, exporter, provider
):
    for contents in (False, True):
        agent = make_agent(otel=True, contents=contents)
        model_server.enqueue(status=400, body={"error": {"message": f"bad request near 'Jane Doe {SECRET}'"}})
        await watch(agent, Traces(agent, provider), "summarise Jane Doe")
        for name in ("chat m-1", "invoke_agent kin_nb"):
            span = tree(exporter)[name][0]
            assert span.status.status_code is StatusCode.ERROR
            assert ("Jane Doe" in span.status.description) is contents
            assert contents or span.status.description == "BackendError 400"
            assert SECRET not in span.status.description
            assert span.attributes["error.type"] == "BackendError"
            assert span.attributes["http.response.status_code"] == 400
        exporter.clear()


async def test_a_name_that_the_model_invented_is_in_no_span(make_agent, model_server, watch, exporter, provider):
    agent = make_agent(otel=True)
    model_server.enqueue("I look.", calls=[tool_call("what the person told me", a=1)])
    model_server.enqueue("Done.")
    await watch(agent, Traces(agent, provider), "go")
    assert tree(exporter)["execute_tool other"][0].attributes["gen_ai.tool.name"] == "other"
    assert "told" not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_an_interrupted_turn_leaves_no_span_open(make_agent, model_server, exporter, provider):
    agent = make_agent(otel=True)
    traces = Traces(agent, provider)
    model_server.enqueue("I look.", calls=[tool_call("bash", command="echo begun; sleep 30")])
    async with aclosing(agent.act("go")) as events:
        async for event in events:
            traces.on_event(event)
            if isinstance(event, ToolCallEvent):
                break
    traces.on_event(TurnEndEvent(record=agent.turns[-1]))
    await agent.aclose()
    spans = tree(exporter)
    assert set(spans) == {"invoke_agent kin_nb", "chat m-1", "execute_tool bash"}
    for name in ("invoke_agent kin_nb", "execute_tool bash"):
        assert spans[name][0].attributes["error.type"] == "interrupted"


class Args(BaseModel):
    x: int = 1


CALL = ToolCallEvent(tool_name="task", tool_class=Todo, args=Args(), tool_call_id="c1")
DONE = ToolResultEvent(tool_name="task", tool_class=Todo, tool_call_id="c1", duration=0.0)


def told(traces, *events, within=None):
    for event in events:
        traces.on_event(SubagentEvent(tool_call_id=within, event=event) if within else event)


def start(turn=1):
    return TurnStartEvent(turn=turn, prompt="p")


def end(outcome="done"):
    return TurnEndEvent(record=TurnRecord(turn=1, prompt="p", outcome=outcome))


def test_a_subagent_is_a_tree_inside_its_call(make_agent, exporter, provider):
    traces = Traces(make_agent(otel=True), provider)
    reply = StepReplyEvent(step=RecordedStep(prompt_tokens=7))
    told(traces, start(), CALL)
    told(traces, start(), StepStartEvent(step=1), reply, end(), within="c1")
    told(traces, DONE, end())
    spans = tree(exporter)
    inner = next(name for name in spans if name.startswith("invoke_agent kin_nb "))
    assert spans["execute_tool task"][1] == "invoke_agent kin_nb"
    assert spans[inner][1] == "execute_tool task"
    assert spans["chat m-1"][0].parent.span_id == spans[inner][0].context.span_id
    assert spans["chat m-1"][0].attributes["gen_ai.usage.input_tokens"] == 7
    assert "gen_ai.response.finish_reasons" not in spans["chat m-1"][0].attributes, "nobody said it"


def test_a_subagent_that_is_cut_short_ends_with_its_call(make_agent, exporter, provider):
    traces = Traces(make_agent(otel=True), provider)
    told(traces, start(), CALL)
    told(traces, start(), StepStartEvent(step=1), within="c1")
    told(traces, end("interrupted"))
    assert len(exporter.get_finished_spans()) == 4
    assert tree(exporter)["chat m-1"][0].attributes["error.type"] == "interrupted"


def test_a_refused_call_and_a_compaction_are_in_the_trace(make_agent, exporter, provider):
    traces = Traces(make_agent(otel=True), provider)
    refused = DONE.model_copy(update={"skipped": True, "duration": None})
    compacted = CompactEndEvent(old_context_tokens=9, new_context_tokens=1, summary_length=3)
    told(traces, start(), CALL, refused, compacted, end())
    assert tree(exporter)["execute_tool task"][0].attributes["error.type"] == "refused"
    (event,) = tree(exporter)["invoke_agent kin_nb"][0].events
    assert (event.name, dict(event.attributes)) == ("compaction", {"old_tokens": 9, "new_tokens": 1})


def test_events_outside_of_a_turn_are_nothing(make_agent, exporter, provider):
    traces = Traces(make_agent(otel=True), provider)
    told(traces, StepStartEvent(step=1), CALL, DONE, end())
    assert exporter.get_finished_spans() == ()


@pytest.fixture
def collector(monkeypatch):
    """An OTLP collector over HTTP, at the address that the standard variable names."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            server.received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.received = []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server):
        yield server


def test_spans_go_to_where_the_standard_variables_say(make_agent, collector):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    traces = Traces(make_agent(otel=True))
    told(traces, start(), end())
    traces.close()
    assert [path for path, _ in collector.received] == ["/v1/traces"]
    assert b"invoke_agent kin_nb" in collector.received[0][1]
    assert b"kin_nb" in collector.received[0][1]


def test_a_collector_that_never_answers_does_not_hold_the_end_up(make_agent, monkeypatch):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")  # the exporter's own limit is no help
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        traces = Traces(make_agent(otel=True))
        told(traces, start(), end())
        before = set(threading.enumerate())
        traces.close()
        (sending,) = (thread for thread in set(threading.enumerate()) - before if thread.name == "kin_nb-otel")
        assert sending.daemon
        connection, _ = silent.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")  # what is not tried again
    sending.join(60)
