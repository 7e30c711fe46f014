"""glob: find files by name. It looks at the same files as grep, and opens only .gitignore files."""

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

MAX_FILES = 200
"""Paths in one result."""
SECONDS = 5.0
"""Time limit. After it, the result holds what was found, and says that it is incomplete."""


class GlobArgs(BaseModel):
    pattern: str = Field(
        min_length=1, description="Glob such as *.py or src/**/*.{ts,tsx}. With a / it is relative to path"
    )
    path: str = Field(".", description="Folder to search, relative to the workspace")


class GlobResult(BaseModel):
    """`files`: sorted paths relative to the workspace. `left_out`: the number of further matches that were found."""

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
        """Raises ToolError for an invalid pattern, and if `path` is not a folder."""
        workspace = Workspace(self.config.effective_workdir)
        rule = glob_rule(_from_folder(args.pattern, workspace.root))
        folder, name = resolve_existing(workspace, args.path)
        if not folder.is_dir():
            raise ToolError(f"{name} is not a folder.\nSet path to a folder, and pattern to the names of files in it.")
        return await asyncio.to_thread(_found, workspace.root, _place(workspace, folder), rule)

    def to_model(self, result: GlobResult) -> str:
        rest = [f"[… {result.left_out:,} more; narrow pattern or path …]"] if result.left_out else []
        if result.timed_out:
            rest.append(f"[… incomplete: the search stopped after {SECONDS:.0f} s; narrow path …]")
        if not result.files:
            return "\n".join(["No file matches. Hidden and ignored files are left out; list_dir shows them.", *rest])
        return "\n".join([*result.files, *rest])


def _from_folder(pattern: str, root: Path) -> str:
    """The pattern relative to the folder. Models also write `./`, the workspace's absolute path, and folders with a `/`."""
    if any(mark in pattern for mark in "\0\n"):
        raise ToolError("pattern must be one line.")
    if ".." in pattern.split("/"):
        raise ToolError(f"The glob {printable(pattern[:100])} contains `..`. Set path to the folder above instead.")
    pattern = pattern.removeprefix(str(root)) if pattern.startswith(f"{root}/") else pattern
    pattern = pattern[1:] if pattern.startswith("./") else pattern
    return f"{pattern}**" if pattern.endswith("/") else pattern


def _place(workspace: Workspace, folder: Path) -> str:
    """The folder in the form that `files` expects: relative to the root with `./`, or absolute if it is outside."""
    name = workspace.relative(folder)
    return "./" if name == "." else f"{name.rstrip('/')}/" if name.startswith("/") else f"./{name}/"


def _found(root: Path, place: str, rule: re.Pattern[str]) -> GlobResult:
    """Matching files, sorted, with a folder's content at the folder's place. A pattern may be relative to the workspace too."""
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
            if len(result.files) < MAX_FILES:
                result.files.append(printable(name))
            else:
                result.left_out += 1
    except RecursionError:
        raise ToolError("Folders are nested too deeply there. Set path to a folder further down.") from None
    return result
