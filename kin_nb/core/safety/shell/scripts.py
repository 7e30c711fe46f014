"""What shells and interpreters are given to run: a text in a word, a file, or what they read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile, pairwise

from kin_nb.core.safety.shell.printed import printed
from kin_nb.core.safety.shell.simple_command import SimpleCommand, program
from kin_nb.core.safety.shell_words import git_words

SHELLS = frozenset(("bash", "sh", "zsh", "dash", "fish", "ksh", "ash", "rbash"))
SOURCES = frozenset(("source", "."))
STANDARD_INPUT = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_HOLDS_A_PROGRAM = re.compile(r"-[emrp]$|-[^-]*c$")
_OPTION_OF_SHELL = re.compile(r"[-+]([A-Za-z]+)$|--\w[\w-]*")
_TAKE_A_WORD = frozenset(("--rcfile", "--init-file"))
_RUN_AS_SHELL = frozenset(("su", "script", "flock"))
_GIVES_A_TEXT = re.compile(r"-[a-z]*c$|--command$")
_TOLD_TO_GIT = {
    "rebase": re.compile(r"(?:-[a-z]*?x|--ex(?:ec?)?(?:=|$))(.*)", re.DOTALL),
    "difftool": re.compile(r"(?:-[a-z]*?x|--extc(?:md?)?(?:=|$))(.*)", re.DOTALL),
    "filter-branch": re.compile(r"--\w+-filter()$"),
}
"""By git's subcommand: the option whose value is a command; a group for a value in the same word."""
_OF_ENV = {"--chdir": "C", "--split-string": "S", "--unset": "u"}
"""The options of `env` that have a value, and their letters."""
_OF_ANOTHER_LANGUAGE = re.compile(r"#!(?!.*sh\b)")

_Script = tuple[str, list[str]]
"""Its text, and what `$0`, `$1` and so on are in it."""


def program_word(command: SimpleCommand) -> int | None:
    """Which word is the program that an interpreter runs, or names it; None when it reads one from its input."""
    words = command.words
    if program(command) in SHELLS:
        letters, index = _shell_options(words)
        reads = index == len(words) or ("c" not in letters and ("s" in letters or words[index] in STANDARD_INPUT))
        return None if reads else index
    for index, word in enumerate(words[1:], 1):
        if _HOLDS_A_PROGRAM.match(word):
            return index + 1 if index + 1 < len(words) else None
        if word in STANDARD_INPUT:
            return None
        if not word.startswith("-"):
            return index
    return None


def only_checks(command: SimpleCommand) -> bool:
    """Whether it is a shell that runs nothing of what it reads: `bash -n`."""
    return program(command) in SHELLS and "n" in _shell_options(command.words)[0]


def _shell_options(words: list[str]) -> tuple[str, int]:
    """The letters of a shell's options, and which word comes after them; `-o` takes the next word, in a bundle also."""
    letters, index = "", 1
    while index < len(words) and (option := _OPTION_OF_SHELL.match(words[index])):
        bundle = option[1] or ""
        letters += bundle if words[index][0] == "-" else ""
        index += 1 + bundle.count("o") + bundle.count("O") + (words[index] in _TAKE_A_WORD)
    index += words[index : index + 1] == ["--"]
    return letters, min(index, len(words))


def scripts(command: SimpleCommand) -> Iterator[_Script]:
    """The texts that a command is given to run as a shell does; "" for one that is not known."""
    name, words = program(command), command.words
    if name in SHELLS:
        yield _of_shell(command)
    elif name in SOURCES and len(words) > 1:
        made = command.inputs if words[1] in STANDARD_INPUT else command.made_by.get(1, [])
        yield printed(made), words[1:]
    elif name == "eval":
        yield " ".join(words[1:]), []
    elif name == "trap":
        yield next((word for word in words[1:] if not word.startswith("-")), ""), []
    elif name == "alias":
        yield from ((word.partition("=")[2], []) for word in words[1:])
    elif name in _RUN_AS_SHELL:
        yield next((text for option, text in pairwise(words[1:]) if _GIVES_A_TEXT.match(option)), ""), []
    elif name == "env":
        yield given_to_env(words), []
    elif name == "git":
        yield from ((text, []) for text in _given_to_git(words))
    elif 0 in command.made_by and "/" in words[0]:
        text = printed(command.made_by[0])
        yield "" if _OF_ANOTHER_LANGUAGE.match(text) else text, words


def _of_shell(command: SimpleCommand) -> _Script:
    index, words = program_word(command), command.words
    letters, after = _shell_options(words)
    if "n" in letters:
        return "", []
    if index is None:
        return printed(command.inputs), [*words[:1], *words[after:]]
    if "c" in letters:
        return words[index], words[index + 1 :]
    return printed(command.made_by.get(index, [])), words[index:]


def _given_to_git(words: list[str]) -> Iterator[str]:
    """The commands that git is told to run: for each submodule, commit, or step of a search."""
    rest = git_words(words)[0][1:]
    subcommand, given = "".join(rest[:1]), rest[1:]
    if subcommand == "bisect" and given[:1] == ["run"]:
        yield shlex.join(given[1:])
    elif subcommand == "submodule" and "foreach" in given:
        yield " ".join(dropwhile(lambda word: word.startswith("-"), given[given.index("foreach") + 1 :]))
    if option := _TOLD_TO_GIT.get(subcommand):
        found = ((option.match(word), after) for word, after in pairwise([*given, ""]))
        yield from (told[1] or after for told, after in found if told)


def given_to_env(words: list[str]) -> str:
    """`env -S "sh -c ..."`: one word that holds several. `env -C / ls`: in another folder. "" for what it runs as it stands."""
    index, folder = 1, ""
    while index < len(words) and words[index].startswith("-"):
        kind, value = _option_of_env(words[index])
        if kind and value is None:
            index += 1
            value = "".join(words[index : index + 1])
        index += 1
        if kind == "S":
            text = " ".join([value or "", *words[index:]])
            return f"cd {shlex.quote(folder)}; {text}" if folder else text
        folder = value or "" if kind == "C" else folder
    return f"cd {shlex.quote(folder)}; env {shlex.join(words[index:])}" if folder else ""


def _option_of_env(word: str) -> tuple[str, str | None]:
    """Its letter, where it has a value; and that, None when it is the next word. Long ones may be cut short."""
    name, equals, value = word.partition("=")
    if word.startswith("--"):
        kind = next((kind for long, kind in _OF_ENV.items() if len(name) > 2 and long.startswith(name)), "")  # noqa: PLR2004
        return kind, value if equals else None
    at = next((at for at, letter in enumerate(word) if letter in _OF_ENV.values()), 0)
    return word[at] if at else "", word[at + 1 :] or None
