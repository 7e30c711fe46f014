"""Commands that nobody means: they are refused whatever the mode, the rules and the grants say.

Found by reading alone, in any place of the line, also inside `sudo`, `env`, `bash -c` and their like where what they run
is spelled out. That is a fence for mistakes, not for malice: a line can always build a command that no reading finds.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from kin_nb.core.safety.shell.carried import FOR_EACH_FOUND, carried, simple_commands
from kin_nb.core.safety.shell.continued import joined
from kin_nb.core.safety.shell.fetched import FetchedPrograms
from kin_nb.core.safety.shell.printed import searched
from kin_nb.core.safety.shell.protected import CwdTracker
from kin_nb.core.safety.shell.simple_command import SimpleCommand, program
from kin_nb.core.safety.shell.syntax import shown

LONGEST = 50_000
"""Characters of a line that are looked at."""

_HARMLESS_DEVICES = (
    "null",
    "zero",
    "full",
    "stdin",
    "stdout",
    "stderr",
    "tty",
    "fd/",
    "shm",
    "ptmx",
    "pts/",
    "random",
    "log",
    "tcp/",
    "udp/",
)
_ACCOUNTS = re.compile(r"/etc/(passwd|shadow|gshadow|group|sudoers)$|/etc/(sudoers\.d|pam\.d)/")
_POWER = frozenset(("shutdown", "reboot", "halt", "poweroff"))
_SYSTEM_PROGRAMS = re.compile(r"/(usr/(local/)?)?s?bin$")
_FORMATTERS = re.compile(r"(mkfs(\.\w+)?|mke2fs|mkswap|wipefs|blkdiscard|shred|fdisk|sfdisk|parted)$")
_LISTS = frozenset(("-l", "-lu", "-ul", "--list"))
_PRINTS = re.compile(r"print|p|free|all|unit|[kmgt]?i?b|s|%|compact|\d+", re.IGNORECASE)
"""Words of `parted` that change nothing."""
_DELETERS = frozenset(("rm", "unlink", "shred"))
_A_FEW_WORDS = 6
"""After `-exec`: `sudo -u root rm`."""


def danger(command: str, root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Why the line must never run, naming the part of it; "" when nothing in it is known to be dangerous."""
    if len(command) <= LONGEST and joined(command) is None:
        return r"where it goes on after a \ at the end of a line, it cannot be read for certain; it may be written on one line"
    place = CwdTracker(root, environment)
    rules = (*_RULES, FetchedPrograms().why)
    for found in simple_commands(command[:LONGEST]):
        place.enter(found.level)
        why = next((why for rule in rules if (why := rule(found, place))), "")
        if why:
            return why
        if program(found) in ("cd", "pushd", "popd"):
            place.follow(found)
    return ""


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


def _deletes(command: SimpleCommand, place: CwdTracker) -> str:
    name = program(command)
    if name == "rm" and _has(command, "rR", "recursive"):
        return _on_protected(_operands(command), place, "would delete {}, and all that is below", with_workspace=True)
    if name == "find" and ("-delete" in command.words or _deletes_each_found(command)):
        return _on_protected(searched(command), place, "would delete what is below {}")
    return ""


def _deletes_each_found(command: SimpleCommand) -> bool:
    for at, word in enumerate(command.words, 1):
        run = SimpleCommand(command.words[at : at + _A_FEW_WORDS] if word in FOR_EACH_FOUND else [])
        while run.words and program(run) not in _DELETERS:
            run = carried(run)
        if run.words:
            return True
    return False


def _opens_or_moves(command: SimpleCommand, place: CwdTracker) -> str:
    name = program(command)
    if name in ("chmod", "chown", "chgrp") and _has(command, "R", "recursive"):
        what = f"would change the rights of all that is below {{}} ({name} -R)"
        return _on_protected(_operands(command)[1:], place, what)
    if name == "mv":
        return _on_protected(_copied(command)[0], place, "would move {} away", with_workspace=True)
    return ""


