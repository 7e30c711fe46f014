"""What the model reads of a search: matches, collected as they arrive; what is not shown; what a pattern without any may mean."""

from __future__ import annotations

import codecs
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from kin_nb.core.safe_fs import is_reachable
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.grep_fallback import files, glob_rule
from kin_nb.core.tools.builtins.text_file import decode
from kin_nb.core.workspace import Workspace, open_regular

MOST_CHARACTERS = 39_500
"""40,000 reach the model, less the room for what is said about them."""
LONGEST_LINE = 500
"""Characters shown of one line."""
COUNTED = 10_000
"""Matching lines after which a search ends."""
_BYTES_OF_A_CHARACTER = 4
_FILES_NAMED = 10
_NOTE = 1_000
"""Characters kept for the note on what is not shown."""


@dataclass(frozen=True)
class Match:
    """A matching line. `file`: as the search prints it; `number`: counted from 1; `begin`: the bytes that `text` is made of."""

    file: bytes
    number: int
    text: str
    begin: bytes

    @property
    def name(self) -> str:
        return decode(self.file.removeprefix(b"./"))[0]


class Matches:
    """The search's output as it arrives: the first `most` matching lines, of a file at most `of_a_file`, and how many
    there are in each file.

    Files that the glob does not name are passed over, and sensitive ones: whoever allowed a search of the folder has
    not allowed those, unless the folder is one itself.
    """

    def __init__(self, workspace: Workspace, asked: Path, glob: str | None, most: int, of_a_file: int) -> None:
        self.kept: list[Match] = []
        self.counts: Counter[str] = Counter()
        self.left_out = ""
        """What is said of files that were left out."""
        self._workspace, self._asked, self._most, self._of_a_file = workspace, asked, most, of_a_file
        self._all_allowed = workspace.is_sensitive(asked) is not None
        self._glob = glob_rule(glob) if glob else None
        self._rest = b""
        self._allowed: dict[bytes, bool] = {}

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def more(self) -> bool:
        """Whether the search ended before it had seen everything."""
        return self.total >= COUNTED

    def add(self, chunk: bytes) -> bool:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._add_line(line)
            if self.more:
                return True
        return False

    def leave_out_unconfirmed(self) -> None:
        """Leave out the files of which a kept line is not there when they are opened without following a link.

        A search program opens files by their names: a folder may be a link to elsewhere at that moment, and only then.
        """
        root, of_files = self._workspace.root, dict[bytes, list[Match]]()
        for match in self.kept:
            of_files.setdefault(match.file, []).append(match)
        wrong = {file for file, matches in of_files.items() if not _confirmed(root / os.fsdecode(file), matches)}
        for name in {match.name for match in self.kept if match.file in wrong}:
            del self.counts[name]
        self.kept = [match for match in self.kept if match.file not in wrong]
        if wrong:
            self.left_out = (
                f"[left out, as changed during the search: {len(wrong):,} file{'s' if len(wrong) > 1 else ''}]"
            )

    def may_show(self, file: bytes) -> bool:
        if file not in self._allowed:
            path = self._workspace.root / os.fsdecode(file)
            named = self._glob is None or path == self._asked or self._is_named(path, self._glob)
            try:
                allowed = bool(named) and (self._all_allowed or not self._workspace.is_sensitive(path))
            except OSError:  # a folder changed while its links were read
                allowed = False
            self._allowed[file] = allowed and is_reachable(path)  # no folder was replaced by a link meanwhile
        return self._allowed[file]

    def _is_named(self, path: Path, glob: re.Pattern[str]) -> bool:
        """A glob with a `/` counts from the workspace, or from the folder that is searched: models write either."""
        below = path.relative_to(self._asked).as_posix() if path.is_relative_to(self._asked) else ""
        return bool(glob.search(self._workspace.relative(path)) or glob.search(below))

    def _add_line(self, line: bytes) -> None:
        file, separator, match = line.partition(b"\0")
        number, colon, text = match.partition(b":")
        if not separator or not colon or not self.may_show(file):
            return
        found = Match(file, int(number), _shortened(text), _begin(text))
        self.counts[found.name] += 1
        if len(self.kept) < self._most and self.counts[found.name] <= self._of_a_file:
            self.kept.append(found)


