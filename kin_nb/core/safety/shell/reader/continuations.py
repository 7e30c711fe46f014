"""Join continued lines as bash does before it splits words: remove each backslash before an end of line, and that end of line.

The pair stays in single quotes, in comments, in here-documents with a quoted end word, and after another backslash.
"""

from __future__ import annotations

import re

_CONTINUATION = "\\\n"
_BEGINS_WORD = frozenset(" \t\n;&|()<>")
_SINGLE_QUOTED = re.compile(r"'[^']*'")
_ANSI_C_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_HERE_DOCUMENT_END = re.compile(r"[ \t]*((?:[^\s;&|()<>'\"\\]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")+)", re.DOTALL)
_QUOTES = re.compile(r"['\"\\]")
_LONGEST_END = 1_000
_DEEPEST = 50
_CASE, _ESAC = re.compile(r"\bcase\b"), re.compile(r"\besac\b")


class _UnclearError(Exception):
    """The end of a quotation or a group is uncertain."""


def join_continuations(text: str) -> str | None:
    """Return the text with continued lines joined; None where it is uncertain which lines continue."""
    if _CONTINUATION not in text:
        return text
    try:
        return _Joiner(text).join()
    except _UnclearError:
        return None


def join_everywhere(text: str) -> str:
    """Join everywhere, also where bash would not. For lines that are uncertain."""
    return text.replace(_CONTINUATION, "")


def join_as_certain(text: str) -> str:
    found = join_continuations(text)
    return join_everywhere(text) if found is None else found


class _Joiner:
    """Track quotations and groups, to know which backslashes continue a line."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._out: list[str] = []
        self._before = "\n"
        """The previous character, unless it was quoted or escaped."""
        self._around: list[tuple[str, str, int]] = [("", "commands", 0)]
        """For each quotation or group around this position: its end, its kind, and where it begins in the output."""
        self._documents: list[tuple[str, bool, bool]] = []
        """Here-documents that begin at the next line: (end word, tabs may precede it, it is quoted)."""

    def join(self) -> str:
        while self._at < len(self._text):
            if self._text.startswith(_CONTINUATION, self._at):
                self._at += 2
            elif self._text[self._at] == "\\":
                self._take(self._text[self._at : self._at + 2], before="x")
            else:
                self._character(self._text[self._at])
        if len(self._around) > 1:
            raise _UnclearError
        return "".join(self._out)

    def _take(self, text: str, before: str) -> None:
        self._out.append(text)
        self._at += len(text)
        self._before = before

    def _character(self, character: str) -> None:
        end, inside, _ = self._around[-1]
        before = self._before
        if character == end:
            self._leave()
        elif character in '"`':
            self._enter(character, "quotation" if character == '"' else "commands")
        elif before == "$" and character in "({":
            self._enter(")" if character == "(" else "}", self._of_dollar(character, inside))
        elif inside == "quotation":
            self._take(character, "" if character == before == "$" else character)
        elif character == "'":
            self._single_quoted(_ANSI_C_QUOTED if before == "$" else _SINGLE_QUOTED)
        elif inside == "commands":
            self._of_commands(character, before)
        elif inside == "number" and (character == "#" or character == before == "<"):
            raise _UnclearError  # a group of commands may begin as a number does
        else:
            self._take(character, "" if character == before == "$" else character)

    @staticmethod
    def _of_dollar(character: str, inside: str) -> str:
        return "commands" if character == "(" else inside if inside == "quotation" else "value"

    def _of_commands(self, character: str, before: str) -> None:
        if character == "(":
            self._enter(")", "number" if before == "(" else "commands")
        elif character == "#" and before in _BEGINS_WORD:
            end = self._text.find("\n", self._at)
            self._take(self._text[self._at : end if end >= 0 else len(self._text)], before="x")
        elif character == before == "<":
            self._here_document()
        elif character == "\n":
            self._take(character, character)
            self._bodies()
        else:
            self._take(character, "" if character == before == "$" else character)

    def _enter(self, end: str, inside: str) -> None:
        if len(self._around) > _DEEPEST:
            raise _UnclearError
        begin = self._text[self._at]
        self._take(begin, begin)
        self._around.append((end, inside, len(self._out)))

    def _leave(self) -> None:
        end, inside, begin = self._around.pop()
        within = "".join(self._out[begin:])
        if end == ")" and inside == "commands" and _CASE.search(within) and not _ESAC.search(within):
            raise _UnclearError  # it ends a pattern, or the group
        self._take(end, end if end == ")" else "x")

    def _single_quoted(self, quotation: re.Pattern[str]) -> None:
        found = quotation.match(self._text, self._at)
        if found is None:
            raise _UnclearError
        self._take(found[0], before="x")

    def _here_document(self) -> None:
        """Consume `<<` and the end word."""
        self._take("<", before="")
        tabs = False
        for mark in "<-":
            self._skip()
            if self._text.startswith(mark, self._at):
                self._take(mark, before="")
                if mark == "<":
                    return
                tabs = True
        rest = join_everywhere(self._text[self._at : self._at + _LONGEST_END])
        end = _HERE_DOCUMENT_END.match(rest)
        if end is None or (_QUOTES.search(end[1]) and not self._text.startswith(end[1], self._past_blanks())):
            raise _UnclearError
        self._documents.append((_QUOTES.sub("", end[1]), tabs, _QUOTES.search(end[1]) is not None))
        written_files = end[0]
        while written_files:  # as it is written, with its continuations
            self._skip()
            if self._text[self._at] != written_files[0]:
                raise _UnclearError
            self._take(written_files[0], before="x")
            written_files = written_files[1:]

    def _past_blanks(self) -> int:
        at = self._at
        while self._text.startswith((" ", "\t", _CONTINUATION), at):
            at += 2 if self._text[at] == "\\" else 1
        return at

    def _skip(self) -> None:
        while self._text.startswith(_CONTINUATION, self._at):
            self._at += 2

    def _bodies(self) -> None:
        pending, self._documents = self._documents, []
        for end, tabs, quoted in pending:
            while self._at < len(self._text):
                line = self._line(quoted=quoted)
                if (line.lstrip("\t") if tabs else line) == end:
                    break

    def _line(self, *, quoted: bool) -> str:
        """Consume one line of a here-document; return it."""
        line = ""
        while True:
            stop = self._text.find("\n", self._at)
            stop = len(self._text) if stop < 0 else stop
            part, self._at = self._text[self._at : stop], stop + 1
            within_budget = not quoted and (len(part) - len(part.rstrip("\\"))) % 2 == 1 and stop < len(self._text)
            line += part[:-1] if within_budget else part
            if not within_budget:
                break
        self._out.append(line + "\n" * (stop < len(self._text)))
        return line
