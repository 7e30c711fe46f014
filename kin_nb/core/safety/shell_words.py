"""The words of a plain shell command, and the prefix of it that one approval may cover.

The rule: what cannot be read as one simple command of plain words has no words here, and gets no prefix. A person who
approves a prefix has read one command; so only programs that are listed here get one, those whose later arguments neither run
something else, nor install, send or destroy, nor reach a file outside the workspace or a sensitive one. Every other command is
approved verbatim, one by one: also of programs that nothing is known about.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from kin_nb.core.safety.sensitive_names import sensitive_reason

_SPECIAL = frozenset(";|&<>()$`\\*?[]{}~!#")
_SPECIAL_IN_DOUBLE_QUOTES = frozenset("$`\\!")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESERVED = _set("if then elif else fi for while until do done case esac select function in time coproc [[ ]]")

_PROGRAMS = _set(
    # look at files, or make empty ones
    "ls cat head tail wc cut tr nl tac rev fold paste comm join column grep egrep fgrep rg diff cmp stat du df "
    "basename dirname realpath readlink md5sum sha1sum sha256sum od hexdump strings mkdir touch "
    # say something
    "echo true false seq sleep date pwd whoami id uname hostname uptime free ps which"
)
"""Programs whose name is the prefix."""
_CHECKERS = _set(
    "pytest py.test mypy pyright black isort flake8 pylint ruff codespell yamllint shellcheck "
    "tsc eslint prettier jest vitest mocha gofmt rustfmt clang-format"
)
"""Test runners, type checkers and formatters: they run and change what is in the workspace, which is what they are for."""
_MODULES = _set("unittest doctest compileall")
"""For `python -m`, besides the programs above."""

_SUBCOMMANDS: dict[str, frozenset[str]] = {
    # program: its subcommands that are part of a prefix
    "git": _set(
        "add blame cat-file commit describe diff fetch log ls-files ls-tree merge merge-base mv name-rev pull rev-list "
        "rev-parse shortlog show show-ref status whatchanged"
    ),
    "npm": _set("run run-script test start ls list outdated"),
    "pnpm": _set("run test start list outdated"),
    "yarn": _set("run test start list outdated"),
    "pip": _set("list show freeze check"),
    "pip3": _set("list show freeze check"),
    "uv": _set("run tree"),
    "poetry": _set("run show check"),
    "pdm": _set("run list"),
    "hatch": _set("test fmt"),
    "pre-commit": _set("run"),
    "cargo": _set("build check test clippy fmt bench doc tree"),
    "go": _set("build test vet fmt list doc version"),
    "docker": _set("ps images logs inspect"),
    "podman": _set("ps images logs inspect"),
    "kubectl": _set("describe logs top"),
    "coverage": _set("report html xml json combine"),
    "conda": _set("list info"),
    "mamba": _set("list info"),
    "terraform": _set("fmt validate"),
    "dotnet": _set("build test"),
}
_ONE_TARGET = frozenset(["make", "just"])
_RUNNERS = frozenset([("uv", "run"), ("poetry", "run"), ("pdm", "run")])
_SCRIPT_RUNNERS = frozenset([("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run")])
_PYTHON = re.compile(r"python(\d(\.\d+)?)?$")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*$")
_RUNNING_OPTIONS = _set(
    # these run a program, load code or settings, write a file, or name another host
    "exec execdir eval command to-command use-compress-program compress-program checkpoint-action rsh upload-pack "
    "receive-pack ext-diff textconv open-files-in-pager pre hostname-bin shell script-shell toolexec vettool wrapper "
    "init-script output output-file plugin config config-file rcfile install-types "
    "init-hook load-plugins python host server registry index index-url extra-index-url"
)
_OTHER_HOST = {
    "docker": "H",
    "podman": "H",
    "kubectl": "s",
    "pip": "i",
    "pip3": "i",
}
"""The letters of options that name another host; many programs have the same letters for what is harmless."""
_REACHING_GIT = frozenset(["fetch", "pull"])
_GIT_OPTIONS_WITH_VALUE = _set("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source")
_LEAVES_THE_WORKSPACE = re.compile(r"(^|[=:,@]|^-\w)/|(^|[/=:,@]|^-\w)\.\.(/|$)|@[\w.-]+:")

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


def command_prefix(command: str) -> str | None:
    """What "approve for this session" covers, or None: then only the very same text.

    The program, or program and subcommand where there are such (`git diff`, `npm run build`, `make test`), or
    `python -m module`. A later command is covered when its own prefix is the same: compare prefixes, not text.
    """
    words = plain_words(command)
    if words is None or any(reaches_out(word) for word in words[1:]):
        return None
    prefix = _prefix(words)
    return None if prefix is None or _reaches_another_host(words, prefix) else " ".join(prefix)


def _reaches_another_host(words: list[str], prefix: list[str]) -> bool:
    arguments = words[1:]
    letters = {_OTHER_HOST[word] for word in prefix if word in _OTHER_HOST}
    if any(_is_short(word) and any(letter in word for letter in letters) for word in arguments):
        return True
    return prefix[:1] == ["git"] and prefix[-1] in _REACHING_GIT and any(":" in word for word in arguments)


def _is_short(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--")


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
    if _runs_something(word) or _LEAVES_THE_WORKSPACE.search(word) or _EVALUATED_INDEX.search(word):
        return True
    return any(
        sensitive_reason(PurePath(part), "write") for part in {word, word.rpartition("=")[2], word.rpartition(":")[2]}
    )


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


def _prefix(words: list[str], known: frozenset[str] = frozenset()) -> list[str] | None:
    """`known`: programs to take for listed ones."""
    program, arguments = words[0], words[1:]
    if program.startswith(("python", "pypy")):
        is_module = _PYTHON.match(program) and arguments[:1] == ["-m"]
        return _after(words[:2], arguments[1:], _MODULES) if is_module else None
    if program in _PROGRAMS or program in _CHECKERS or program in known:
        return [program]
    if not arguments or not _PLAIN.match(arguments[0]):
        return None
    if program in _ONE_TARGET:
        return words if len(words) == 2 else None  # noqa: PLR2004  (a second target is another command)
    if arguments[0] not in _SUBCOMMANDS.get(program, ()):
        return None
    if (program, arguments[0]) in _RUNNERS:
        return _after(words[:2], arguments[1:])
    length = 3 if (program, arguments[0]) in _SCRIPT_RUNNERS else 2
    return words[:length] if len(words) >= length and all(map(_PLAIN.match, words[:length])) else None


def _after(start: list[str], rest: list[str], known: frozenset[str] = frozenset()) -> list[str] | None:
    """The prefix of a command that follows `uv run` or `python -m`."""
    prefix = _prefix(rest, known) if rest else None
    return None if prefix is None else start + prefix