@dataclass(frozen=True)
class Shown:
    """The text for the model; `count`: the lines (or files) that matched and are in it; `note`: what is not."""

    text: str
    count: int
    note: str = ""


def lines_shown(found: Matches, root: Path, context: int) -> Shown:
    """`path:line:text`, and `path-line-text` for the lines around, as grep -n -C has it."""
    lines: list[str] = []
    shown: Counter[str] = Counter()
    room = MOST_CHARACTERS - _NOTE
    for name, entry, matches in _entries(found.kept, root, context):
        room -= len(entry) + 1
        if room < 0:
            break
        lines.append(entry)
        shown[name] += matches
    return Shown("\n".join(lines), shown.total(), _not_shown(found, shown))


def files_shown(found: Matches, most: int) -> Shown:
    """`path (matching lines)`, at most `most` of them."""
    lines: list[str] = []
    room = MOST_CHARACTERS - _NOTE
    for name, count in list(found.counts.items())[:most]:
        room -= len(name) + 20
        if room < 0:
            break
        lines.append(f"{name} ({count:,})")
    said = [f"{len(lines):,} of {len(found.counts):,} files shown"] if len(lines) < len(found.counts) else []
    said += [f"the search ended after {COUNTED:,} matching lines"] if found.more else []
    return Shown("\n".join(lines), len(lines), f"[{'; '.join(said)}]" if said else "")


def _not_shown(found: Matches, shown: Counter[str]) -> str:
    rest = found.counts - shown
    if not rest and not found.more:
        return ""
    named = [f"{name[:LONGEST_LINE]} ({n:,})" for name, n in sorted(rest.items(), key=lambda item: (-item[1], item[0]))]
    while len(named) > _FILES_NAMED or sum(map(len, named)) > _NOTE - 200:
        named.pop()
    others = len(rest) - len(named)
    listed = ", ".join([*named, *([f"and {others:,} more files"] if others else [])])
    total = f"at least {COUNTED:,}" if found.more else f"{found.total:,}"
    return f"[{shown.total():,} of {total} matching lines shown{f'; not shown: {listed}' if listed else ''}]"


def _entries(matches: list[Match], root: Path, context: int) -> Iterator[tuple[str, str, int]]:
    """(file's name, line to show, matches in it: 0 or 1), with `--` between lines that do not follow each other."""
    shown_before = False
    for _, group in groupby(matches, lambda match: match.file):
        own = {match.number: match for match in group}
        around = _around(root, list(own.values()), context) if context else {}
        last = -1  # no line of this file follows what was shown before
        name = next(iter(own.values())).name
        for number in sorted(own.keys() | around.keys()):
            if context and shown_before and number != last + 1:
                yield name, "--", 0
            sign, text = (":", own[number].text) if number in own else ("-", around[number])
            yield name, f"{name}{sign}{number}{sign}{text}", int(number in own)
            last, shown_before = number, True


def _around(root: Path, matches: list[Match], context: int) -> dict[int, str]:
    """The lines near the matches in one file, by number; none when it can't be read any more."""
    wanted = {n for match in matches for n in range(match.number - context, match.number + context + 1)}
    end = max(wanted)
    try:
        with open_regular(root / os.fsdecode(matches[0].file)) as file:
            numbered = zip(range(1, end + 1), _lines(file), strict=False)
            return {number: _shortened(line.rstrip(b"\n")) for number, line in numbered if number in wanted}
    except (OSError, ToolError):
        return {}


def _confirmed(path: Path, matches: list[Match]) -> bool:
    wanted = {match.number: match.begin for match in matches}
    try:
        with open_regular(path) as file:
            numbered = zip(range(1, max(wanted) + 1), _lines(file), strict=False)
            found = {number: _begin(line.rstrip(b"\n")) for number, line in numbered if number in wanted}
    except (OSError, ToolError):
        return False
    return found == wanted


