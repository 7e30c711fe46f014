"""What to do next, on the summary line of a turn that did not end well: the very texts of the core, and nothing invented."""

from __future__ import annotations

import pytest

from kin_nb.core.config import ProviderConfig
from kin_nb.core.context.loop_detector import loop_message
from kin_nb.core.llm.errors import BackendErrorBuilder
from kin_nb.core.records import FileChange, RecordedCall, RecordedStep, TurnRecord
from kin_nb.core.stopping import CUT_OFF, Stop, refused, too_many_steps
from kin_nb.render import render_summary_line
from tests.table import each_row

IN_A_NEW_CELL = "write what to do instead in a new cell"
UNCOVERED = RecordedStep(calls=(RecordedCall(id="c", name="bash", arguments="{}", uncovered="not covered: x"),))
CHANGED = RecordedStep(calls=(RecordedCall(id="c", name="bash", arguments="{}", files=(FileChange(path="a"),)),))


def lines(outcome: str, why: Stop | str = "", steps: tuple[RecordedStep, ...] = ()) -> list[str]:
    why = Stop(why) if isinstance(why, str) else why
    ended = {"message": why.message, "stop_reason": why.reason}
    record = TurnRecord(turn=1, prompt="p", outcome=outcome, steps=steps, **ended)
    text = render_summary_line(record).data["text/plain"]
    return text.split(" · ", text.count(" · "))[-1].split("\n")


@each_row(
    ("why", "said", "todo"),
    [
        (refused("bash"), "you refused bash", IN_A_NEW_CELL),
        (
            Stop(loop_message("stop", "the same call 3 times in a row: ls"), "loop"),
            "the model repeats itself: the same call 3 times in a row: ls",
            IN_A_NEW_CELL,
        ),
        (
            Stop(loop_message("ask", "the same words 3 times: “a; b”"), "loop"),
            "the model repeats itself: the same words 3 times: “a; b”",
            IN_A_NEW_CELL,
        ),
        (
            too_many_steps(7),
            "limit of 7 model requests per turn reached",
            "write `continue` in a new cell, or raise max_steps_per_turn in config.toml",
        ),
        (
            CUT_OFF,
            "the reply was cut off at the model's limit of output tokens",
            "write `continue` in a new cell, or raise max_tokens of the model in config.toml",
        ),
        (
            Stop("limit of 3 model requests reached", "max_turns"),
            "limit of 3 model requests reached",
            "write `continue` in a new cell, with a higher limit or none: `%%kin --max-requests 20`",
        ),
        (
            Stop("Price limit exceeded: $1.0000 > $0.50", "price"),
            "Price limit exceeded: $1.0000 > $0.50",
            (
                "write `continue` in a new cell with a higher limit: `%%kin --max-price USD` for that cell, "
                "`%config KinMagics.max_price = USD` for all"
            ),
        ),
    ],
)
def test_a_turn_that_was_stopped_says_why_and_how_to_continue(why: Stop, said: str, todo: str) -> None:
    assert lines("stopped", why) == [f"stopped: {said}", f"Next: {todo}"]


def test_a_stop_that_nothing_is_known_of_says_no_more_than_that() -> None:
    assert lines("stopped", "the budget of my own middleware; ask Bob") == [
        "stopped: the budget of my own middleware; ask Bob"
    ]
    assert lines("stopped", Stop("limit of 3 model requests reached", "middleware")) == [
        "stopped: limit of 3 model requests reached"
    ]
    assert lines("stopped") == ["stopped"]


def test_words_of_a_model_never_become_advice() -> None:
    said = "the same words 3 times in one reply: “; run rm -rf /; write what to do instead in the next cell”"
    assert lines("stopped", Stop(loop_message("ask", said), "loop")) == [
        f"stopped: the model repeats itself: {said}",
        f"Next: {IN_A_NEW_CELL}",
    ]


def test_an_interrupted_turn_can_continue_or_be_undone() -> None:
    assert lines("interrupted") == ["interrupted", "Next: continue in a new cell"]
    assert lines("interrupted", steps=(CHANGED,)) == [
        "interrupted",
        "Next: continue in a new cell, or undo its changes: `%kin undo`",
    ]


def test_an_error_of_a_server_says_next_what_its_second_line_says() -> None:
    import httpx

    provider = ProviderConfig(name="local", api_base="http://127.0.0.1:9/v1")
    error = BackendErrorBuilder.build_request_error(
        provider=provider, endpoint="http://127.0.0.1:9/v1/x", model="m", error=httpx.ConnectError("refused")
    )
    what, todo = str(error).split("\n")
    assert lines("error", str(error)) == [f"error: {what}", f"Next: {todo}"]
    assert "%kin model" in todo


@pytest.mark.parametrize(
    "why", [Stop("kin_nb failed: KeyError: 'x'\nrun this", "crash"), "a\nb\nc", "Unknown skill 'x'.", ""]
)
def test_an_error_without_advice_gets_none(why: Stop | str) -> None:
    assert not any(line.startswith("Next:") for line in lines("error", why))


def test_a_turn_that_ended_well_needs_no_advice() -> None:
    assert lines("done", steps=(CHANGED,)) == ["done"]
    assert lines("running") == ["running"]


def test_the_next_line_stands_before_the_warnings_and_in_both_formats() -> None:
    record = TurnRecord(turn=1, prompt="p", outcome="interrupted", warnings=("a file was not read",))
    data = render_summary_line(record).data
    assert data["text/plain"].endswith("interrupted\nNext: continue in a new cell\nwarning: a file was not read")
    assert "interrupted<br>\nNext: continue in a new cell<br>\nwarning" in data["text/html"]


def test_undo_is_not_offered_where_it_would_bring_nothing_back():
    assert "undo" not in "\n".join(lines("interrupted", steps=(UNCOVERED,)))
