"""grep: find the lines that match a regular expression, with ripgrep or without it.

Without ripgrep a short search runs in this process, because starting a program takes thirty times as long. All other searches
run in grep_fallback.py. A running regular expression cannot be stopped. So a pattern is searched in this process only when its
text shows that the work is limited, and the search moves to the program as soon as it gets large.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.environment import child_environment
from kin_nb.core.processes.supervised import run_process
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.grep_fallback import HEAD, TOO_SLOW, as_printed, files, smart_case
from kin_nb.core.tools.builtins.grep_output import (
    COUNTED,
    Matches,
    escaped,
    files_shown,
    lines_shown,
    no_such_files,
    pattern_error,
    why_nothing,
)
from kin_nb.core.tools.builtins.path_arguments import resolve_existing
from kin_nb.core.tools.builtins.text_file import decode
from kin_nb.core.workspace import Workspace, open_regular

SECONDS = 60
_HINT_SECONDS = 5
"""For a search that only explains why another found nothing."""

EXCLUDED = ("node_modules/", "__pycache__/", "venv/", "*.egg-info/", "htmlcov/", "*.pyc")
"""Always left out, whatever .gitignore and the glob say."""
_RIPGREP = "rg"
_OUT_OF_TIME = 128 + signal.SIGXCPU
_FALLBACK = Path(__file__).with_name("grep_fallback.py")


class GrepArgs(BaseModel):
    pattern: str = Field(min_length=1, description="Python regular expression: a|b for alternatives, \\( for a bracket")
    path: str = Field(".", description="File or folder, relative to the workspace")
    glob: str | None = Field(
        None, min_length=1, description="Only these files: *.py (in any folder), src/**/*.{ts,tsx}"
    )
    literal: bool = Field(default=False, description="pattern is plain text")
    context: int = Field(0, ge=0, le=10, description="Lines to show around each match; read_file for more")
    files_only: bool = Field(default=False, description="Only paths, with the number of matching lines")
    max_matches: int = Field(100, ge=1, le=1000)


class GrepResult(BaseModel):
    """`matches`: lines `path:line:text`, ordered by path and line. `match_count`: the number of them that match.

    `was_truncated`: whether there are more. `note`: what is not shown, or why nothing matches.
    """

    matches: str
    match_count: int
    was_truncated: bool
    note: str = ""


class Grep(BaseTool[GrepArgs, GrepResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Search files for lines that match"
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
            raise ToolError("pattern and glob must be one line each.")
        search = _Search(
            Workspace(self.config.effective_workdir), args, child_environment(os.environ, also=self.config.key_names)
        )
        found = await search.matches(search.pattern, SECONDS)
        await asyncio.to_thread(found.leave_out_unconfirmed)
        if not found.total:
            why = found.left_out or await search.why_nothing()
            return GrepResult(matches="", match_count=0, was_truncated=bool(found.left_out), note=why)
        if args.files_only:
            shown = files_shown(found, args.max_matches)
        else:
            shown = await asyncio.to_thread(lines_shown, found, search.workspace.root, args.context)
        note = "\n".join(filter(None, (shown.note, found.left_out)))
        return GrepResult(matches=shown.text, match_count=shown.count, was_truncated=bool(note), note=note)

    def to_model(self, result: GrepResult) -> str:
        if not result.matches:
            return f"No line matches. {result.note}".rstrip()
        return f"{result.matches}\n{result.note}" if result.note else result.matches


class _Search:
    """One call. Raises ToolError for a missing path and for an invalid expression."""

    def __init__(self, workspace: Workspace, args: GrepArgs, environment: dict[str, str]) -> None:
        self.workspace, self._args, self._environment = workspace, args, environment
        self._path, name = resolve_existing(workspace, args.path)
        if not self._path.is_dir():
            open_regular(self._path, name).close()
        self.pattern = escaped(args.pattern) if args.literal else args.pattern
        if problem := pattern_error(self.pattern):
            raise ToolError(f"The search failed: {problem}")

    async def matches(self, pattern: str, seconds: float) -> Matches:
        """Search in this process when the search is surely short, else with a program."""
        ripgrep, place = shutil.which(_RIPGREP), self._place()
        if ripgrep is None:
            found = self._empty()
            root, excludes = self.workspace.root, list(EXCLUDED)
            if await asyncio.to_thread(search_in_process, root, place, pattern, excludes, found.add):
                return found
        else:
            found, complaint = await self._run(
                _ripgrep(ripgrep, pattern, self._args.glob, place, self.workspace.root), seconds
            )
            if found.total or not complaint:
                return found
        # ripgrep is missing, or does not know the expression (Python's look-around)
        question = {"pattern": pattern, "path": place, "excludes": EXCLUDED}
        found, complaint = await self._run([sys.executable, "-I", "-S", str(_FALLBACK), json.dumps(question)], seconds)
        if complaint and not found.total:
            raise ToolError(f"The search failed: {complaint}")
        return found

    async def why_nothing(self) -> str:
        args, place = self._args, self._place()
        if args.glob and self._path.is_dir():
            root, excludes = self.workspace.root, list(EXCLUDED)
            none = await asyncio.to_thread(no_such_files, root, place, excludes, args.glob)
            if none:
                return none
        return await why_nothing(args.pattern, self._count, literal=args.literal)

    async def _count(self, pattern: str) -> int:
        try:
            return (await self.matches(pattern, _HINT_SECONDS)).total
        except ToolError:
            return 0

    async def _run(self, command: list[str], seconds: float) -> tuple[Matches, str]:
        """Run a search program. Returns the matches and the error message."""
        found = self._empty()
        with tempfile.TemporaryFile() as stderr:
            ended = await run_process(
                command,
                cwd=self.workspace.root,
                environment=self._environment,
                seconds=seconds,
                sink=found.add,
                stderr=stderr,
            )
            stderr.seek(0)
            complaint = decode(stderr.read(2_000))[0].strip()
        if ended.exit_code == TOO_SLOW:
            raise ToolError(
                f"The search was stopped: the pattern takes too long on a line of {complaint}.\n"
                "Write it without nested repetition: (a+)+ tries every way to divide the line."
            )
        if ended.timed_out or ended.exit_code == _OUT_OF_TIME:
            raise ToolError(f"The search took more than {seconds} s. Narrow the path, the glob or the pattern.")
        return found, complaint

    def _empty(self) -> Matches:
        of_a_file = 1 if self._args.files_only else COUNTED
        return Matches(self.workspace, self._path, self._args.glob, self._args.max_matches, of_a_file)

    def _place(self) -> str:
        """The path as the search prints it: with a leading `./` in the workspace, and a final `/` for a folder."""
        end = "/" if self._path.is_dir() and self._path != self.workspace.root else ""
        name = self.workspace.relative(self._path)
        return name + end if name.startswith("/") else "./" if name == "." else f"./{name}{end}"


def _ripgrep(program: str, pattern: str, glob: str | None, place: str, root: Path) -> list[str]:
    command = [program, "--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--null"]
    command += ["--line-number", "--sort=path", "--smart-case", "--max-columns=4000", "--max-columns-preview"]
    # only the .gitignore files of the workspace: the result must not depend on the machine
    command += [
        "--no-require-git",
        "--no-ignore-parent",
        "--no-ignore-global",
        "--no-ignore-exclude",
        "--no-ignore-dot",
    ]
    if (root / ".gitignore").is_file() and place != "./":
        command += ["--ignore-file", str(root / ".gitignore")]
    if glob:  # --glob would include hidden and ignored files again; a type only narrows the search
        command += ["--type-add", f"wanted:{glob.rpartition('/')[2] or '*'}", "--type=wanted"]
    command += [f"--glob=!{name}" for name in EXCLUDED]
    return [*command, "--regexp", pattern, "--", place]


IN_PROCESS_SECONDS = 0.25
_LARGEST_IN_PROCESS = 2_000_000
"""Bytes of a file that is searched in this process."""
_LONGEST_LINES = (_LARGEST_IN_PROCESS, 1_000, 200)
"""Characters of a line for a pattern with 0, 1 or 2 repetitions: the work grows as a power of this length."""
_MOST_GROUPS = 2

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.", re.DOTALL)
_REPETITION = re.compile(r"[*+?]|\{\d.*|\{,.*", re.DOTALL)
_SETS_OF_SETS = re.compile(r"^\[.*(\[|--|&&|\|\||~~)", re.DOTALL)
"""Sets that `re` warns about, because their meaning may change."""
_EDGES = re.compile(r"[$^]|\\[AZ]")
"""A pattern without these matches in the whole file when it matches in a line, so other files can be skipped."""


def longest_line(pattern: str) -> int | None:
    """The longest line that the pattern may be tried on in this process; None when it must run in the program."""
    repetitions = groups = 0
    before = ""
    for part in _TOKEN.findall(pattern):
        if _REPETITION.fullmatch(part):
            if before in {")", "("}:  # a repeated group, or a special group such as (?=...)
                return None
            repetitions += 1
        groups += part == "("
        if re.fullmatch(r"\\\d", part) or _SETS_OF_SETS.match(part):
            return None
        before = part
    if groups > _MOST_GROUPS or repetitions >= len(_LONGEST_LINES):
        return None
    return _LONGEST_LINES[repetitions]


def search_in_process(root: Path, place: str, pattern: str, excludes: list[str], sink: Callable[[bytes], bool]) -> bool:
    """Pass each matching line to `sink`, in the format of the program, until `sink` returns True.

    Returns False when the search must run in the program instead; then ignore what `sink` has received.
    """
    end = time.monotonic() + IN_PROCESS_SECONDS
    longest = longest_line(pattern)
    if longest is None:
        return False
    try:
        regex = smart_case(pattern)
    except re.error:  # the program reports the error
        return False
    must_match = regex if longest == _LARGEST_IN_PROCESS and not _EDGES.search(pattern) else None
    for name in files(str(root), place, excludes):
        content = _content(root / name)
        if content is None or time.monotonic() > end:
            return False
        if must_match and not must_match.search(_text(content)):
            continue
        for number, line in enumerate(io.BytesIO(content), 1):
            if len(line) > longest or time.monotonic() > end:
                return False
            found = line.rstrip(b"\r\n")
            if regex.search(_text(found)) and sink(as_printed(name, number, found)):
                return True
    return True


def _content(path: Path) -> bytes | None:
    """The content; None when it is too large, empty when the file is binary, missing or not readable."""
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
            content = b"" if b"\0" in head else head + file.read(_LARGEST_IN_PROCESS + 1 - len(head))
    except (OSError, ToolError):
        return b""
    return content if len(content) <= _LARGEST_IN_PROCESS else None


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
