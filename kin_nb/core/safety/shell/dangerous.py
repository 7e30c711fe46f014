"""Commands that nobody means: they are refused whatever the mode, the rules and the grants say.

Found by reading alone, in any place of the line, also inside `sudo`, `env`, `bash -c` and their like where what they run
is spelled out. That is a fence for mistakes, not for malice: a line can always build a command that no reading finds.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kin_nb.core.safety.shell.carried import SHELLS, carried, program, simple_commands
from kin_nb.core.safety.shell.split import SimpleCommand
from kin_nb.core.safety.shell.syntax import shown

LONGEST = 50_000
"""Characters of a line that are looked at."""

_SYSTEM_FOLDERS = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run"),
        *("/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var"),
        *("/Applications", "/Library", "/System", "/Users", "/Volumes", "/private"),
    )
)
_HARMLESS_DEVICES = (
    "null",
    "zero",
    "full",
    "stdin",
    "stdout",
    "stderr",
    "tty",
    "fd/",
    "shm/",
    "ptmx",
    "pts/",
    "random",
)
_ACCOUNTS = re.compile(r"/etc/(passwd|shadow|gshadow|group|sudoers)$|/etc/(sudoers\.d|pam\.d)/")
_FETCHERS = frozenset(("curl", "wget", "aria2c", "http", "https", "fetch"))
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|php|lua)[\d.]*$")
_SOURCES = frozenset(("source", "."))
_POWER = frozenset(("shutdown", "reboot", "halt", "poweroff"))
_FORMATTERS = re.compile(r"(mkfs(\.\w+)?|mke2fs|mkswap|wipefs|blkdiscard|shred|fdisk|sfdisk|parted)$")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_FORK_BOMB = re.compile(
    r"([\w:.-]{1,30})\(\)\{[^}]{0,60}?\1\|&?\1&[^}]{0,60}\}|([\w:.-]{1,30})\(\)\{\2&\2&?[^}]{0,60}\}"
)


def danger(command: str, root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Why the line must never run, naming the part of it; "" when nothing in it is known to be dangerous."""
    command = command[:LONGEST]
    place = _Place(root, environment.get("HOME") or "/root")
    commands = list(simple_commands(command))
    for found in commands:
        why = next((why for rule in _RULES if (why := rule(found, place))), "")
        if why:
            return why
        place.follow(found)
    scripts = [command, *(word for found in commands for word in found.words if program(found) in SHELLS)]
    return next((why for script in scripts if (why := _fork_bomb(script))), "")


class _Place:
    """Where the line is, as its `cd`s say, and which folders are protected from there."""

    def __init__(self, root: Path, home: str) -> None:
        self._root, self._home = str(root), posixpath.normpath(home)
        self._cwd = self._root

    def follow(self, command: SimpleCommand) -> None:
        if program(command) in ("cd", "pushd"):
            self._cwd = self.path(next((word for word in command.words[1:] if not word.startswith("-")), "~"))

    def path(self, word: str) -> str:
        """Where a word leads, by its letters alone."""
        if word == "~root" or word.startswith("~root/"):
            word = f"/root{word[5:]}"
        for home in ("~", "$HOME"):
            if word == home or word.startswith(f"{home}/"):
                word = self._home + word[len(home) :]
        path = posixpath.normpath(posixpath.join(self._cwd, word))
        return "/" if path == "//" else path

    def is_protected(self, word: str) -> bool:
        """Whether it is the root, a folder of the system, the home, or one that holds the workspace."""
        stripped = re.sub(r"(?<=/)(\*|\.\*|\.\[!\.\]\*|\{\*,\.\*\})$", "", word)
        path = self.path("." if stripped in ("*", ".*") else stripped)
        holds = self._root.startswith(f"{path.rstrip('/')}/")
        return path in _SYSTEM_FOLDERS or path == self._home or holds


def _operands(command: SimpleCommand) -> list[str]:
    """The words after the program that are no options."""
    words = command.words[1:]
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if not word.startswith("-")] + words[end + 1 :]


def _has(command: SimpleCommand, letters: str, long: str) -> bool:
    """Whether an option is given: one of `letters`, alone or among others, or the long one (or its beginning)."""
    for word in command.words[1:]:
        if word.startswith("--"):
            if len(word) > 3 and f"--{long}".startswith(word):  # noqa: PLR2004  (`--r` at the least)
                return True
        elif word.startswith("-") and set(letters) & set(word):
            return True
    return False


def _deletes(command: SimpleCommand, place: _Place) -> str:
    name = program(command)
    if name == "rm" and _has(command, "rR", "recursive"):
        return _on_protected(_operands(command), place, "would delete {}, and all that is below")
    if name == "find" and ("-delete" in command.words or {"rm", "unlink", "shred"} & set(command.words)):
        paths = [word for word in command.words[1:] if not word.startswith(("-", "("))][:1]
        narrowed = any(
            word in ("-name", "-path", "-iname", "-newer", "-mtime") and following.strip("*")
            for word, following in itertools.pairwise(command.words)
        )
        return "" if narrowed else _on_protected(paths, place, "would delete what is below {}")
    return ""


