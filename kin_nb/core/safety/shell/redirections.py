"""The redirections of a shell line: what a command reads, as commands that print the same, and what it writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kin_nb.core.safety.shell.known import Known
from kin_nb.core.safety.shell.pieces import ENDS_COMMAND, PieceReader
from kin_nb.core.safety.shell.simple_command import SimpleCommand

_QUOTED = re.compile(r"['\"\\]")


@dataclass(frozen=True)
class _HereDocument:
    """`end`: the word that ends it; `tabs`: may go before that; `expands`: variables in it are filled in."""

    printer: SimpleCommand
    end: str
    tabs: bool
    expands: bool


class RedirectionReader(PieceReader):
    def __init__(self, text: str, known: Known) -> None:
        super().__init__(text, known)
        self._here_documents: list[_HereDocument] = []
        """Those that begin at the next line."""

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
        while self.continuation() or self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += self.text[self.at : self.at + 1] in (" ", "\t")
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
            self._here_documents.append(
                _HereDocument(
                    printer, "".join(target), operator == "<<-", _QUOTED.search(self.text, begin, self.at) is None
                )
            )
            return printer
        return SimpleCommand(["echo" if operator == "<<<" else "cat", *target], made_by={1: made})

    def read_here_documents(self) -> None:
        pending, self._here_documents = self._here_documents, []
        for document in pending:
            lines: list[str] = []
            while self.at < len(self.text):
                stop = self.end_of_line()
                line = self.text[self.at : stop]
                self.at = stop + 1
                line = line.lstrip("\t") if document.tabs else line
                if line == document.end:
                    break
                lines.append(line)
            text = "\n".join(lines)
            read, made = self.here_document(text) if document.expands else (text, [])
            document.printer.words.append(read)
            document.printer.made_by[1] = made

    def end_of_line(self) -> int:
        stop = self.text.find("\n", self.at)
        return len(self.text) if stop < 0 else stop
