"""The words of a plain shell command, and the prefix of it that one approval may cover.

The rule: what cannot be read as one simple command of plain words has no words here, and gets no prefix. A person who
approves a prefix has read one command; so a prefix never reaches a program that runs other programs or code from its
arguments, never a file outside the workspace or a sensitive one, and never one that only exists to destroy or to send.
Such commands are approved to the letter, one by one. The list of programs errs on asking; unknown programs are taken
for ordinary ones, because the person has read the program's name.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from kin_nb.core.safety.workspace import sensitive_reason

_SPECIAL = frozenset(";|&<>()$`\\*?[]{}~!#")
_SPECIAL_IN_DOUBLE_QUOTES = frozenset("$`\\!")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESERVED = _set("if then elif else fi for while until do done case esac select function in time coproc [[ ]]")

_EXACT_ONLY = _set(
    # run a program or code that their arguments give
    "sudo doas su env xargs nohup nice ionice timeout watch stdbuf setsid exec eval source . command builtin trap "
    "alias parallel entr find fd flock chroot unshare nsenter systemd-run at batch crontab script expect strace "
    "ltrace gdb lldb bash sh zsh dash ksh fish csh tcsh busybox toybox perl ruby node deno bun php lua julia R "
    "Rscript osascript tclsh swift java awk gawk mawk nawk sed ed ex vi vim nvim emacs nano less more man ssh rsync "
    "tar zip ipython jupyter npx pipx uvx bunx pdb timeit code runpy cProfile profile trace IPython ipykernel cmake "
    "ccache openssl sqlite3 psql mysql pkexec runuser setpriv taskset chrt numactl prlimit unbuffer xvfb-run "
    "dbus-run-session ssh-agent valgrind perf mpirun mpiexec srun torchrun hyperfine nix nix-shell tox nox "
    "scriptreplay nodemon watchexec direnv dotenv tmux screen ts-node tsx py-spy memray scalene fakeroot bwrap firejail "
    "wish groovy scala elixir pwsh m4 dc "
    # builtins of bash that evaluate their arguments, also as the index of an array: a[$(...)]
    "printf test compgen complete compopt let declare typeset local readonly mapfile readarray jobs read bind fc "
    "getopts wait "
    # destroy, change rights, write where they are told, or send
    "rm rmdir mv cp ln dd tee install truncate shred chmod chown chgrp mount umount kill pkill killall curl wget nc "
    "ncat socat telnet ftp sftp scp export set unset shopt enable hash "
    # write where an option, a second argument or what they read says, or load a plugin
    "sort uniq tree shuf split csplit xxd iconv gcc cc g++ c++ clang ld as patch quilt cpio pax uudecode"
)

_SUBCOMMANDS: dict[str, frozenset[str]] = {
    # program: its subcommands that are approved to the letter only
    "git": _set(
        "config bisect submodule rebase filter-branch difftool mergetool clean remote clone push reset restore checkout "
        "grep archive format-patch bundle apply am"
    ),
    "npm": _set("exec x explore init create config set publish"),
    "pnpm": _set("exec dlx create config publish"),
    "yarn": _set("exec dlx create config publish node"),
    "pip": _set("config"),
    "pip3": _set("config"),
    "uv": _set("tool publish"),
    "poetry": _set("config publish shell self"),
    "pdm": _set("config publish"),
    "cargo": _set("install publish"),
    "go": _set("run generate tool env"),
    "make": _set(""),
    "just": _set(""),
    "docker": _set("run exec cp compose container buildx context plugin"),
    "podman": _set("run exec cp compose container unshare machine"),
    "bundle": _set("exec config console open plugin"),
    "kubectl": _set("exec run debug cp attach config proxy apply delete"),
    "coverage": _set("run"),
    "gh": _set("api alias extension auth config secret"),
    "conda": _set("run config"),
    "mamba": _set("run config"),
    "brew": _set(""),
    "apt": _set(""),
    "terraform": _set("apply destroy"),
    "dotnet": _set("run exec"),
    "hatch": _set("run shell env"),
}
_ONE_TARGET = frozenset(["make", "just"])
_RUNNERS = frozenset([("uv", "run"), ("poetry", "run"), ("pdm", "run")])
_SCRIPT_RUNNERS = frozenset([("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run")])
_PYTHON = re.compile(r"python(\d(\.\d+)?)?$")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*$")
_RUNNING_OPTIONS = _set(
    # these run a program, load code or settings, or write a file
    "exec execdir eval command to-command use-compress-program compress-program checkpoint-action rsh upload-pack "
    "receive-pack ext-diff textconv open-files-in-pager pre hostname-bin shell script-shell toolexec vettool wrapper "
    "init-script output output-file plugin config config-file rcfile"
)
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


def reaches_out(word: str) -> bool:
    """Whether an argument names a program to run, a place outside the workspace, or a sensitive file."""
    if _runs_something(word) or _LEAVES_THE_WORKSPACE.search(word) or _EVALUATED_INDEX.search(word):
        return True
    return any(sensitive_reason(PurePath(part)) for part in {word, word.rpartition("=")[2], word.rpartition(":")[2]})


def _runs_something(word: str) -> bool:
    """Whether it is such an option, or one shortened as git and argparse allow."""
    name = word.lstrip("-").partition("=")[0]
    return word.startswith("-") and len(name) > 1 and any(option.startswith(name) for option in _RUNNING_OPTIONS)


def _prefix(words: list[str]) -> list[str] | None:
    program, arguments = words[0], words[1:]
    if not _PLAIN.match(program) or program.endswith((".py", ".sh")):  # a file may change after the approval
        return None
    if program in _EXACT_ONLY or program.rstrip("0123456789.-") in _EXACT_ONLY:
        return None
    if program.startswith(("python", "pypy")):
        return _after(words[:2], arguments[1:]) if _PYTHON.match(program) and arguments[:1] == ["-m"] else None
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
