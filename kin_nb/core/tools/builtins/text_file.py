"""Text files that the model reads and changes.

An edit keeps a file's encoding, byte order mark, line endings and mode. `SeenFiles` records which files the model has read, and
detects whether they have changed since. It compares inode, size and times, so that reading a part of a large file does not
require reading all of it. A writer cannot set the time of change (ctime) to an earlier value.
"""

from __future__ import annotations

import codecs
import difflib
import os
import re
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kin_nb.core import safe_fs
from kin_nb.core.config.secrets import key_values
from kin_nb.core.redaction import SECRET, secrets_redactor
from kin_nb.core.syntax_check import syntax_note
from kin_nb.core.text import first_line, listed
from kin_nb.core.tool_types import BaseToolState, Preview, ToolError
from kin_nb.core.tools.call_context import call_context
from kin_nb.core.workspace import error_text, read_bytes

if TYPE_CHECKING:
    from kin_nb.core.tools.manager import ToolManager


LARGEST = 10_000_000
"""Bytes of the largest file that the editing tools change."""

_LATIN_1_END = 256
_LISTED_LINES = 10


@dataclass(frozen=True)
class TextFile:
    """A file's text, with its line endings on disk. `encoding`: utf-8, or latin-1 if it is not UTF-8."""

    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @property
    def newline(self) -> str:
        """The most frequent line ending."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf > self.text.count("\n") - crlf else "\n"

    def encode(self) -> bytes:
        """Raises ToolError if the file's encoding cannot represent the text."""
        try:
            content = self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            raise ToolError(
                f"This file's encoding, {self.encoding}, cannot represent {character!r}. Nothing was written."
            ) from error
        return codecs.BOM_UTF8 + content if self.bom else content


def read_text(path: Path, name: str) -> TextFile:
    """Read a file. Raises ToolError if it is not a regular file, is binary (has a NUL byte), or is larger than LARGEST."""
    return text_of(read_bytes(path, LARGEST, name), name)


def text_of(content: bytes, name: str) -> TextFile:
    """Decode the content of a file. Raises ToolError if it is binary (has a NUL byte)."""
    if b"\0" in content:
        raise ToolError(f"{name} is a binary file ({len(content):,} bytes).")
    bom = content.startswith(codecs.BOM_UTF8)
    text, encoding = decode(content.removeprefix(codecs.BOM_UTF8) if bom else content)
    return TextFile(text, encoding, bom)


def decode(content: bytes) -> tuple[str, str]:
    """The text and its encoding: UTF-8, otherwise Latin-1, which preserves every byte."""
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def write_atomically(path: Path, content: bytes, name: str, *, mode: int | None = None) -> os.stat_result:
    """Replace `path` in one step and keep its mode; create it, with missing folders, if it is new. Return its status.

    `mode`: of a new file; None for the default, less the umask. `path` must be resolved: links in it are not followed. A hard
    link to the file keeps the old content. Raises ToolError, with the old file unchanged, if it cannot be written.
    """
    try:
        with safe_fs.folder_of(path, make=True) as (folder, own):
            kept = _mode_to_keep(folder, own, name)
            safe_fs.replace_file(folder, own, content, mode if kept is None else kept)
            return os.stat(own, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise ToolError(f"Cannot write {name}: {error_text(error)}.") from error


def remove(path: Path, name: str) -> None:
    """Delete a file. `path` must be resolved: links in it are not followed. Raises ToolError if it cannot be deleted."""
    try:
        with safe_fs.folder_of(path) as (folder, own):
            _mode_to_keep(folder, own, name)
            os.unlink(own, dir_fd=folder)
    except OSError as error:
        raise ToolError(f"Cannot delete {name}: {error_text(error)}.") from error


def _mode_to_keep(folder: int, own: str, name: str) -> int | None:
    """The mode of the existing file, None for a new one. Raises ToolError if the file must not be replaced."""
    try:
        status = os.stat(own, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{name} is not a regular file any more. Nothing was written.")
    if not os.access(own, os.W_OK, dir_fd=folder):
        raise ToolError(f"{name} is read-only. Nothing was written.")
    return stat.S_IMODE(status.st_mode)


def with_format_of(before: TextFile, content: str) -> TextFile:
    """New content with a file's byte order mark, line endings and, if it can represent the text, encoding."""
    text = _lf(content).replace("\n", before.newline) if "\r" not in content else content
    fits = before.encoding == "utf-8" or all(ord(character) < _LATIN_1_END for character in text)
    return TextFile(text, before.encoding if fits else "utf-8", before.bom)


def refuse_lost_secret(before: str, after: str, name: str) -> None:
    """Raises ToolError if `after` has a placeholder in the place of a secret of `before`, which the model never saw."""
    if after.count(SECRET) > before.count(SECRET):
        shown = secrets_redactor(key_values()).text(before)
        if shown.count(SECRET) > before.count(SECRET):
            raise ToolError(
                f"{SECRET} is a placeholder for a hidden secret in {name}; writing it would delete that secret.\n"
                "Change the other lines with edit_file."
            )


def find(text: str, old: str) -> list[tuple[int, int]]:
    """All places of `old` in `text` as (start, end), overlapping ones too. All line endings are equal."""
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in _lf(old).split("\n")))
    places = []
    match = pattern.search(text)
    while match:
        places.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return places


def replaced(file: TextFile, places: list[tuple[int, int]], new: str) -> str:
    """Replace each place, in order, with `new` in the file's own line endings, and return the text.

    If `new` is empty, the line ending of whole lines is removed with them.
    """
    new = _lf(new).replace("\n", file.newline)
    pieces, position, taken = [], 0, 0
    for place in places:
        if place[0] < taken:  # it overlaps the place before it
            continue
        start, end = place if new else _with_line_ending(file.text, place)
        pieces += [file.text[position : max(start, position)], new]
        position, taken = end, place[1]
    return "".join([*pieces, file.text[position:]])


