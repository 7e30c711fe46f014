"""What shells and interpreters are given to run: a text in a word, a file, or what they read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kin_nb.core.safety.shell.printed import printed
from kin_nb.core.safety.shell.simple_command import SimpleCommand, program

SHELLS = frozenset(("bash", "sh", "zsh", "dash", "fish", "ksh"))
SOURCES = frozenset(("source", "."))
_HOLDS_A_PROGRAM = re.compile(r"-[emrp]$|-[^-]*c$")

_Script = tuple[str, list[str]]
"""Its text, and what `$0`, `$1` and so on are in it."""


def program_word(command: SimpleCommand) -> int | None:
    """Which word is the program that an interpreter runs, or names it; None when it reads one from its input."""
    words, shell = command.words, program(command) in SHELLS
    skips = False
    for index, word in enumerate(words[1:], 1):
        if skips:
            skips = False
        elif word in ("-s", "-is", "-xs", "-es"):
            return None
        elif shell and word in ("-o", "+o", "-O", "+O"):
            skips = True
        elif _HOLDS_A_PROGRAM.match(word) and not (shell and word[-1:] != "c"):
            return index + 1 if index + 1 < len(words) else None
        elif word in ("-", "/dev/stdin", "/dev/fd/0"):
            return None
        elif not word.startswith("-"):
            return index
    return None


def scripts(command: SimpleCommand) -> Iterator[_Script]:
    """The texts that a command is given to run as a shell does; "" for one that is not known."""
    name, words = program(command), command.words
    if name in SHELLS:
        yield _of_shell(command)
    elif name in SOURCES and len(words) > 1:
        made = command.inputs if words[1] == "/dev/stdin" else command.made_by.get(1, [])
        yield printed(made), words[1:]
    elif name == "eval":
        yield " ".join(words[1:]), []
    elif name == "trap":
        yield next((word for word in words[1:] if not word.startswith("-")), ""), []
    elif name == "alias":
        yield from ((word.partition("=")[2], []) for word in words[1:])
    elif name == "su" and "-c" in words[:-1]:
        yield words[words.index("-c") + 1], []
    elif name == "env":
        yield from _split_by_env(words)


def _of_shell(command: SimpleCommand) -> _Script:
    index, words = program_word(command), command.words
    if index is None:
        return printed(command.inputs), words[:1]
    if words[index - 1].startswith("-") and words[index - 1].endswith("c"):
        return words[index], words[index + 1 :]
    return printed(command.made_by.get(index, [])), words[index:]


def _split_by_env(words: list[str]) -> Iterator[_Script]:
    """`env -S "sh -c ..."`: one word that holds several."""
    for index, word in enumerate(words[1:], 1):
        if word in ("-S", "--split-string"):
            yield " ".join(words[index + 1 :]), []
        elif word.startswith(("-S", "--split-string=")):
            yield " ".join([word.removeprefix("-S").removeprefix("--split-string="), *words[index + 1 :]]), []
        elif not word.startswith("-"):
            return
