"""The words of a plain shell command: what cannot be read as one simple command of plain words has none."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath

from kin_nb.core.sensitive_names import sensitive_reason

_SPECIAL = frozenset(";|&<>()$`\\*?[]{}~!#")
_SPECIAL_IN_DOUBLE_QUOTES = frozenset("$`\\!")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESERVED = _set("if then elif else fi for while until do done case esac select function in time coproc [[ ]]")

_RUNNING_OPTIONS = _set(
    # these run a program, load code or settings, write a file, or name another host
    "exec execdir eval command to-command use-compress-program compress-program checkpoint-action rsh upload-pack "
    "receive-pack ext-diff textconv open-files-in-pager pre hostname-bin shell script-shell toolexec vettool wrapper "
    "init-script output output-file plugin config config-file rcfile install-types "
    "init-hook load-plugins python host server registry index index-url extra-index-url"
)
_GIT_OPTIONS_WITH_VALUE = _set("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source")
_LEAVES_THE_WORKSPACE = re.compile(r"(^|[=:,@]|^-\w)/|(^|[/=:,@]|^-\w)\.\.(/|$)|@[\w.-]+:")

_JOINS_PATHS = re.compile("[=:,]")
_EVALUATED_INDEX = re.compile(r"\w\[.*[$`]", re.DOTALL)
"""As in `printf -v 'a[$(x)]'`: bash runs x, quoted as it is."""


def plain_words(command: str) -> list[str] | None:
    """The words of `command` when it is one simple command of plain words, else None.

    Plain: no operator, redirection, expansion, glob, comment, escape, assignment prefix or reserved word; quotes may
    hold blanks and operators, but double quotes no expansion. Any character that is not printable makes it None.
    """
    command = command.strip(" \t")
    if not command or not command.replace("\t", " ").isprintable():
        return None
    words: list[str] = []
    position = 0
    while position < len(command):
        if command[position] in " \t":
            position += 1
            continue
        word, position = _word(command, position)
        if word is None:
            return None
        words.append(word)
    return None if "=" in words[0] or words[0] in _RESERVED or not words[0] else words


def _word(command: str, position: int) -> tuple[str | None, int]:
    """One word from `position`, with its quotes taken off, and where it ends; None when it is not plain."""
    word = ""
    while position < len(command) and command[position] not in " \t":
        character = command[position]
        if character in "'\"":
            end = command.find(character, position + 1)
            quoted = command[position + 1 : end]
            if end < 0 or (character == '"' and not _SPECIAL_IN_DOUBLE_QUOTES.isdisjoint(quoted)):
                return None, position
            word, position = word + quoted, end + 1
        elif character in _SPECIAL:
            return None, position
        else:
            word, position = word + character, position + 1
    return word, position


def reaches_out(word: str) -> bool:
    """Whether an argument names a program to run, a place outside the workspace, or a sensitive file."""
    return _runs_something(word) or leads_elsewhere(word)


def leads_elsewhere(word: str) -> bool:
    """Whether an argument names a place outside the workspace, or a sensitive file."""
    if _LEAVES_THE_WORKSPACE.search(word) or _EVALUATED_INDEX.search(word):
        return True
    return any(
        sensitive_reason(PurePath(part), "write") for part in {word, word.rpartition("=")[2], word.rpartition(":")[2]}
    )


def links_elsewhere(word: str, root: Path) -> bool:
    """Whether a symbolic link in an argument leads out of the workspace, or to a sensitive file. It need not exist."""
    top = os.path.realpath(root)
    option_value = word[2:] if word.startswith("-") else ""
    for part in {word, option_value, *_JOINS_PATHS.split(word)} - {""}:
        named = str(PurePath(top) / part)
        real = os.path.realpath(named)
        if real == os.path.normpath(named):
            continue
        inside = PurePath(real)
        if not inside.is_relative_to(top) or sensitive_reason(inside.relative_to(top), "write"):
            return True
    return False


def _runs_something(word: str) -> bool:
    """Whether it is such an option, or one shortened as git and argparse allow."""
    name = word.lstrip("-").partition("=")[0]
    return word.startswith("-") and len(name) > 1 and any(option.startswith(name) for option in _RUNNING_OPTIONS)


def git_words(words: list[str]) -> tuple[list[str], list[str]]:
    """A git command without the options before its subcommand, and these: `git -C x push` is (`git push`, `-C x`)."""
    position = 1
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in _GIT_OPTIONS_WITH_VALUE else 1
    return [*words[:1], *words[position:]], words[1:position]
