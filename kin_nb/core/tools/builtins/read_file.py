"""read_file: read whole lines of a text file, the cells of a notebook, or an image."""

from __future__ import annotations

import base64
import codecs
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.messages import ImageContent
from kin_nb.core.text import counted
from kin_nb.core.tool_types import Accesses, BaseToolConfig, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.path_arguments import FilePath, resolve_existing
from kin_nb.core.tools.builtins.text_file import SeenFiles, decode
from kin_nb.core.tools.truncation import LARGEST_PICTURE
from kin_nb.core.workspace import Workspace, open_regular

MOST_LINES = 1_000
"""Lines in one result if the call sets no limit."""
MOST_BYTES = 64_000
MOST_CHARACTERS = 39_500
"""With line numbers. The limit of a result is 40,000; the rest is for the notes below the lines."""
_HEAD = 8_192
_LONGEST_PIECE = 65_536
_COUNTED = 100_000_000
"""Bytes after the returned part in which lines are counted."""
_LARGEST_NOTEBOOK = 50_000_000
_PICTURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif"}


class ReadFileArgs(BaseModel):
    path: FilePath
    offset: int = Field(1, ge=0, description="First line to return, counted from 1 as in grep and tracebacks")
    limit: int | None = Field(
        None,
        ge=1,
        description=f"Maximum number of lines (default {MOST_LINES:,}). 100 to 200 are enough around a match",
    )


class ReadFileResult(BaseModel):
    """`content`: whole lines without numbers, CRLF as LF. `was_truncated`: more lines follow.

    `first_line`: 1-based. `total_lines`: None if the file is too large to count them.
    """

    path: str
    content: str
    lines_read: int
    was_truncated: bool
    first_line: int = 1
    total_lines: int | None = None
    encoding: str = "utf-8"
    notice: str | None = None
    """The reason if there is no content."""
    is_notebook: bool = False
    picture: ImageContent | None = None


class ReadFile(BaseTool[ReadFileArgs, ReadFileResult, BaseToolConfig, SeenFiles]):
    description: ClassVar[str] = "Read a text file"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: ReadFileArgs) -> Accesses:
        return Accesses(reads=(args.path,))

    def preview(self, args: ReadFileArgs) -> Preview:
        part = f" from line {args.offset}" if args.offset > 1 else ""
        return Preview(summary=f"read {args.path}{part}", body=args.model_dump_json(indent=2, exclude_none=True))

    async def run(self, args: ReadFileArgs) -> ReadFileResult:
        """Raises ToolError if it is not a regular file, is binary, or has a line that is too long to return."""
        path, name = resolve_existing(Workspace(self.config.effective_workdir), args.path)
        with open_regular(path, name) as file:
            self.state.note(path, os.fstat(file.fileno()))
            head = file.read(_HEAD)
            kind = picture_kind(head)
            if kind:
                return _picture(file, head, kind, name)
            _refuse_binary(file, head, name)
            cells = _cells(file) if path.suffix == ".ipynb" else None
            source: BinaryIO = file if cells is None else io.BytesIO(cells.encode("utf-8", "replace"))
            return _text(source, args, name, is_notebook=cells is not None)

    def images(self, result: ReadFileResult) -> list[ImageContent]:
        return [result.picture] if result.picture else []

    def to_model(self, result: ReadFileResult) -> str:
        if result.notice:
            return f"[{result.notice}]"
        lines = result.content.removesuffix("\n").split("\n")
        if not result.is_notebook:  # the file of a notebook is JSON: its line numbers do not match the cells' lines
            lines = [_numbered(number, line) for number, line in enumerate(lines, result.first_line)]
        return "\n".join([*lines, *_notes(result)])


def _text(source: BinaryIO, args: ReadFileArgs, name: str, *, is_notebook: bool) -> ReadFileResult:
    first = max(1, args.offset)
    skipped = _skip_lines(source, first - 1)
    content, lines, more = _whole_lines(source, first, args.limit or MOST_LINES)
    if more and not lines:
        raise ToolError(
            f"Line {first} of {name} is too long to return (limit: {MOST_CHARACTERS:,} characters).\n"
            "Use bash (cut, head -c) to see a part of it."
        )
    text, encoding = decode(content.removeprefix(codecs.BOM_UTF8) if first == 1 else content)
    notice = None
    if not lines:
        past = f"{name} has {counted(skipped, 'line')}; offset {first} is past the end."
        notice = past if first > 1 else f"{name} is empty."
    rest = _count_lines(source) if more else 0
    return ReadFileResult(
        path=name,
        content=text.replace("\r\n", "\n"),
        lines_read=lines,
        was_truncated=more,
        first_line=first,
        total_lines=None if rest is None else skipped + lines + rest,
        encoding=encoding,
        notice=notice,
        is_notebook=is_notebook,
    )


def _numbered(number: int, line: str) -> str:
    return f"{number:>6}\t{line}"  # the format of `cat -n`


