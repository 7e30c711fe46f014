"""What a pattern of bash's allowlist or denylist means for a command line.

A pattern is compared by words: equal, or followed by more words; with `*`, `?` or `[` in it, as a glob over the whole command.
An allowlist is for commands that can be read at a glance: one simple command of plain words, none of which names a program to
run, a place outside the workspace or a sensitive file, also through a link, unless the pattern spells it; nor does git have an
option before its subcommand (`-C`, `-c`), unless spelled. For the programs in safety/command_prefix.py it covers what is proven to
only read, the options that are listed there or that the pattern spells, and the line that it spells whole: of a subcommand
that is not listed there (`git push`), of make's second target, only that. A denylist looks for the command anywhere in the
line, and sees `git push` in `git -C x push` too. That is a fence for good intentions, not for bad ones: the line may still
build a command that no reading finds.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from kin_nb.core.safety.command_prefix import (
    beginning,
    git_words,
    is_listed,
    leads_elsewhere,
    links_elsewhere,
    plain_words,
    reaches_out,
)
from kin_nb.core.safety.shell.reader.simple_command import SimpleCommand

_HARMLESS_GIT_OPTIONS = ("--no-pager", "-P")
"""Before a subcommand: they change nothing but how the output comes."""


def allows(pattern: str, command: str, root: Path, is_harmless: Callable[[], bool]) -> bool:
    """`root`: where it runs. `is_harmless`: whether the command is proven to only read; asked only where that decides."""
    words = plain_words(command)
    if words is None:
        return False
    spelled, named = pattern.split(), [program_name(words), *words[1:]]
    if words == spelled:
        return True
    if named[0] == "git":
        named, options = git_words(named)
        if any(option not in (*_HARMLESS_GIT_OPTIONS, *spelled) for option in options):
            return False
        if not "".join(spelled[1:2]).startswith("-"):
            words = [*words[:1], *named[1:]]
    known = beginning(named)
    reaches = reaches_out if known is None else leads_elsewhere  # the options of those are listed
    if not _fits(pattern, words) or any(reaches(word) and word not in spelled for word in words[1:]):
        return False
    covered = not is_listed(named[0]) if known is None else known.covers(named, spelled)
    links = (word for word in words[1:] if word not in spelled and links_elsewhere(word, root))
    return (covered and not any(links)) or is_harmless()


def denies(pattern: str, command: SimpleCommand) -> bool:
    words = command.words
    named = [program_name(words), *words[1:]]
    parted = named[0].split("-", 1) if named[0].startswith("git-") else named[:1]  # `git-push` is `git push`
    return any(_fits(pattern, each) for each in (words, named, *_of_git([*parted, *words[1:]])))


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
        name, _, value = setting.removeprefix("-c").partition("=")
        if name.casefold() == f"alias.{''.join(plain[1:2])}".casefold():
            text = value.split()
            yield (
                [text[0].lstrip("!"), *text[1:]] if value.startswith("!") else git_words(["git", *text, *plain[2:]])[0]
            )


def denies_alone(pattern: str, command: SimpleCommand) -> bool:
    """Whether it is the pattern's command without arguments, and without input of its own."""
    return len(command.words) == 1 and not command.has_input and denies(pattern, command)


def _fits(pattern: str, words: list[str]) -> bool:
    if any(mark in pattern for mark in "*?["):
        return any(fnmatchcase(text, pattern) for text in (shlex.join(words), " ".join(words)))
    wanted = pattern.split()
    return bool(wanted) and words[: len(wanted)] == wanted
