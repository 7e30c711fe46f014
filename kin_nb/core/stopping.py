"""Why a turn ended early: in words for its record, and as the value that cards, replay and programs go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kin_nb.core.callback_errors import describe_error
from kin_nb.core.records import StopReason


class Stop(NamedTuple):
    """`message` and `reason`: as `message` and `stop_reason` of a TurnRecord."""

    message: str = ""
    reason: StopReason = ""


ADVICE: Mapping[StopReason, str] = {
    "max_steps": "ask to go on, or raise it",
    "cut_off": "ask it to go on, or raise max_tokens",
    "refused": "write what to do instead in the next cell",
    "loop": "write what to do instead",
}
"""How such a message ends, after "; ": what to do. A person who was asked about a loop reads none."""
CUT_OFF = Stop(f"the reply was cut off at the model's limit of output tokens; {ADVICE['cut_off']}", "cut_off")


def too_many_steps(most: int) -> Stop:
    return Stop(f"stopped after {most} steps (max_steps_per_turn); {ADVICE['max_steps']}", "max_steps")


def refused(tool: str) -> Stop:
    """By a person, without a word to the model."""
    return Stop(f"you refused {tool}; {ADVICE['refused']}", "refused")


def crashed(error: Exception) -> Stop:
    """An error that no turn should have: one of kin_nb's own."""
    return Stop(f"kin_nb failed: {describe_error(error)}", "crash")
