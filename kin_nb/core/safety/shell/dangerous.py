"""Find dangerous commands: they are refused in every mode, whatever the rules and the grants allow.

The line is only read, never run. Commands are found anywhere in it, also inside `sudo`, `env`, `bash -c` and similar programs
when the inner command is written out. This protects from mistakes, not from attacks: a line can build a command that no
parser finds.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from kin_nb.core.safety.shell.classification import shown
from kin_nb.core.safety.shell.reader.continuations import join_continuations
from kin_nb.core.safety.shell.reader.nested_commands import (
    FIND_EXEC_OPTIONS,
    SHELLS,
    SOURCES,
    STANDARD_INPUT,
    checks_syntax_only,
    nested_command,
    program_index,
    simple_commands,
)
from kin_nb.core.safety.shell.reader.simple_command import (
    DOWNLOADERS,
    SimpleCommand,
    find_roots,
    is_assignment,
    program,
    written_files,
)

LONGEST = 50_000
"""Most characters of a line that are checked."""

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
"""Words of `parted` that only show something."""
_DELETERS = frozenset(("rm", "unlink", "shred"))
_A_FEW_WORDS = 6
"""After `-exec`: `sudo -u root rm`."""


def danger(command: str, root: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return why the line must never run, with the deciding part; "" when it holds no known danger."""
    if len(command) <= LONGEST and join_continuations(command) is None:
        return r"a \ at the end of a line makes it ambiguous; write the command on one line"
    tracker = CwdTracker(root, environment)
    rules = (*_RULES, DownloadedPrograms().why)
    for found in simple_commands(command[:LONGEST]):
        tracker.enter(found.level)
        why = next((why for rule in rules if (why := rule(found, tracker))), "")
        if why:
            return why
        if program(found) in ("cd", "pushd", "popd"):
            tracker.follow(found)
    return ""


def _operands(command: SimpleCommand) -> list[str]:
    """The words after the program, without options."""
    words = command.words[1:]
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if not word.startswith("-")] + words[end + 1 :]


def _has(command: SimpleCommand, letters: str, long: str) -> bool:
    """Whether an option is given: one of `letters`, alone or in a group, or the long option, possibly shortened."""
    for word in command.words[1:]:
        if word.startswith("--"):
            if len(word) > 3 and f"--{long}".startswith(word):  # noqa: PLR2004  (`--r` at the least)
                return True
        elif word.startswith("-") and set(letters) & set(word):
            return True
    return False


def _deletes(command: SimpleCommand, tracker: CwdTracker) -> str:
    name = program(command)
    if name == "rm" and _has(command, "rR", "recursive"):
        return _on_protected(
            _operands(command), tracker, "would delete {} and everything below it", with_workspace=True
        )
    if name == "find" and ("-delete" in command.words or _deletes_each_found(command)):
        return _on_protected(find_roots(command), tracker, "would delete everything below {}")
    return ""


def _deletes_each_found(command: SimpleCommand) -> bool:
    for at, word in enumerate(command.words, 1):
        run = SimpleCommand(command.words[at : at + _A_FEW_WORDS] if word in FIND_EXEC_OPTIONS else [])
        while run.words and program(run) not in _DELETERS:
            run = nested_command(run)
        if run.words:
            return True
    return False


def _changes_rights_or_moves(command: SimpleCommand, tracker: CwdTracker) -> str:
    name = program(command)
    if name in ("chmod", "chown", "chgrp") and _has(command, "R", "recursive"):
        what = f"would change the permissions of everything below {{}} ({name} -R)"
        return _on_protected(_operands(command)[1:], tracker, what)
    if name == "mv":
        return _on_protected(_copy_operands(command)[0], tracker, "would move {} away", with_workspace=True)
    return ""


def _on_protected(words: list[str], tracker: CwdTracker, what: str, *, with_workspace: bool = False) -> str:
    found = next((word for word in words if word and tracker.is_protected(word, with_workspace=with_workspace)), None)
    return "" if found is None else f"it {what.format(shown(found))}"


def _writes_device_or_accounts(command: SimpleCommand, tracker: CwdTracker) -> str:
    for word in _targets(command):
        path = tracker.path(word)
        if path.startswith("/dev/") and not path.removeprefix("/dev/").startswith(_HARMLESS_DEVICES):
            return f"it would write to the device {shown(word)}"
        if _ACCOUNTS.match(path) or path == "/proc/sysrq-trigger":
            return f"it would write to {shown(word)}, which controls the accounts of this machine"
    return ""


