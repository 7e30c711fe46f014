"""One word of a command, read from its own bytes as bash reads it: quotes, escapes and globs."""

from __future__ import annotations

import glob
import os
import posixpath
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from pathlib import Path

from kin_nb.core.safety.shell.classification import UnprovenError, shown, shown_word

MOST_MATCHES = 500
"""Most file names that a glob may match."""
_MOST_WILD_FOLDERS = 3
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_AFTER_PLAIN_DOLLAR = "/.,:"
_AFTER_PLAIN_DOLLAR_IN_QUOTES = '/.,: "|)'
_PLAIN_OR_ONE = re.compile(r"(\[.\])|\?", re.DOTALL)
"""In a pattern: an escaped character, or `?`."""


@dataclass(frozen=True)
class Word:
    """`text`: the word without quotes. `known`: False when a part of it shows only when it runs.

    `pattern`: the word as a glob of Python's, where it is one for bash; `raw`: as it is written.
    """

    raw: str
    text: str
    known: bool = True
    pattern: str = ""

    @property
    def is_no_flag(self) -> bool:
        """Surely, and one word."""
        return self.known and not self.pattern and not self.text.startswith("-")


class WordReader:
    """Reads one word (a Token's text)."""

    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._at = 0
        self._text = self._pattern = ""
        self._known, self._is_glob = True, False

    def read(self) -> Word:
        """Raises UnprovenError for whatever is not plain text, a quotation, a glob, or `$?`, whose value is not known."""
        self._check_braces()
        while self._at < len(self._raw):
            self._unquoted(self._raw[self._at])
        return Word(self._raw, self._text, self._known, self._pattern if self._is_glob else "")

    def _unquoted(self, character: str) -> None:
        if character == "'":
            self._literal(self._through("'"))
        elif character == '"':
            self._double_quoted()
        elif character == "\\":
            self._escaped()
        elif character == "$":
            self._dollar(quoted=False)
        elif character == "~":
            self._tilde()
        elif character in "*?":
            self._is_glob, self._at = True, self._at + 1
            self._text, self._pattern = self._text + character, self._pattern + character
        elif character == "[":
            raise UnprovenError(f"{shown(self._raw)} may match several file names")
        elif character in _ENDS_WORD or character == "`" or (character == "#" and not self._at):
            raise self._unclear()
        elif character.isascii() or character.isalnum():
            self._literal(character)
            self._at += 1
        else:
            raise UnprovenError(f"{shown(self._raw)} holds the unusual character U+{ord(character):04X} unquoted")

    def _literal(self, text: str) -> None:
        self._text += text
        self._pattern += glob.escape(text)

    def _through(self, quote: str) -> str:
        """The text up to the closing quote; the position goes past it."""
        end = self._raw.find(quote, self._at + 1)
        if end < 0:
            raise self._unclear()
        text, self._at = self._raw[self._at + 1 : end], end + 1
        return text

    def _escaped(self) -> None:
        following = self._raw[self._at + 1 : self._at + 2]
        if following in ("", "\n"):
            raise self._unclear()
        self._literal(following)
        self._at += 2

    def _double_quoted(self) -> None:
        self._at += 1
        while True:
            character = self._raw[self._at : self._at + 1]
            if character == '"':
                self._at += 1
                return
            if character == "$":
                self._dollar(quoted=True)
            elif character == "\\" and self._raw[self._at + 1 : self._at + 2] in ("$", '"', "\\", "`", "\n"):
                self._escaped()
            elif character in ("", "`"):
                raise self._unclear()
            else:
                self._literal(character)
                self._at += 1

    def _tilde(self) -> None:
        """Within a word it is itself: `HEAD~1`."""
        if self._raw[self._at - 1 : self._at] in ("", "=", ":"):
            raise UnprovenError(f"{shown(self._raw)} names a home folder")
        self._literal("~")
        self._at += 1

    def _dollar(self, *, quoted: bool) -> None:
        """A `$` that is nothing but itself, or `$?`."""
        following = self._raw[self._at + 1 : self._at + 2]
        if following == "?":
            self._at, self._known = self._at + 2, False
        elif following in (_AFTER_PLAIN_DOLLAR_IN_QUOTES if quoted else _AFTER_PLAIN_DOLLAR):  # also at the end: ""
            self._literal("$")
            self._at += 1
        else:
            raise UnprovenError(f"{shown(self._raw)} is known only when it runs")

    def _check_braces(self) -> None:
        """`{a,b}` and `{1..9}` are several words; `{}`, `@{u}` and `stash@{0}` are literal."""
        if "{" in self._raw and ("," in self._raw or ".." in self._raw):
            unquoted = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|\$\{\w+\}", "", self._raw, flags=re.DOTALL)
            if "{" in unquoted:
                raise UnprovenError(f"{shown(self._raw)} may be several words")

    def _unclear(self) -> UnprovenError:
        return UnprovenError(f"{shown(self._raw)} is ambiguous")


def expanded(word: Word, cwd: Path) -> list[str]:
    """The texts that a word expands to: the file names that its glob matches now, or its own text.

    A name that begins with `-` would be read as a flag; such a glob is refused, unless it begins with a plain letter.
    """
    if not word.pattern:
        return [word.text]
    wild = [part for part in word.pattern.split("/") if glob.has_magic(part)]
    if any(fnmatchcase("..", part) or fnmatchcase(".", part) for part in wild if part.startswith(".")):
        raise UnprovenError(f"{shown(word.raw)} may match the folder above")
    if len(wild) > _MOST_WILD_FOLDERS:
        raise UnprovenError(f"{shown(word.raw)} looks through too many folders")
    found = _matches(word, word.pattern, cwd)
    widened = _PLAIN_OR_ONE.sub(lambda part: part[1] or "*", word.pattern)
    if widened != word.pattern and not all(map(str.isascii, _matches(word, widened, cwd))):
        raise UnprovenError(f"{shown(word.raw)} matches other files where `?` is a byte")
    flag = next((name for name in found if name.startswith("-")), None)
    if flag is not None:
        raise UnprovenError(f"{shown(word.raw)} matches the file {shown_word(flag)}, which would be read as a flag")
    return found or [word.text]


def listed_folders(word: Word, texts: list[str]) -> list[str]:
    """The folder that a glob begins in, and the folders of `texts`, its matches. None for other words."""
    if not word.pattern:
        return []
    parts = word.pattern.split("/")
    begin = "/".join(takewhile(lambda part: not glob.has_magic(part), parts))
    found = (posixpath.dirname(text.rstrip("/")) for text in texts)
    return list(dict.fromkeys(folder or "." for folder in (begin or "/"[: not parts[0]], *found)))


def _matches(word: Word, pattern: str, cwd: Path) -> list[str]:
    found = sorted(islice(glob.iglob(pattern, root_dir=cwd), MOST_MATCHES + 1), key=os.fsencode)  # noqa: PTH207  (names as in bash)
    if len(found) > MOST_MATCHES:
        raise UnprovenError(f"{shown(word.raw)} matches more than {MOST_MATCHES} files")
    return found
