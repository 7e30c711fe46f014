"""Text files that the model reads and changes.

An edit keeps a file's encoding, byte order mark, line endings and mode. `SeenFiles` knows which files the model has read, and
whether they are still what it read. A file is recognised by its inode, size and times: to read a part of a large file must not
cost a look at all of it. The time of change (ctime) cannot be set back by the writer.
"""

from __future__ import annotations

import codecs
import difflib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kin_nb.core import safe_fs
from kin_nb.core.config.secrets import key_values
from kin_nb.core.redaction import SECRET, secrets_redactor
from kin_nb.core.tool_types import BaseToolState, Preview, ToolError
from kin_nb.core.tools.call_context import call_context
from kin_nb.core.workspace import error_text, read_bytes

if TYPE_CHECKING:
    from kin_nb.core.tools.manager import ToolManager


LARGEST = 10_000_000
"""Bytes of the largest file that the editing tools change."""

_LATIN_1_END = 256


@dataclass(frozen=True)
class TextFile:
    """A file's text, with the line endings that it has on disk. `encoding`: utf-8, or latin-1 for whatever is not."""

    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @property
    def newline(self) -> str:
        """The line ending that most lines have."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf > self.text.count("\n") - crlf else "\n"

    def encode(self) -> bytes:
        """Raises ToolError when the text cannot be written in the file's encoding."""
        try:
            content = self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            raise ToolError(f"{character!r} cannot be written in this file's encoding, {self.encoding}.") from error
        return codecs.BOM_UTF8 + content if self.bom else content


def read_text(path: Path, name: str) -> TextFile:
    """Raises ToolError for what is no regular file, is binary (holds a NUL byte), or is larger than LARGEST."""
    content = read_bytes(path, LARGEST, name)
    if b"\0" in content:
        raise ToolError(f"{name} is a binary file ({len(content):,} bytes).")
    bom = content.startswith(codecs.BOM_UTF8)
    text, encoding = decode(content.removeprefix(codecs.BOM_UTF8) if bom else content)
    return TextFile(text, encoding, bom)


def decode(content: bytes) -> tuple[str, str]:
    """The text and its encoding: UTF-8, else Latin-1, which gives every byte back."""
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def write_atomically(path: Path, content: bytes, name: str) -> os.stat_result:
    """Replace `path` in one step, keeping its mode; make it, and the folders above it, when it is new.

    `path` is resolved already: no link in it is followed. Returns the file's status. Raises ToolError, with the old file
    untouched, when it cannot be written. A hard link to it keeps the old content.
    """
    try:
        with safe_fs.folder_of(path, make=True) as (folder, own):
            mode = _mode_to_keep(folder, own, name)
            safe_fs.replace_file(folder, own, content, mode)
            return os.stat(own, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise ToolError(f"{name} could not be written: {error_text(error)}.") from error


def _mode_to_keep(folder: int, own: str, name: str) -> int | None:
    """The mode of the file that is there, None for a new one. Raises ToolError when it may not be replaced."""
    try:
        status = os.stat(own, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{name} is not a regular file any more. Nothing was written.")
    if not os.access(own, os.W_OK, dir_fd=folder):
        raise ToolError(f"{name} is read-only.")
    return stat.S_IMODE(status.st_mode)


def in_the_manner_of(before: TextFile, content: str) -> TextFile:
    """New content for a file, with its byte order mark, its line endings and, where that can hold it, its encoding."""
    text = _lf(content).replace("\n", before.newline) if "\r" not in content else content
    fits = before.encoding == "utf-8" or all(ord(character) < _LATIN_1_END for character in text)
    return TextFile(text, before.encoding if fits else "utf-8", before.bom)


def refuse_lost_secret(before: str, after: str, name: str) -> None:
    """Raises ToolError where `after` has a placeholder in the place of a secret of `before`, which the model was not shown."""
    if after.count(SECRET) > before.count(SECRET):
        shown = secrets_redactor(key_values()).text(before)
        if shown.count(SECRET) > before.count(SECRET):
            raise ToolError(
                f"{SECRET} stands for a secret in {name} that you are not shown, and writing it would delete that secret.\n"
                "Change the other lines with edit_file."
            )


def find(text: str, old: str) -> list[tuple[int, int]]:
    """Where `old` occurs in `text`, overlapping places too, as (start, end). Any line ending equals any other."""
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in _lf(old).split("\n")))
    places = []
    match = pattern.search(text)
    while match:
        places.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return places


def replaced(file: TextFile, places: list[tuple[int, int]], new: str) -> str:
    """The text with each place, first to last, turned into `new`, in the file's own line endings.

    Whole lines that are replaced by nothing take their line ending with them.
    """
    new = _lf(new).replace("\n", file.newline)
    pieces, position, taken = [], 0, 0
    for place in places:
        if place[0] < taken:  # of two that overlap, the first
            continue
        start, end = place if new else _with_line_ending(file.text, place)
        pieces += [file.text[position : max(start, position)], new]
        position, taken = end, place[1]
    return "".join([*pieces, file.text[position:]])


