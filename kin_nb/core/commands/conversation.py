"""/compact, /clear, /undo, /redo, /last and /diff."""

from __future__ import annotations

import re
from functools import partial

from kin_nb.core.agent import Agent
from kin_nb.core.commands.host import CommandError, CommandHost, CommandResult, UsageError
from kin_nb.core.undo import NOTHING_TO_REDO, NOTHING_TO_UNDO

NOTHING_TO_DO = {
    "undo": NOTHING_TO_UNDO,
    "redo": NOTHING_TO_REDO,
    "compact": "Nothing to compact yet: nothing was said in this conversation.",
}
"""The error of each command where the conversation has nothing to undo, redo or summarize."""
_NOTHING_TO_COMPARE = "Nothing to compare yet: no prompt has run in this session."


def compact(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    host.check_live("compact")
    agent = host.up_to_date()  # with the current model
    if agent is None or len(agent.messages) <= 1:
        raise CommandError(NOTHING_TO_DO["compact"])
    host.wait(partial(agent.compact, **host.asking_cell("compact")))
    return CommandResult(record=agent.moves[-1])


def clear(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    host.check_live("clear")
    if host.agent is None:
        return host.clear_unused()
    host.wait(partial(host.agent.clear_history, **host.asking_cell("clear")))
    return CommandResult(record=host.agent.moves[-1])


def undo(host: CommandHost, words: list[str]) -> CommandResult:
    turns = turns_to_undo(words)
    host.check_live("undo")
    agent = _agent(host, NOTHING_TO_UNDO)
    return CommandResult(record=host.wait(partial(agent.undo, turns, **host.asking_cell(f"undo {turns}"))))


def redo(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    host.check_live("redo")
    agent = _agent(host, NOTHING_TO_REDO)
    return CommandResult(record=host.wait(partial(agent.redo, **host.asking_cell("redo"))))


def turns_to_undo(words: list[str]) -> int:
    """Return the number of turns that `/undo WORDS` undoes. Raises UsageError."""
    if len(words) > 1 or (words and not re.fullmatch(r"\d{1,9}", words[0], re.ASCII)):
        raise UsageError(", for example undo 2")
    return int(words[0]) if words else 1


def last(host: CommandHost, words: list[str]) -> CommandResult:
    del words
    if host.agent is None or not host.agent.turns:
        raise CommandError("Nothing to show yet: no prompt has run in this session.")
    return CommandResult(record=host.agent.turns[-1])


def diff(host: CommandHost, words: list[str]) -> CommandResult:
    if len(words) > 1 or (words and not re.fullmatch(r"\d{1,9}", words[0], re.ASCII)):
        raise UsageError(", N is the number of a turn")
    host.check_live("compare the files of")
    turns = _agent(host, _NOTHING_TO_COMPARE).turns
    if not turns:
        raise CommandError(_NOTHING_TO_COMPARE)
    number = int(words[0]) if words else turns[-1].turn
    turn = next((turn for turn in turns if turn.turn == number), None)
    if turn is None:
        raise CommandError(f"Turn {number} does not exist; the last one is {turns[-1].turn}.")
    changes = tuple(file for call in turn.calls for file in call.files)
    return CommandResult("" if changes else f"Turn {number} changed no files", changes=changes, turn=number)


def _agent(host: CommandHost, without: str) -> Agent:
    """Return the agent. Raises CommandError with the text `without` if no prompt has run."""
    if host.agent is None:
        raise CommandError(without)
    return host.agent
