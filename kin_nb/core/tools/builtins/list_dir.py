"""list_dir: what is in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.safety.workspace import Workspace, error_text
from kin_nb.core.tools.base import Accesses, BaseTool, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.builtins.names import printable, resolve_existing

MOST = 500
"""Entries in one listing."""


class ListDirArgs(BaseModel):
    path: str = Field(".", description="Folder, relative to the workspace")


class ListDirResult(BaseModel):
    """`entries`: folders with a final `/` first, then files; links as `name -> target`. `left_out`: how many more."""

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
        """Raises ToolError for what is no folder, or may not be read."""
        workspace = Workspace(self.config.effective_workdir)
        path, name = resolve_existing(workspace, args.path)
        try:
            with os.scandir(path) as scan:
                found = sorted(scan, key=lambda entry: (not _is_folder(entry), entry.name))
        except OSError as error:
            raise ToolError(f"{name}: {error_text(error)}.") from error
        return ListDirResult(path=name, entries=[_shown(e) for e in found[:MOST]], left_out=max(0, len(found) - MOST))

    def to_model(self, result: ListDirResult) -> str:
        if not result.entries:
            return f"{result.path} is an empty folder."
        rest = [f"[… {result.left_out:,} more …]"] if result.left_out else []
        return "\n".join(result.entries + rest)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # its links go in circles
        return False


def _shown(entry: os.DirEntry[str]) -> str:
    name = printable(entry.name) + ("/" if _is_folder(entry) else "")
    if not entry.is_symlink():
        return name
    try:
        return f"{name} -> {printable(str(Path(entry.path).readlink()))}"
    except OSError:  # gone since
        return name
