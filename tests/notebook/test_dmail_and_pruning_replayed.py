"""A session with a D-Mail, a reminder, calls side by side and results that were pruned: saved, played, run again, rebuilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kin_nb.core.events import (
    FlowStepEvent,
    LoopEvent,
    StepReplyEvent,
    StepStartEvent,
    SubagentEvent,
    ToolResultEvent,
    TurnStartEvent,
)
from kin_nb.core.records import RecordedCall, RecordedStep
from kin_nb.notebook.cell_view import CellView
from tests.model_server import ModelServer, tool_call
from tests.notebook.headless import Headless, shown
from tests.notebook.recorded import Lived, PlayedAgain, live

pytestmark = pytest.mark.kernel

SMALL = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}
FULL = {"prompt_tokens": 16_500, "completion_tokens": 400, "total_tokens": 16_900}
READ = tool_call("read_file", path="long.txt")
LOOK = tool_call("bash", command="sleep 0.1; echo quick")


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    return live(
        tmp_path_factory.mktemp("mechanisms"),
        {"long.txt": "a line of a long file\n" * 150},
        _cells,
        lambda text: f"dmail = true\n{text}context_window = 20000\n",
    )


class TestPlayedAgain(PlayedAgain):
    said = "^Every tool call came out as recorded"


def _cells(kernel: Headless, server: ModelServer, _: Path) -> None:
    server.enqueue("I read.", calls=[READ], usage=SMALL)
    server.enqueue("Too long.", calls=[tool_call("send_dmail", checkpoint_id=1, message="It is long.")], usage=SMALL)
    server.enqueue("I know: it is long.", usage=SMALL)
    kernel.ok("%%kin\nHow long is it?")
    for _ in range(3):
        server.enqueue(calls=[READ], usage=SMALL)
    server.enqueue("It stays long.", usage=SMALL)
    kernel.ok("%%kin\nLook three times.")
    slow = tool_call("bash", command="sleep 0.5; echo slow")
    server.enqueue("Both.", calls=[slow, LOOK, LOOK], usage=SMALL)
    server.enqueue("Seen.", calls=[LOOK], usage=SMALL)
    server.enqueue("And again.", calls=[tool_call("bash", command="sleep 0.1; echo other")], usage=SMALL)
    server.enqueue("Seen both.", usage=FULL)
    kernel.ok("%%kin\nSide by side.")
    server.enqueue("Room again.", usage=SMALL)
    kernel.ok("%%kin\nGo on.")


def kinds_of(cell: Any) -> list[str]:
    return [output["metadata"]["kin"]["kind"] for output in cell["outputs"]]


def words_of(request: dict[str, Any]) -> str:
    return "\n".join(message.get("content") or "" for message in request["messages"])


def test_a_dmail_is_a_marked_card_before_the_reply_that_it_led_to(lived):
    assert kinds_of(lived.cells[0]) == ["reply", "call", "reply", "call", "dmail", "reply", "receipt"]
    assert "[Rewind (D-Mail): back to before step 1, with this message]\n  It is long." in shown(lived.cells[0])
    assert "a line of a long file" not in words_of(lived.requests[2])


def test_the_person_sees_what_the_model_was_reminded_of(lived):
    assert kinds_of(lived.cells[1]) == ["call", "call", "call", "told", "reply", "receipt"]
    assert "[kin_nb to the model: You repeat yourself: the same call 3 times in a row" in shown(lived.cells[1])


def test_calls_side_by_side_stand_in_call_order_and_the_repeated_one_says_so(lived):
    lines = [line for line in shown(lived.cells[2]).splitlines() if line.startswith("[bash]")][:3]
    assert lines[0].startswith("[bash] sleep 0.5; echo slow · done")
    assert lines[1] == "[bash] sleep 0.1; echo quick · done"
    assert lines[2] == "[bash] sleep 0.1; echo quick · done · ran once, together with the same call before it"


def test_pruned_results_are_a_quiet_line(lived):
    assert kinds_of(lived.cells[3]) == ["pruned", "reply", "receipt"]
    assert "[3 old tool results shortened, to fit the context window]" in shown(lived.cells[3])
    assert "a line of a long file" not in words_of(lived.requests[-1])


class Shown:
    """A cell's outputs by display id: what stands there now."""

    updates_in_place = is_watched = True

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}

    def display(self, data: dict[str, str], metadata: dict[str, Any], *, display_id: str, update: bool) -> None:
        assert update == (display_id in self.outputs)
        self.outputs[display_id] = data["text/plain"]


async def test_a_question_about_the_turn_takes_the_place_of_the_last_call_and_gives_it_back():
    io = Shown()
    view = CellView(io)
    call = RecordedCall(id="c1", name="bash", arguments='{"command": "ls"}', status="ok", output="a", exit=0)
    step = RecordedStep(calls=(call.model_copy(update={"status": "pending", "output": ""}),))
    for event in (TurnStartEvent(turn=1, prompt="p"), StepStartEvent(step=1), StepReplyEvent(step=step)):
        view.handle(event)
    view.handle(ToolResultEvent(tool_name="bash", tool_class=None, tool_call_id="c1", call=call))
    settled = dict(io.outputs)
    view.handle(LoopEvent(kind="exact", count=8, action="ask", message="the model repeats itself"))
    place = view.display_of("")
    assert list(settled) == [place]
    io.display(view.waiting_card("").data, {}, display_id=place, update=True)
    assert io.outputs != settled
    view.handle(StepStartEvent(step=2))
    assert io.outputs == settled


async def test_events_that_the_cell_knows_nothing_of_show_nothing():
    io = Shown()
    view = CellView(io)
    view.handle(SubagentEvent(tool_call_id="c1", event=StepStartEvent(step=1)))
    view.handle(FlowStepEvent(flow="f", node="BEGIN", move=1))
    assert io.outputs == {}
