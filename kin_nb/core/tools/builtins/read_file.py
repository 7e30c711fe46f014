"""read_file: whole lines of a text file, the cells of a notebook, or a picture."""

from __future__ import annotations

import base64
import codecs
import io
from pathlib import Path
from typing import BinaryIO, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.safety.workspace import Workspace, open_regular
from kin_nb.core.tools.base import Accesses, BaseTool, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.builtins.notebook_text import notebook_text
from kin_nb.core.tools.builtins.text_file import decode
from kin_nb.core.tools.images import LARGEST as LARGEST_PICTURE
from kin_nb.core.types import ImageContent

MOST_BYTES = 64_000
MOST_CHARACTERS = 39_500
"""40,000 reach the model, less the room for what is said about them."""
_HEAD = 8_192
_LONGEST_PIECE = 65_536
_LARGEST_NOTEBOOK = 50_000_000
_PICTURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif"}


class ReadFileArgs(BaseModel):
    path: str = Field(description="File, relative to the workspace")
    offset: int = Field(0, ge=0, description="First line, counted from 0")
    limit: int | None = Field(None, ge=1, description="Most lines; all that fit when absent")


class ReadFileResult(BaseModel):
    """`content`: whole lines, CRLF as LF. `was_truncated`: more lines follow. `next_offset`: the first of them."""

    path: str
    content: str
    lines_read: int
    next_offset: int
    was_truncated: bool
    encoding: str = "utf-8"
    notice: str | None = None
    """Why there is no content, when there is none."""
    is_notebook: bool = False
    picture: ImageContent | None = None


class ReadFile(BaseTool[ReadFileArgs, ReadFileResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Read a text file"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: ReadFileArgs) -> Accesses:
        return Accesses(reads=(args.path,))

    def preview(self, args: ReadFileArgs) -> Preview:
        part = f" from line {args.offset + 1}" if args.offset else ""
        return Preview(summary=f"read {args.path}{part}", body=args.model_dump_json(indent=2, exclude_none=True))

    async def run(self, args: ReadFileArgs) -> ReadFileResult:
        """Raises ToolError for what is no regular file, is binary, or has one line that is too long to return."""
        workspace = Workspace(self.config.effective_workdir)
        path = workspace.resolve(args.path)
        name = workspace.relative(path)
        with open_regular(path, name) as file:
            head = file.read(_HEAD)
            kind = _picture_kind(head)
            if kind:
                return _picture(file, head, kind, name)
            _refuse_binary(file, head, name)
            cells = _cells(file) if path.suffix == ".ipynb" else None
            source: BinaryIO = file if cells is None else io.BytesIO(cells.encode("utf-8", "replace"))
            skipped = _skip_lines(source, args.offset)
            content, lines, more = _whole_lines(source, args.limit)
        if more and not lines:
            raise ToolError(
                f"Line {args.offset + 1} of {name} is too long to return ({MOST_CHARACTERS:,} characters at most). "
                "Use bash (cut, head -c) to see a part of it."
            )
        text, encoding = decode(content.removeprefix(codecs.BOM_UTF8) if args.offset == 0 else content)
        notice = None
        if not lines:
            notice = (
                f"{name} has {skipped:,} lines; offset {args.offset} is past the end."
                if args.offset
                else f"{name} is empty."
            )
        return ReadFileResult(
            path=name,
            content=text.replace("\r\n", "\n"),
            lines_read=lines,
            next_offset=args.offset + lines,
            was_truncated=more,
            encoding=encoding,
            notice=notice,
            is_notebook=cells is not None,
        )

    def images(self, result: ReadFileResult) -> list[ImageContent]:
        return [result.picture] if result.picture else []

    def to_model(self, result: ReadFileResult) -> str:
        if result.notice:
            return f"[{result.notice}]"
        said = ["[not UTF-8: read as Latin-1]"] if result.encoding != "utf-8" else []
        if result.is_notebook:
            said.append("[a notebook, shown as cells; the file itself is JSON, and that is what edits have to match]")
        if result.was_truncated:
            said.append(f"[more lines follow; go on with offset={result.next_offset}]")
        return "\n".join([result.content.removesuffix("\n"), *said]) if said else result.content


def _picture_kind(head: bytes) -> str | None:
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    return next((kind for mark, kind in _PICTURES.items() if head.startswith(mark)), None)


def _picture(file: BinaryIO, head: bytes, kind: str, name: str) -> ReadFileResult:
    content = head + file.read(LARGEST_PICTURE + 1 - len(head))
    if len(content) > LARGEST_PICTURE:
        raise ToolError(f"{name} is a picture of more than {LARGEST_PICTURE:,} bytes; make a smaller copy with bash.")
    picture = ImageContent(media_type=f"image/{kind}", data=base64.b64encode(content).decode())
    notice = f"{name} is a {kind.upper()} picture of {len(content):,} bytes; it comes with this result."
    return ReadFileResult(
        path=name, content="", lines_read=0, next_offset=0, was_truncated=False, notice=notice, picture=picture
    )


def _refuse_binary(file: BinaryIO, head: bytes, name: str) -> None:
    if b"\0" in head:
        size = file.seek(0, 2)
        raise ToolError(f"{name} is a binary file ({size:,} bytes).")
    file.seek(0)


def _cells(file: BinaryIO) -> str | None:
    """A notebook's cells as text; None, with the file at its beginning, for what is none."""
    content = file.read(_LARGEST_NOTEBOOK + 1)
    file.seek(0)
    return notebook_text(content) if len(content) <= _LARGEST_NOTEBOOK else None


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Go past `count` lines, or to the end of the file; how many there were. Long lines are read in pieces."""
    skipped, inside = 0, False
    while skipped < count and (piece := file.readline(_LONGEST_PIECE)):
        inside = not piece.endswith(b"\n")
        skipped += not inside
    return skipped + inside


def _whole_lines(file: BinaryIO, limit: int | None) -> tuple[bytes, int, bool]:
    """Lines from here on, as many as fit: their bytes, their number, and whether more follow."""
    content, lines, characters = bytearray(), 0, 0
    while line := file.readline(MOST_BYTES + 1):
        characters += len(decode(line)[0])
        fits = len(content) + len(line) <= MOST_BYTES and characters <= MOST_CHARACTERS
        if not fits or lines == limit:
            return bytes(content), lines, True
        content += line
        lines += 1
    return bytes(content), lines, False
