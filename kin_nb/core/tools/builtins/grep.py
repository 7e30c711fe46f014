"""grep: lines that match a regular expression, by ripgrep, or by grep_python.py where there is none."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.safety.secrets import child_environment
from kin_nb.core.safety.workspace import Workspace, open_regular
from kin_nb.core.tools.base import Accesses, BaseTool, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.builtins import grep_here
from kin_nb.core.tools.builtins.grep_python import glob_rule
from kin_nb.core.tools.builtins.process import run_process
from kin_nb.core.tools.builtins.text_file import decode

SECONDS = 60
MOST_CHARACTERS = 39_500
"""40,000 reach the model, less the room for what is said about them."""
LONGEST_LINE = 500
"""Characters shown of one line."""

_EXCLUDED = ("node_modules/", "__pycache__/", "venv/", "*.egg-info/", "htmlcov/", "*.pyc")
_RIPGREP = "rg"
_FALLBACK = Path(__file__).with_name("grep_python.py")


class GrepArgs(BaseModel):
    pattern: str = Field(min_length=1, description="Regular expression")
    path: str = Field(".", description="File or folder, relative to the workspace")
    glob: str | None = Field(None, min_length=1, description="Only these files: *.py, src/**/*.ts")
    max_matches: int = Field(100, ge=1, le=1000)


class GrepResult(BaseModel):
    """`matches`: `path:line:text` lines, ordered by path and line. `was_truncated`: there are more."""

    matches: str
    match_count: int
    was_truncated: bool


class Grep(BaseTool[GrepArgs, GrepResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Search files for a regular expression"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: GrepArgs) -> Accesses:
        return Accesses(reads=(args.path,))

    def preview(self, args: GrepArgs) -> Preview:
        return Preview(
            summary=f"search {args.path} for {args.pattern}", body=args.model_dump_json(indent=2, exclude_none=True)
        )

    async def run(self, args: GrepArgs) -> GrepResult:
        """Raises ToolError for an invalid expression, a missing path, or a search of more than SECONDS."""
        if any(mark in text for text in (args.pattern, args.glob or "") for mark in "\0\n"):
            raise ToolError("pattern and glob are one line each.")
        workspace = Workspace(self.config.effective_workdir)
        path = workspace.resolve(args.path)
        if not path.is_dir():
            open_regular(path, workspace.relative(path)).close()
        found = await _found_here(workspace, path, args) or await _found_by_program(workspace, path, args)
        return GrepResult(matches="\n".join(found.lines), match_count=len(found.lines), was_truncated=found.more)

    def to_model(self, result: GrepResult) -> str:
        if not result.matches:
            return "No line matches."
        more = f"\n[more than {result.match_count} lines match; narrow the search]" if result.was_truncated else ""
        return result.matches + more


async def _found_here(workspace: Workspace, path: Path, args: GrepArgs) -> Matches | None:
    """None when ripgrep is there, or the search is not surely a small one."""
    if shutil.which(_RIPGREP):
        return None
    found = Matches(workspace, path, args)
    place = _place(workspace, path)
    done = await asyncio.to_thread(grep_here.search, workspace.root, place, args.pattern, list(_EXCLUDED), found.add)
    return found if done else None


async def _found_by_program(workspace: Workspace, path: Path, args: GrepArgs) -> Matches:
    found = Matches(workspace, path, args)
    with tempfile.TemporaryFile() as stderr:
        ended = await run_process(
            _command(args, _place(workspace, path), workspace.root),
            cwd=workspace.root,
            environment=child_environment(os.environ),
            seconds=SECONDS,
            sink=found.add,
            stderr=stderr,
        )
        stderr.seek(0)
        complaint = decode(stderr.read(2_000))[0].strip()
    if ended.timed_out:
        raise ToolError(f"The search took more than {SECONDS} s. Narrow the path, the glob or the pattern.")
    if complaint and not found.lines:
        raise ToolError(f"The search failed: {complaint}")
    return found


def _place(workspace: Workspace, path: Path) -> str:
    """The path as the search prints it: `./` before it in the workspace, `/` after it when it is a folder."""
    end = "/" if path.is_dir() and path != workspace.root else ""
    name = workspace.relative(path)
    return name + end if name.startswith("/") else "./" if name == "." else f"./{name}{end}"


def _command(args: GrepArgs, place: str, root: Path) -> list[str]:
    program = shutil.which(_RIPGREP)
    if program is None:
        question = {"pattern": args.pattern, "path": place, "excludes": _EXCLUDED}
        return [sys.executable, "-I", "-S", str(_FALLBACK), json.dumps(question)]
    command = [program, "--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--null"]
    command += ["--line-number", "--sort=path", "--smart-case", "--max-columns=4000", "--max-columns-preview"]
    # the .gitignore files of the workspace and no others: what is found must not depend on the machine
    command += [
        "--no-require-git",
        "--no-ignore-parent",
        "--no-ignore-global",
        "--no-ignore-exclude",
        "--no-ignore-dot",
    ]
    if (root / ".gitignore").is_file() and place != "./":
        command += ["--ignore-file", str(root / ".gitignore")]
    if args.glob:  # --glob would bring hidden and ignored files back in; a type only narrows, by the file's name
        command += ["--type-add", f"wanted:{args.glob.rpartition('/')[2] or '*'}", "--type=wanted"]
    command += [f"--glob=!{name}" for name in _EXCLUDED]
    return [*command, "--regexp", args.pattern, "--", place]


class Matches:
    """The search's output as it arrives, in lines for the model.

    Files that the glob does not name are passed over, and sensitive ones: whoever allowed a search of the folder has
    not allowed those, unless the folder is one itself.
    """

    def __init__(self, workspace: Workspace, asked: Path, args: GrepArgs) -> None:
        self.lines: list[str] = []
        self.more = False
        self._workspace, self._most = workspace, args.max_matches
        self._asked = asked
        self._all_allowed = workspace.is_sensitive(asked) is not None
        self._glob = glob_rule(args.glob) if args.glob else None
        self._rest = b""
        self._length = 0
        self._allowed: dict[bytes, bool] = {}

    def add(self, chunk: bytes) -> bool:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._add_line(line)
            if self.more:
                return True
        return False

    def _add_line(self, line: bytes) -> None:
        name, separator, match = line.partition(b"\0")
        number, colon, text = match.partition(b":")
        if not separator or not colon or not self._may_show(name):
            return
        shown, _ = decode(text.rstrip(b"\r"))
        cut = f"{shown[:LONGEST_LINE]} …" if len(shown) > LONGEST_LINE else shown
        entry = f"{decode(name.removeprefix(b'./'))[0]}:{number.decode()}:{cut}"
        self._length += len(entry) + 1
        if len(self.lines) == self._most or self._length > MOST_CHARACTERS:
            self.more = True
        else:
            self.lines.append(entry)

    def _may_show(self, name: bytes) -> bool:
        if name not in self._allowed:
            path = self._workspace.root / os.fsdecode(name)
            named = self._glob is None or path == self._asked or self._glob.search(self._workspace.relative(path))
            self._allowed[name] = bool(named) and (self._all_allowed or not self._workspace.is_sensitive(path))
        return self._allowed[name]
