"""What a pattern of bash's allowlist or denylist means for a command line.

A pattern is compared by words: equal, or followed by more words; with `*`, `?` or `[` in it, as a glob over the whole
command. An allowlist is for commands that can be read at a glance: one simple command of plain words, none of
which names a program to run, a place outside the workspace or a sensitive file unless the pattern spells it. A denylist looks
for the command anywhere in the line. That is a fence for good intentions, not for bad ones: the line may still build a
command that no reading finds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

from kin_nb.core.safety.shell_words import plain_words, reaches_out
from kin_nb.core.tools.builtins.command_split import SimpleCommand, split

_LEADS_TO_ANOTHER = frozenset(
    (
        *("sudo", "doas", "env", "command", "builtin", "exec", "nohup", "time", "nice", "timeout", "xargs"),
        *("if", "then", "elif", "else", "while", "until", "do", "!", "{"),
    )
)
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "fish", "ksh"))


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


def simple_commands(command: str, depth: int = 5) -> Iterator[SimpleCommand]:
    """Every simple command of a line, and each that `sudo`, `env`, `bash -c` and their like are told to run."""
    for found in split(command):
        while found.words:
            yield found
            inner = _script(found.words)
            if inner is not None and depth:
                yield from simple_commands(inner, depth - 1)
            found = SimpleCommand(_carried(found.words), found.has_input)  # noqa: PLW2901  (the next one inside it)


def _fits(pattern: str, words: list[str]) -> bool:
    if any(mark in pattern for mark in "*?["):
        return any(fnmatchcase(text, pattern) for text in (shlex.join(words), " ".join(words)))
    wanted = pattern.split()
    return bool(wanted) and words[: len(wanted)] == wanted


def _script(words: list[str]) -> str | None:
    """The text that a shell is given to run."""
    program = words[0].rpartition("/")[2]
    if program == "eval":
        return " ".join(words[1:])
    options = [i for i, word in enumerate(words[:-1]) if word.startswith("-") and word.endswith("c")]
    return words[options[0] + 1] if program in _SHELLS and options else None


def _carried(words: list[str]) -> list[str]:
    """The command inside a command: after `sudo`, `FOO=1`, `timeout 5`. Empty when there is none."""
    if words[0].rpartition("/")[2] not in _LEADS_TO_ANOTHER and not _is_assignment(words[0]):
        return []
    rest = words[1:]
    if words[0] == "command" and rest[:1] in (["-v"], ["-V"]):  # asks where a program is
        return []
    while rest and (rest[0].startswith("-") or rest[0][:1].isdigit()):
        rest = rest[1:]
    return rest


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
