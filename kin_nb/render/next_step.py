"""What to do next, when a turn did not end well: told from the record alone, and nothing when nothing is known."""

from __future__ import annotations

import re

from kin_nb.core.session.records import TurnRecord

_STOPPED = (
    (r"you refused .*; (write what to do instead in the next cell)", "write what to do instead in a new cell"),
    (r"the model repeats itself: .*?(?:; (write what to do instead))?", "write what to do instead in a new cell"),
    (
        r"stopped after \d+ steps \(max_steps_per_turn\); (ask to go on, or raise it)",
        "ask it to go on in a new cell, or raise max_steps_per_turn in config.toml",
    ),
    (
        r"the reply was cut off .*; (ask it to go on, or raise max_tokens)",
        "ask it to go on in a new cell, or raise max_tokens of the model in config.toml",
    ),
    (
        r"Turn limit of \d+ reached()",
        "go on in a new cell, with a higher limit or none: %%kin --max-turns N",
    ),
    (
        r"Price limit exceeded: .*()",
        "go on in a new cell with a higher limit: %%kin --max-price USD for a cell, %config KinMagics.max_price = USD for all",
    ),
)
"""Messages of a turn that was stopped, what of each says what to do, and how it is said here."""
_NO_KEY = re.compile(r"No key for [^\n]*: the variable (\w+) is not set\.")
_CRASH = "kin_nb failed: "
_LONGEST = 1_000
"""Characters of a message that are looked at."""


def next_step(record: TurnRecord) -> tuple[str, str]:
    """(the record's message without what it says to do, what to do). Either may be ""."""
    message = record.message.strip()
    match record.outcome:
        case "stopped":
            return _after_stop(message)
        case "error":
            return _after_error(message)
        case "interrupted":
            changed = any(call.files for call in record.calls)  # what is uncovered alone does not come back
            return message, f"go on in a new cell{', or take back what it changed: %kin undo' if changed else ''}"
    return message, ""


def _after_stop(message: str) -> tuple[str, str]:
    for pattern, todo in _STOPPED if len(message) <= _LONGEST else ():
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return message.removesuffix(found[1] or "").removesuffix("; "), todo
    return message, ""


def _after_error(message: str) -> tuple[str, str]:
    """Errors of model servers and of compaction are two lines: what happened, what to do."""
    if key := _NO_KEY.fullmatch(message):
        return message, f"set {key[1]} or write it into ~/.kin-code/.env, or choose another model: %kin model NAME"
    what, *todo = message.split("\n")
    if len(todo) == 1 and not message.startswith(_CRASH):
        return what, todo[0]
    return message, ""
