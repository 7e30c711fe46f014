"""list_dir: list the entries of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.safe_fs import folder_of
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.path_arguments import printable, resolve_existing
from kin_nb.core.workspace import Workspace, error_text

MAX_ENTRIES = 500
"""Entries in one listing."""


class ListDirArgs(BaseModel):
    path: str = Field(".", description="Folder, relative to the workspace")


class ListDirResult(BaseModel):
    """`entries`: folders with a final `/` first, then files; links as `name -> target`. `left_out`: the number of others."""

    path: str
    entries: list[str]
    left_out: int = 0


class ListDir(BaseTool[ListDirArgs, ListDirResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "List a folder"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: ListDirArgs) -> Accesses:
        return Accesses(reads=(args.path,))

    def preview(self, args: ListDirArgs) -> Preview:
        return Preview(summary=f"list {args.path}", body=args.model_dump_json(indent=2))

    async def run(self, args: ListDirArgs) -> ListDirResult:
        """Raises ToolError if the path is not a folder, or cannot be read."""
        workspace = Workspace(self.config.effective_workdir)
        path, name = resolve_existing(workspace, args.path)
        try:
            with _opened(path) as folder, os.scandir(folder) as scan:
                found = sorted(scan, key=lambda entry: (not _is_folder(entry), entry.name))
                entries = [_shown(entry, folder) for entry in found[:MAX_ENTRIES]]
        except OSError as error:
            raise ToolError(f"{name}: {error_text(error)}.") from error
        return ListDirResult(path=name, entries=entries, left_out=max(0, len(found) - MAX_ENTRIES))

    def to_model(self, result: ListDirResult) -> str:
        if not result.entries:
            return f"{result.path} is an empty folder."
        rest = [f"[… {result.left_out:,} more …]"] if result.left_out else []
        return "\n".join(result.entries + rest)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open the folder without following links."""
    with folder_of(path) as (parent, own):
        folder = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circle of links
        return False


def _shown(entry: os.DirEntry[str], folder: int) -> str:
    name = printable(entry.name) + ("/" if _is_folder(entry) else "")
    if not entry.is_symlink():
        return name
    try:
        return f"{name} -> {printable(os.readlink(entry.name, dir_fd=folder))}"
    except OSError:  # removed meanwhile
        return name
