"""A recorded undo or redo, done again in the copy of the workspace, and how it compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.context.checkpoints import NoSuchCheckpointError
from kin_nb.core.session.records import UndoRecord
from kin_nb.core.time_travel import UndoError
from kin_nb.replay.rerun.drift import Drift, files_effect
from kin_nb.replay.rerun.turns import SoFar

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent


async def undo_again(agent: Agent, recorded: UndoRecord, so_far: SoFar) -> tuple[UndoRecord, Drift]:
    """(the undo to show, how it compares). What is as recorded is shown as recorded, to the byte."""
    try:
        actual = await _undone(agent, recorded, so_far)
    except (UndoError, NoSuchCheckpointError) as error:
        return recorded, so_far.marked(Drift("effect", detail=f"it cannot be done: {error}"))
    drift = compare_undo(recorded, actual)
    return (recorded, drift) if drift.kind == "same" else (actual, so_far.marked(drift))


def compare_undo(recorded: UndoRecord, actual: UndoRecord) -> Drift:
    """`effect` when a file came out otherwise, or was left alone that was not then; else same."""
    before, after = ({kept.path for kept in undo.kept} for undo in (recorded, actual))
    for path in sorted(before ^ after):
        return Drift(
            "effect", detail=f"{path}: {'left alone when recorded, not' if path in before else 'left alone'} now"
        )
    effect = files_effect(recorded.files, actual.files)
    return Drift("effect", detail=effect) if effect else Drift("same")


async def _undone(agent: Agent, recorded: UndoRecord, so_far: SoFar) -> UndoRecord:
    if recorded.type == "redo":
        return await agent.redo()
    place = so_far.place(recorded.to)
    if place is None:
        raise UndoError(f"turn {recorded.to.turn} was not run before it")
    return await agent.revert_to(agent.time.checkpoints.at(place).id)