def _notes(result: ReadFileResult) -> Iterator[str]:
    """The lines in brackets below the content; none for a whole UTF-8 text file."""
    if result.encoding != "utf-8":
        yield "[not UTF-8: read as Latin-1]"
    if result.is_notebook:
        yield "[a notebook, shown as its cells; the file itself is JSON, and edits must match that]"
    last = result.first_line + result.lines_read - 1
    if result.first_line > 1 or result.was_truncated:
        total = f"{result.total_lines:,}" if result.total_lines is not None else "very many"
        on = f"; continue with offset={last + 1}" if result.was_truncated else ""
        yield f"[lines {result.first_line}-{last} of {total}{on}]"


def picture_kind(head: bytes) -> str | None:
    """The image format by a file's first bytes: png, jpeg, gif, webp or None."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    return next((kind for mark, kind in _PICTURES.items() if head.startswith(mark)), None)


def _picture(file: BinaryIO, head: bytes, kind: str, name: str) -> ReadFileResult:
    content = head + file.read(LARGEST_PICTURE + 1 - len(head))
    if len(content) > LARGEST_PICTURE:
        raise ToolError(f"{name} is an image of more than {LARGEST_PICTURE:,} bytes. Make a smaller copy with bash.")
    picture = ImageContent(media_type=f"image/{kind}", data=base64.b64encode(content).decode())
    notice = f"{name} is a {kind.upper()} image of {len(content):,} bytes; it is attached to this result."
    return ReadFileResult(path=name, content="", lines_read=0, was_truncated=False, notice=notice, picture=picture)


def _refuse_binary(file: BinaryIO, head: bytes, name: str) -> None:
    if b"\0" in head:
        size = file.seek(0, 2)
        raise ToolError(f"{name} is a binary file ({size:,} bytes).")
    file.seek(0)


def _cells(file: BinaryIO) -> str | None:
    """A notebook's cells as text; None, with the file at its beginning, if it is not a notebook."""
    content = file.read(_LARGEST_NOTEBOOK + 1)
    file.seek(0)
    return notebook_text(content) if len(content) <= _LARGEST_NOTEBOOK else None


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Skip `count` lines, or all there are, and return the number. Long lines are read in pieces."""
    skipped, inside = 0, False
    while skipped < count and (piece := file.readline(_LONGEST_PIECE)):
        inside = not piece.endswith(b"\n")
        skipped += not inside
    return skipped + inside


def _whole_lines(file: BinaryIO, first: int, limit: int) -> tuple[bytes, int, bool]:
    """Read as many lines as fit: their bytes, their number, and whether more follow. The file's position is after them."""
    content, lines, characters = bytearray(), 0, 0
    while line := file.readline(MOST_BYTES + 1):
        characters += len(_numbered(first + lines, decode(line)[0]))
        fits = len(content) + len(line) <= MOST_BYTES and characters <= MOST_CHARACTERS
        if not fits or lines == limit:
            file.seek(-len(line), io.SEEK_CUR)
            return bytes(content), lines, True
        content += line
        lines += 1
    return bytes(content), lines, False


def _count_lines(file: BinaryIO) -> int | None:
    """The number of remaining lines; None after more than _COUNTED bytes."""
    count, last, left = 0, b"\n", _COUNTED
    while piece := file.read(min(left, 1 << 20)):
        count, last, left = count + piece.count(b"\n"), piece[-1:], left - len(piece)
    return count + (last != b"\n") if left else None


LONGEST_OUTPUT = 1_000
"""Characters of one output that are shown."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def notebook_text(content: bytes) -> str | None:
    """The cells as text; None if it is not a notebook with cells, which is then read as a plain file."""
    try:
        notebook = json.loads(content)
    except (ValueError, RecursionError):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return None
    return "\n".join(cell_text(number, _mapping(cell)) for number, cell in enumerate(cells, 1))


def cell_text(number: int, cell: dict[str, Any], longest: int = LONGEST_OUTPUT) -> str:
    """One cell and its outputs, with a final newline."""
    source = _notebook_string(cell.get("source"))
    outputs = cell.get("outputs")
    shown = [_output(_mapping(output), longest) for output in outputs] if isinstance(outputs, list) else []
    parts = [f"[cell {number}: {_notebook_string(cell.get('cell_type'))}]", source, *shown]
    return "\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _output(output: dict[str, Any], longest: int) -> str:
    if output.get("output_type") == "error":
        text = f"{_notebook_string(output.get('ename'))}: {_notebook_string(output.get('evalue'))}"
    else:
        data = _mapping(output.get("data"))
        text = _notebook_string(output.get("text")) or _notebook_string(data.get("text/plain"))
        others = [kind for kind in data if kind.startswith("image/")]
        text = "\n".join(filter(None, (text.rstrip("\n"), *(f"({kind})" for kind in others))))
    text = _COLOR.sub("", text)
    left_out = len(text) - longest
    cut = f"{text[:longest]}\n[… {left_out:,} characters left out …]" if left_out > 0 else text
    return f"[output]\n{cut}" if cut else ""


def _notebook_string(value: Any) -> str:
    """A text of the notebook format: a string or a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
