"""The patch format of apply_patch, as models are trained on it: parse a patch into its files, and locate its hunks in a text.

A patch is `*** Begin Patch`, one part per file, `*** End Patch`. Hunks have context lines and no line numbers; `@@ LINE` names a
line above, such as that of a function. Context must match exactly. A hunk must fit exactly one place, or follow its `@@` line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from kin_nb.core.text import listed, shorten
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins.edits import closest_match_hint
from kin_nb.core.tools.builtins.text_file import TextFile, split_lines

Kind: TypeAlias = Literal["Add", "Delete", "Update"]

_BEGIN, _END, _MOVE, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** Move to:", "*** End of File"
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File:(.*)")
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
"""What a unified diff has after `@@`. Places are found by context alone."""
_FORM = "*** Begin Patch\n*** Update File: PATH\n@@ line above\n context\n-old line\n+new line\n context\n*** End Patch"
_LISTED_LINES = 10
_SHOWN = 80
"""Characters of a line in an error."""


@dataclass(frozen=True)
class Hunk:
    """`anchors`: the lines after `@@`. `lines`: each with its mark, " ", "-" or "+". `at_end`: it is the end of the file."""

    anchors: tuple[str, ...]
    lines: tuple[str, ...]
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] != "+"]


@dataclass(frozen=True)
class FilePart:
    """One file of a patch. `lines`: those of a new file. `move_to`: its new path, "" if it stays."""

    kind: Kind
    path: str
    move_to: str = ""
    lines: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()


def parse_patch(text: str) -> tuple[FilePart, ...]:
    """Parse a patch. Text around it, such as a code fence, is ignored. Raises ToolError with the line that is wrong."""
    return _Parser(text).parts()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = [line.removesuffix("\r") for line in text.split("\n")]
        self._at = 0

    def parts(self) -> tuple[FilePart, ...]:
        stripped = [line.rstrip() for line in self._lines]
        if _BEGIN not in stripped:
            raise ToolError(f"The patch has no line `{_BEGIN}`. Expected:\n{_FORM}")
        self._at = stripped.index(_BEGIN) + 1
        parts: list[FilePart] = []
        while self._line.rstrip() != _END:
            if self._line.strip():
                parts.append(self._part())
            else:
                self._at += 1
        self._refuse_more(stripped[self._at + 1 :])
        if not parts:
            raise ToolError(f"The patch names no file. Expected:\n{_FORM}")
        return tuple(parts)

    @property
    def _line(self) -> str:
        if self._at >= len(self._lines):
            raise ToolError(f"The patch has no line `{_END}`, so a part of it may be missing. Nothing was written.")
        return self._lines[self._at]

    def _refuse_more(self, after: Sequence[str]) -> None:
        if any(line.startswith("*** ") for line in after):
            raise ToolError(f"There is more after `{_END}`. Put all files into one patch. Nothing was written.")

    def _wrong(self, what: str) -> ToolError:
        shown = shorten(self._line, _SHOWN)
        return ToolError(f"Line {self._at + 1} of the patch is {shown!r}. {what} Nothing was written.")

    def _part(self) -> FilePart:
        match = _FILE.fullmatch(self._line.rstrip())
        if match is None:
            raise self._wrong("Expected `*** Update File:`, `*** Add File:` or `*** Delete File:` and a path.")
        kind, path = match[1], match[2].strip()
        if not path:
            raise self._wrong("The path is missing.")
        self._at += 1
        if kind == "Delete":
            return FilePart("Delete", path)
        if kind == "Add":
            return FilePart("Add", path, lines=self._new_lines())
        return self._update(path)

    def _new_lines(self) -> tuple[str, ...]:
        lines: list[str] = []
        while not self._line.startswith("***"):
            if self._line.startswith("+"):
                lines.append(self._line[1:])
            elif not self._line.strip():
                lines.append("")  # an empty line without its mark, or an empty line before the next file
            else:
                raise self._wrong("Each line of a new file must begin with +.")
            self._at += 1
        while lines and not self._lines[self._at - 1].startswith("+"):
            lines.pop()
            self._at -= 1
        return tuple(lines)

    def _update(self, path: str) -> FilePart:
        move_to = ""
        if self._line.startswith(_MOVE):
            move_to = self._line.removeprefix(_MOVE).strip()
            if not move_to:
                raise self._wrong("The path is missing.")
            self._at += 1
        hunks: list[Hunk] = []
        while not self._line.startswith("*** "):
            if self._line.strip():
                hunks.append(self._hunk())
            else:
                self._at += 1
        if not move_to and not any(line[0] != " " for hunk in hunks for line in hunk.lines):
            raise ToolError(f"The patch changes nothing in {path}: no line begins with - or +. Nothing was written.")
        return FilePart("Update", path, move_to, hunks=tuple(hunks))

    def _hunk(self) -> Hunk:
        anchors: list[str] = []
        while self._line.startswith("@@"):
            anchor = self._line[2:].strip()
            anchors += [anchor] if anchor and not _NUMBERS.fullmatch(anchor) else []
            self._at += 1
        lines: list[str] = []
        while not self._line.startswith(("***", "@@")):
            if self._line[:1] in (" ", "-", "+"):
                lines.append(self._line)
            elif not self._line:
                lines.append(" ")  # an empty context line that lost its mark
            elif not self._line.startswith("\\ "):  # as in `\ No newline at end of file`
                raise self._wrong("Each line of a hunk must begin with a space (context), - or +.")
            self._at += 1
        place = self._at
        while lines and not self._lines[place - 1]:  # empty lines before the next marker separate it
            lines.pop()
            place -= 1
        at_end = self._line.rstrip() == _END_OF_FILE
        self._at += at_end
        return Hunk(tuple(anchors), tuple(lines), at_end)


class _Line(NamedTuple):
    """A line of the file, and its line ending. `is_new`: the patch adds it."""

    text: str
    ending: str
    is_new: bool = False


def patched(file: TextFile, part: FilePart, name: str) -> str:
    """Apply the hunks and return the new text, with the file's own line endings. Raises ToolError if a hunk does not fit."""
    lines = [_split_ending(line) for line in split_lines(file.text)]
    texts = [line.text for line in lines]
    places: list[tuple[int, Hunk]] = []
    cursor = 0
    for number, hunk in enumerate(part.hunks, 1):
        which = f"{name}, hunk {number} of {len(part.hunks)}" if len(part.hunks) > 1 else name
        start = _Finder(file.text, texts, which).place(hunk, cursor)
        places.append((start, hunk))
        cursor = max(cursor, start + len(hunk.old))
    return _joined(lines, sorted(places, key=lambda place: place[0]), file, name)


