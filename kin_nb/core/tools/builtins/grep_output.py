"""The result of a search for the model: matches, a note on what is not shown, and hints when nothing matches."""

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
"""A result may have 40,000; the rest is for the text around it."""
LONGEST_LINE = 500
"""Characters shown of one line."""
COUNTED = 10_000
"""Matching lines after which a search ends."""
_BYTES_OF_A_CHARACTER = 4
_FILES_NAMED = 10
_NOTE = 1_000
"""Characters reserved for the note on what is not shown."""


@dataclass(frozen=True)
class Match:
    """A matching line. `file`: the name as the search prints it; `number`: counted from 1; `begin`: the bytes behind `text`."""

    file: bytes
    number: int
    text: str
    begin: bytes

    @property
    def name(self) -> str:
        return decode(self.file.removeprefix(b"./"))[0]


class Matches:
    """Collect a search's output: the first `most` matching lines, at most `of_a_file` of one file, and the counts by file.

    Files that the glob does not match are skipped, and so are sensitive ones: an approval to search the folder does not
    include them, unless the folder itself is sensitive.
    """

    def __init__(self, workspace: Workspace, asked: Path, glob: str | None, most: int, of_a_file: int) -> None:
        self.kept: list[Match] = []
        self.counts: Counter[str] = Counter()
        self.left_out = ""
        """A note on files that were left out."""
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
        """Leave out files in which a kept line is not found again when they are opened without following links.

        A search program opens files by name: a folder may have been a link to another place at that moment only.
        """
        root, of_files = self._workspace.root, dict[bytes, list[Match]]()
        for match in self.kept:
            of_files.setdefault(match.file, []).append(match)
        wrong = {file for file, matches in of_files.items() if not _confirmed(root / os.fsdecode(file), matches)}
        for name in {match.name for match in self.kept if match.file in wrong}:
            del self.counts[name]
        self.kept = [match for match in self.kept if match.file not in wrong]
        if wrong:
            files_left_out = f"{len(wrong):,} file{'s' if len(wrong) > 1 else ''}"
            self.left_out = f"[left out, because of changes during the search: {files_left_out}]"

    def may_show(self, file: bytes) -> bool:
        if file not in self._allowed:
            path = self._workspace.root / os.fsdecode(file)
            named = self._glob is None or path == self._asked or self._is_named(path, self._glob)
            try:
                allowed = bool(named) and (self._all_allowed or not self._workspace.is_sensitive(path))
            except OSError:  # a folder changed while its links were read
                allowed = False
            self._allowed[file] = allowed and is_reachable(path)  # its folder may have been replaced by a link
        return self._allowed[file]

    def _is_named(self, path: Path, glob: re.Pattern[str]) -> bool:
        """A glob with a `/` is relative to the workspace or to the folder that is searched: models write both."""
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
    """The text for the model. `count`: the matching lines (or files) in it. `note`: what is left out."""

    text: str
    count: int
    note: str = ""


def lines_shown(found: Matches, root: Path, context: int) -> Shown:
    """`path:line:text`, and `path-line-text` for context, like grep -n -C."""
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
    """Yield (file name, line to show, number of matches: 0 or 1), with `--` between parts that are not adjacent."""
    shown_before = False
    for _, group in groupby(matches, lambda match: match.file):
        own = {match.number: match for match in group}
        around = _around(root, list(own.values()), context) if context else {}
        last = -1  # so that the first line is never adjacent to another file
        name = next(iter(own.values())).name
        for number in sorted(own.keys() | around.keys()):
            if context and shown_before and number != last + 1:
                yield name, "--", 0
            sign, text = (":", own[number].text) if number in own else ("-", around[number])
            yield name, f"{name}{sign}{number}{sign}{text}", int(number in own)
            last, shown_before = number, True


