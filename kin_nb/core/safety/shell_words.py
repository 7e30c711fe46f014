"""The words of a plain shell command, and the prefix of it that one approval may cover.

The rule: what cannot be read as one simple command of plain words has no words here, and gets no prefix. A person who
approves a prefix has read one command; so a prefix never reaches a program that runs other programs or code from its
arguments, never a file outside the workspace or a sensitive one, and never one that only exists to destroy or to send.
Such commands are approved to the letter, one by one. The list of programs errs on asking; unknown programs are taken
for ordinary ones, because the person has read the program's name.
"""

from __future__ import annotations

from pathlib import PurePath
import re

from kin_nb.core.safety.sensitive import sensitive_reason

_SPECIAL = frozenset(";|&<>()$`\\*?[]{}~!#")
_SPECIAL_IN_DOUBLE_QUOTES = frozenset("$`\\!")
_RESERVED = frozenset(
    "if then elif else fi for while until do done case esac select function in time coproc [[ ]]".split()
)

_EXACT_ONLY = frozenset(
    # run a program or code that their arguments give
    "sudo doas su env xargs nohup nice ionice timeout watch stdbuf setsid exec eval source . command builtin trap alias "
    "parallel entr find fd flock chroot unshare nsenter systemd-run at batch crontab script expect strace ltrace gdb lldb "
    "bash sh zsh dash ksh fish csh tcsh busybox perl ruby node deno bun php lua julia R Rscript osascript tclsh swift "
    "awk gawk mawk nawk sed ed ex vi vim nvim emacs nano less more man ssh rsync tar ipython jupyter npx pipx uvx bunx "
    "pdb timeit code runpy cProfile profile trace IPython ipykernel doctest unittest.__main__ "
    # destroy, change rights, write where they are told, or send
    "rm rmdir mv cp ln dd tee install truncate shred chmod chown chgrp mount umount kill pkill killall "
    "curl wget nc ncat socat telnet ftp sftp scp export set unset shopt enable hash".split()
)

_SUBCOMMANDS: dict[str, frozenset[str]] = {
    # program: its subcommands that are approved to the letter only
    "git": frozenset("config bisect submodule rebase filter-branch difftool mergetool alias clean remote clone".split()),
    "npm": frozenset("exec x explore init create config set publish".split()),
    "pnpm": frozenset("exec dlx create config publish".split()),
    "yarn": frozenset("exec dlx create config publish".split()),
    "pip": frozenset(["config"]),
    "pip3": frozenset(["config"]),
    "uv": frozenset(["tool", "publish"]),
    "poetry": frozenset("config publish shell self".split()),
    "pdm": frozenset("config publish".split()),
    "cargo": frozenset("install publish".split()),
    "go": frozenset("run generate tool env".split()),
    "make": frozenset(),
    "just": frozenset(),
    "docker": frozenset("run exec cp compose container buildx context plugin".split()),
    "podman": frozenset("run exec cp compose container".split()),
    "kubectl": frozenset("exec run debug cp attach config proxy apply delete".split()),
    "coverage": frozenset(["run"]),
    "gh": frozenset("api alias extension auth config secret".split()),
    "conda": frozenset("run config".split()),
    "mamba": frozenset("run config".split()),
    "brew": frozenset(),
    "apt": frozenset(),
    "terraform": frozenset("apply destroy".split()),
    "dotnet": frozenset("run exec".split()),
    "hatch": frozenset("run shell".split()),
    "nox": frozenset(),
    "tox": frozenset(),
}
_ONE_TARGET = frozenset(["make", "just"])
_RUNNERS = frozenset([("uv", "run"), ("poetry", "run"), ("pdm", "run")])
_SCRIPT_RUNNERS = frozenset([("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run")])
_PYTHON = re.compile(r"python(\d(\.\d+)?)?$")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*$")
_RUNNING_OPTION = re.compile(
    r"--?(exec|execdir|ok|okdir|eval|command|to-command|use-compress-program|compress-program|checkpoint-action|rsh|"
    r"upload-pack|receive-pack|ext-diff|textconv|open-files-in-pager|pre|hostname-bin|shell|delete|fprint\w*|fls|"
    r"output|output-file|plugin|config|config-file|rcfile|script-shell)\b"
)
_LEAVES_THE_WORKSPACE = re.compile(r"(^|[=:,@]|^-\w)/|(^|[/=:,@]|^-\w)\.\.(/|$)|^\w+://")


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
    if words is None or any(_reaches_out(word) for word in words[1:]):
        return None
    prefix = _prefix(words)
    return None if prefix is None else " ".join(prefix)


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


def _reaches_out(word: str) -> bool:
    """Whether an argument names a program to run, a place outside the workspace, or a sensitive file."""
    if _RUNNING_OPTION.match(word) or _LEAVES_THE_WORKSPACE.search(word):
        return True
    return any(sensitive_reason(PurePath(part)) for part in {word, word.rpartition("=")[2], word.rpartition(":")[2]})


def _prefix(words: list[str]) -> list[str] | None:
    program, arguments = words[0], words[1:]
    if not _PLAIN.match(program) or program in _EXACT_ONLY:  # a path is a file that may change after the approval
        return None
    if _PYTHON.match(program):
        return _after(words[:2], arguments[1:]) if arguments[:1] == ["-m"] else None
    if program not in _SUBCOMMANDS:
        return [program]
    if not arguments or not _PLAIN.match(arguments[0]) or arguments[0] in _SUBCOMMANDS[program]:
        return None
    if (program, arguments[0]) in _RUNNERS:
        return _after(words[:2], arguments[1:])
    if program in _ONE_TARGET:
        return words if len(words) == 2 else None  # noqa: PLR2004  (a second target is another command)
    length = 3 if (program, arguments[0]) in _SCRIPT_RUNNERS else 2
    return words[:length] if len(words) >= length and all(map(_PLAIN.match, words[:length])) else None


def _after(start: list[str], rest: list[str]) -> list[str] | None:
    """The prefix of a command that follows `uv run` or `python -m`."""
    prefix = _prefix(rest) if rest else None
    return None if prefix is None else start + prefix
