"""Checkpoints: which there are, how long they are kept, and which turns lead to a place."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from kin_nb.core.agent import Agent
from kin_nb.core.context.checkpoints import KEPT_STEPS, KEPT_TURNS, Checkpoints, HistoryState, NoSuchCheckpointError
from kin_nb.core.context.history import History
from kin_nb.core.events import BaseEvent, CheckpointEvent, ToolResultEvent, TurnStartEvent
from kin_nb.core.modes import AgentMode
from kin_nb.core.records import (
    END,
    ClearRecord,
    RecordedDMail,
    RecordedStep,
    Ref,
    SessionRecord,
    TurnRecord,
    UndoRecord,
)
from kin_nb.core.session.lineage import Lineage, turns_on_path
from kin_nb.core.session.state import SessionState
from tests.model_server import tool_call
from tests.unit.core.conftest import run_turn

NOWHERE = HistoryState((), ())


def at(turn: int, step: int = 0) -> Ref:
    return Ref(id=f"{turn:016x}", step=step)


def turns(*parents: Ref | None, steps: int = 2) -> list[TurnRecord]:
    """A turn for each of `parents`; None: it comes after the turn before it."""
    said = tuple(RecordedStep(content=f"step {n}") for n in range(1, steps + 1))
    return [
        TurnRecord(
            id=at(number).id,
            seq=number,
            turn=number,
            prompt="p",
            parent=parent or (at(number - 1, END) if number > 1 else None),
            steps=said,
            outcome="done",
        )
        for number, parent in enumerate(parents, 1)
    ]


def leads(records: list[SessionRecord], tip: Ref | None = None) -> list[tuple[int, int]]:
    """(number, steps) of the turns that lead to `tip`; None: to where the last record leads."""
    lineage = Lineage()
    for record in records:
        lineage.add(record)
    line = lineage.path() if tip is None else lineage.path_to((tip, None))
    return [(turn.turn, len(turn.steps)) for turn in turns_on_path(line, [r for r in records if r.type == "turn"])]


def undo(*numbers: int, head: Ref | None, kind: str = "undo") -> UndoRecord:
    return UndoRecord(type=kind, id="u" * 16, turns=numbers, turn_ids=tuple(at(n).id for n in numbers), head=head)


async def test_there_is_one_before_each_prompt_and_each_step(model_server, trusted):
    for _ in range(2):
        model_server.enqueue("I look.", calls=[tool_call("read_file", path="a.py")])
        model_server.enqueue("Seen.")
    events = [*await run_turn(trusted), *await run_turn(trusted)]
    found = [(event.checkpoint_id, event.kind) for event in events if isinstance(event, CheckpointEvent)]
    assert found == [(0, "turn"), (1, "step"), (2, "step"), (3, "turn"), (4, "step"), (5, "step")]


def test_those_of_steps_are_kept_for_the_running_turn_alone():
    marks = Checkpoints()
    for turn in (1, 2):
        for step in (0, 1, 2, END):
            marks.mark(at(turn, step), NOWHERE)
    assert [mark.id for mark in marks.of_steps(at(1).id)] == []
    assert [mark.id for mark in marks.of_steps(at(2).id)] == [4, 5]
    assert marks.by_id(0).place == at(1)
    assert marks.at(at(1, END)).place.step == END
    with pytest.raises(NoSuchCheckpointError, match=r"Checkpoint 1 is no longer kept: .*Kept: 0, 3, 4, 5\."):
        marks.by_id(1)
    with pytest.raises(NoSuchCheckpointError, match=r"Checkpoint 6 does not exist\. Kept: 0, 3, 4, 5\."):
        marks.by_id(6)


def test_only_the_last_turns_and_steps_are_kept():
    marks = Checkpoints()
    for turn in range(1, KEPT_TURNS + 2):
        marks.mark(at(turn), NOWHERE)
    for step in range(1, KEPT_STEPS + 2):
        marks.mark(at(KEPT_TURNS + 1, step), NOWHERE)
    assert marks.at(at(2))
    with pytest.raises(NoSuchCheckpointError, match=f"only the last {KEPT_TURNS} turns can be undone"):
        marks.at(at(1))
    assert [mark.place.step for mark in marks.of_steps(at(KEPT_TURNS + 1).id)][:1] == [2]
    assert len(marks.of_steps(at(KEPT_TURNS + 1).id)) == KEPT_STEPS


def test_nothing_leads_to_the_end_of_nothing():
    assert leads([]) == []


def test_turns_that_were_undone_lead_nowhere():
    three = turns(None, None, at(1, END))
    assert leads(three) == [(1, 2), (3, 2)]
    assert leads(three, at(2, END)) == [(1, 2), (2, 2)]
    assert leads([*three, undo(1, 3, head=None)]) == []


def test_a_place_before_a_step_leaves_the_steps_until_there():
    assert leads(turns(None, None), at(2, 2)) == [(1, 2), (2, 1)]
    assert leads(turns(None, at(1, 1))) == [(1, 0), (2, 2)]
    assert leads([*turns(None, None), undo(2, head=at(2, 2))]) == [(1, 2), (2, 1)]


def test_a_turn_continues_from_one_that_was_redone():
    assert leads(turns(None, None, at(1, END), at(2, END))) == [(1, 2), (2, 2), (4, 2)]


def test_the_line_continues_before_a_clear_and_the_conversation_does_not():
    one, two = turns(None, None)
    clear = ClearRecord(id="c" * 16, parent=one.head)
    first = two.model_copy(update={"parent": None})
    cleared = [one, clear, first]
    assert leads(cleared) == [(1, 2), (2, 2)]
    assert leads([*cleared, undo(2, head=None)]) == [(1, 2)], "the turn before the clear can be undone next"
    assert leads([*cleared, undo(2, head=None), undo(1, head=None)]) == []
    assert leads([*cleared, undo(1, 2, head=None)]) == []
    assert leads([one, clear]) == [(1, 2)]
    assert leads([one, clear, undo(1, head=None), undo(1, head=None, kind="redo")]) == [(1, 2)]
    lineage = Lineage()
    for record in cleared:
        lineage.add(record)
    assert list(lineage.conversation()) == [first.head]


async def test_ids_mean_the_same_after_a_resume_whatever_became_of_the_turns(model_server, trusted):
    shown: dict[str, list[int]] = {}

    async def prompted(agent: Agent, prompt: str, last: type[BaseEvent] | None = None) -> None:
        """`last`: the event after which the turn is interrupted."""
        async with aclosing(agent.act(prompt)) as events:
            async for event in events:
                if isinstance(event, CheckpointEvent):
                    shown.setdefault(prompt, []).append(event.checkpoint_id)
                if last is not None and isinstance(event, last):
                    break

    model_server.enqueue(None, calls=[tool_call("read_file", path="a.py")])
    await prompted(trusted, "stopped when its call had run", ToolResultEvent)
    model_server.enqueue(None, calls=[tool_call("read_file", path="a.py")])
    model_server.enqueue(status=400, body="no")
    await prompted(trusted, "failed in its second step")
    await prompted(trusted, "stopped before its first step", TurnStartEvent)
    model_server.enqueue("Done.")
    await prompted(trusted, "done")
    assert list(shown.values()) == [[0, 1], [2, 3, 4], [6, 7]]  # the third was not shown its own: 5
    assert [turn.no_reply for turn in trusted.turns] == [False, True, False, None]
    await trusted.aclose()
    again = Agent.resume(trusted.base_config, mode=AgentMode.AUTO_APPROVE)
    for prompt, (id_, *_) in shown.items():
        assert {turn.id: turn.prompt for turn in again.turns}[
            again.conversation.checkpoints.by_id(id_).place.id
        ] == prompt
    model_server.enqueue("Done.")
    await prompted(again, "after the resume")
    assert shown["after the resume"] == [8, 9]
    assert (await again.revert_to(6)).turns == (4, 5)
    await again.aclose()


def test_a_step_without_a_reply_counts_where_the_record_says_that_it_had_begun(subtests):
    for no_reply in [None, False, True]:
        with subtests.test(no_reply=no_reply):
            cut = TurnRecord(turn=1, prompt="p", steps=(RecordedStep(content="a"),), outcome="error", no_reply=no_reply)
            marks = Checkpoints()
            History("", str).extend_from([cut], str, marks)
            known = {mark.place.step: mark.id for mark in marks.of_steps("")}
            assert known == ({1: 1} if no_reply is False else {1: 1, 2: 2})
            assert marks.mark(at(2), NOWHERE).id == (3 if no_reply else 2)


def taken_up(turns: list[TurnRecord]) -> tuple[list[str], dict[Ref, tuple[int, list[str | None]]]]:
    history, marks = History("", str), Checkpoints()
    history.extend_from(turns, str, marks)
    known = {place: marks.at(place) for place in all_places(turns) if is_kept(marks, place)}
    said = {place: (mark.id, [message.content for message in mark.state.messages]) for place, mark in known.items()}
    return [message.content or "" for message in history.messages], said


def all_places(turns: list[TurnRecord]) -> list[Ref]:
    return [Ref(id=turn.id, step=step) for turn in turns for step in (*range(len(turn.steps) + 2), END)]


def is_kept(marks: Checkpoints, place: Ref) -> bool:
    try:
        return marks.at(place) is not None
    except NoSuchCheckpointError:
        return False


def test_a_long_session_is_taken_up_with_the_checkpoints_that_it_had(monkeypatch):
    mail = RecordedDMail(step=1, message="it is in b.py")
    far = turns(*[None] * (KEPT_TURNS + 30))
    far[10] = far[10].model_copy(update={"parent": at(10, 2)})
    far[20] = far[20].model_copy(update={"parent": at(14, END)})
    far[30] = far[30].model_copy(update={"parent": at(25, END)})
    far[40] = far[40].model_copy(update={"steps": (far[40].steps[0], RecordedStep(content="x", dmail=mail))})
    far[50] = far[50].model_copy(update={"dmail": mail, "no_reply": False, "outcome": "interrupted"})
    far[-1] = far[-1].model_copy(update={"outcome": "error"})
    found = taken_up(far)
    monkeypatch.setattr("kin_nb.core.context.history.rewind_targets", lambda _: lambda _: True)
    assert found == taken_up(far)
    assert len(found[1]) == 2 * KEPT_TURNS + 3


def test_a_record_may_go_back_as_far_as_it_says():
    far = turns(*[None] * (KEPT_TURNS + 2))
    far[-1] = far[-1].model_copy(update={"parent": at(1, END)})
    said, _ = taken_up(far)
    assert said == ["", "p", "step 1", "step 2", "p", "step 1", "step 2"]


def test_a_record_that_goes_back_to_a_step_that_is_not_there_is_an_error():
    two = turns(None, at(1, 9))
    with pytest.raises(NoSuchCheckpointError):
        taken_up(two)


def test_a_step_may_have_begun_in_a_turn_that_was_killed():
    turn = {"type": "turn", "record": {"turn": 1, "prompt": "p"}}
    assert SessionState.of([turn]).records[0].no_reply is True