def _on_protected(words: list[str], place: CwdTracker, what: str, *, with_workspace: bool = False) -> str:
    found = next((word for word in words if word and place.is_protected(word, with_workspace=with_workspace)), None)
    return "" if found is None else f"it {what.format(shown(found))}"


def _writes_where_nobody_should(command: SimpleCommand, place: CwdTracker) -> str:
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
    name = program(command)
    if name == "dd":
        yield from (word.removeprefix("of=") for word in _operands(command) if word.startswith("of="))
    elif name == "tee" or (_FORMATTERS.match(name) and not _only_looks(command)):
        yield from _operands(command)
    elif name in ("cp", "mv", "install", "ln", "rsync"):
        sources, target = _copied(command)
        yield from (target, *(posixpath.join(target, posixpath.basename(source)) for source in sources))
    elif name in ("rm", "truncate", "unlink") or (name == "sed" and _has(command, "i", "in-place")):
        yield from _operands(command)


def _copied(command: SimpleCommand) -> tuple[list[str], str]:
    """What `cp`, `mv` and their like are told to copy, and where to, which may be a folder."""
    words = _operands(command)
    for option, after in pairwise([*command.words, ""]):
        if option.startswith("--target-directory="):
            return words, option.partition("=")[2]
        if option == "--target-directory" or (program(command) != "rsync" and re.match(r"-[A-Za-z]*t$", option)):
            return [word for word in words if word != after], after
    return words[:-1], "".join(words[-1:])


def _only_looks(command: SimpleCommand) -> bool:
    """Whether what could format a disk is told to list what is on it, or only to say what it would do."""
    name, words = program(command), command.words[1:]
    if name == "wipefs":
        return _has(command, "n", "no-act") or not (_has(command, "ao", "all") or _has(command, "", "offset"))
    if name == "parted" and "print" in words:
        return all(_PRINTS.fullmatch(word) for word in _operands(command)[1:])
    if name in ("fdisk", "sfdisk", "parted"):
        return not _LISTS.isdisjoint(words) or (name == "sfdisk" and not {"-n", "-d", "--dump"}.isdisjoint(words))
    return bool(re.match(r"mke2fs|mkfs\.ext\d", name)) and "-n" in words


def _ends_the_machine(command: SimpleCommand, place: CwdTracker) -> str:
    name, words = program(command), command.words[1:]
    if "--help" in words or not _is_of_the_system(command, place):
        return ""
    if name in _POWER and {"-c", "--show"}.isdisjoint(words):
        return f"{shown(name)} would stop this machine"
    if name in ("init", "telinit") and words[:1] in (["0"], ["6"]):
        return f"{shown(' '.join(command.words))} would stop this machine"
    if name == "systemctl" and {"poweroff", "reboot", "halt", "kexec"} & set(_operands(command)[:1]):
        return f"{shown(' '.join(command.words))} would stop this machine"
    every = name == "kill" and "-1" in words[1:]
    return f"{shown(' '.join(command.words))} would end every process" if every else ""


def _is_of_the_system(command: SimpleCommand, place: CwdTracker) -> bool:
    """Or at least not a program of the project that happens to have the name of one."""
    word = command.words[0] if command.words else ""
    return "/" not in word or _SYSTEM_PROGRAMS.fullmatch(posixpath.dirname(place.path(word))) is not None


def _fork_bomb(command: SimpleCommand, place: CwdTracker) -> str:  # noqa: ARG001  (a rule like the others)
    """A function that starts itself twice: beside itself, or through a pipe."""
    name = command.function
    if not name or command.words[:1] != [name]:
        return ""
    twice = command.beside or any(before.words[:1] == [name] for before in command.inputs)
    return f"{shown(name)} is a function that starts itself again and again, a fork bomb" if twice else ""


_Rule = Callable[[SimpleCommand, CwdTracker], str]
_RULES: tuple[_Rule, ...] = (
    _deletes,
    _opens_or_moves,
    _writes_where_nobody_should,
    _ends_the_machine,
    _fork_bomb,
)