def _around(root: Path, matches: list[Match], context: int) -> dict[int, str]:
    """The lines near the matches in one file, by number; empty when the file cannot be read again."""
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
    """The lines as ripgrep reads and numbers them: UTF-16 with a byte order mark becomes UTF-8."""
    mark = file.read(len(codecs.BOM_UTF16))
    file.seek(0)
    if mark not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return file
    return file.read().decode("utf-16", "replace").encode("utf-8", "replace").split(b"\n")


def _begin(line: bytes) -> bytes:
    """The bytes of a line that are shown, without those at its ends that ripgrep leaves out."""
    return line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r")[: LONGEST_LINE * _BYTES_OF_A_CHARACTER]


def _shortened(line: bytes) -> str:
    text, _ = decode(line.rstrip(b"\r"))
    return f"{text[:LONGEST_LINE]} …" if len(text) > LONGEST_LINE else text


Count = Callable[[str], Awaitable[int]]
"""Count the lines that match another pattern; 0 when that takes too long."""
_SPECIAL = "()[]{}*+?"
_MAX_ESCAPES = 5
"""Characters that are escaped in a suggestion, at most."""
_BASIC = re.compile(r"\\([|+?])")
"""An operator for grep without -E, a plain character for Python."""
_WALK_SECONDS = 1.0


def escaped(text: str) -> str:
    """The pattern for exactly this text, in Python and in ripgrep."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def pattern_error(pattern: str) -> str | None:
    """The error in a pattern, and what to write instead; None for a valid one."""
    error = _error(pattern)
    if error is None:
        return None
    corrected = pattern
    for _ in range(_MAX_ESCAPES):
        problem = _error(corrected)
        if not isinstance(problem, re.error) or problem.pos is None or corrected[problem.pos :][:1] not in _SPECIAL:
            break
        corrected = f"{corrected[: problem.pos]}\\{corrected[problem.pos :]}"
    fix = f"To search for this text, escape it: {corrected}" if _error(corrected) is None else "Correct it"
    return f"regex parse error: {error}\n{fix}, or set literal."


def _error(pattern: str) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sets in sets, whose meaning may change
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return error
    return None


def _tells_lines_apart(pattern: str) -> bool:
    """Whether it is a valid expression that not every line matches."""
    return _error(pattern) is None and re.search(pattern, "") is None


async def why_nothing(pattern: str, count: Count, *, literal: bool) -> str:
    """A hint why no line matches; "" when the reason is unknown."""
    said = []
    if not literal and re.search(r"(?<!\\)(?:\\\\)*\\n", pattern):
        said.append(r"The search works line by line: \n matches nothing.")
    other = pattern if literal else _BASIC.sub(r"\1", pattern)
    if other != pattern and _tells_lines_apart(other) and (lines := await count(other)):
        marks = " and ".join(sorted({match[0] for match in _BASIC.finditer(pattern)}))
        said.append(f"{marks}: plain text here; {_many(lines)} {other}")
    elif re.search(r"[A-Z]", re.sub(r"\\.", "", pattern)):
        lines = await count(f"(?i){escaped(pattern) if literal else pattern}")
        if lines:
            how = "write it in lower case" if literal else "begin it with (?i)"
            said.append(f"Capitals make the search case-sensitive; without case {_many(lines)}: {how}.")
    return " ".join(said)


def no_such_files(root: Path, place: str, excludes: list[str], glob: str) -> str:
    """A sentence when the glob matches no file below `place`; "" when it does, or when there are too many files to check."""
    rule, end = glob_rule(glob), time.monotonic() + _WALK_SECONDS
    for file in files(str(root), place, excludes):
        name = file.removeprefix("./")
        below = name.removeprefix(f"{place.removeprefix('./')}/")
        if rule.search(name) or rule.search(below) or time.monotonic() > end:
            return ""
    tip = " A glob with a / is relative to the workspace or to path; ** matches any folders." if "/" in glob else ""
    return f"No file was searched: the glob {glob} matches none there.{tip}"


def _many(lines: int) -> str:
    return "1 line matches" if lines == 1 else f"{'at least ' if lines >= COUNTED else ''}{lines:,} lines match"
