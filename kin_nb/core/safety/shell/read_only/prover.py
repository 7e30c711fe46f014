"""Prove that a line only reads: it is plain, and every command in it is in the tables.

A plain line is a list of pipelines of commands, each of words that are known before it runs: no variables, loops, groups,
substitutions, here-documents, nothing in the background. Nothing here guesses: the first part that is not proven ends the
proof, with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kin_nb.core.safety.shell.classification import UnprovenError, shown, shown_word
from kin_nb.core.safety.shell.read_only.command_spec import CommandSpec, Invocation
from kin_nb.core.safety.shell.read_only.commands import BUILTINS, PROGRAMS
from kin_nb.core.safety.shell.read_only.filters import FILTERS
from kin_nb.core.safety.shell.read_only.git import GIT
from kin_nb.core.safety.shell.read_only.plain_line import Pipeline, PlainCommand, agreed_tokens, lists
from kin_nb.core.safety.shell.read_only.words import Word, WordReader, expanded, listed_folders
from kin_nb.core.safety.shell.read_only.working_dir import WorkingDir

_MOST_COMMANDS = 300
_OUTPUT = re.compile(r"\d?(?:>>|>\||>)|&>>|&>|>&")
_CONDITIONS = ("[", "test")


def prove(command: str, root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the line reads, as `Classification.reads`. Raises UnprovenError."""
    working_dir = WorkingDir(root, root, environment)
    check_shell(command, working_dir)
    found = lists(agreed_tokens(command))
    if sum(len(pipeline.commands) for pipelines in found for pipeline in pipelines) > _MOST_COMMANDS:
        raise UnprovenError(f"it runs more than {_MOST_COMMANDS} commands")
    proof = _Proof()
    for pipelines in found:
        working_dir = proof.and_or_list(pipelines, working_dir)
    return tuple(dict.fromkeys(proof.reads))


def prove_command(command: PlainCommand, working_dir: WorkingDir) -> tuple[str, ...]:
    """What one command of a plain line reads, run in that folder. Raises UnprovenError. `cd` is not such a command."""
    proof = _Proof()
    if proof.and_or_list([Pipeline(commands=[command])], working_dir) != working_dir:
        raise UnprovenError(f"{shown(command.shown)} moves to another folder")
    return tuple(dict.fromkeys(proof.reads))


def check_shell(command: str, working_dir: WorkingDir) -> None:
    """Raises UnprovenError unless the machine's own bash runs the line, and reads its characters as they are read here."""
    if shutil.which("bash", path=working_dir.environment.get("PATH")) is None:
        raise UnprovenError("there is no bash here, and another shell may read it otherwise")
    check_origin("bash", working_dir)
    _check_locale(command, working_dir.environment)


def _check_locale(command: str, environment: Mapping[str, str]) -> None:
    """In some encodings a part of a letter is a backslash."""
    named = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "C")
    if not command.isascii() and named not in ("C", "POSIX") and "utf" not in named.casefold():
        raise UnprovenError(f"it is not plain ASCII, and {named} is not UTF-8")


