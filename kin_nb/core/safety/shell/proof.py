"""Proves that a line only reads: it is plain, and every command in it is in the tables.

A plain line is a list of pipelines of commands, each of words that are known before it runs: no variables, loops, groups,
substitutions, here-documents, nothing in the background. Nothing here guesses: the first part that is not proven ends the
proof, with the reason.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from kin_nb.core.safety.shell.agreed import agreed_tokens
from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.place import WorkingDir
from kin_nb.core.safety.shell.plain_line import PlainCommand, Pipeline, lists
from kin_nb.core.safety.shell.program import Invocation
from kin_nb.core.safety.shell.programs.conditions import files_asked_about
from kin_nb.core.safety.shell.programs.table import check_origin, known_program
from kin_nb.core.safety.shell.syntax import shown
from kin_nb.core.safety.shell.words import Word, WordReader, expanded, folders_listed
from kin_nb.core.safety.shell.wrappers import WRAPPERS, wrapped

_MOST_COMMANDS = 300
_OUTPUT = re.compile(r"\d?(?:>>|>\||>)|&>>|&>|>&")
_CONDITIONS = ("[", "test")


def prove(command: str, root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What the line reads, as `Judgement.reads`. Raises UnprovenError."""
    place = WorkingDir(root, root, environment)
    if shutil.which("bash", path=environment.get("PATH")) is None:
        raise UnprovenError("there is no bash here, and another shell may read it otherwise")
    check_origin("bash", place)
    _check_locale(command, environment)
    found = lists(agreed_tokens(command))
    if sum(len(pipeline.commands) for pipelines in found for pipeline in pipelines) > _MOST_COMMANDS:
        raise UnprovenError(f"it runs more than {_MOST_COMMANDS} commands")
    proof = _Proof()
    for pipelines in found:
        place = proof.and_or_list(pipelines, place)
    return tuple(dict.fromkeys(proof.reads))


def _check_locale(command: str, environment: Mapping[str, str]) -> None:
    """In some encodings a part of a letter is a backslash."""
    named = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(name))), "C")
    if not command.isascii() and named not in ("C", "POSIX") and "utf" not in named.casefold():
        raise UnprovenError(f"it is not plain ASCII, and {named} is no UTF-8")


class _Proof:
    """`reads`: so far. Each method raises UnprovenError."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def and_or_list(self, pipelines: Sequence[Pipeline], place: WorkingDir) -> WorkingDir:
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
                place = self._command(command, place)
        return place

    def _name(self, command: PlainCommand) -> str:
        """Of the program, spelled out. A word that bash may take for a keyword or an assignment is none."""
        first = _read(command.words[0])
        if not first.known or first.pattern or not re.fullmatch(r"[\w./@%+,:-]+|\[", first.text):
            raise UnprovenError(f"{shown(first.raw)} is not a command known to be harmless")
        return first.text

    def _command(self, command: PlainCommand, place: WorkingDir) -> WorkingDir:
        """Where the shell is after it."""
        for operator, target in command.redirections:
            self._redirection(operator, _read(target), place)
        name, words = self._name(command), [_read(text) for text in command.words[1:]]
        if name in _CONDITIONS:
            self._condition(name, words, place)
        elif name == "echo":
            self._texts(words, place, any_text=True)
        elif name == "printf" and words and words[0].is_no_flag:  # then all that follows is text
            self._texts(words[1:], place, any_text=True)
            self._program(name, self._texts(words[:1], place), place)
        elif name == "cd":
            return self._moved(self._texts(words, place), place)
        else:
            self._program(name, self._texts(words, place), place)
        return place

    def _moved(self, words: list[str], place: WorkingDir) -> WorkingDir:
        if len(words) != 1 or words[0].startswith("-"):
            raise UnprovenError("`cd` with anything but a folder is not known to be harmless")
        return place.moved(words[0])

    def _program(self, name: str, words: list[str], place: WorkingDir) -> None:
        if name in WRAPPERS:
            inner = wrapped(name, words)
            for program in (name, *inner[:1]):  # not the shell's own, even where it has one
                check_origin(program, place)
            if inner and inner[0] != "echo":
                self._program(inner[0], inner[1:], place)
            return
        for read in known_program(name, place).prove(Invocation(name, words, place)):
            self._reads(read, place)

    def _condition(self, name: str, words: list[Word], place: WorkingDir) -> None:
        if name == "[":
            if not words or words[-1].raw != "]":
                raise UnprovenError("`[` without its `]` is not known to be harmless")
            words = words[:-1]
        if any(word.pattern for word in words):
            raise UnprovenError(f"{shown(' '.join(word.raw for word in words))} may ask about several files")
        for asked in files_asked_about(words):
            self._reads(place.named(asked), place)

    def _redirection(self, operator: str, target: Word, place: WorkingDir) -> None:
        """It reads a file, or leads nowhere, or to where the other output goes."""
        into = target.text if target.known and not target.pattern else ""
        if operator in ("<", "0<") and into:
            self._reads(into, place)
        elif re.fullmatch(r"[12]?>&", operator) and into in ("1", "2"):
            pass
        elif not _OUTPUT.fullmatch(operator) or into != "/dev/null":
            raise UnprovenError(f"{shown(f'{operator}{target.raw}')} sends output to a file")

    def _texts(self, words: list[Word], place: WorkingDir, *, any_text: bool = False) -> list[str]:
        """What the words are when it runs, globs and all. `any_text`: it does not matter what they are."""
        unknown = next((word for word in words if not word.known), None)
        if unknown is not None and not any_text:
            raise UnprovenError(f"{shown(unknown.raw)} is known only when it runs")
        return [text for word in words for text in (self._files(word, place) if word.known else [word.text])]

    def _files(self, word: Word, place: WorkingDir) -> list[str]:
        """The texts that a word stands for. The folders that bash lists to find them are read."""
        for folder in folders_listed(word, texts := expanded(word, place.cwd)):
            self._reads(folder, place)
        return texts

    def _reads(self, word: str, place: WorkingDir) -> None:
        if (path := place.read(word)) is not None:
            self.reads.append(path)


def _read(text: str) -> Word:
    return Word(text, text) if text in ("[", "]") else WordReader(text).read()
