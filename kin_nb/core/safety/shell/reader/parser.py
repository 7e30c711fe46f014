"""Parse a shell line into simple commands. Never fails: a malformed part extends to the end of the line.

It follows bash and takes each branch and each loop once: a pipe into a group reaches the commands in it, a variable has the
value that the line assigned, and a function's commands appear again at each call.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kin_nb.core.safety.shell.reader.continuations import join_as_certain, join_everywhere
from kin_nb.core.safety.shell.reader.simple_command import MOST_VALUES, ShellState, SimpleCommand, predicted_output
from kin_nb.core.safety.shell.reader.word_expansion import ENDS_COMMAND, WordExpander

_QUOTED = re.compile(r"['\"\\]")
_LONGEST_INDEX = 1_000
"""Characters before `<<` in which an open `[` is looked for."""


@dataclass(frozen=True)
class _HereDocument:
    """`end`: the word that ends it; `tabs`: tabs may precede it; `expands`: variables are expanded.

    `may_be_a_shift`: `<<` may be arithmetic, and the next lines commands.
    """

    printer: SimpleCommand
    end: str
    tabs: bool
    expands: bool
    may_be_a_shift: bool


class RedirectionReader(WordExpander):
    def __init__(self, text: str, state: ShellState) -> None:
        super().__init__(text, state)
        self._here_documents: list[_HereDocument] = []
        """Here-documents that begin at the next line."""
        self._doubled = 0
        """Number of `((` around this position: arithmetic, or subshells."""

    @property
    @abstractmethod
    def is_deep(self) -> bool:
        """Whether the nesting is too deep to parse a group on its own."""

    @abstractmethod
    def read_as_commands(self, text: str) -> None:
        """Add the commands of the text, parsed on its own."""

    def is_redirection(self) -> bool:
        if self.text[self.at] == "&":
            return self.text.startswith("&>", self.at) and self.text[self.at - 1 : self.at] != "&"
        return not self.is_process_substitution()

    def redirection(self, command: SimpleCommand, closed: list[SimpleCommand] | None) -> SimpleCommand:
        """Consume an operator and its file. The digit of `2>` was parsed as a word before.

        `closed`: the inputs of the group that ends here; a redirection after it is theirs.
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
        """Consume the word, and return a command that prints the redirection's input; for an output, `cat` with the file."""
        if self.at == len(self.text) or (self.text[self.at] in ENDS_COMMAND):
            return None
        begin = self.at
        found, made = self.words()
        target = found[:1]
        if operator in ("<<", "<<-"):
            printer = SimpleCommand(["echo"])
            expands = _QUOTED.search(self.text, begin, self.at) is None
            if not self.is_deep:  # in deep nesting all lines are commands
                self._here_documents.append(
                    _HereDocument(printer, "".join(target), operator == "<<-", expands, self._may_be_arithmetic(begin))
                )
            return printer
        return SimpleCommand(["echo" if operator == "<<<" else "cat", *target], producers={1: made})

    def _may_be_arithmetic(self, at: int) -> bool:
        """Whether it is in `((...))`, or after an open `[`: `$[1<<2]`, `a[1<<2]=3`."""
        if self._doubled:
            return True
        opened = 0
        for character in self.text[max(0, at - _LONGEST_INDEX) : at]:
            opened = max(0, opened + (character == "[") - (character == "]"))
        return opened > 0

    def read_here_documents(self) -> None:
        """Consume the here-documents that begin here. An uncertain one, or one without an end, is also parsed as commands."""
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
                read, made = text, list[SimpleCommand]()  # its substitutions are found there
            else:
                read, made = self.here_document(text) if document.expands else (text, [])
            document.printer.words.append(read)
            document.printer.producers[1] = made

    def end_of_line(self) -> int:
        stop = self.text.find("\n", self.at)
        return len(self.text) if stop < 0 else stop


_DEEPEST = 50
"""Most levels of parentheses and groups. Deeper ones are ignored."""
_A_CALL = 10
"""Levels that a function call counts as, because it may call others."""
_GROUPS = {"{": "}", "if": "fi", "while": "done", "until": "done", "for": "done", "select": "done", "case": "esac"}
_WITH_A_HEAD = frozenset(("for", "select", "case"))
_BETWEEN = frozenset(("then", "do", "else", "elif", "!"))
_RESERVED = frozenset((*_GROUPS, *_GROUPS.values(), *_BETWEEN))
_BEFORE_A_GROUP = frozenset(("time", "coproc", "-p"))
_NO_ARGUMENTS = re.compile(r"\(\s*\)")


