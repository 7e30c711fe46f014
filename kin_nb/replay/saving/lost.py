"""What one recording holds that another has not: nothing is written over a file that would lose it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kin_nb.core.safety.secrets import REDACTED, SECRET
from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.format.damaged import StillRead, still_read
from kin_nb.replay.recording import SHORT, Recording, other_sha, step_sha, turn_sha, undo_sha, whole_numbers


def lost(held: Recording, ours: Recording) -> str:
    """The turns, undos and later versions' records that `held` has and `ours` has not: `turns 2, 3, undo 1`; "" for none.

    A turn is the same when `ours` goes on from it, or when texts or results were taken out since.
    """
    found = StillRead(list(held.turns), list(enumerate(held.undos, 1)), list(held.others))
    return _lost(found, ours, _is_same if held.session == ours.session else _is_copy)


def lost_where_damaged(nb: Any, ours: Recording) -> str:
    """As `lost`, of a notebook of the same session that does not read as a whole: a damaged record is known by its hashes.

    Raises LaterFormatError for what a later version wrote.
    """
    return _lost(still_read(nb, ours.meta), ours, _is_same)


def _lost(held: StillRead, ours: Recording, same: Callable[[TurnRecord, TurnRecord], bool]) -> str:
    now = {turn.turn: turn for turn in ours.turns}
    turns = [turn.turn for turn in held.turns if turn.turn not in now or not same(turn, now[turn.turn])]
    undone = {_place(number, undo) for number, undo in enumerate(ours.undos, 1)}
    undos = [number for number, undo in held.undos if _place(number, undo) not in undone]
    later = sorted(_types(held.others) - _types(ours.others))
    shas = _shas(ours) if held.unread else frozenset()
    damaged = [number for number, raw in held.unread if not _is_known(raw, now, shas)]
    named = (
        _named("turn", turns),
        _named("undo", undos),
        f"records of type {', '.join(later)}" if later else "",
        f"what does not read in {_named('cell', damaged)}" if damaged else "",
    )
    return ", ".join(filter(None, named))


def _is_known(raw: Any, now: dict[int, TurnRecord], shas: frozenset[str]) -> bool:
    """Whether a record that does not read is one of ours: by its hash, or those of a turn's steps, which name no cell."""
    if not isinstance(raw, dict):
        return False
    number, steps = whole_numbers(raw.get("turn")), raw.get("steps")
    turn = now.get(number) if isinstance(number, int) else None
    if turn is not None and turn.steps and isinstance(steps, list):
        claimed = [str(step.get("sha"))[:SHORT] if isinstance(step, dict) else "" for step in steps]
        if claimed == [step_sha(step)[:SHORT] for step in turn.steps]:
            return True
    return isinstance(raw.get("sha"), str) and raw["sha"] in shas


def _shas(ours: Recording) -> frozenset[str]:
    undos = (undo_sha(number, undo) for number, undo in enumerate(ours.undos, 1))
    return frozenset((*map(turn_sha, ours.turns), *undos, *(other_sha(json.loads(text)) for text in ours.others)))


def _is_same(held: TurnRecord, now: TurnRecord) -> bool:
    """One that the log had cut off when it was saved may have more steps now."""
    steps = len(held.steps)
    if [step.fingerprint for step in held.steps] != [step.fingerprint for step in now.steps[:steps]]:
        return False
    # a request's fingerprint covers all that came before it, and saving leaves it alone: the last reply is not in any
    before, after = _said(held, steps), _said(now, steps)
    return len(before) == len(after) and all(map(_reads_alike, before, after))


def _is_copy(held: TurnRecord, now: TurnRecord) -> bool:
    """In a session that goes on from another: two that were asked the same, and answered alike, took other times."""
    return held.milliseconds == now.milliseconds and _is_same(held, now)


def _said(turn: TurnRecord, steps: int) -> list[str]:
    """The prompt, and the reply of the last of so many steps."""
    said = [turn.prompt]
    for step in turn.steps[:steps][-1:]:
        said += [step.content, *(f"{call.name} {call.arguments}" for call in step.calls)]
    return said


def _reads_alike(held: str, now: str) -> bool:
    """What was taken out of either is not known."""
    return held == now or any(mark in text for mark in (REDACTED, SECRET) for text in (held, now))


def _place(number: int, undo: UndoRecord) -> tuple[int, str, int, tuple[int, ...]]:
    return number, undo.type, undo.at, undo.turns


def _types(others: Sequence[str]) -> Counter[str]:
    """Of records whose other fields are not known, and may have been redacted."""
    return Counter(str(json.loads(text).get("type")) for text in others)


def _named(noun: str, numbers: list[int]) -> str:
    once = list(dict.fromkeys(numbers))
    return f"{noun}{'' if len(once) == 1 else 's'} {', '.join(map(str, once))}" if once else ""
