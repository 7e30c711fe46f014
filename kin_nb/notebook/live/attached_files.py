"""`@path`: a file's text, a picture, a folder's listing. What may hold secrets is never read."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from kin_nb.core.safety.workspace import Workspace, error_text, open_regular, read_bytes
from kin_nb.core.tools.base import ToolError
from kin_nb.core.tools.builtins.names import printable
from kin_nb.core.tools.builtins.notebook_text import notebook_text
from kin_nb.core.tools.builtins.read_file import picture_kind
from kin_nb.core.tools.builtins.text_file import decode
from kin_nb.core.tools.images import LARGEST
from kin_nb.core.types import ImageContent
from kin_nb.notebook.live.describing import counted, in_bytes
from kin_nb.notebook.live.pictures import fitted

LONGEST = 40_000
"""Bytes of one file's text."""
MOST_ENTRIES = 200
_HEAD = 8_192
_LARGEST_NOTEBOOK = 50_000_000


def file_or_folder(written: str, workspace: Workspace) -> tuple[str, str, ImageContent | None]:
    """(what it is in a few words, its text, its picture). Raises ToolError with the reason why it is not attached."""
    path = workspace.resolve(written)
    why = workspace.is_sensitive(workspace.root / written)
    if why:
        raise ToolError(why)
    if path.is_dir():
        return _folder(path)
    with open_regular(path, written) as file:
        size, content = os.fstat(file.fileno()).st_size, file.read(LONGEST + 1)
    kind = picture_kind(content)
    if kind is not None:
        picture, why = fitted(_picture(path, kind, written))
        if picture is None:
            raise ToolError(why)
        return f"{kind.upper()} picture, {in_bytes(size)}", "", picture
    if b"\0" in content[:_HEAD]:
        raise ToolError(f"it is a binary file of {in_bytes(size)}")
    text = _cells(path, written) if path.suffix == ".ipynb" else None
    return in_bytes(size), _cut(content, size) if text is None else _cut(text.encode(), len(text.encode())), None


def _folder(path: Path) -> tuple[str, str, None]:
    try:
        with os.scandir(path) as scan:
            names = sorted(printable(entry.name) + ("/" if entry.is_dir() else "") for entry in scan)
    except OSError as error:
        raise ToolError(error_text(error)) from error
    more = [f"[… {len(names) - MOST_ENTRIES:,} more …]"] if len(names) > MOST_ENTRIES else []
    return counted(len(names), "entry").replace("entrys", "entries"), "\n".join([*names[:MOST_ENTRIES], *more]), None


def _picture(path: Path, kind: str, written: str) -> ImageContent:
    content = read_bytes(path, LARGEST, written)
    return ImageContent(media_type=f"image/{kind}", data=base64.b64encode(content).decode())


def _cells(path: Path, written: str) -> str | None:
    try:
        return notebook_text(read_bytes(path, _LARGEST_NOTEBOOK, written))
    except ToolError:  # too large: its first bytes, as of any other text
        return None


def _cut(content: bytes, size: int) -> str:
    """Whole lines, as many as fit."""
    if size <= LONGEST:
        return decode(content)[0].rstrip("\n")
    kept = content[:LONGEST].rpartition(b"\n")[0] or content[:LONGEST]
    return f"{decode(kept)[0]}\n[its first {len(kept):,} bytes of {size:,}]"
