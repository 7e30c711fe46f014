"""What one recording holds that another has not: nothing is written over a file that would lose it."""

from __future__ import annotations

import json
from collections import Counter

from kin_nb.core.safety.secrets import SECRET
from kin_nb.core.session.records import TurnRecord, UndoRecord
from kin_nb.replay.recording import Recording
from kin_nb.replay.saving.privacy import REDACTED


def lost(held: Recording, ours: Recording) -> str:
    """The turns, undos and later versions' records that `held` has and `ours` has not: `turns 2, 3, undo 1`; "" for none.

    A turn is the same when `ours` goes on from it, when texts or results were taken out since, or when it was calibrated.
    """
    same = _is_same if held.session == ours.session else _is_copy
    now = {turn.turn: turn for turn in ours.turns}
    turns = [turn.turn for turn in held.turns if turn.turn not in now or not same(turn, now[turn.turn])]
    undone = {_place(number, undo) for number, undo in enumerate(ours.undos, 1)}
    undos = [number for number, undo in enumerate(held.undos, 1) if _place(number, undo) not in undone]
    later = sorted(_types(held) - _types(ours))
    named = (_named("turn", turns), _named("undo", undos), f"records of type {', '.join(later)}" if later else "")
    return ", ".join(filter(None, named))


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


def _types(recording: Recording) -> Counter[str]:
    """Of records whose other fields are not known, and may have been redacted."""
    return Counter(str(json.loads(text).get("type")) for text in recording.others)


def _named(noun: str, numbers: list[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}" if numbers else ""