def _targets(command: SimpleCommand) -> Iterator[str]:
    """The files that the command writes, according to its words."""
    yield from command.writes
    name = program(command)
    if name == "dd":
        yield from (word.removeprefix("of=") for word in _operands(command) if word.startswith("of="))
    elif name == "tee" or (_FORMATTERS.match(name) and not _only_lists(command)):
        yield from _operands(command)
    elif name in ("cp", "mv", "install", "ln", "rsync"):
        sources, target = _copy_operands(command)
        yield from (target, *(posixpath.join(target, posixpath.basename(source)) for source in sources))
    elif name in ("rm", "truncate", "unlink") or (name == "sed" and _has(command, "i", "in-place")):
        yield from _operands(command)


def _copy_operands(command: SimpleCommand) -> tuple[list[str], str]:
    """The sources and the target of `cp`, `mv` and similar programs. The target may be a folder."""
    words = _operands(command)
    for option, after in pairwise([*command.words, ""]):
        if option.startswith("--target-directory="):
            return words, option.partition("=")[2]
        if option == "--target-directory" or (program(command) != "rsync" and re.match(r"-[A-Za-z]*t$", option)):
            return [word for word in words if word != after], after
    return words[:-1], "".join(words[-1:])


def _only_lists(command: SimpleCommand) -> bool:
    """Whether a disk tool only lists partitions, or only shows what it would do."""
    name, words = program(command), command.words[1:]
    if name == "wipefs":
        return _has(command, "n", "no-act") or not (_has(command, "ao", "all") or _has(command, "", "offset"))
    if name == "parted" and "print" in words:
        return all(_PRINTS.fullmatch(word) for word in _operands(command)[1:])
    if name in ("fdisk", "sfdisk", "parted"):
        return not _LISTS.isdisjoint(words) or (name == "sfdisk" and not {"-n", "-d", "--dump"}.isdisjoint(words))
    return bool(re.match(r"mke2fs|mkfs\.ext\d", name)) and "-n" in words


def _stops_machine(command: SimpleCommand, tracker: CwdTracker) -> str:
    name, words = program(command), command.words[1:]
    if "--help" in words or not _is_system_program(command, tracker):
        return ""
    if name in _POWER and {"-c", "--show"}.isdisjoint(words):
        return f"{shown(name)} would stop this machine"
    if name in ("init", "telinit") and words[:1] in (["0"], ["6"]):
        return f"{shown(' '.join(command.words))} would stop this machine"
    if name == "systemctl" and {"poweroff", "reboot", "halt", "kexec"} & set(_operands(command)[:1]):
        return f"{shown(' '.join(command.words))} would stop this machine"
    every = name == "kill" and "-1" in words[1:]
    return f"{shown(' '.join(command.words))} would end every process" if every else ""


def _is_system_program(command: SimpleCommand, tracker: CwdTracker) -> bool:
    """Whether it is a system program, not a program of the project with the same name."""
    word = command.words[0] if command.words else ""
    return "/" not in word or _SYSTEM_PROGRAMS.fullmatch(posixpath.dirname(tracker.path(word))) is not None


def _fork_bomb(command: SimpleCommand, tracker: CwdTracker) -> str:  # noqa: ARG001  (the signature of a rule)
    """A function that starts itself twice: in the background, or through a pipe."""
    name = command.function
    if not name or command.words[:1] != [name]:
        return ""
    twice = command.background or any(before.words[:1] == [name] for before in command.inputs)
    return f"{shown(name)} is a function that starts itself endlessly, a fork bomb" if twice else ""


_RULES: tuple[Callable[[SimpleCommand, CwdTracker], str], ...] = (
    _deletes,
    _changes_rights_or_moves,
    _writes_device_or_accounts,
    _stops_machine,
    _fork_bomb,
)


_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|php|lua)[\d.]*$")


class DownloadedPrograms:
    """Find programs from the network: through a pipe, as `sh -c "$(curl ...)"`, or as a file that the line downloads and runs.

    One object serves one line; commands without a download are checked once.
    """

    def __init__(self) -> None:
        self._clean: set[SimpleCommand] = set()

    def why(self, command: SimpleCommand, tracker: CwdTracker) -> str:  # noqa: ARG002  (the signature of a rule)
        fetcher = self._fetcher(_producers_of_program(command))
        by = "" if 0 in command.producers else f", with {shown(program(command))}"
        return f"it would run what {shown(fetcher)} downloads from the network{by}" if fetcher else ""

    def _fetcher(self, commands: list[SimpleCommand]) -> str:
        """The download program behind their output, through pipes and files; "" when there is none."""
        waiting = list(commands)
        while waiting:
            command = waiting.pop()
            if command in self._clean:
                continue
            inner = command
            while inner.words:
                if program(inner) in DOWNLOADERS:
                    return program(inner)
                inner = nested_command(inner)
            self._clean.add(command)
            waiting += command.inputs
            waiting += [made for behind in command.producers.values() for made in behind]
        return ""


