"""What a program gets of a turn. The formats end to end: tests/unit/core/test_programmatic.py."""

from __future__ import annotations

import json

from kin_nb.core.events import StepStartEvent
from kin_nb.core.messages import FunctionCall, LLMMessage, Role, ToolCall
from kin_nb.core.output_formatters import OutputFormat, create_formatter
from kin_nb.core.records import RecordedStep, TurnRecord

ARGUMENTS = '{"command": "echo sesame\\u0020open"}'
CLEAN = '{"command": "echo [secret]"}'
MESSAGES = [
    LLMMessage(role=Role.system, content="s: sesame open"),
    LLMMessage(role=Role.user, content="line\nline"),
    LLMMessage(role=Role.assistant, content="a \ud83d", reasoning_blocks=[{"signature": "only for its provider"}]),
    LLMMessage(
        role=Role.assistant, tool_calls=[ToolCall(id="c", function=FunctionCall(name="bash", arguments=ARGUMENTS))]
    ),
]
DUMPS = [
    {"role": "system", "content": "s: [secret]"},
    {"role": "user", "content": "line\nline"},
    {"role": "assistant", "content": "a \ud83d"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": CLEAN}}],
    },
]
TURN = TurnRecord(turn=1, prompt="x", steps=(RecordedStep(content="said"), RecordedStep(content="")))


def redact(text: str) -> str:
    return text.replace("sesame open", "[secret]")


def outputs(output_format: OutputFormat, turn: TurnRecord = TURN) -> tuple[list[str], list[str]]:
    """(what is written before the end, what then)."""
    written: list[str] = []
    formatter = create_formatter(output_format, written.append)
    formatter.on_message(MESSAGES[0])
    for message in MESSAGES[1:]:
        formatter.on_event(StepStartEvent(step=1), redact)
        formatter.on_message(message)
    early = list(written)
    formatter.finish(turn)
    return early, written[len(early) :]


def test_text_is_the_last_thing_said():
    assert outputs(OutputFormat.TEXT) == ([], ["said"])
    assert outputs(OutputFormat.TEXT, TurnRecord(turn=1, prompt="x")) == ([], [])


def test_json_is_one_list_at_the_end_without_secrets():
    early, (text,) = outputs(OutputFormat.JSON)
    assert early == []
    assert json.loads(text) == DUMPS


def test_streaming_is_a_line_per_message_as_it_comes_without_secrets():
    early, late = outputs(OutputFormat.STREAMING)
    assert [json.loads(line) for line in early] == DUMPS
    assert not any("\n" in line for line in early)
    assert late == []


def test_every_format_has_a_formatter(subtests):
    for output_format in OutputFormat:
        with subtests.test(output_format=output_format):
            assert create_formatter(output_format, print)