def _opens_or_moves(command: SimpleCommand, place: _Place) -> str:
    name, operands = program(command), _operands(command)
    if name in ("chmod", "chown", "chgrp") and _has(command, "R", "recursive"):
        return _on_protected(operands[1:], place, f"would change the rights of all that is below {{}} ({name} -R)")
    return _on_protected(operands[:-1], place, "would move {} away") if name == "mv" else ""


def _on_protected(words: list[str], place: _Place, what: str) -> str:
    found = next((word for word in words if word and place.is_protected(word)), None)
    return "" if found is None else f"it {what.format(shown(found))}"


def _writes_where_nobody_should(command: SimpleCommand, place: _Place) -> str:
    for word in _targets(command):
        path = place.path(word)
        if path.startswith("/dev/") and not path.removeprefix("/dev/").startswith(_HARMLESS_DEVICES):
            return f"it would write to the device {shown(word)}"
        if _ACCOUNTS.match(path) or path == "/proc/sysrq-trigger":
            return f"it would write to {shown(word)}, which rules who may do what on this machine"
    return ""


def _targets(command: SimpleCommand) -> Iterator[str]:
    """The files that the command is told to write, as far as words tell."""
    yield from command.writes
    name, operands = program(command), _operands(command)
    if name == "dd":
        yield from (word.removeprefix("of=") for word in operands if word.startswith("of="))
    elif name == "tee" or _FORMATTERS.match(name):
        yield from operands
    elif name in ("cp", "mv", "install", "ln", "rsync"):
        yield from operands[-1:]
    elif name in ("rm", "truncate", "unlink") or (name == "sed" and _has(command, "i", "in-place")):
        yield from (word for word in operands if word.startswith("/"))


def _runs_what_it_fetches(command: SimpleCommand, place: _Place) -> str:  # noqa: ARG001  (a rule like the others)
    """A shell or an interpreter whose program comes from the network: by a pipe, or as `sh -c "$(curl ...)"`."""
    name = program(command)
    if name not in SHELLS and name not in _SOURCES and name != "eval" and not _INTERPRETER.match(name):
        return ""
    script = _script_index(command.words)
    if script is None and name in _SOURCES | {"eval"}:
        return ""
    if script is None or command.words[script] in ("-", "/dev/stdin"):
        before = command.piped_from
        while before is not None:
            if _fetches(before):
                return f"it would run what {shown(program(before))} brings from the network, with {shown(name)}"
            before = before.piped_from
        return ""
    fetchers = [made for made in command.made_by.get(script, []) if _fetches(made)]
    return (
        f"it would run what {shown(program(fetchers[0]))} brings from the network, with {shown(name)}"
        if fetchers
        else ""
    )


def _script_index(words: list[str]) -> int | None:
    """Which word is the program that an interpreter runs, or names it; None when it reads one from its input."""
    for index, word in enumerate(words[1:], 1):
        if word in ("-s", "-is", "-xs", "-es"):
            return None
        if word in ("-c", "-e", "-m", "-r", "-p") or (
            word.startswith("-") and not word.startswith("--") and word[-1:] == "c"
        ):
            return index + 1 if index + 1 < len(words) else None
        if word == "-" or not word.startswith("-"):
            return index
    return None


def _fetches(command: SimpleCommand) -> bool:
    inner = command
    while inner.words:
        if program(inner) in _FETCHERS:
            return True
        inner = carried(inner)
    return False


def _ends_the_machine(command: SimpleCommand, place: _Place) -> str:  # noqa: ARG001  (a rule like the others)
    name, words = program(command), command.words[1:]
    if name in _POWER and "--help" not in words:
        return f"{shown(name)} would stop this machine"
    if name in ("init", "telinit") and words[:1] in (["0"], ["6"]):
        return f"{shown(' '.join(command.words))} would stop this machine"
    if name == "systemctl" and {"poweroff", "reboot", "halt", "kexec"} & set(words):
        return f"{shown(' '.join(command.words))} would stop this machine"
    signalled = [word for word in words[1:] if word in ("-1", "1")] if name == "kill" else []
    return f"{shown(' '.join(command.words))} would end every process" if signalled else ""


def _fork_bomb(text: str) -> str:
    if "()" not in "".join(text.split()):
        return ""
    found = _FORK_BOMB.search("".join(_QUOTED.sub("''", text).split()))
    return f"{shown(found[0])} is a fork bomb" if found else ""


_Rule = Callable[[SimpleCommand, _Place], str]
_RULES: tuple[_Rule, ...] = (
    _deletes,
    _opens_or_moves,
    _writes_where_nobody_should,
    _runs_what_it_fetches,
    _ends_the_machine,
)
