"""Traces: a session's turns as OpenTelemetry spans, with the names of its semantic conventions for generative AI.

invoke_agent kin_nb > chat MODEL, execute_tool TOOL > invoke_agent kin_nb (a subagent's) > ...
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Status, StatusCode, TracerProvider

from kin_nb import __version__
from kin_nb.core.config import ConfigError
from kin_nb.core.events import (
    BaseEvent,
    CompactEndEvent,
    ErrorEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from kin_nb.core.observability.observer import Observed, name_or_other
from kin_nb.core.redaction import redact_json

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider

    from kin_nb.core.records import CompactRecord, RecordedCall, RecordedStep

AGENT = "kin_nb"
_CLOSING_SECONDS = 2.0
_PROVIDERS = {"mistral": "mistral_ai", "moonshot": "moonshot_ai", "xai": "x_ai", "gemini": "gcp.gemini"}
"""kin_nb's provider name -> the conventions' name. All other names are the same in both, or unknown there."""
_Attributes = dict[str, Any]


class Traces:
    """Sends spans to the server in the OTEL_* variables, or to the program's own tracer provider if it has set one."""

    def __init__(self, session: Observed, provider: TracerProvider | None = None) -> None:
        """Raises ImportError if the extra `otel` is not installed."""
        self._session = session
        self._own: SDKTracerProvider | None = None
        if provider is None:
            provider = trace.get_tracer_provider()
            if isinstance(provider, ProxyTracerProvider):  # the program has not set one
                provider = self._own = _exporting()
        self._trace = _AgentTrace(session, provider.get_tracer(AGENT, __version__), None)

    def on_event(self, event: BaseEvent) -> None:
        self._trace.on_event(event)

    def compacted(self, record: CompactRecord) -> None:
        """Do nothing: a trace covers a turn."""

    def close(self) -> None:
        """Send what is left, and wait up to two seconds. Spans that take longer are lost if the process ends first."""
        if self._own is not None:  # its own timeouts do not apply if no server answers
            sending = threading.Thread(target=self._own.shutdown, name="kin_nb-otel", daemon=True)
            sending.start()
            sending.join(_CLOSING_SECONDS)


