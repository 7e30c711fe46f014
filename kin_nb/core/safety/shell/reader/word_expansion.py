"""Expand the words of a shell line: braces, quotes, known variables. Never fails."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import product

from kin_nb.core.safety.shell.reader.simple_command import LONGEST_TEXT, MOST_VALUES, ShellState, SimpleCommand

ENDS_COMMAND = frozenset(";&|\n()")
_ENDS_WORD = frozenset(" \t\n;&|()<>")
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\`$]+")
_PLAIN_IN_DOUBLE_QUOTES = re.compile(r"[^\"\\`$]+")
_PLAIN_IN_HERE_DOCUMENT = re.compile(r"[^\\`$]+")
_VARIABLE = re.compile(r"[A-Za-z_]\w*|[\d@*]", re.ASCII)
_PLAIN_IN_BRACES = re.compile(r"[^\"\\`$}]+")
_BRACED = re.compile(r"([A-Za-z_]\w*|[\d@*])(?:\[([@*]|\$?\w+)\])?(?::?([-=?])|(?=\}))", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_ANSI_C = re.compile(r"'((?:[^'\\]|\\.)*)'?", re.DOTALL)
_ANSI_C_ESCAPE = re.compile(
    r"\\(x\{[\da-fA-F]*\}?|x[\da-fA-F]{1,2}|u[\da-fA-F]{1,4}|U[\da-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_ANSI_C_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_BACKQUOTED = re.compile(r"((?:[^`\\]|\\.)*)`?", re.DOTALL)
_ESCAPED_IN_BACKQUOTES = re.compile(r"\\([\\$`])")
_SUBSTITUTION_FIRST = re.compile(r"(?:\w+\+?=)?\"?(?:[$`]|<\()")


_DEEPEST_EXPANSION = 20
_UNKNOWN = ["$"]


@dataclass
class _Reading:
    """State of the word being expanded. `turn`: index of the variables' value, below `turns`; `made`: their producers."""

    turn: int = 0
    turns: int = 1
    splits: bool = False
    made: list[SimpleCommand] = field(default_factory=list)