def _split_ending(line: str) -> _Line:
    text = line.removesuffix("\n")
    text = text if text == line else text.removesuffix("\r")
    return _Line(text, line[len(text) :])


def _joined(lines: list[_Line], places: list[tuple[int, Hunk]], file: TextFile, name: str) -> str:
    result: list[_Line] = []
    position = 0
    for start, hunk in places:
        if start < position:
            raise ToolError(f"Two hunks for {name} change the same lines. Make one hunk of them. Nothing was written.")
        result += lines[position:start]
        position = start
        for line in hunk.lines:
            if line[0] == "+":
                result.append(_Line(line[1:], file.newline, is_new=True))
                continue
            result += [lines[position]] if line[0] == " " else []
            position += 1
    result += lines[position:]
    if lines and result and result[-1].is_new and not lines[-1].ending:  # the file has no line ending at its end
        result[-1] = _Line(result[-1].text, "")
    inner = "".join(line.text + (line.ending or file.newline) for line in result[:-1])
    return inner + "".join(line.text + line.ending for line in result[-1:])


class _Finder:
    """Finds the places of hunks in one text. `which`: the file and the hunk, for errors."""

    def __init__(self, text: str, lines: list[str], which: str) -> None:
        self._text, self._lines, self._which = text, lines, which

    def place(self, hunk: Hunk, cursor: int) -> int:
        """The index of the hunk's first line. `cursor`: after the hunk before. Raises ToolError without exactly one place.

        After an anchor the first place counts, because that is what the anchor is for.
        """
        anchor: int | None = None
        start, old = cursor, hunk.old
        for wanted in hunk.anchors:
            anchor = self._anchor(wanted, start)
            start = max(start, anchor)
        if not old:
            return len(self._lines) if anchor is None or hunk.at_end else anchor + 1
        last = len(self._lines) - len(old)
        found = [index for index in range(last + 1) if self._lines[index : index + len(old)] == old]
        if hunk.at_end and last in found:
            return last
        is_anchored = anchor is not None and anchor >= cursor
        after = [index for index in found if index >= start]
        places = after if after or is_anchored else found
        if len(places) == 1 or (places and is_anchored):
            return places[0]
        where = listed([str(index + 1) for index in found], _LISTED_LINES)
        if found and not places:
            raise ToolError(f"{self._which}: its lines are not after `@@ {hunk.anchors[-1]}`, but at line {where}.")
        if not places:
            raise ToolError(f"{self._which}: its lines are not in the file.\n{self._hint(old)}")
        raise ToolError(
            f"{self._which}: found {len(places)} places for it, at lines {where}.\n"
            "Add context lines, or a line `@@ def name` that comes before the right one."
        )

    def _anchor(self, anchor: str, start: int) -> int:
        """The first line from `start` on that equals the anchor, spaces around it ignored, otherwise that begins with it.

        A line before `start` is enough if there is none: the hunk before is in the same function.
        """
        stripped = [line.strip() for line in self._lines]
        order: list[int] = [*range(start, len(stripped)), *reversed(range(start))]
        begins = re.compile(re.escape(anchor) + (r"\b" if anchor[-1].isalnum() else ""))
        for index in order:
            if stripped[index] == anchor:
                return index
        for index in order:
            if begins.match(stripped[index]):
                return index
        raise ToolError(f"{self._which}: the line `@@ {anchor}` is not in the file.\n{self._hint([anchor])}")

    def _hint(self, old: list[str]) -> str:
        return closest_match_hint(self._text, "\n".join(old), "the patch")
