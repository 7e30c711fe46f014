"""The simple commands of a shell line, as far as reading alone can tell. Never fails: what is malformed ends with the line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

_ENDS_COMMAND = frozenset(";&|\n()")
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\`$]+")
_PLAIN_IN_DOUBLE_QUOTES = re.compile(r"[^\"\\`$]+")
_DEEPEST = 50
"""Levels of parentheses that are followed; deeper ones are read as if they were not there."""


@dataclass(frozen=True)
class SimpleCommand:
    """`words`: quotes taken off, redirections left out. `has_input`: it reads from a pipe, a file or a here-document.

    `piped_from`: the command before the pipe. `writes`: the files that its output is redirected to. `made_by`: for each
    word (by index) that begins with a substitution, the commands that it runs.
    """

    words: list[str] = field(default_factory=list)
    has_input: bool = False
    piped_from: SimpleCommand | None = None
    writes: list[str] = field(default_factory=list)
    made_by: dict[int, list[SimpleCommand]] = field(default_factory=dict)


def split(line: str) -> list[SimpleCommand]:
    """In the order in which they end: what a substitution runs comes before the command that uses it."""
    reader = _Reader(line)
    reader.commands(until="")
    return reader.found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.found: list[SimpleCommand] = []
        self._here_documents: list[tuple[str, bool]] = []
        """The words that end the here-documents which begin at the next line, and whether tabs go before them."""
        self._depth = 0

    def commands(self, until: str) -> None:
        """Read commands up to the closing `until` ("" for the end of the text), and past it."""
        self._depth += 1
        command = SimpleCommand()
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == until:
                break
            if character in _ENDS_COMMAND:
                command = self._next(command)
                if character == "\n":
                    self._skip_here_documents()
                elif character == "(" and self._depth < _DEEPEST:
                    self.commands(until=")")
            elif character in "<>" and not self._is_process_substitution():
                command = self._redirection(command)
            elif character == "#":
                self._at = self._end_of_line()
            elif character.isspace():
                self._at += 1
            else:
                self._add_word(command)
        self._end(command)
        self._at += 1
        self._depth -= 1

    def _end(self, command: SimpleCommand) -> None:
        if command.words or command.writes:
            self.found.append(command)

    def _next(self, command: SimpleCommand) -> SimpleCommand:
        """Past the operator that ends `command`; what follows it."""
        if self._text[self._at] == "\n" and command.has_input and not command.words:  # a pipe goes on at the next line
            self._at += 1
            return command
        self._end(command)
        piped = self._is_pipe()
        self._at += 2 if piped and self._text.startswith("|&", self._at) else 1
        return SimpleCommand(has_input=piped, piped_from=self.found[-1] if piped and self.found else None)

    def _add_word(self, command: SimpleCommand) -> None:
        before = len(self.found)
        word = self._word()
        if word[:1] in ("$", "<") and self.found[before:]:
            command.made_by[len(command.words)] = self.found[before:]
        command.words.append(word)

    def _is_pipe(self) -> bool:
        """Whether the operator here gives its left side's output to what follows. `a || b` does not; nor does its `|`."""
        before, after = self._text[self._at - 1 : self._at], self._text[self._at + 1 : self._at + 2]
        return self._text[self._at] == "|" and "|" not in (before, after)

    def _is_process_substitution(self) -> bool:
        return self._text.startswith(("<(", ">("), self._at)

    def _redirection(self, command: SimpleCommand) -> SimpleCommand:
        """Past an operator and its file. `2>` has its digit before it, read as a word."""
        start, words = self._at, command.words
        if words and words[-1].isdigit() and self._text[start - 1].isdigit():
            words.pop()
        while self._text[self._at : self._at + 1] in ("<", ">", "&", "|", "-"):
            self._at += 1
        operator = self._text[start : self._at]
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        command = replace(command, has_input=command.has_input or operator.startswith("<"))
        if self._at == len(self._text) or self._text[self._at] in _ENDS_COMMAND:
            return command
        target = self._word()
        if operator in ("<<", "<<-"):
            self._here_documents.append((target, operator == "<<-"))
        elif ">" in operator:
            command.writes.append(target)
        return command

    def _skip_here_documents(self) -> None:
        for end, tabs in self._here_documents:
            while self._at < len(self._text):
                stop = self._end_of_line()
                line = self._text[self._at : stop]
                self._at = stop + 1
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self._here_documents = []

    def _word(self) -> str:
        word = ""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character.isspace() or character in _ENDS_COMMAND:
                break
            if character in "<>" and not self._is_process_substitution():
                break
            plain = _PLAIN.match(self._text, self._at)
            word += plain[0] if plain else self._piece()
            self._at = plain.end() if plain else self._at
        return word

    def _piece(self) -> str:
        """One character of a word, one quoted part, or one expansion, which stands as `$`."""
        character = self._text[self._at]
        self._at += 1
        if character == "'":
            return self._until("'")
        if character == '"':
            return self._double_quoted()
        if character == "\\":
            self._at += 1
            return self._text[self._at - 1 : self._at].replace("\n", "")
        if character == "`":
            self.found += split(self._until("`"))
            return "$"
        if character in "$<>":
            return self._expansion(character)
        return character

    def _double_quoted(self) -> str:
        text = ""
        while self._at < len(self._text):
            if self._text[self._at] == '"':
                self._at += 1
                break
            plain = _PLAIN_IN_DOUBLE_QUOTES.match(self._text, self._at)
            text += plain[0] if plain else self._piece()
            self._at = plain.end() if plain else self._at
        return text

    def _expansion(self, character: str) -> str:
        if self._text.startswith("((", self._at):
            self._until("))")
        elif self._text.startswith("(", self._at) and self._depth < _DEEPEST:
            self._at += 1
            self.commands(until=")")
        elif self._text.startswith("{", self._at):
            name = self._until("}")
            return "$HOME" if name == "{HOME" else character
        return character

    def _until(self, end: str) -> str:
        """The text up to `end`, and past it."""
        start = self._at
        stop = self._text.find(end, start)
        stop = len(self._text) if stop < 0 else stop
        self._at = stop + len(end)
        return self._text[start:stop]

    def _end_of_line(self) -> int:
        stop = self._text.find("\n", self._at)
        return len(self._text) if stop < 0 else stop
