"""The redirections of a shell line: what a command reads, as commands that print the same, and what it writes."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, replace

from kin_nb.core.safety.shell.known import ShellState
from kin_nb.core.safety.shell.pieces import ENDS_COMMAND, PieceReader
from kin_nb.core.safety.shell.simple_command import SimpleCommand

_QUOTED = re.compile(r"['\"\\]")
_LONGEST_INDEX = 1_000
"""Characters before `<<` in which an open `[` is looked for."""


@dataclass(frozen=True)
class _HereDocument:
    """`end`: the word that ends it; `tabs`: may go before that; `expands`: variables in it are filled in.

    `may_be_a_shift`: where the line may be arithmetic, and what follows it commands.
    """

    printer: SimpleCommand
    end: str
    tabs: bool
    expands: bool
    may_be_a_shift: bool


class RedirectionReader(PieceReader):
    def __init__(self, text: str, known: ShellState) -> None:
        super().__init__(text, known)
        self._here_documents: list[_HereDocument] = []
        """Those that begin at the next line."""
        self._doubled = 0
        """Double parentheses around this place: arithmetic, or subshells."""

    @property
    @abstractmethod
    def is_deep(self) -> bool:
        """Whether it is too deep for a group to be read for itself."""

    @abstractmethod
    def read_as_commands(self, text: str) -> None:
        """Find what the text runs, apart from what is around it."""

    def is_redirection(self) -> bool:
        if self.text[self.at] == "&":
            return self.text.startswith("&>", self.at) and self.text[self.at - 1 : self.at] != "&"
        return not self.is_process_substitution()

    def redirection(self, command: SimpleCommand, closed: list[SimpleCommand] | None) -> SimpleCommand:
        """Past an operator and its file. `2>` has its digit before it, read as a word.

        `closed`: what the commands of a group read that ends here; a file that is given to it is for them.
        """
        start, words = self.at, command.words
        if words and words[-1].isdigit() and self.text[start - 1].isdigit():
            words.pop()
        while self.text[self.at : self.at + 1] in ("<", ">", "&", "|", "-"):
            self.at += 1
        operator, reads = self.text[start : self.at], self.text[start] == "<"
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        printer = self._printer(operator)
        if printer is None:
            return replace(command, has_input=True) if reads else command
        if operator == "<>":
            command.writes.extend(printer.words[1:])
        if not reads:
            command.writes.extend(word for word in printer.words[1:] if not (operator == ">&" and word.isdigit()))
            return command
        if closed is not None and not words:
            closed.append(printer)
            return command
        return replace(command, has_input=True, inputs=[printer])

    def _printer(self, operator: str) -> SimpleCommand | None:
        """A command that prints what a redirection reads; for one that writes, `cat` with the file. Past its word."""
        if self.at == len(self.text) or (self.text[self.at] in ENDS_COMMAND):
            return None
        begin = self.at
        found, made = self.words()
        target = found[:1]
        if operator in ("<<", "<<-"):
            printer = SimpleCommand(["echo"])
            expands = _QUOTED.search(self.text, begin, self.at) is None
            if not self.is_deep:  # there all lines are commands
                self._here_documents.append(
                    _HereDocument(printer, "".join(target), operator == "<<-", expands, self._may_be_arithmetic(begin))
                )
            return printer
        return SimpleCommand(["echo" if operator == "<<<" else "cat", *target], made_by={1: made})

    def _may_be_arithmetic(self, at: int) -> bool:
        """In `((...))`, or after a `[` that is not closed: `$[1<<2]`, `a[1<<2]=3`."""
        if self._doubled:
            return True
        opened = 0
        for character in self.text[max(0, at - _LONGEST_INDEX) : at]:
            opened = max(0, opened + (character == "[") - (character == "]"))
        return opened > 0

    def read_here_documents(self) -> None:
        """Past those that begin here. What may be no here-document, or has no end, is read as commands too."""
        pending, self._here_documents = self._here_documents, []
        for document in pending:
            lines: list[str] = []
            begin, ends = self.at, False
            while self.at < len(self.text):
                stop = self.end_of_line()
                line = self.text[self.at : stop]
                self.at = stop + 1
                line = line.lstrip("\t") if document.tabs else line
                ends = line == document.end
                if ends:
                    break
                lines.append(line)
            text = "\n".join(lines)
            if document.may_be_a_shift or not ends:
                if self.is_deep:
                    self.at = begin
                else:
                    self.read_as_commands(text)
                read, made = text, list[SimpleCommand]()  # what it expands is found there
            else:
                read, made = self.here_document(text) if document.expands else (text, [])
            document.printer.words.append(read)
            document.printer.made_by[1] = made

    def end_of_line(self) -> int:
        stop = self.text.find("\n", self.at)
        return len(self.text) if stop < 0 else stop
