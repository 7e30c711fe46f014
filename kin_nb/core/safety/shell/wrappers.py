"""Commands that run another one, which is named in their words: timeout, command, xargs."""

from __future__ import annotations

import re

from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.syntax import shown

WRAPPERS = frozenset(("timeout", "command", "xargs"))
_OF_TEXT = frozenset(("echo", "basename", "dirname"))
"""Harmless whatever their words are, and without looking at any file: what xargs may run."""
_XARGS_ALONE = frozenset(("-0", "-r", "-t", "--null", "--no-run-if-empty", "-0r", "-r0"))


def wrapped(name: str, words: list[str]) -> list[str]:
    """The words of the command that it runs; none when it only asks where one is. Raises UnprovenError."""
    if name == "command" and words[:1] in (["-v"], ["-V"]):
        return []
    if name == "xargs":
        return _after_xargs(words)
    if name == "timeout":
        if not words or not re.fullmatch(r"\d+(\.\d+)?[sm]?", words[0]):
            raise UnprovenError("`timeout` without a plain number of seconds is not known to be harmless")
        words = words[1:]
    if not words or words[0].startswith("-") or words[0] in {"cd", *WRAPPERS}:
        raise UnprovenError(f"`{name}` is known to be harmless only before a harmless command")
    return words


def _after_xargs(words: list[str]) -> list[str]:
    """What xargs runs. Its further words come from its input: nobody knows them before."""
    words = list(words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-n", "-P", "-L") and words and words[0].isdigit():
            words.pop(0)
        elif option not in _XARGS_ALONE and not re.fullmatch(r"-[nPL]\d+", option):
            raise UnprovenError(f"`xargs {option}` is not a flag known to be harmless")
    words = words or ["echo"]
    if words[0] not in _OF_TEXT:
        raise UnprovenError(f"`xargs` gives {shown(words[0])} words that are not known before it runs")
    return words
