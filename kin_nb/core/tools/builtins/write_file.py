"""write_file: create or replace a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.syntax_check import syntax_note
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.edits import edit_summary
from kin_nb.core.tools.builtins.path_arguments import FilePath
from kin_nb.core.tools.builtins.text_file import TextFile
from kin_nb.core.workspace import Workspace


class WriteFileArgs(BaseModel):
    path: FilePath
    content: str = Field(description="The whole text of the file")
    overwrite: bool = Field(default=False, description="Replace the file if it exists")


class WriteFileResult(BaseModel):
    """`change`: the lines that differ from the old file, as text. `note`: that the new text does not parse, or ""."""

    path: str
    bytes_written: int
    overwritten: bool
    change: str
    note: str = ""


class WriteFile(BaseTool[WriteFileArgs, WriteFileResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Write a whole file"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    editable: ClassVar[str] = "content"

    def accesses(self, args: WriteFileArgs) -> Accesses:
        return Accesses(writes=(args.path,))

    def preview(self, args: WriteFileArgs) -> Preview:
        try:
            name, _, before, after = self._plan(args)
        except ToolError as error:
            return text_file.failing_preview("write", args.path, error, args.model_dump_json(indent=2))
        return text_file.diff_preview(
            "overwrite" if before else "write", name, before.text if before else "", after.text
        )

    async def run(self, args: WriteFileArgs) -> WriteFileResult:
        """Raises ToolError, with nothing written, if the file exists without `overwrite`, or changed since it was read."""
        name, path, before, after = self._plan(args)
        content = after.encode()
        text_file.note_written(path, text_file.write_atomically(path, content, name), known=True)
        old = before.text if before else ""
        change, note = edit_summary(old, after.text), syntax_note(name, old, after.text)
        overwritten = before is not None
        return WriteFileResult(path=name, bytes_written=len(content), overwritten=overwritten, change=change, note=note)

    def with_text(self, args: WriteFileArgs, before: str, after: str) -> dict[str, Any] | None:
        kept = text_file.with_format_of(TextFile(before), after).text == after
        return {"path": args.path, "content": after, "overwrite": args.overwrite} if kept else None

    def to_model(self, result: WriteFileResult) -> str:
        what = result.change if result.bytes_written else "empty"
        done = f"{'Overwrote' if result.overwritten else 'Wrote'} {result.path}: {what}."
        return "\n".join(filter(None, (done, result.note)))

    def _plan(self, args: WriteFileArgs) -> tuple[str, Path, TextFile | None, TextFile]:
        workspace = Workspace(self.config.effective_workdir)
        if not workspace.root.is_dir():  # otherwise it would be created with only this file
            raise ToolError(f"The workspace folder {workspace.root} does not exist any more.")
        path = workspace.resolve_for_use(args.path)
        name = workspace.relative(path)
        before = None
        after = TextFile(args.content)
        if path.exists():
            before = text_file.read_text(path, name)
            if not args.overwrite:
                raise ToolError(
                    f"{name} exists already.\nChange it with edit_file, or set overwrite to replace all of it."
                )
            after = text_file.with_format_of(before, args.content)
            text_file.refuse_lost_secret(before.text, after.text, name)
            text_file.refuse_stale(path, name)
        after.encode()
        return name, path, before, after