class _Proof:
    """`reads`: so far. Each method raises UnprovenError."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def and_or_list(self, pipelines: Sequence[Pipeline], working_dir: WorkingDir) -> WorkingDir:
        """Where the shell is afterwards. A `cd` is proven to succeed, and counts only where it surely runs: at the beginning."""
        leads = True
        for pipeline in pipelines:
            names = [self._name(command) for command in pipeline.commands]
            if "cd" not in names:
                leads = False
            elif not leads or len(names) > 1 or pipeline.operator == "||" or pipeline.commands[0].redirections:
                raise UnprovenError(
                    f"{shown(pipeline.commands[names.index('cd')].shown)} may run, or not, or elsewhere"
                )
            for command in pipeline.commands:
                working_dir = self._command(command, working_dir)
        return working_dir

    def _name(self, command: PlainCommand) -> str:
        """Of the program, spelled out. A word that bash may take for a keyword or an assignment is none."""
        first = _read(command.words[0])
        if not first.known or first.pattern or not re.fullmatch(r"[\w./@%+,:-]+|\[", first.text):
            raise UnprovenError(f"{shown(first.raw)} is not a known read-only command")
        return first.text

    def _command(self, command: PlainCommand, working_dir: WorkingDir) -> WorkingDir:
        """Where the shell is after it."""
        for operator, target in command.redirections:
            self._redirection(operator, _read(target), working_dir)
        name, words = self._name(command), [_read(text) for text in command.words[1:]]
        if name in _CONDITIONS:
            self._condition(name, words, working_dir)
        elif name == "echo":
            self._texts(words, working_dir, any_text=True)
        elif name == "printf" and words and words[0].is_no_flag:  # then all that follows is text
            self._texts(words[1:], working_dir, any_text=True)
            self._program(name, self._texts(words[:1], working_dir), working_dir)
        elif name == "cd":
            return self._moved(self._texts(words, working_dir), working_dir)
        else:
            self._program(name, self._texts(words, working_dir), working_dir)
        return working_dir

    def _moved(self, words: list[str], working_dir: WorkingDir) -> WorkingDir:
        if len(words) != 1 or words[0].startswith("-"):
            raise UnprovenError("`cd` takes one folder and no flags here")
        return working_dir.moved(words[0])

    def _program(self, name: str, words: list[str], working_dir: WorkingDir) -> None:
        if name in WRAPPERS:
            inner = wrapped(name, words)
            for program in (name, *inner[:1]):  # not the shell's own, even where it has one
                check_origin(program, working_dir)
            if inner and inner[0] != "echo":
                self._program(inner[0], inner[1:], working_dir)
            return
        for read in find_spec(name, working_dir).prove(Invocation(name, words, working_dir)):
            self._reads(read, working_dir)

    def _condition(self, name: str, words: list[Word], working_dir: WorkingDir) -> None:
        if name == "[":
            if not words or words[-1].raw != "]":
                raise UnprovenError("`[` without its `]` is not known to be read-only")
            words = words[:-1]
        if any(word.pattern for word in words):
            raise UnprovenError(f"{shown(' '.join(word.raw for word in words))} may ask about several files")
        for asked in tested_files(words):
            self._reads(working_dir.named(asked), working_dir)

    def _redirection(self, operator: str, target: Word, working_dir: WorkingDir) -> None:
        """It reads a file, or leads nowhere, or to where the other output goes."""
        into = target.text if target.known and not target.pattern else ""
        if operator in ("<", "0<") and into:
            self._reads(into, working_dir)
        elif re.fullmatch(r"[12]?>&", operator) and into in ("1", "2"):
            pass
        elif not _OUTPUT.fullmatch(operator) or into != "/dev/null":
            raise UnprovenError(f"{shown(f'{operator}{target.raw}')} sends output to a file")

    def _texts(self, words: list[Word], working_dir: WorkingDir, *, any_text: bool = False) -> list[str]:
        """What the words are when it runs, globs and all. `any_text`: it does not matter what they are."""
        unknown = next((word for word in words if not word.known), None)
        if unknown is not None and not any_text:
            raise UnprovenError(f"{shown(unknown.raw)} is known only when it runs")
        return [text for word in words for text in (self._files(word, working_dir) if word.known else [word.text])]

    def _files(self, word: Word, working_dir: WorkingDir) -> list[str]:
        """The texts that a word expands to. The folders that bash lists for it count as read."""
        for folder in listed_folders(word, texts := expanded(word, working_dir.cwd)):
            self._reads(folder, working_dir)
        return texts

    def _reads(self, word: str, working_dir: WorkingDir) -> None:
        if (path := working_dir.read(word)) is not None:
            self.reads.append(path)


def _read(text: str) -> Word:
    return Word(text, text) if text in ("[", "]") else WordReader(text).read()


_PROGRAMS: Mapping[str, CommandSpec] = PROGRAMS | FILTERS | GIT
_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_RUN = {"egrep": ("grep",), "fgrep": ("grep",)}
"""Programs that run another one, which the shell finds for them."""
_SHIMS = frozenset(("shims", ".volta"))
"""Folders of version managers: what lies there runs whatever the current folder names."""


def find_spec(name: str, working_dir: WorkingDir) -> CommandSpec:
    """Raises UnprovenError when there is none of that name, or when what would run is not the machine's own program."""
    if name in BUILTINS:
        return BUILTINS[name]
    plain = next((name.removeprefix(folder) for folder in _SYSTEM_FOLDERS if name.startswith(folder)), name)
    program = _PROGRAMS.get(plain)
    if program is None or (plain == "git" != name):  # of that one more is known than its name
        raise UnprovenError(f"{shown_word(name)} is not a known read-only command")
    for each in (name, *_RUN.get(plain, ())):
        check_origin(each, working_dir)
    return program


def check_origin(name: str, working_dir: WorkingDir) -> None:
    """Raises UnprovenError when the shell would find the program in the workspace, or a version manager in its stead."""
    found = _found(name, working_dir)
    if found is None:
        return
    if found.is_relative_to(working_dir.root) or found.resolve().is_relative_to(working_dir.root):
        raise UnprovenError(f"{shown_word(name)} would run {found}, a program of the workspace")
    if _SHIMS & set(found.parts):
        raise UnprovenError(f"{shown_word(name)} runs {found}, which runs what the folder's own settings name")


