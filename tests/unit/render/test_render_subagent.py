"""A subagent on its call's card: while it works, as it stays, and never over a question's buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.events import (
    ApprovalDecisionEvent,
    BaseEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolResultEvent,
    TurnStartEvent,
)
from kin_nb.core.records import FileChange, RecordedCall, RecordedStep, RecordedSubagent, RecordedSubagentCall
from kin_nb.core.safety.decision import ApprovalDecision
from kin_nb.notebook.cell_view import CellView
from kin_nb.render import render_call

GOLDEN = Path(__file__).parent / "golden"

DID = RecordedSubagent(
    profile="explore",
    steps=3,
    calls=(
        RecordedSubagentCall(name="grep", summary="def total", status="ok"),
        RecordedSubagentCall(name="read_file", summary="src/<app>.py", status="ok"),
        RecordedSubagentCall(name="bash", summary="rm -rf build", status="refused"),
        RecordedSubagentCall(name="read_file", status="error"),
        RecordedSubagentCall(name="grep", summary="x", status="interrupted"),
    ),
    more=2,
    prompt_tokens=12_000,
    completion_tokens=345,
)
TASK = RecordedCall(
    id="c1",
    name="task",
    arguments='{"description": "find total", "prompt": "Where is total?"}',
    summary="explore: find total",
    status="ok",
    output="src/app.py:1\n[subagent: 3 model requests, 7 tool calls, 12,345 tokens]",
    subagent=DID,
)
PENDING = TASK.model_copy(update={"status": "pending", "output": "", "subagent": None})


@pytest.mark.parametrize(("mime", "suffix"), [("text/html", "html"), ("text/plain", "txt")])
def test_a_task_draws_its_golden_card(mime: str, suffix: str) -> None:
    drawn = render_call(TASK, turn=1, step=1).data[mime] + "\n"
    golden = GOLDEN / f"subagent.{suffix}"
    if not golden.exists():
        golden.write_text(drawn, encoding="utf-8")
        pytest.fail(f"{golden.name} was missing and has been written: look at it, then run again")
    assert drawn == golden.read_text(encoding="utf-8")


def test_a_subagent_that_called_nothing_has_nothing_to_unfold() -> None:
    call = TASK.model_copy(update={"subagent": RecordedSubagent(profile="general", steps=1, prompt_tokens=1)})
    data = render_call(call, turn=1, step=1).data
    assert "Subagent general: 1 model request, 0 tool calls, 1 token<br>" in data["text/html"]
    assert data["text/html"].count("<details") == 1


def test_what_it_reported_and_what_it_changed_are_both_there() -> None:
    files = (FileChange(path="a.py", before="1", after="2", patch="@@ -1 +1 @@\n-a\n+b\n"),)
    plain = render_call(TASK.model_copy(update={"files": files}), turn=1, step=1).data["text/plain"]
    assert plain.startswith("[task] explore: find total · +1 -1 · done\n")
    assert "Changed a.py\n" in plain
    assert "src/app.py:1" in plain


class Cell:
    """A cell's outputs by display id, in the order in which they came: what stands there now."""

    updates_in_place = is_watched = True

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}
        self._drawn = asyncio.Event()

    def display(self, data: dict[str, str], metadata: dict[str, Any], *, display_id: str, update: bool) -> None:
        self.outputs[display_id] = data["text/plain"]
        self._drawn.set()

    async def shows(self, wanted: Callable[[str], bool]) -> None:
        async with asyncio.timeout(60):
            while not wanted("\n".join(self.outputs.values())):
                self._drawn.clear()
                await self._drawn.wait()


@pytest.fixture
async def cell() -> Cell:
    return Cell()


@pytest.fixture
async def view(cell: Cell) -> CellView:
    """A turn that has come to its task."""
    view = CellView(cell)  # type: ignore[arg-type]
    for event in (TurnStartEvent(turn=1, prompt="p"), StepStartEvent(step=1)):
        view.handle(event)
    view.handle(StepReplyEvent(step=RecordedStep(calls=(PENDING,))))
    return view


def inside(event: BaseEvent) -> SubagentEvent:
    return SubagentEvent(tool_call_id="c1", event=event)


def nested(number: int, **fields: Any) -> RecordedCall:
    return RecordedCall(id=f"n{number}", name="read_file", arguments=f'{{"path": "{number}.py"}}', **fields)


def replied(*numbers: int) -> SubagentEvent:
    return inside(StepReplyEvent(step=RecordedStep(calls=tuple(map(nested, numbers)))))


def ended(number: int) -> SubagentEvent:
    call = nested(number, status="ok", summary=f"{number}.py", output="x")
    return inside(ToolResultEvent(tool_name="read_file", tool_class=None, tool_call_id=call.id, call=call))


def answered() -> SubagentEvent:
    return inside(ApprovalDecisionEvent(tool_call_id="n1", decision=ApprovalDecision(True)))


async def test_its_calls_are_lines_of_the_running_card_and_no_outputs_of_their_own(cell, view):
    view.handle(inside(StepStartEvent(step=1)))
    view.handle(replied(1, 2))
    view.handle(ended(1))
    await cell.shows(lambda text: text.endswith("  read_file 1.py\n  read_file 2.py · running"))
    assert len(cell.outputs) == 1
    view.handle(ToolResultEvent(tool_name="task", tool_class=None, tool_call_id="c1", call=TASK))
    assert list(cell.outputs.values()) == [render_call(TASK, turn=1, step=1).data["text/plain"]]


def ask(cell: Cell, view: CellView, buttons: str) -> None:
    """As the approval channel does."""
    place = view.display_of("c1")
    assert "waiting for your answer" in view.waiting_card("c1").data["text/plain"]
    cell.display({"text/plain": buttons}, {}, display_id=place, update=True)


async def test_nothing_is_drawn_over_the_buttons_of_its_question(cell, view):
    view.handle(replied(1, 2))  # due in a moment
    ask(cell, view, "buttons")
    view.handle(ended(2))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await cell.shows(lambda text: text != "buttons")
    view.handle(answered())
    assert next(iter(cell.outputs.values())).endswith("  read_file 1.py · running\n  read_file 2.py")


async def test_an_answer_that_is_heard_of_late_leaves_the_next_questions_buttons(cell, view):
    ask(cell, view, "first")
    ask(cell, view, "second")
    view.handle(answered())
    assert list(cell.outputs.values()) == ["second"]
    view.handle(answered())
    assert list(cell.outputs.values()) == [render_call(PENDING, turn=1, step=1).data["text/plain"]]