def is_whole_lines(text: str, place: tuple[int, int]) -> bool:
    """Whether the place begins and ends where lines do, without its last line ending."""
    start, end = place
    return (start == 0 or text[start - 1] == "\n") and (end == len(text) or text.startswith(("\n", "\r\n"), end))


def _with_line_ending(text: str, place: tuple[int, int]) -> tuple[int, int]:
    """The line ending after whole lines, or, at the end of the file, the one before them."""
    start, end = place
    if not is_whole_lines(text, place) or text.endswith("\n", start, end):
        return place
    for ending in ("\r\n", "\n"):
        if text.startswith(ending, end):
            return start, end + len(ending)
    for ending in ("\r\n", "\n"):
        if text.endswith(ending, 0, start):
            return start - len(ending), end
    return place


def line_number(text: str, position: int) -> int:
    """Counted from 1."""
    return text.count("\n", 0, position) + 1


def line_numbers(text: str, places: list[tuple[int, int]]) -> str:
    """The lines where the places begin, in words: "lines 3, 17, 40 and 12 more"."""
    shown = 10
    listed = ", ".join(str(line_number(text, start)) for start, _ in places[:shown])
    word = "line" if len(places) == 1 else "lines"
    return f"{word} {listed}" + (f" and {len(places) - shown} more" if len(places) > shown else "")


def diff_preview(verb: str, name: str, before: str, after: str) -> Preview:
    """What an edit would change, as a unified diff; nothing is written."""
    body = unified_diff(name, before, after)
    lines = body.split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return Preview(summary=f"{verb} {name} (+{added} -{removed})", body=body, kind="diff", texts=(before, after))


def failing_preview(verb: str, name: str, error: ToolError, arguments: str) -> Preview:
    """The call as it would fail: one line with the reason, and its arguments as JSON."""
    reason = str(error).split("\n", 1)[0]
    return Preview(summary=f"{verb} {name}: will fail: {reason}", body=arguments)


def unified_diff(name: str, before: str, after: str) -> str:
    """In git's form, "" when nothing changes; CRLF is drawn as LF, since edits keep it."""
    diff = difflib.unified_diff(lines_of(before), lines_of(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff)


def lines_of(text: str) -> list[str]:
    """Split into lines with their line endings, CRLF as LF."""
    return split_lines(_lf(text))


def split_lines(text: str) -> list[str]:
    """Split into lines with their own line endings; a form feed or a lone CR belongs to its line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


READER = "read_file"
"""The tool whose state is `SeenFiles`."""
_OTHER = (0, 0, 0, 0)
"""The stamp of no file: what is there is not what the model saw."""


class SeenFiles(BaseToolState):
    """What read_file remembers for the session. Paths are resolved. A file that was never read is no stale one."""

    stamps: dict[Path, tuple[int, int, int, int]] = Field(default_factory=dict)

    def note(self, path: Path, status: os.stat_result | None = None) -> None:
        """The model knows the file as it is now, or as it was when it had `status`."""
        self.stamps[path] = _stamp(path.stat() if status is None else status)

    def note_as_of(self, path: Path, milliseconds: int) -> None:
        """The model knew the file as it was then, of time.time: its time of change tells whether it still is that."""
        try:
            status = path.stat()
        except OSError:
            self.stamps[path] = _OTHER
            return
        self.stamps[path] = _stamp(status) if status.st_ctime_ns < (milliseconds + 1) * 1_000_000 else _OTHER

    def is_stale(self, path: Path) -> bool:
        if path not in self.stamps:
            return False
        try:
            return _stamp(path.stat()) != self.stamps[path]
        except OSError:
            return False  # it is gone: that is said otherwise


def refuse_stale(path: Path, name: str) -> None:
    """Check before the whole of a file is replaced. Raises ToolError when it has changed since the model read it."""
    if said := stale_note(path, name):
        raise ToolError(f"{said} Nothing was written: read it again first, or what is new in it is lost.")


def stale_note(path: Path, name: str) -> str:
    """Return a sentence for the model when the file is not what it read, else ""."""
    seen = _seen()
    return f"{name} has changed since you read it." if seen is not None and seen.is_stale(path) else ""


def note_written(path: Path, status: os.stat_result, *, known: bool) -> None:
    """The model has just written `path`. `known`: it knows all that is in it now, as it did before."""
    seen = _seen()
    if seen is not None and known:
        seen.note(path, status)


def is_known(path: Path) -> bool:
    """Whether the model has read `path`, and it is still what it read."""
    seen = _seen()
    return seen is not None and path in seen.stamps and not seen.is_stale(path)


def _seen() -> SeenFiles | None:
    """The session's SeenFiles; None outside a session, and where the model cannot read files."""
    call = call_context.get()
    return None if call is None else seen_by(call.tools)


def seen_by(tools: ToolManager) -> SeenFiles | None:
    """None where the model cannot read files."""
    if READER not in tools.available_tools():
        return None
    state = tools.get(READER).state
    return state if isinstance(state, SeenFiles) else None


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
