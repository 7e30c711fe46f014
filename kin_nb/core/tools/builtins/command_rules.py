"""What a pattern of bash's allowlist or denylist means for a command line.

A pattern is compared by words: equal, or followed by more words; with `*`, `?` or `[` in it, as a glob over the whole
command. An allowlist is for commands that can be read at a glance: one simple command of plain words, none of
which names a program to run, a place outside the workspace or a sensitive file unless the pattern spells it. A denylist looks
for the command anywhere in the line. That is a fence for good intentions, not for bad ones: the line may still build a
command that no reading finds.
"""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase

from kin_nb.core.safety.shell.split import SimpleCommand
from kin_nb.core.safety.shell_words import plain_words, reaches_out


def allows(pattern: str, command: str) -> bool:
    words = plain_words(command)
    if words is None or not _fits(pattern, words):
        return False
    spelled = pattern.split()
    return not any(reaches_out(word) and word not in spelled for word in words[1:])


def denies(pattern: str, command: SimpleCommand) -> bool:
    words = command.words
    return _fits(pattern, words) or _fits(pattern, [words[0].rpartition("/")[2], *words[1:]])


def denies_alone(pattern: str, command: SimpleCommand) -> bool:
    """Whether it is the pattern's command without arguments, and without input of its own."""
    return len(command.words) == 1 and not command.has_input and denies(pattern, command)


def _fits(pattern: str, words: list[str]) -> bool:
    if any(mark in pattern for mark in "*?["):
        return any(fnmatchcase(text, pattern) for text in (shlex.join(words), " ".join(words)))
    wanted = pattern.split()
    return bool(wanted) and words[: len(wanted)] == wanted
