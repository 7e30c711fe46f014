"""search_replace: apply several SEARCH/REPLACE blocks to one file, all or none."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.syntax_check import syntax_note
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.edits import closest_match_hint, edit_summary, minimal_edit
from kin_nb.core.tools.builtins.path_arguments import FilePath, resolve_existing
from kin_nb.core.tools.builtins.text_file import TextFile
from kin_nb.core.workspace import Workspace

_OPEN = re.compile(r"(<{5,}) SEARCH\s*")
_DIVIDE = re.compile(r"={5,}\s*")
_CLOSE = re.compile(r">{5,} REPLACE\s*")
LONGEST = 100_000
"""Characters of all blocks of a call together."""
_FORM = "<<<<<<< SEARCH\nold lines\n=======\nnew lines\n>>>>>>> REPLACE"


class SearchReplaceArgs(BaseModel):
    path: FilePath
    content: str = Field(max_length=LONGEST, description="SEARCH/REPLACE blocks")


class SearchReplaceResult(BaseModel):
    """`change`: the changed lines, with their numbers after the edit, as text. `note`: that the new text does not parse, or ""."""

    path: str
    blocks_applied: int
    change: str
    note: str = ""


@dataclass(frozen=True)
class Block:
    search: str
    replace: str


class SearchReplace(BaseTool[SearchReplaceArgs, SearchReplaceResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Change a file with SEARCH/REPLACE blocks"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    editable: ClassVar[str] = "content"

    def accesses(self, args: SearchReplaceArgs) -> Accesses:
        return Accesses(writes=(args.path,))

    def preview(self, args: SearchReplaceArgs) -> Preview:
        try:
            name, _, before, after, _ = self._edit(args)
        except ToolError as error:
            return text_file.failing_preview("edit", args.path, error, args.model_dump_json(indent=2))
        return text_file.diff_preview("edit", name, before.text, after.text)

    async def run(self, args: SearchReplaceArgs) -> SearchReplaceResult:
        """Raises ToolError, with the file unchanged, if a block does not match exactly one place."""
        name, path, before, after, blocks = self._edit(args)
        known = text_file.is_known(path)
        text_file.note_written(path, text_file.write_atomically(path, after.encode(), name), known=known)
        change, note = edit_summary(before.text, after.text), syntax_note(name, before.text, after.text)
        return SearchReplaceResult(path=name, blocks_applied=len(blocks), change=change, note=note)

    def with_text(self, args: SearchReplaceArgs, before: str, after: str) -> dict[str, Any] | None:
        edit = minimal_edit(before, after)
        content = as_block(*edit) if edit else None
        return {"path": args.path, "content": content} if content and len(content) <= LONGEST else None

    def to_model(self, result: SearchReplaceResult) -> str:
        return "\n".join(filter(None, (f"Edited {result.path}: {result.change}.", result.note)))

    def _edit(self, args: SearchReplaceArgs) -> tuple[str, Path, TextFile, TextFile, list[Block]]:
        blocks = parse_blocks(args.content)
        path, name = resolve_existing(Workspace(self.config.effective_workdir), args.path)
        before = after = text_file.read_text(path, name)
        for number, block in enumerate(blocks, 1):
            try:
                after = apply(after, block, name)
            except ToolError as error:
                stale = text_file.stale_note(path, name)
                what = f"Block {number} of {len(blocks)}: {error}\nNothing was written."
                raise ToolError(" ".join(filter(None, (what, stale)))) from error
        if after == before:
            raise ToolError("SEARCH and REPLACE are the same, so there is nothing to change.")
        after.encode()
        return name, path, before, after, blocks


def parse_blocks(content: str) -> list[Block]:
    """Parse the blocks of `content`, in order. Text around them, such as a code fence, is ignored.

    Raises ToolError without a block, for a block without end, or for an ambiguous dividing line.
    """
    blocks: list[Block] = []
    opened: str | None = None
    inside: list[str] = []
    for line in content.replace("\r\n", "\n").split("\n"):
        if opened is None:
            match = _OPEN.fullmatch(line)
            opened, inside = (match[1], []) if match else (None, inside)
        elif _CLOSE.fullmatch(line):
            blocks.append(_block(inside, len(opened), len(blocks) + 1))
            opened = None
        else:
            inside.append(line)
    if opened is not None:
        raise ToolError(f"Block {len(blocks) + 1} has no closing line. Expected:\n{_FORM}")
    if not blocks:
        raise ToolError(f"No SEARCH/REPLACE block found. Expected:\n{_FORM}")
    return blocks


def as_block(old: str, new: str) -> str | None:
    """Format one block, with a dividing line longer than similar lines inside; None if a line inside would end it."""
    old, new = (text.replace("\r\n", "\n") for text in (old, new))
    length = max((len(line) for line in f"{old}\n{new}".split("\n") if _DIVIDE.fullmatch(line)), default=6) + 1
    content = f"{'<' * length} SEARCH\n{old}\n{'=' * length}\n{new}\n{'>' * length} REPLACE"
    try:
        return content if parse_blocks(content) == [Block(old, new)] else None
    except ToolError:
        return None


def _block(lines: list[str], length: int, number: int) -> Block:
    dividers = [index for index, line in enumerate(lines) if _DIVIDE.fullmatch(line)]
    # with a heading's underline or a conflict marker inside, the divider is the line as long as the opening marks
    if len(dividers) > 1:
        dividers = [index for index in dividers if len(lines[index].rstrip()) == length]
    if len(dividers) != 1:
        raise ToolError(
            f"Block {number}: {len(dividers)} lines could divide SEARCH from REPLACE; exactly one must.\n"
            "Make the three marker lines longer than any similar line in the text, or use edit_file."
        )
    return Block("\n".join(lines[: dividers[0]]), "\n".join(lines[dividers[0] + 1 :]))


def apply(file: TextFile, block: Block, name: str) -> TextFile:
    """Replace the block's only match; whole lines take precedence. Raises ToolError without exactly one match."""
    if not block.search.strip():
        raise ToolError("SEARCH is empty. To create a file, use write_file.")
    anywhere = text_file.find(file.text, block.search)
    whole = [place for place in anywhere if text_file.is_whole_lines(file.text, place)]
    places = whole or anywhere
    if not places:
        raise ToolError(f"SEARCH is not in {name}.\n{closest_match_hint(file.text, block.search, 'SEARCH')}")
    if len(places) > 1:
        lines = text_file.line_numbers(file.text, places)
        raise ToolError(
            f"Found {len(places)} matches of SEARCH in {name}, at {lines}.\n"
            "Add surrounding lines until it matches one place."
        )
    return replace(file, text=text_file.replaced(file, places, block.replace))
