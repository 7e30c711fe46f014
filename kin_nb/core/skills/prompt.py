"""`/skill:NAME the rest` as a person writes it in a prompt (seed 001)."""

from __future__ import annotations

import re

from kin_nb.core.skills.manager import SkillManager

_COMMAND = re.compile(r"\s*/skill:(?P<name>\S*)(?P<rest>.*)", re.DOTALL)


def expand_skill(prompt: str, skills: SkillManager) -> str | None:
    """The skill's text, then the rest as the request. None when `prompt` names no skill. Raises SkillError, naming the nearest."""
    command = _COMMAND.fullmatch(prompt)
    if command is None:
        return None
    request = command["rest"].strip() or "Do what this skill describes."
    return f"{skills.load(command['name'])}\n\n{request}"
