"""Calls that ran, and undos, when the program was killed: a resume looks for what they changed, and says how sure that is.

Nobody saw them end. What is different in the files since they began counts as theirs, so that undo brings it back; some
of it may be the person's own, which the record and a warning say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kin_nb.core.file_history import StoreError
from kin_nb.core.records import FileChange, RecordedCall, TurnRecord

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent
    from kin_nb.core.session.store import StoredSession
    from kin_nb.core.tools.watched_files import Changed

_NOT_COVERED = "not covered: "
UNSURE = (
    f"{_NOT_COVERED}what it did after the session was resumed (it was cut off; what changed until then counts as its "
    "doing, yours too)"
)
_NAMED = 5
"""Files in a warning; the others are counted."""


def settle_cut_off_calls(agent: Agent, stored: StoredSession) -> list[TurnRecord]:
    """The stored turns, what the last one's cut-off calls changed included: in the log, too."""
    turns = list(stored.turns)
    open_ids = _open_calls(turns[-1], stored) if turns else set()
    if open_ids:
        try:
            changed = agent.files.cut_off(open_ids)
        except StoreError as error:
            changed = dict.fromkeys(open_ids, ((), f"what it changed until then is not known: {error}"))
        turns[-1] = _settled(agent, turns[-1], changed)
    agent.files.forget()
    return turns


def settle_cut_off_undos(agent: Agent, begun: Sequence[Mapping[str, Any]]) -> None:
    """`begun`: the log's lines of undos that no record of them follows. No file is changed: the next undo finishes it."""
    recorded = [FileChange.model_validate(change) for line in begun for change in line["files"]]
    planned = agent.files.real_names(recorded, agent.redact)
    agent.undos.put_back = agent.files.made(planned)
    if not agent.undos.put_back:
        return
    done = sorted({agent.redact(change.path) for change in agent.undos.put_back})
    many = len(begun[-1]["turns"])
    happened = (
        f"An undo was cut off when the program ended: {len(done)} of {len({change.path for change in planned})} files are "
        f"put back ({_names(done)})."
    )
    count = f" {many}" if many > 1 else ""
    agent.undos.cut_off = (
        f"{happened} Before the next prompt, /undo{count} finishes it, and /redo then gives back all that it took.",
        f"{happened}\nThis prompt continues with the files as they are: /undo {many + 1} takes back the rest.",
    )
    agent.journal.warn(agent.undos.cut_off[0])


def _open_calls(turn: TurnRecord, stored: StoredSession) -> set[str]:
    """Those of the turn's last step that may have begun, and have no answer in the log."""
    if not turn.steps or all(call.status != "interrupted" for call in turn.steps[-1].calls):
        return set()
    ids: dict[str, set[str]] = {"run": set(), "result": set()}
    for line in stored.lines:
        if line.get("type") in ids:
            ids[line["type"]].add(line["call"]["id"])
    return (ids["run"] - ids["result"]) & {call.id for call in turn.steps[-1].calls}


def _settled(agent: Agent, turn: TurnRecord, changed: Mapping[str, Changed]) -> TurnRecord:
    last = turn.steps[-1]
    calls = tuple(_with(agent, call, changed[call.id]) if call.id in changed else call for call in last.calls)
    turn = turn.model_copy(update={"steps": (*turn.steps[:-1], last.model_copy(update={"calls": calls}))})
    changes = [change for call in turn.calls for change in call.files]
    real = agent.files.real_names(changes, agent.redact)
    whys = agent.files.kept_by_undo(real)
    kept = {change.path: why for change, named in zip(changes, real, strict=True) if (why := whys.get(_shown(named)))}
    for call in calls:
        if call.id in changed:
            if call.files:
                agent.journal.warn(_warning(turn.turn, call, kept))
            fields = {"id", "status", "output", "files", "uncovered"}
            agent.log.append("result", call=call.model_dump(mode="json", include=fields))
    return turn


def _with(agent: Agent, call: RecordedCall, changed: Changed) -> RecordedCall:
    redact = agent.redact
    files = tuple(
        change.model_copy(update={"path": redact(change.path), "patch": change.patch and redact(change.patch)})
        for change in changed[0]
    )
    sentence = "; ".join(filter(None, (UNSURE, changed[1].removeprefix(_NOT_COVERED))))
    return call.model_copy(update={"files": files, "uncovered": redact(sentence)})


def _shown(change: FileChange) -> str:
    """Its path as `kept_by_undo` has it."""
    return change.path.removesuffix("/")


def _warning(turn: int, call: RecordedCall, kept: Mapping[str, str]) -> str:
    """`kept`: what undo would leave as it is, and why. Nothing is promised that it would refuse."""
    back = [change.path for change in call.files if change.path not in kept]
    left = [f"{change.path} ({kept[change.path]})" for change in call.files if change.path in kept]
    restores = f"restores, unless they change again: {_names(back)}" if back else ""
    leaves = f"does not restore: {_names(left)}" if left else ""
    return (
        f"{call.name} was cut off when the program ended. What changed since it began counts as its doing, yours too.\n"
        f"Undo of turn {turn} {'; it '.join(filter(None, (restores, leaves)))}."
    )


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"