def _producers_of_program(command: SimpleCommand) -> list[SimpleCommand]:
    """The commands whose output is the program that this command runs."""
    name, words = program(command), command.words
    if name in SOURCES or name == "eval":
        return command.inputs if STANDARD_INPUT & set(words[1:2]) else command.producers.get(1, [])
    if checks_syntax_only(command):
        return []
    if name in SHELLS or _INTERPRETER.match(name):
        index = program_index(command)
        return command.inputs if index is None else command.producers.get(index, [])
    if not words or is_assignment(words[0]):
        return []
    made = command.producers.get(0, [])
    if "/" in words[0] or "$" in words[0]:
        return made
    return [maker for maker in made if any(_is_searched(file) for file in written_files(maker))]


def _is_searched(file: str) -> bool:
    """Whether it is in a folder of programs. `curl x > test; test -s test` runs the shell's own `test`."""
    return posixpath.dirname(file).endswith("bin")


_SYSTEM_FOLDERS = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run"),
        *("/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var"),
        *("/Applications", "/Library", "/System", "/Users", "/Volumes", "/private"),
    )
)
_EVERYTHING = re.compile(r"(?=.*[*?\[])(?:[*?.]|\[[^\]]*\])+")
"""Patterns for all files of a folder: `*`, `?*`, `.[!.]*`, `[a-z]*`."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_RANGE = re.compile(r"\{\w+\.\.\w+\}")
_MOST_WORDS = 100
_VARIABLE = re.compile(r"\$(\w+)")


class CwdTracker:
    """Track the current folder through the line's `cd` commands, and find protected folders. By names only: no file is checked."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root, self._home = str(root), posixpath.normpath(environment.get("HOME") or "/root")
        self._environment = environment
        self._cwds = [(self._root, self._root)]
        """(current folder, previous folder) for each level of parentheses. A subshell's `cd` ends with it."""

    def enter(self, level: int) -> None:
        """Enter the level of the next command. Call it for each command in order."""
        self._cwds = self._cwds[: level + 1]
        self._cwds += [self._cwds[-1]] * (level + 1 - len(self._cwds))

    def follow(self, command: SimpleCommand) -> None:
        cwd, before = self._cwds[-1]
        word = next((word for word in command.words[1:] if word == "-" or not word.startswith("-")), "~")
        if program(command) == "popd" or word == "-":
            self._cwds[-1] = (before, cwd)
        else:
            self._cwds[-1] = (self.path(word), cwd)

    def path(self, word: str) -> str:
        """The absolute path of a word."""
        if word.startswith("~"):
            user, slash, below = word[1:].partition("/")
            home = {"": self._home, posixpath.basename(self._home): self._home, "root": "/root"}.get(user)
            word = word if home is None else home + slash + below
        if "$" in word:
            word = _VARIABLE.sub(self._value, word)
        path = posixpath.normpath(posixpath.join(self._cwds[-1][0], word))
        return "/" if path == "//" else path

    def _value(self, name: re.Match[str]) -> str:
        cwd, before = self._cwds[-1]
        own = {"PWD": cwd, "OLDPWD": before, "HOME": self._home}.get(name[1])
        return own or self._environment.get(name[1]) or name[0]

    def is_protected(self, word: str, *, with_workspace: bool) -> bool:
        """Whether it is the root, a system folder, the home, a folder that holds the workspace, or all files in one of these.

        `with_workspace`: also the workspace itself, except as `.` (rm refuses it) and as `*` (its content).
        """
        return any(self._leads_to_protected(alternative, with_workspace) for alternative in _alternatives(word))

    def _leads_to_protected(self, word: str, with_workspace: bool) -> bool:
        path = whole = self.path(word)
        if with_workspace and path == self._root and posixpath.basename(word.rstrip("/")) != ".":
            return True
        while _EVERYTHING.fullmatch(posixpath.basename(path)):
            path = posixpath.dirname(path)
        if not any(mark in path for mark in "*?["):
            return path in _SYSTEM_FOLDERS or path == self._home or self._root.startswith(f"{path.rstrip('/')}/")
        workspace = [self._root] if with_workspace and path == whole else []
        above = (str(folder) for folder in Path(self._root).parents)
        return any(_fits(folder, path) for folder in (*_SYSTEM_FOLDERS, self._home, *workspace, *above))


def _fits(path: str, pattern: str) -> bool:
    """Match part by part: `*` of a glob does not match a `/`."""
    return path.count("/") == pattern.count("/") and all(map(fnmatchcase, path.split("/"), pattern.split("/")))


def _alternatives(word: str) -> Iterator[str]:
    """The words that its braces expand to."""
    words = [_RANGE.sub("*", word)]
    for _ in range(_MOST_WORDS):
        braces = next((found for each in words if (found := _BRACES.search(each))), None)
        if braces is None or len(words) > _MOST_WORDS:
            break
        words.remove(braces.string)
        begin, end = braces.string[: braces.start()], braces.string[braces.end() :]
        words += [f"{begin}{part}{end}" for part in braces[1].split(",")]
    yield from words
