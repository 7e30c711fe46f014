"""edit_file: replace one exact string in a file."""

from __future__ import annotations

from dataclasses import replace
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


class EditFileArgs(BaseModel):
    path: FilePath
    old_string: str = Field(description="Text to replace, exactly as in the file")
    new_string: str = Field(description="The new text")
    replace_all: bool = Field(default=False, description="Replace every occurrence")


class EditFileResult(BaseModel):
    """`change`: the changed lines, with their numbers after the edit, as text. `note`: that the new text does not parse, or ""."""

    path: str
    replacements: int
    change: str
    note: str = ""


class EditFile(BaseTool[EditFileArgs, EditFileResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Replace an exact string in a file"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    editable: ClassVar[str] = "new_string"

    def accesses(self, args: EditFileArgs) -> Accesses:
        return Accesses(writes=(args.path,))

    def preview(self, args: EditFileArgs) -> Preview:
        try:
            name, _, before, after, _ = self._edit(args)
        except ToolError as error:
            return text_file.failing_preview("edit", args.path, error, args.model_dump_json(indent=2))
        return text_file.diff_preview("edit", name, before.text, after.text)

    async def run(self, args: EditFileArgs) -> EditFileResult:
        """Raises ToolError, with the file unchanged, if the string is not found, or is found more than once."""
        name, path, before, after, places = self._edit(args)
        known = text_file.is_known(path)
        text_file.note_written(path, text_file.write_atomically(path, after.encode(), name), known=known)
        change, note = edit_summary(before.text, after.text), syntax_note(name, before.text, after.text)
        return EditFileResult(path=name, replacements=len(places), change=change, note=note)

    def with_text(self, args: EditFileArgs, before: str, after: str) -> dict[str, Any] | None:
        edit = minimal_edit(before, after)
        return {"path": args.path, "old_string": edit[0], "new_string": edit[1]} if edit else None

    def to_model(self, result: EditFileResult) -> str:
        return "\n".join(filter(None, (f"Edited {result.path}: {result.change}.", result.note)))

    def _edit(self, args: EditFileArgs) -> tuple[str, Path, TextFile, TextFile, list[tuple[int, int]]]:
        if not args.old_string:
            raise ToolError("old_string is empty. To create a file, use write_file.")
        if args.old_string == args.new_string:
            raise ToolError("old_string and new_string are the same, so there is nothing to change.")
        path, name = resolve_existing(Workspace(self.config.effective_workdir), args.path)
        before = text_file.read_text(path, name)
        places = text_file.find(before.text, args.old_string)
        if not places:
            wrong = " ".join(filter(None, (f"old_string is not in {name}.", text_file.stale_note(path, name))))
            raise ToolError(f"{wrong}\n{closest_match_hint(before.text, args.old_string)}")
        if len(places) > 1 and not args.replace_all:
            lines = text_file.line_numbers(before.text, places)
            raise ToolError(
                f"Found {len(places)} matches of old_string in {name}, at {lines}.\n"
                "Add surrounding lines until it matches one place, or set replace_all."
            )
        after = replace(before, text=text_file.replaced(before, places, args.new_string))
        after.encode()
        return name, path, before, after, places