class WordExpander(ABC):
    def __init__(self, text: str, state: ShellState) -> None:
        self.text, self.at, self.state = text, 0, state
        self.found: list[SimpleCommand] = []
        self._reading = _Reading()
        self._expansions = 0
        """Number of expansions around this position."""

    @abstractmethod
    def substituted(self, end: str) -> str:
        """Parse a substitution from its parenthesis through `end`, add its commands; return its output, or `$` if unknown."""

    def words(self) -> tuple[list[str], list[SimpleCommand]]:
        """Return the words that the next word expands to, and the commands that produce it when it begins with a substitution."""
        start, before = self.at, len(self.found)
        plain = _PLAIN.match(self.text, start)
        if plain and self.text[plain.end() : plain.end() + 1] in _ENDS_WORD:
            self.at = plain.end()
            several = self._expanded(plain[0])
            return several, self.state.writers_of(several[0])
        found, made = self._words_of_one(start, before)
        written_files, after = self.text[start : self.at], self.at
        several = self._expanded(written_files)
        if several == [written_files]:
            return found, made
        whole, found = self.text, []
        for word in several:
            self.text, self.at = word, 0
            found += self._words_of_one(0, len(self.found))[0]
        self.text, self.at = whole, after
        return found[:MOST_VALUES], made

    @staticmethod
    def _expanded(written_files: str) -> list[str]:
        """Expand braces, except in an assignment."""
        return [written_files] if _ASSIGNMENT.match(written_files) else expand_braces(written_files)

    def _words_of_one(self, start: int, before: int) -> tuple[list[str], list[SimpleCommand]]:
        outer, self._reading = self._reading, _Reading()
        words: list[str] = []
        while self._reading.turn < self._reading.turns:
            self.at = start
            word = self._word()
            words += word.split() if self._reading.splits else [word]
            self._reading.turn += 1
            if len(self.found) > before:  # its commands are added once
                break
        made = [*self.found[before:], *self._reading.made] if _SUBSTITUTION_FIRST.match(self.text, start) else []
        self._reading = outer
        return words[:MOST_VALUES], made + [command for word in words[:1] for command in self.state.writers_of(word)]

    def here_document(self, text: str) -> tuple[str, list[SimpleCommand]]:
        """Return the expanded text, and the commands that produce it when it begins with a substitution."""
        outer, self._reading, before = (self.text, self.at, self._reading), _Reading(), len(self.found)
        self.text, self.at = text, 0
        read = self._quoted(_PLAIN_IN_HERE_DOCUMENT, "")
        made = [*self.found[before:], *self._reading.made] if _SUBSTITUTION_FIRST.match(text.lstrip()) else []
        self.text, self.at, self._reading = outer
        return read, made

    def is_process_substitution(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _word(self) -> str:
        word = ""
        while self.at < len(self.text):
            character = self.text[self.at]
            ends = character in _ENDS_WORD or character.isspace()
            if ends and not self.is_process_substitution():
                break
            plain = _PLAIN.match(self.text, self.at)
            word += plain[0] if plain else self._piece(quoted=False)
            self.at = plain.end() if plain else self.at
        return word[:LONGEST_TEXT]

    def _piece(self, *, quoted: bool) -> str:
        """Return one character of a word, one quotation, or one expansion (`$` when its value is unknown)."""
        character = self.text[self.at]
        self.at += 1
        if character == "'" and not quoted:
            return self.until("'")
        if character == '"':
            return character if quoted else self._quoted(_PLAIN_IN_DOUBLE_QUOTES, '"')
        if character == "\\":
            self.at += 1
            return self.text[self.at - 1 : self.at]
        if character == "`":
            return self._shown(self.substituted("`"), quoted=quoted)
        return self._expansion(character, quoted=quoted) if character in "$<>" else character

    def _quoted(self, plain_part: re.Pattern[str], end: str) -> str:
        text = ""
        while self.at < len(self.text):
            if self.text[self.at] == end:
                self.at += 1
                break
            plain = plain_part.match(self.text, self.at)
            text += plain[0] if plain else self._piece(quoted=True)
            self.at = plain.end() if plain else self.at
        return text

    def _expansion(self, character: str, *, quoted: bool) -> str:
        following = self.text[self.at : self.at + 1]
        if following == "(":
            if self.text.startswith("((", self.at):
                self._arithmetic()
                return character
            shown = self.substituted(")")
            return self._shown(shown, quoted=quoted) if character == "$" else character
        if character != "$":
            return character
        if following == "{":
            self.at += 1
            return self._braced(quoted=quoted)
        if following == "'" and not quoted and (text := _ANSI_C.match(self.text, self.at)):
            self.at = text.end()
            return _ANSI_C_ESCAPE.sub(_ansi_c, text[1]).partition("\0")[0]
        if following == '"' and not quoted:
            return ""
        name = _VARIABLE.match(self.text, self.at)
        if name is None:
            return character
        self.at = name.end()
        return self._value(name[0], f"${name[0]}", quoted=quoted)

    def _braced(self, *, quoted: bool) -> str:
        """Expand `${x}`, `${x:-text}` and `${x:?text}`. Other operators are ignored, except for the commands in them."""
        name = _BRACED.match(self.text, self.at)
        self.at = name.end() if name else self.at
        if self._expansions >= _DEEPEST_EXPANSION:
            rest = self.until("}")
        else:
            self._expansions += 1
            rest = self._quoted(_PLAIN_IN_BRACES, "}").replace('"', "")
            self._expansions -= 1
        if name is None:
            return "$"
        unknown = rest if name[3] in ("-", "=") else f"${name[1]}"
        return self._value(name[1], unknown, quoted=quoted, index=name[2] or "")

    def _arithmetic(self) -> None:
        """Consume `((...))`. Its value is unknown; the commands in it are added."""
        if self._expansions >= _DEEPEST_EXPANSION:
            self.until("))")
            return
        self._expansions += 1
        self.at += 2
        inside = 0
        while inside >= 0 and self.at < len(self.text) and (inside or not self.text.startswith("))", self.at)):
            character = self.text[self.at]
            inside += (character == "(") - (character == ")")
            if character in "$`":
                self._piece(quoted=True)
            else:
                self.at += 1
        self.at += 2 if self.text.startswith("))", self.at) else 0
        self._expansions -= 1

    def _value(self, name: str, unknown: str, *, quoted: bool, index: str = "") -> str:
        values = self.state.values.get(name)
        self._reading.made += self.state.made.get(name, ())
        if not values:
            return unknown
        if values == _UNKNOWN:  # a distinct unknown for each variable
            return f"${{{name}}}"
        if index.isdecimal():
            values = values[int(index) : int(index) + 1] or [""]
        self._reading.turns = max(self._reading.turns, len(values))
        return self._shown(values[min(self._reading.turn, len(values) - 1)], quoted=quoted)

    def _shown(self, text: str, *, quoted: bool) -> str:
        self._reading.splits = self._reading.splits or (not quoted and any(c.isspace() for c in text))
        return text

    def backquoted(self) -> str:
        """Consume the text through the closing backquote; return it with escapes removed."""
        found = _BACKQUOTED.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return _ESCAPED_IN_BACKQUOTES.sub(r"\1", found[1]) if found else ""

    def until(self, end: str) -> str:
        """Consume the text through `end`; return it without `end`."""
        start = self.at
        stop = self.text.find(end, start)
        stop = len(self.text) if stop < 0 else stop
        self.at = stop + len(end)
        return self.text[start:stop]


def _ansi_c(escape: re.Match[str]) -> str:
    """The character of an escape in `$'...'`."""
    kind, digits = escape[1][0], escape[1][1:]
    if kind in "xuU" and digits:
        code = int(digits.strip("{}") or "0", 16)
        return chr(code & 0xFF if kind == "x" else min(code, 0x10FFFF))
    if kind in "01234567":
        return chr(int(escape[1], 8) & 0xFF)
    if kind == "c" and digits:
        return chr(ord(digits) & 0x1F)
    return _ANSI_C_LETTERS.get(kind, kind if kind in "\\'\"?" else escape[0])


_MOST_WORDS = 200
_MOST_BRACES = 20
"""Limits of brace expansion. A word beyond them stays unexpanded."""
_PIECE = re.compile(
    r"""\\.|'[^']*'|\$'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|\$\{(?:[^{}]|\{[^{}]*\})*\}|\$\([^()]*\)|.""",
    re.DOTALL,
)
"""A quotation or a substitution as a whole; otherwise one character."""
_NUMBERS = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", re.ASCII)
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?", re.ASCII)

_Pieces = list[str]


def expand_braces(word: str) -> list[str]:
    """Return the expanded words with their quotes; only the word itself when braces do not expand."""
    if "{" not in word or not ("," in word or ".." in word) or word.count("{") > _MOST_BRACES:
        return [word]
    found = _alternatives(_PIECE.findall(word))
    words = ["".join(pieces) for pieces in found if pieces]
    return words if words and len(words) <= _MOST_WORDS else [word]


def _alternatives(pieces: _Pieces) -> list[_Pieces]:
    """Return more than _MOST_WORDS entries when there are too many."""
    for begin, piece in enumerate(pieces):
        if piece != "{" or pieces[begin - 1 : begin] == ["$"]:
            continue
        end, parts = _parts(pieces, begin)
        if not parts:
            continue
        inner = [each for part in parts for each in _alternatives(part)]
        after = _alternatives(pieces[end + 1 :])
        if len(inner) * len(after) > _MOST_WORDS:
            return [pieces] * (_MOST_WORDS + 1)
        return [[*pieces[:begin], *each, *rest] for each, rest in product(inner, after)]
    return [pieces]


def _parts(pieces: _Pieces, begin: int) -> tuple[int, list[_Pieces]]:
    """Return the index of the closing brace, and the alternatives; none when the brace is literal."""
    parts: list[_Pieces] = [[]]
    depth = 0
    for at in range(begin + 1, len(pieces)):
        piece = pieces[at]
        if piece == "}" and not depth:
            return at, parts if len(parts) > 1 else _sequence("".join(parts[0]))
        if piece == "," and not depth:
            parts.append([])
            continue
        depth += (piece == "{") - (piece == "}")
        parts[-1].append(piece)
    return begin, []


def _sequence(text: str) -> list[_Pieces]:
    """Expand `1..3` and `a..e`, with or without a step."""
    if found := _NUMBERS.fullmatch(text):
        width = max(map(len, found.groups()[:2])) if any(re.match(r"-?0\d", each) for each in found.groups()[:2]) else 0
        return [[f"{value:0{width}d}"] for value in _steps(int(found[1]), int(found[2]), found[3])]
    if found := _LETTERS.fullmatch(text):
        return [[chr(value)] for value in _steps(ord(found[1]), ord(found[2]), found[3])]
    return []


def _steps(first: int, last: int, step: str | None) -> range:
    """The values, limited to one more than a word may have."""
    by = abs(int(step or 1)) or 1
    found = range(first, last + 1, by) if first <= last else range(first, last - 1, -by)
    return found[: _MOST_WORDS + 1]