def is_whole_lines(text: str, place: tuple[int, int]) -> bool:
    """Whether the place starts at the beginning of a line and stops at the end of one, before its line ending."""
    start, end = place
    return (start == 0 or text[start - 1] == "\n") and (end == len(text) or text.startswith(("\n", "\r\n"), end))


def _with_line_ending(text: str, place: tuple[int, int]) -> tuple[int, int]:
    """Extend whole lines by the line ending after them or, at the end of the file, by the one before them."""
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
    """The 1-based number of the line at `position`."""
    return text.count("\n", 0, position) + 1


def line_numbers(text: str, places: list[tuple[int, int]]) -> str:
    """The lines where the places begin, as text: "lines 3, 17, 40 and 12 more"."""
    word = "line" if len(places) == 1 else "lines"
    return f"{word} {listed([str(line_number(text, start)) for start, _ in places], _LISTED_LINES)}"


def diff_preview(verb: str, name: str, before: str, after: str) -> Preview:
    """Preview of an edit as a unified diff; nothing is written."""
    body = unified_diff(name, before, after)
    lines = body.split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    summary, note = f"{verb} {name} (+{added} -{removed})", syntax_note(name, before, after)
    return Preview(summary=summary, body=body, kind="diff", texts=(before, after), note=note)


def failing_preview(verb: str, name: str, error: ToolError, arguments: str) -> Preview:
    """Preview of a call that will fail: the reason on one line, and the arguments as JSON."""
    return Preview(summary=f"{verb} {name}: will fail: {first_line(str(error))}", body=arguments, error=str(error))


def unified_diff(name: str, before: str, after: str, *, old_name: str = "") -> str:
    """A unified diff in git's form, "" without a change. CRLF is shown as LF, since edits keep line endings.

    `old_name`: the name before, if it was another one.
    """
    diff = difflib.unified_diff(lines_of(before), lines_of(after), f"a/{old_name or name}", f"b/{name}")
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
_CHANGED = (0, 0, 0, 0)
"""The stamp of no file: the file differs from what the model saw."""


class SeenFiles(BaseToolState):
    """The files that the model has read in this session, by resolved path. A file that was never read is not stale."""

    stamps: dict[Path, tuple[int, int, int, int]] = Field(default_factory=dict)

    def note(self, path: Path, status: os.stat_result | None = None) -> None:
        """Record that the model knows the file as it is now, or as it was with `status`."""
        self.stamps[path] = _stamp(path.stat() if status is None else status)

    def note_as_of(self, path: Path, milliseconds: int) -> None:
        """Record that the model knew the file at `milliseconds` (of time.time). The ctime shows whether it changed since."""
        try:
            status = path.stat()
        except OSError:
            self.stamps[path] = _CHANGED
            return
        self.stamps[path] = _stamp(status) if status.st_ctime_ns < (milliseconds + 1) * 1_000_000 else _CHANGED

    def unchanged(self) -> frozenset[Path]:
        """The files that are as the model knows them."""
        return frozenset(path for path, stamp in self.stamps.items() if _stamp_of(path) == stamp)

    def note_restored(self, paths: Iterable[Path], known: Collection[Path]) -> None:
        """Update after an undo wrote or deleted files. `known`: those whose content the model knows, before or after it."""
        for path in paths:
            stamp = _stamp_of(path)
            if stamp is None:
                self.stamps.pop(path, None)
            elif path in known:
                self.stamps[path] = stamp

    def is_stale(self, path: Path) -> bool:
        stamp = _stamp_of(path)
        return path in self.stamps and stamp not in {
            None,
            self.stamps[path],
        }  # a missing file has its own error message


def refuse_stale(path: Path, name: str) -> None:
    """Check before a whole file is replaced. Raises ToolError if it has changed since the model read it."""
    if note := stale_note(path, name):
        raise ToolError(f"{note} Nothing was written.\nRead it again first, so that its new content is not lost.")


def stale_note(path: Path, name: str) -> str:
    """A sentence for the model if the file has changed since it was read, otherwise ""."""
    seen = _seen()
    return f"{name} has changed since you read it." if seen is not None and seen.is_stale(path) else ""


def note_written(path: Path, status: os.stat_result, *, known: bool) -> None:
    """Record that the model has just written `path`. `known`: it knows the whole content, as it did before."""
    seen = _seen()
    if seen is not None and known:
        seen.note(path, status)


def note_if_unchanged(path: Path, content: bytes | None) -> None:
    """Record that the model knows `path`, whose content it knew, if that is still its content."""
    try:
        if content is not None and read_bytes(path, LARGEST) == content:
            note_written(path, path.stat(), known=True)
    except (OSError, ToolError):
        return


def is_known(path: Path) -> bool:
    """Whether the model has read `path`, and it has not changed since."""
    seen = _seen()
    return seen is not None and path in seen.stamps and not seen.is_stale(path)


def _seen() -> SeenFiles | None:
    """The session's SeenFiles; None outside a session, and if the model cannot read files."""
    call = call_context.get()
    return None if call is None else seen_by(call.tools)


def seen_by(tools: ToolManager) -> SeenFiles | None:
    """The state of read_file; None if the model cannot read files."""
    if READER not in tools.available_tools():
        return None
    state = tools.get(READER).state
    return state if isinstance(state, SeenFiles) else None


def _stamp_of(path: Path) -> tuple[int, int, int, int] | None:
    """The stamp of the file as it is now, None if it cannot be read."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
