"""Reasons for which a turn stops early: the text for its record, and the value for cards, replay and programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kin_nb.core.callback_errors import describe_error
from kin_nb.core.records import StopReason


class Stop(NamedTuple):
    """`message` and `reason`: the fields `message` and `stop_reason` of a TurnRecord."""

    message: str = ""
    reason: StopReason = ""


ADVICE: Mapping[StopReason, str] = {
    "max_steps": "ask it to continue, or raise max_steps_per_turn",
    "cut_off": "ask it to continue, or raise max_tokens",
    "refused": "write what to do instead in the next cell",
    "loop": "write what to do instead",
}
"""What the user can do: the end of the message, after "; ". Without it for a loop that the user was asked about."""
CUT_OFF = Stop(f"the reply was cut off at the model's limit of output tokens; {ADVICE['cut_off']}", "cut_off")


def too_many_steps(most: int) -> Stop:
    return Stop(
        f"limit of {most} model request{'' if most == 1 else 's'} per turn reached; {ADVICE['max_steps']}", "max_steps"
    )


def refused(tool: str) -> Stop:
    """Return the stop for a call that the user refused without a note to the model."""
    return Stop(f"you refused {tool}; {ADVICE['refused']}", "refused")


def crashed(error: Exception) -> Stop:
    """Return the stop for an error in kin_nb itself."""
    return Stop(f"kin_nb failed: {describe_error(error)}", "crash")
