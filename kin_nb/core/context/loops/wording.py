"""What a loop is called: to the model when it is reminded, to the person when they are asked or the turn is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from kin_nb.core.context.loops.call import Call, quoted
from kin_nb.core.context.loops.chanting import Chant
from kin_nb.core.context.loops.loop import LoopAction
from kin_nb.core.stopping import ADVICE

_ADVICE = "Nothing new comes of it: use what you know, try another way, or say what you need."
_TEXT_SHOWN = 80


def same(period: int, count: int, calls: Sequence[Call]) -> str:
    if period == 1:
        return f"the same call {count} times in a row, each with the same result: {_names(calls)}"
    return f"the same {period} calls {count} times over, each with the same result: {_names(calls)}"


def near(period: int, count: int, calls: Sequence[Call]) -> str:
    if period == 1:
        return f"{count} calls in a row that hardly differ, with hardly different results; the last: {_names(calls)}"
    return f"{period} calls that hardly differ {count} times over, with hardly different results: {_names(calls)}"


def nothing_new(count: int, call: Call) -> str:
    return f"{count} calls in a row that had all been made before, with the same results; the last: {call.shown}"


def chant(found: Chant) -> str:
    return f"the same words {found.count} times in one reply: “{quoted(found.piece, _TEXT_SHOWN)}”"


def reply(count: int, content: str) -> str:
    return f"the same words in {count} replies in a row: “{quoted(content, _TEXT_SHOWN)}”"


def message(action: LoopAction, what: str) -> str:
    """A reminder is for the model. The others are for the person: what is said when asking must do without an answer too."""
    if action == "remind":
        return f"You repeat yourself: {what}. {_ADVICE}"
    said = f"the model repeats itself: {what}"
    return said if action == "ask" else f"{said}; {ADVICE['loop']}"


def _names(calls: Sequence[Call]) -> str:
    return ", ".join(call.shown for call in calls)
