"""/skill:NAME and /flow:NAME: what to run as turns."""

from __future__ import annotations

from kin_nb.core.commands.toolbox import toolbox_of
from kin_nb.core.commands.values import CommandError, CommandHost, CommandResult


def skill(host: CommandHost, words: list[str]) -> CommandResult:
    """The turn itself puts the skill's text into the prompt; that there is such a skill is said before it."""
    skills = toolbox_of(host).skills
    if not words[0]:
        raise CommandError(f"Usage: /skill:NAME [REQUEST]. Skills: {', '.join(skills.available) or 'none'}.")
    skills.load(words[0])
    return CommandResult(prompt=" ".join([f"/skill:{words[0]}", *words[1:]]))


def flow(host: CommandHost, words: list[str]) -> CommandResult:
    skills = toolbox_of(host).skills
    if not words[0]:
        raise CommandError(f"Usage: /flow:NAME [REQUEST]. Flows: {', '.join(skills.flows) or 'none'}.")
    return CommandResult(prompt=" ".join(words[1:]), flow=skills.flow(words[0]))
