"""What happened before a reply, and what a call's card says of undo: quiet lines, made of the record alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kin_nb.core.context.loop_detector import loop_message
from kin_nb.core.middleware import PLAN_REMINDER
from kin_nb.core.records import (
    IDENTICAL,
    RecordedCall,
    RecordedCompaction,
    RecordedDecision,
    RecordedDMail,
    RecordedStep,
    TurnRecord,
)
from kin_nb.render import render_call, render_step_notes, render_turn

GOLDEN = Path(__file__).parent / "golden"
REMINDER = loop_message("remind", "the same call 3 times in a row")
STEP = RecordedStep(
    content="I try another way.",
    pruned=("c1", "c2"),
    dmail=RecordedDMail(step=2, message="The file is <long>.\nDo not read it."),
    injected=f"{PLAN_REMINDER}\n\n{REMINDER}",
    reminder=REMINDER,
    compaction=RecordedCompaction(summary="All of it.", old_tokens=9_000, new_tokens=900, kept=2, summarised=7),
    calls=(
        RecordedCall(
            id="c3",
            name="bash",
            arguments='{"command": "make"}',
            summary="make",
            status="ok",
            exit=0,
            uncovered="not covered: build.db is over 2 MB",
        ),
        RecordedCall(
            id="c4",
            name="bash",
            arguments='{"command": "make"}',
            summary="make",
            status="ok",
            exit=0,
            decision=RecordedDecision(verdict="allow", by=IDENTICAL, reason="the same call as c3: run once"),
        ),
    ),
)


@pytest.mark.parametrize(("mime", "suffix"), [("text/html", "html"), ("text/plain", "txt")])
def test_a_turn_with_all_of_it_draws_its_golden_cards(mime: str, suffix: str) -> None:
    turn = TurnRecord(turn=2, prompt="p", steps=(STEP,), outcome="done")
    drawn = "\n\n".join(output.data[mime] for output in render_turn(turn)) + "\n"
    golden = GOLDEN / f"step_notes.{suffix}"
    if not golden.exists():
        golden.write_text(drawn, encoding="utf-8")
        pytest.fail(f"{golden.name} was missing and has been written: look at it, then run again")
    assert drawn == golden.read_text(encoding="utf-8")


def test_the_cards_stand_between_the_compaction_and_the_reply() -> None:
    kinds = [output.metadata["kin"]["kind"] for output in render_turn(TurnRecord(turn=1, prompt="p", steps=(STEP,)))]
    assert kinds == ["compaction", "pruned", "dmail", "told", "reply", "call", "call", "receipt"]


def test_a_step_that_nothing_came_before_has_no_cards() -> None:
    assert render_step_notes(RecordedStep(content="Hello."), turn=1, number=1) == []


@pytest.mark.parametrize(
    "injected",
    [PLAN_REMINDER, "Checkpoint 1 is here, before your next reply.", "You repeat yourself: no."],
)
def test_notes_that_are_no_reminder_are_not_shown(injected: str) -> None:
    assert render_step_notes(RecordedStep(injected=injected), turn=1, number=1) == []


def test_one_result_is_one_result() -> None:
    (output,) = render_step_notes(RecordedStep(pruned=("c1",)), turn=1, number=1)
    assert output.data["text/plain"] == "[1 old tool result shortened, to fit the context window]"


def test_hostile_words_of_a_dmail_stay_words() -> None:
    mail = RecordedDMail(step=1, message="<img src=x>\x1b[31m[bash] rm -rf / · done")
    (output,) = render_step_notes(RecordedStep(dmail=mail), turn=1, number=2)
    assert "<img" not in output.data["text/html"]
    assert "\x1b" not in "".join(output.data.values())
    assert [line for line in output.data["text/plain"].splitlines() if not line.startswith("  ")] == [
        "[Rewind (D-Mail): back to before step 1, with this message]"
    ]


def test_what_undo_does_not_bring_back_is_the_last_line_of_an_open_card() -> None:
    output = render_call(STEP.calls[0], turn=1, step=1)
    assert output.data["text/plain"].splitlines()[-1] == "  Undo does not restore: build.db is over 2 MB"
    assert output.data["text/html"].startswith("<details open")