def parse_commands(
    line: str, state: ShellState | None = None, inputs: Sequence[SimpleCommand] = (), level: int = 0
) -> list[SimpleCommand]:
    """Return the commands in the order in which they end: those of a substitution before the command that uses it.

    `state`: of the shell before the line; it is updated. `inputs`: commands whose output the line may read.
    `level`: number of parentheses around the line.
    """
    reader = _Reader(join_as_certain(line), state or ShellState(), level=level)
    reader.commands("", list(inputs))
    return reader.found


@dataclass
class _Group:
    """`end`: the character or word that closes it. `inputs`: commands whose output it reads. `outputs`: its commands that print."""

    end: str
    inputs: list[SimpleCommand]
    outputs: list[SimpleCommand] = field(default_factory=list)
    closed: list[SimpleCommand] | None = None
    """Inputs of the inner group that just ended. Redirections that follow belong to that group."""
    compares: bool = False
    """Next comes a pattern of `case`, not a command."""


class _Reader(RedirectionReader):
    def __init__(self, text: str, state: ShellState, depth: int = 0, level: int = 0, function: str = "") -> None:
        super().__init__(text, state)
        self._depth, self._level, self._function = depth, level, function
        self._defined = ""
        """Name of the function whose body comes next."""

    def commands(self, end: str, inputs: list[SimpleCommand], head: str = "") -> list[SimpleCommand]:
        """Parse commands up to `end` ("": the end of the text) and consume it. `head`: a first word, already parsed.

        Returns the commands whose output is the group's output.
        """
        self._depth += 1
        group = _Group(end, inputs)
        first = self._fresh(group)
        first.words.extend([head] if head else [])
        command: SimpleCommand | None = first
        while self.at < len(self.text) and command is not None:
            character = self.text[self.at]
            if character == end:
                self.at += 1
                break
            if group.compares and not character.isspace() and not self.text.startswith("esac", self.at):
                self.until(")")
                group.compares = False
            elif character in "<>&" and self.is_redirection():
                command = self.redirection(command, group.closed)
            elif character in ENDS_COMMAND:
                command = self._operator(command, group)
            elif character == "#":
                self.at = self.end_of_line()
            elif character.isspace():
                self.at += 1
            else:
                command = self._add_word(command, group)
        if command is not None:
            self._end(command, group)
        self._depth -= 1
        return group.outputs

    def _fresh(self, group: _Group) -> SimpleCommand:
        return self._that_reads(group, group.inputs, has_input=bool(group.inputs))

    def _that_reads(self, group: _Group, inputs: list[SimpleCommand], *, has_input: bool) -> SimpleCommand:
        group.closed = None
        return SimpleCommand([], has_input, inputs, level=self._level, function=self._function)

    def _operator(self, command: SimpleCommand, group: _Group) -> SimpleCommand:
        """Consume the operator that ends `command`; return the next command."""
        character, at = self.text[self.at], self.at
        if character == "(":
            return self._parenthesis(command, group)
        self.at += 1
        if character == "\n":
            after = command if command.has_input and not command.words else self._ended(command, group)
            self.read_here_documents()
            return after  # a pipe continues on the next line
        before, following = self.text[at - 1 : at], self.text[self.at : self.at + 1]
        if character == "|" and "|" not in (before, following):
            self.at += following == "&"
            return self._that_reads(group, [self._end(command)], has_input=True)
        group.compares = group.end == "esac" and character == before == ";"
        if character == "&" and "&" not in (before, following):
            command = replace(command, background=True)
        return self._ended(command, group)

    def _ended(self, command: SimpleCommand, group: _Group) -> SimpleCommand:
        self._end(command, group)
        return self._fresh(group)

    def _end(self, command: SimpleCommand, group: _Group | None = None) -> SimpleCommand:
        """Add the command. `group`: prints its output; None when the output goes into a pipe. Returns the command as added."""
        words = command.words
        if words or command.writes:
            if not self.state.within_budget():
                self.at = len(self.text)
            body = self.state.functions.get(words[0]) if words and self.state.functions else None
            if body is not None and words[0] != self._function and self._depth < _DEEPEST:
                command = replace(command, inputs=[*command.inputs, *self._call(words, body, command.inputs)])
            self.found.append(command)
            self.state.update(command)
        if group is not None and (words or command.writes or (command.inputs and not command.has_input)):
            group.outputs.append(command)
        return command

    def _call(self, words: list[str], body: str, inputs: list[SimpleCommand]) -> list[SimpleCommand]:
        """Add the commands of a function call; return those that print."""
        reader = _Reader(body, self.state.for_call(words), self._depth + _A_CALL, self._level, words[0])
        outputs = reader.commands("", inputs)
        self.found += reader.found
        return outputs

    def _parenthesis(self, command: SimpleCommand, group: _Group) -> SimpleCommand:
        """Parse a function's head, the values of an array, or a subshell."""
        before, no_arguments = command.words, _NO_ARGUMENTS.match(self.text, self.at)
        if before and before[-1].endswith("="):
            self._array(before.pop().rstrip("+="))
            return command
        if no_arguments and before:
            self.at, self._defined = no_arguments.end(), before[-1]
            return self._fresh(group)
        if self._depth >= _DEEPEST:
            self.at += 1
            return self._ended(command, group)
        if before[:1] == ["function"]:
            self._defined = before[-1]
        elif not self._begins(command):
            command = self._ended(command, group)
        doubled = self.text.startswith("((", self.at)
        self.at += 1
        self._level += 1
        self._doubled += doubled
        command = self._group(")", command, group)
        self._doubled -= doubled
        self._level -= 1
        return command

    def _array(self, name: str) -> None:
        self.at += 1
        values: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at].isspace() or (self.text[self.at] in "<>;&|(" and not self.is_process_substitution()):
                self.at += 1
            else:
                values += self.words()[0]
        self.at += 1
        self.state.values[name] = values[:MOST_VALUES]

    def _group(self, end: str, command: SimpleCommand, group: _Group, head: str = "") -> SimpleCommand:
        """Parse a group; return a command without words that reads the group's output."""
        start, defined, outer, inputs = self.at, self._defined, self._function, list(command.inputs)
        self._defined, self._function = "", defined or outer
        outputs = self.commands(end, inputs, head)
        self._function = outer
        if defined:
            self.state.functions[defined] = self.text[start : self.at].removesuffix(end)
            outputs = []
        after = self._that_reads(group, outputs, has_input=False)
        group.closed = inputs
        return after

    def _begins(self, command: SimpleCommand) -> bool:
        """Whether a group may begin or end at the command's next word."""
        words = command.words
        return all(word in _BEFORE_A_GROUP for word in words) or (words[0] == "function" and len(words) == 2)  # noqa: PLR2004

    def _add_word(self, command: SimpleCommand, group: _Group) -> SimpleCommand | None:
        """Add the next word to the command; return None when the word closes the group."""
        start = self.at
        words, made = self.words()
        word = words[0] if words else ""
        if word in _RESERVED and self.text[start : self.at] == word and self._begins(command):
            if word == group.end:
                self._end(command, group)
                return None
            if word in _BETWEEN:
                return command
            if word in _GROUPS and self._depth < _DEEPEST:
                if command.words[:1] == ["function"]:
                    self._defined = command.words[1]
                return self._group(_GROUPS[word], command, group, word if word in _WITH_A_HEAD else "")
        if made and words:
            command.producers[len(command.words)] = made
        command.words.extend(words)
        if word == "in" and group.end == "esac" and command.words[0] == "case":
            group.compares = True
            return self._ended(command, group)
        return command

    @property
    def is_deep(self) -> bool:
        return self._depth >= _DEEPEST

    def read_as_commands(self, text: str) -> None:
        inside = _Reader(join_everywhere(text), self.state, self._depth, self._level, self._function)
        inside.commands("", [])
        self.found += inside.found

    def substituted(self, end: str) -> str:
        if end == "`":
            inside = _Reader(
                join_as_certain(self.backquoted()), self.state, self._depth, self._level + 1, self._function
            )
            outputs = inside.commands("", [])
            self.found += inside.found
        elif self._depth >= _DEEPEST:
            return "$"
        else:
            self.at, self._level = self.at + 1, self._level + 1
            outputs = self.commands(")", [])
            self._level -= 1
        return (predicted_output(outputs) if len(outputs) == 1 else "") or "$"
