"""glob: files by name. The same files that grep would search, and no file is opened but .gitignore."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.safe_fs import is_reachable
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.grep import EXCLUDED
from kin_nb.core.tools.builtins.grep_fallback import files, glob_rule
from kin_nb.core.tools.builtins.path_arguments import printable, resolve_existing
from kin_nb.core.workspace import Workspace

MOST = 200
"""Paths in one result."""
SECONDS = 5.0
"""Then what was found until then is the result, and says so."""


class GlobArgs(BaseModel):
    pattern: str = Field(min_length=1, description="*.py, src/**/*.{ts,tsx}; with a / it counts from path")
    path: str = Field(".", description="Folder, relative to the workspace")


class GlobResult(BaseModel):
    """`files`: paths relative to the workspace, by name. `left_out`: how many more there are, known ones."""

    files: list[str]
    left_out: int = 0
    timed_out: bool = False


class Glob(BaseTool[GlobArgs, GlobResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Find files by name"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: GlobArgs) -> Accesses:
        return Accesses(reads=(args.path,))

    def preview(self, args: GlobArgs) -> Preview:
        where = "" if args.path == "." else f" in {args.path}"
        return Preview(summary=f"find {args.pattern}{where}", body=args.model_dump_json(indent=2))

    async def run(self, args: GlobArgs) -> GlobResult:
        """Raises ToolError for a pattern that cannot be read, and a path that is no folder."""
        workspace = Workspace(self.config.effective_workdir)
        rule = glob_rule(_from_folder(args.pattern, workspace.root))
        folder, name = resolve_existing(workspace, args.path)
        if not folder.is_dir():
            raise ToolError(f"{name} is no folder. Set path to one, and pattern to what the files in it are called.")
        return await asyncio.to_thread(_found, workspace.root, _place(workspace, folder), rule)

    def to_model(self, result: GlobResult) -> str:
        rest = [f"[… {result.left_out:,} more; narrow pattern or path …]"] if result.left_out else []
        if result.timed_out:
            rest.append(f"[… not all was looked at in {SECONDS:.0f} s; narrow path …]")
        if not result.files:
            return "\n".join(
                ["No file matches. Hidden and ignored files are not looked at; list_dir shows them.", *rest]
            )
        return "\n".join([*result.files, *rest])


def _from_folder(pattern: str, root: Path) -> str:
    """The pattern as it counts from a folder. Models write `./`, the workspace's own path and folders with a `/` too."""
    if any(mark in pattern for mark in "\0\n"):
        raise ToolError("pattern is one line.")
    if ".." in pattern.split("/"):
        raise ToolError(f"The glob {printable(pattern[:100])} cannot be read: it has `..` in it; set path instead.")
    pattern = pattern.removeprefix(str(root)) if pattern.startswith(f"{root}/") else pattern
    pattern = pattern[1:] if pattern.startswith("./") else pattern
    return f"{pattern}**" if pattern.endswith("/") else pattern


def _place(workspace: Workspace, folder: Path) -> str:
    """The folder as `files` takes it: from the root with `./`, or in full when it lies outside."""
    name = workspace.relative(folder)
    return "./" if name == "." else f"{name.rstrip('/')}/" if name.startswith("/") else f"./{name}/"


def _found(root: Path, place: str, rule: re.Pattern[str]) -> GlobResult:
    """By name, each folder's content where the folder stands. A pattern may count from the workspace too, as grep's does."""
    result, end = GlobResult(files=[]), time.monotonic() + SECONDS
    try:
        for file in files(str(root), place, list(EXCLUDED)):
            if time.monotonic() > end:
                return result.model_copy(update={"timed_out": True})
            name = file.removeprefix("./")
            if not rule.search(file.removeprefix(place)) and not rule.search(name):
                continue
            if not is_reachable(root / file):
                continue  # a folder was replaced by a link meanwhile
            if len(result.files) < MOST:
                result.files.append(printable(name))
            else:
                result.left_out += 1
    except RecursionError:
        raise ToolError("Folders are nested too deeply there; set path to a folder further down.") from None
    return result
