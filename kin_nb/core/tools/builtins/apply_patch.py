"""apply_patch: change, create, move and delete several files, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import AliasChoices, BaseModel, Field

from kin_nb.core.text import counted, listed
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.file_transaction import write_all
from kin_nb.core.tools.builtins.patch_format import FilePart, parse_patch
from kin_nb.core.tools.builtins.patch_plan import DELETE, EDIT, MOVE, WRITE, PatchPlan, PlannedChange
from kin_nb.core.workspace import Workspace

LONGEST = 400_000
"""Characters of a patch."""
_NAMED = 6
"""Files in the summary; the others are counted."""
_TITLES = {EDIT: "Changed", WRITE: "New file", DELETE: "Deleted", MOVE: "Moved"}
_DONE = {EDIT: "Edited", WRITE: "Wrote", DELETE: "Deleted", MOVE: "Moved"}


class ApplyPatchArgs(BaseModel):
    patch: str = Field(
        max_length=LONGEST,
        validation_alias=AliasChoices("patch", "input"),
        description="From *** Begin Patch to *** End Patch",
    )


class PatchedFile(BaseModel):
    """`kind`: edit, write, delete or move. `source`: the path before a move. `change`, `note`: as in EditFileResult."""

    path: str
    kind: str
    source: str = ""
    change: str
    note: str = ""


class ApplyPatchResult(BaseModel):
    files: list[PatchedFile]


class ApplyPatch(BaseTool[ApplyPatchArgs, ApplyPatchResult, BaseToolConfig, BaseToolState]):
    description: ClassVar[str] = "Change, create, move and delete files with a patch"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    editable: ClassVar[str] = "patch"

    def accesses(self, args: ApplyPatchArgs) -> Accesses:
        """Raises ToolError if it is not a patch."""
        parts = parse_patch(args.patch)
        moved = [part for part in parts if part.move_to]
        written = dict.fromkeys(path for part in parts for path in (part.path, part.move_to) if path)
        removed = dict.fromkeys(part.path for part in parts if part.kind == "Delete" or part.move_to)
        return Accesses(reads=tuple(part.path for part in moved), writes=tuple(written), removes=tuple(removed))

    def allows(self, pattern: str, args: ApplyPatchArgs) -> bool:
        """An allowlist of paths allows edits. Files are moved and deleted only after a question, or with permission = "always"."""
        return not self.accesses(args).removes and super().allows(pattern, args)

    def preview(self, args: ApplyPatchArgs) -> Preview:
        try:
            changes = self._plan(args)[0].shown
        except ToolError as error:
            named = listed(_paths(parse_patch(args.patch)), _NAMED)
            return text_file.failing_preview("patch", named, error, args.model_dump_json(indent=2))
        note = " ".join(filter(None, (change.note for change in changes)))
        return Preview(summary=_summary(changes), body="".join(map(_diff, changes)), kind="diff", note=note)

    async def run(self, args: ApplyPatchArgs) -> ApplyPatchResult:
        """Raises ToolError, with all files as they were, if a hunk does not fit or a file cannot be written."""
        plan, known = self._plan(args)
        before = [change for change in plan.changes if text_file.is_known(change.path)]
        try:
            statuses = write_all(plan.changes)
        except ToolError:
            for change in before:  # restored files have new times
                text_file.note_if_unchanged(change.path, change.before)
            raise
        for path, is_known in known.items():
            text_file.note_written(path, statuses[path], known=is_known)
        return ApplyPatchResult(
            files=[
                PatchedFile(path=file.name, kind=file.kind, source=file.source, change=file.change, note=file.note)
                for file in plan.shown
            ]
        )

    def to_model(self, result: ApplyPatchResult) -> str:
        return "\n".join(line for file in result.files for line in (_done(file), file.note) if line)

    def _plan(self, args: ApplyPatchArgs) -> tuple[PatchPlan, dict[Path, bool]]:
        """The plan, and the files that it writes, each with whether the model knows its text then."""
        plan = PatchPlan(parse_patch(args.patch), Workspace(self.config.effective_workdir))
        return plan, dict(plan.known_after())


def _paths(parts: Sequence[FilePart]) -> list[str]:
    return list(dict.fromkeys(part.path for part in parts))


def _summary(changes: Sequence[PlannedChange]) -> str:
    """One line: `edit a.py (+1 -2)`, or all of several files."""
    added, removed = (sum(counts) for counts in zip(*(change.counts for change in changes), strict=True))
    size = f"(+{added} -{removed})"
    if len(changes) == 1:
        return f"{changes[0].kind} {_subject(changes[0])} {size}"
    named = [_subject(change) if change.kind == EDIT else f"{change.kind} {_subject(change)}" for change in changes]
    return f"patch {counted(len(changes), 'file')} {size}: {listed(named, _NAMED)}"


def _subject(change: PlannedChange) -> str:
    return f"{change.source} to {change.name}" if change.source else change.name


def _diff(change: PlannedChange) -> str:
    """One file of the preview: a title, then its diff, if it has one."""
    how = f" ({change.change})" if not change.diff else ""
    return f"{_TITLES[change.kind]}: {_subject(change)}{how}\n{change.diff}"


def _done(file: PatchedFile) -> str:
    subject = f"{file.source} to {file.path}" if file.source else file.path
    return f"{_DONE[file.kind]} {subject}: {file.change}."