def _found(name: str, working_dir: WorkingDir) -> Path | None:
    """Where the shell finds the program; None when it is nowhere, and running it would do nothing."""
    for folder in working_dir.environment.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("~"):  # which bash takes for a home folder
            raise UnprovenError(f"PATH names {shown_word(folder)}, where {shown_word(name)} may be another program")
        candidate = working_dir.cwd / folder / name  # an entry that is empty or relative counts from the current folder
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    return None


WRAPPERS = frozenset(("timeout", "command", "xargs"))
_OF_TEXT = frozenset(("echo", "basename", "dirname"))
"""Harmless whatever their words are, and without looking at any file: what xargs may run."""
_XARGS_ALONE = frozenset(("-0", "-r", "-t", "--null", "--no-run-if-empty", "-0r", "-r0"))


def wrapped(name: str, words: list[str]) -> list[str]:
    """The words of the command that it runs; none when it only asks where one is. Raises UnprovenError."""
    if name == "command" and words[:1] in (["-v"], ["-V"]):
        return []
    if name == "xargs":
        return _after_xargs(words)
    if name == "timeout":
        if not words or not re.fullmatch(r"\d+(\.\d+)?[sm]?", words[0]):
            raise UnprovenError("`timeout` without a plain number of seconds is not known to be read-only")
        words = words[1:]
    if not words or words[0].startswith("-") or words[0] in {"cd", *WRAPPERS}:
        raise UnprovenError(f"`{name}` is read-only only before a read-only command")
    return words


def _after_xargs(words: list[str]) -> list[str]:
    """The command that xargs runs, without the words from its input, which are unknown."""
    words = list(words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-n", "-P", "-L") and words and words[0].isdigit():
            words.pop(0)
        elif option not in _XARGS_ALONE and not re.fullmatch(r"-[nPL]\d+", option):
            raise UnprovenError(f"`xargs {option}` is not a known read-only flag")
    words = words or ["echo"]
    if words[0] not in _OF_TEXT:
        raise UnprovenError(f"`xargs` gives {shown(words[0])} words that are not known before it runs")
    return words


_OF_FILES = frozenset(("-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h", "-p", "-S", "-b", "-c", "-O", "-G"))
_OF_TEXTS = frozenset(("-n", "-z"))
_TEXTS = frozenset(("=", "==", "!="))
_FILES = frozenset(("-nt", "-ot", "-ef"))
_NUMBERS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_JOINS = frozenset(("-a", "-o"))
_INTEGER = re.compile(r"-?\d{1,18}")


def tested_files(words: Sequence[Word]) -> Iterator[str]:
    """The files that the condition tests. Raises UnprovenError unless it is a plain comparison."""
    rest = list(words)
    while rest:
        while rest and rest[0].raw == "!":
            rest.pop(0)
        size = _term_size(rest)
        yield from _term(rest[:size])
        rest = rest[size:]
        if rest and rest.pop(0).raw not in _JOINS:
            raise _unknown(words)


def _term_size(words: Sequence[Word]) -> int:
    if len(words) >= 3 and words[1].raw in _TEXTS | _FILES | _NUMBERS:  # noqa: PLR2004  (`a = b`)
        return 3
    return 2 if words and words[0].raw in _OF_FILES | _OF_TEXTS else 1


def _term(words: Sequence[Word]) -> Iterator[str]:
    if len(words) == 3:  # noqa: PLR2004  (`a = b`)
        first, operator, second = words
        if operator.raw in _FILES:
            yield from (_known(first), _known(second))
        elif operator.raw in _NUMBERS and not (
            _INTEGER.fullmatch(_known(first)) and _INTEGER.fullmatch(_known(second))
        ):
            raise _unknown(words)
    elif len(words) == 2 and words[0].raw in _OF_FILES:  # noqa: PLR2004  (`-f x`)
        yield _known(words[1])
    elif not (len(words) == 2 and words[0].raw in _OF_TEXTS):  # noqa: PLR2004  (`-n x`)
        raise _unknown(words)


def _known(word: Word) -> str:
    if not word.known:
        raise UnprovenError(f"{shown(word.raw)} is known only when it runs")
    return word.text


def _unknown(words: Sequence[Word]) -> UnprovenError:
    return UnprovenError(f"the condition {shown(' '.join(word.raw for word in words))} is not one that is known")
