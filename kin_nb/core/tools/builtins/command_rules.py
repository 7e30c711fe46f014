"""What a pattern of bash's allowlist or denylist means for a command line.

A pattern is compared by words: equal, or followed by more words; with `*`, `?` or `[` in it, as a glob over the whole
command. An allowlist is for commands that can be read at a glance: one simple command of plain words, none of
which names a program to run, a place outside the workspace or a sensitive file unless the pattern spells it; nor does git have an
option before its subcommand (`-C`, `-c`), unless spelled. A denylist looks for the command anywhere in the line, and sees
`git push` in `git -C x push` too. That is a fence for good intentions, not for bad ones: the line may still build a
command that no reading finds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

from kin_nb.core.safety.shell.split import SimpleCommand
from kin_nb.core.safety.shell_words import git_words, plain_words, reaches_out

_HARMLESS_GIT_OPTIONS = ("--no-pager", "-P")
"""Before a subcommand: they change nothing but how the output comes."""


def allows(pattern: str, command: str) -> bool:
    words = plain_words(command)
    if words is None:
        return False
    spelled = pattern.split()
    if program_name(words) == "git" and not "".join(spelled[1:2]).startswith("-"):
        words, options = git_words(words)
        if any(option not in _HARMLESS_GIT_OPTIONS for option in options):
            return False
    if not _fits(pattern, words):
        return False
    return not any(reaches_out(word) and word not in spelled for word in words[1:])


def denies(pattern: str, command: SimpleCommand) -> bool:
    words = command.words
    named = [program_name(words), *words[1:]]
    return any(_fits(pattern, each) for each in (words, named, *_of_git(named)))


def program_name(words: list[str]) -> str:
    """Without its folder."""
    return words[0].rpartition("/")[2]


def _of_git(words: list[str]) -> Iterator[list[str]]:
    """What a git command does, without the options before its subcommand; and what an alias stands for that these make."""
    if words[0] != "git":
        return
    plain, options = git_words(words)
    yield plain
    for setting in options:
        name, _, value = setting.partition("=")
        if name.casefold() == f"alias.{''.join(plain[1:2])}".casefold():
            text = value.split()
            yield [text[0].lstrip("!"), *text[1:]] if value.startswith("!") else ["git", *text, *plain[2:]]


def denies_alone(pattern: str, command: SimpleCommand) -> bool:
    """Whether it is the pattern's command without arguments, and without input of its own."""
    return len(command.words) == 1 and not command.has_input and denies(pattern, command)


def _fits(pattern: str, words: list[str]) -> bool:
    if any(mark in pattern for mark in "*?["):
        return any(fnmatchcase(text, pattern) for text in (shlex.join(words), " ".join(words)))
    wanted = pattern.split()
    return bool(wanted) and words[: len(wanted)] == wanted