def _lines(file: BinaryIO) -> Iterable[bytes]:
    """As ripgrep numbers and reads them: UTF-16 with a byte order mark becomes UTF-8."""
    mark = file.read(len(codecs.BOM_UTF16))
    file.seek(0)
    if mark not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return file
    return file.read().decode("utf-16", "replace").encode("utf-8", "replace").split(b"\n")


def _begin(line: bytes) -> bytes:
    """All bytes that are shown of a line, without what ripgrep leaves out at its ends."""
    return line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r")[: LONGEST_LINE * _BYTES_OF_A_CHARACTER]


def _shortened(line: bytes) -> str:
    text, _ = decode(line.rstrip(b"\r"))
    return f"{text[:LONGEST_LINE]} …" if len(text) > LONGEST_LINE else text


Count = Callable[[str], Awaitable[int]]
"""How many lines match another pattern; 0 when that can't be told in a short time."""
_SPECIAL = "()[]{}*+?"
_MENDED = 5
"""Characters that are escaped in a suggestion, at most."""
_BASIC = re.compile(r"\\([|+?])")
"""What grep without -E takes for an operator, and a regular expression of Python for the character itself."""
_WALK_SECONDS = 1.0


def escaped(text: str) -> str:
    """A pattern of just this text, for Python and ripgrep alike."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def pattern_error(pattern: str) -> str | None:
    """What is wrong with a pattern and what to write; None for one that can be used."""
    error = _error(pattern)
    if error is None:
        return None
    mended = pattern
    for _ in range(_MENDED):
        problem = _error(mended)
        if not isinstance(problem, re.error) or problem.pos is None or mended[problem.pos :][:1] not in _SPECIAL:
            break
        mended = f"{mended[: problem.pos]}\\{mended[problem.pos :]}"
    cure = f"To search for it as it is, escape it: {mended}" if _error(mended) is None else "Mend it"
    return f"regex parse error: {error}\n{cure}, or set literal."


def _error(pattern: str) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets in sets, whose meaning may change
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return error
    return None


def _tells_lines_apart(pattern: str) -> bool:
    """Whether it is an expression, and not one that every line matches."""
    return _error(pattern) is None and re.search(pattern, "") is None


async def why_nothing(pattern: str, count: Count, *, literal: bool) -> str:
    """Why no line matches, when that can be seen; "" otherwise."""
    said = []
    if not literal and re.search(r"(?<!\\)(?:\\\\)*\\n", pattern):
        said.append(r"The search goes line by line: \n matches nothing.")
    other = pattern if literal else _BASIC.sub(r"\1", pattern)
    if other != pattern and _tells_lines_apart(other) and (lines := await count(other)):
        marks = " and ".join(sorted({match[0] for match in _BASIC.finditer(pattern)}))
        said.append(f"{marks} is the character itself here; {_many(lines)} {other}")
    elif re.search(r"[A-Z]", re.sub(r"\\.", "", pattern)):
        lines = await count(f"(?i){escaped(pattern) if literal else pattern}")
        if lines:
            how = "write it in small letters" if literal else "begin it with (?i)"
            said.append(f"Its capitals make it heed case; {_many(lines)} it without: {how}.")
    return " ".join(said)


def no_such_files(root: Path, place: str, excludes: list[str], glob: str) -> str:
    """That the glob names no file below `place`, in a sentence; "" when it does, or there are too many to look at."""
    rule, end = glob_rule(glob), time.monotonic() + _WALK_SECONDS
    for file in files(str(root), place, excludes):
        name = file.removeprefix("./")
        below = name.removeprefix(f"{place.removeprefix('./')}/")
        if rule.search(name) or rule.search(below) or time.monotonic() > end:
            return ""
    tip = (
        " A glob with a / counts from the workspace or from path, and ** stands for any folders." if "/" in glob else ""
    )
    return f"No file was searched: none there matches the glob {glob}.{tip}"


def _many(lines: int) -> str:
    return "1 line matches" if lines == 1 else f"{'at least ' if lines >= COUNTED else ''}{lines:,} lines match"