class _AgentTrace:
    """The spans of one agent's turns. A tool's span begins with the first event of the call, or is created at its end."""

    def __init__(self, session: Observed, tracer: trace.Tracer, parent: Context | None) -> None:
        self._session, self._tracer, self._parent = session, tracer, parent
        self._turn: Span | None = None
        self._chat: Span | None = None
        self._tools: dict[str, Span] = {}
        self._called: dict[str, ToolCallEvent] = {}
        self._subagents: dict[str, _AgentTrace] = {}

    def on_event(self, event: BaseEvent) -> None:
        if isinstance(event, TurnStartEvent):
            self._turn = self._begin(
                "invoke_agent", AGENT, SpanKind.INTERNAL, {"gen_ai.agent.name": AGENT}, self._parent
            )
            self._tell(self._turn, "gen_ai.input.messages", [_message("user", [_text(event.prompt)])])
        if self._turn is None:
            return
        if isinstance(event, ToolCallEvent | ToolOutputEvent | SubagentEvent | ToolResultEvent):
            self._of_a_tool(event)
            return
        match event:
            case StepStartEvent():
                model = self._about().get("gen_ai.request.model", "")
                self._chat = self._begin("chat", model, SpanKind.CLIENT, {}, self._inside())
            case StepReplyEvent():
                self._replied(event)
            case CompactEndEvent():
                tokens = {"old_tokens": event.old_context_tokens, "new_tokens": event.new_context_tokens}
                self._turn.add_event("compaction", tokens)
            case ErrorEvent():
                self._failed(self._turn, event)
            case TurnEndEvent():
                self._over(self._turn, event)

    def _of_a_tool(self, event: ToolCallEvent | ToolOutputEvent | SubagentEvent | ToolResultEvent) -> None:
        match event:
            case ToolCallEvent():
                self._called[event.tool_call_id] = event
            case ToolOutputEvent():
                self._tool(event.tool_call_id)
            case SubagentEvent():
                self._subagent(event)
            case ToolResultEvent():
                self._result(event)

    def _failed(self, turn: Span, event: ErrorEvent) -> None:
        chat, self._chat = self._chat, None
        contents = self._session.config.observability.contents  # error messages of servers often repeat the request
        why = self._session.redact(event.message) if contents else f"{event.kind} {event.status or ''}".strip()
        for span in filter(None, (chat, turn)):
            if event.status is not None:
                span.set_attribute("http.response.status_code", event.status)
            self._fail(span, event.kind or "_OTHER", why)
        if chat is not None:
            chat.end()

    def _replied(self, event: StepReplyEvent) -> None:
        chat, self._chat, step = self._chat, None, event.step
        if chat is None:
            return
        chat.set_attribute("gen_ai.usage.input_tokens", step.prompt_tokens)
        chat.set_attribute("gen_ai.usage.output_tokens", step.completion_tokens)
        finish = event.finish_reason or ("tool_calls" if step.calls else "")
        if finish:  # without one, the reply may be incomplete
            chat.set_attribute("gen_ai.response.finish_reasons", [name_or_other(finish)])
        self._tell(chat, "gen_ai.output.messages", [_reply(step)])
        chat.end()

    def _tool(self, call_id: str, *, seconds: float = 0.0, name: str = "") -> Span:
        """Return the call's span. A new one gets a start time `seconds` ago."""
        if call_id not in self._tools:
            called = self._called.get(call_id)
            name = name_or_other(called.tool_name if called else name)
            about = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id, "gen_ai.tool.type": "function"}
            began = time.time_ns() - round(seconds * 1e9)
            span = self._begin("execute_tool", name, SpanKind.INTERNAL, about, self._inside(), began)
            if called:
                self._tell(span, "gen_ai.tool.call.arguments", called.args.model_dump(mode="json"))
            self._tools[call_id] = span
        return self._tools[call_id]

    def _result(self, event: ToolResultEvent) -> None:
        span = self._tool(event.tool_call_id, seconds=event.duration or 0.0, name=event.tool_name)
        call = event.call
        status = call.status if call else "error" if event.error is not None else "refused" if event.skipped else "ok"
        if status != "ok":
            self._fail(span, status)
        if call is not None:
            self._tell(span, "gen_ai.tool.call.result", call.output)
        self._end_tool(event.tool_call_id)

    def _end_tool(self, call_id: str) -> None:
        nested = self._subagents.pop(call_id, None)
        if nested is not None:
            nested.cut()
        self._called.pop(call_id, None)
        self._tools.pop(call_id).end()

    def _subagent(self, event: SubagentEvent) -> None:
        if event.tool_call_id not in self._subagents:
            within = trace.set_span_in_context(self._tool(event.tool_call_id))
            self._subagents[event.tool_call_id] = _AgentTrace(self._session, self._tracer, within)
        self._subagents[event.tool_call_id].on_event(event.event)

    def _over(self, turn: Span, event: TurnEndEvent) -> None:
        record = event.record
        turn.set_attribute("gen_ai.usage.input_tokens", record.prompt_tokens)
        turn.set_attribute("gen_ai.usage.output_tokens", record.completion_tokens)
        turn.set_attribute("kin_nb.turn.outcome", record.outcome)
        if record.steps:
            self._tell(turn, "gen_ai.output.messages", [_reply(record.steps[-1])])
        if record.outcome == "interrupted":
            self._fail(turn, "interrupted")
        self.cut()

    def cut(self) -> None:
        """End the open spans: the turn, and in an interrupted turn also its request and its tools."""
        for call_id in {**self._tools, **self._called}:
            self._fail(self._tool(call_id), "interrupted")
            self._end_tool(call_id)
        if self._chat is not None:
            self._fail(self._chat, "interrupted")
            self._chat.end()
        if self._turn is not None:
            self._turn.end()
        self._turn = self._chat = None

    def _begin(
        self,
        operation: str,
        name: str,
        kind: SpanKind,
        more: _Attributes,
        within: Context | None,
        began: int | None = None,
    ) -> Span:
        about = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session.session_id, **more}
        if operation != "execute_tool":
            about |= self._about()
        return self._tracer.start_span(f"{operation} {name}".strip(), within, kind, about, start_time=began)

    def _inside(self) -> Context | None:
        return trace.set_span_in_context(self._turn) if self._turn is not None else None

    def _about(self) -> _Attributes:
        """Return the attributes of the provider, the model and the server."""
        config = self._session.config
        try:
            model = config.get_active_model()
            provider = config.get_provider_for_model(model)
        except ConfigError:
            return {}
        name = provider.name.lower()
        about: _Attributes = {"gen_ai.provider.name": _PROVIDERS.get(name, name), "gen_ai.request.model": model.name}
        server = urlsplit(provider.api_base)
        if server.hostname:
            port = server.port or (80 if server.scheme == "http" else 443)
            about |= {"server.address": server.hostname, "server.port": port}
        return about

    def _tell(self, span: Span, attribute: str, value: Any) -> None:
        """Set contents as an attribute, as JSON text, if the user's settings allow contents."""
        if self._session.config.observability.contents:
            redact = self._session.redact
            text = (
                redact(value) if isinstance(value, str) else redact_json(json.dumps(value, ensure_ascii=False), redact)
            )
            span.set_attribute(attribute, text)

    @staticmethod
    def _fail(span: Span, kind: str, why: str = "") -> None:
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, why or kind))


def _exporting() -> SDKTracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  (an extra)
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (an extra)
    from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider  # noqa: PLC0415  (an extra)
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  (an extra)

    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": AGENT}))
    provider = SDKTracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _text(content: str) -> _Attributes:
    return {"type": "text", "content": content}


def _message(role: str, parts: list[_Attributes]) -> _Attributes:
    return {"role": role, "parts": parts}


def _reply(step: RecordedStep) -> _Attributes:
    parts = [{"type": "reasoning", "content": step.reasoning}] if step.reasoning else []
    parts += [_text(step.content)] if step.content else []
    return _message("assistant", [*parts, *map(_call, step.calls)])


def _call(call: RecordedCall) -> _Attributes:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
