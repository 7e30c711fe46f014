"""What a patch would do to the files of the workspace: everything is located and checked here, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kin_nb.core.syntax_check import syntax_note
from kin_nb.core.text import counted
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.builtins import text_file
from kin_nb.core.tools.builtins.edits import edit_summary
from kin_nb.core.tools.builtins.file_transaction import PlannedWrite, check_writable
from kin_nb.core.tools.builtins.patch_format import FilePart, patched
from kin_nb.core.tools.builtins.path_arguments import resolve_existing
from kin_nb.core.tools.builtins.text_file import LARGEST, TextFile
from kin_nb.core.workspace import Workspace, read_bytes

EDIT, WRITE, DELETE, MOVE = "edit", "write", "delete", "move"
"""Kinds of changes."""


@dataclass
class _File:
    """A file on disk (`before`) and as the patch so far leaves it (`after`); None: there is none.

    `source`: the file that was moved here. `moved`: this one was moved elsewhere. `mode`: on disk, or of the source. `is_new_text`:
    the patch has all of its text.
    """

    path: Path
    name: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None
    source: _File | None = None
    moved: bool = False
    is_new_text: bool = False


@dataclass(frozen=True)
class PlannedChange:
    """One change as it is shown: `source` is the name before a move, "" without one.

    `before` and `after` are the texts, "" for no file; for a binary file both are "" and `size` is its bytes.
    """

    kind: str
    name: str
    source: str = ""
    before: str = ""
    after: str = ""
    size: int | None = None

    @property
    def diff(self) -> str:
        return text_file.unified_diff(self.name, self.before, self.after, old_name=self.source)

    @property
    def counts(self) -> tuple[int, int]:
        """The added and the removed lines."""
        lines = self.diff.split("\n")[2:]
        return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)

    @property
    def note(self) -> str:
        return syntax_note(self.name, self.before, self.after) if self.kind != DELETE else ""

    @property
    def change(self) -> str:
        """The changed lines, as text; of a deleted file their number."""
        if self.size is not None:
            return f"binary, {self.size:,} bytes"
        if self.kind == DELETE:
            return counted(self.counts[1], "line")
        if self.before == self.after:
            return "not changed" if self.kind == MOVE else "empty"
        return edit_summary(self.before, self.after)


class PatchPlan:
    """The changes of a patch. Raises ToolError if one of them is not possible; then none is made.

    Parts of one file are applied in order. A file that was deleted may be added again, which replaces all of it.
    """

    def __init__(self, parts: Sequence[FilePart], workspace: Workspace) -> None:
        if not workspace.root.is_dir():  # otherwise it would be created with only these files
            raise ToolError(f"The workspace folder {workspace.root} does not exist any more.")
        self._workspace = workspace
        self._files: dict[Path, _File] = {}
        for part in parts:
            {"Add": self._add, "Delete": self._delete, "Update": self._update}[part.kind](part)
        if not self.changes:
            raise ToolError("The patch changes nothing: the files are as it would make them.")

    @property
    def changes(self) -> list[PlannedWrite]:
        return [
            PlannedWrite(file.path, file.name, file.before, file.after, file.mode)
            for file in self._files.values()
            if file.before != file.after
        ]

    @property
    def shown(self) -> list[PlannedChange]:
        """The changes as the user and the model read them; a move is one of them."""
        return [self._shown(file) for file in self._files.values() if file.before != file.after and not file.moved]

    def known_after(self) -> Iterator[tuple[Path, bool]]:
        """Yield the files that exist afterwards, and whether the model then knows all of their text."""
        for file in self._files.values():
            if file.after is not None and file.before != file.after:
                yield file.path, file.is_new_text or text_file.is_known((file.source or file).path)

    def _shown(self, file: _File) -> PlannedChange:
        old = file.source.before if file.source else file.before
        kind = MOVE if file.source else WRITE if old is None else DELETE if file.after is None else EDIT
        try:
            before, after = ("" if side is None else text_file.text_of(side, "").text for side in (old, file.after))
        except ToolError:  # binary
            size = len(file.after if file.after is not None else old or b"")
            return PlannedChange(kind, file.name, file.source.name if file.source else "", size=size)
        return PlannedChange(kind, file.name, file.source.name if file.source else "", before, after)

    def _add(self, part: FilePart) -> None:
        file = self._new(part.path)
        text = TextFile("".join(f"{line}\n" for line in part.lines))
        if file.before is not None:
            old = text_file.text_of(file.before, file.name)
            text = text_file.with_format_of(old, text.text)
            text_file.refuse_lost_secret(old.text, text.text, file.name)
        file.after, file.moved, file.is_new_text = text.encode(), False, True

    def _delete(self, part: FilePart) -> None:
        file = self._existing(part.path, whole=True)
        text_file.refuse_stale(file.path, file.name)
        file.after, file.is_new_text = None, False

    def _update(self, part: FilePart) -> None:
        file = self._existing(part.path, whole=bool(part.move_to))
        if part.hunks:
            file.after = self._patched(file, part)
        if part.move_to and self._workspace.resolve_for_use(part.move_to) != file.path:
            self._move(file, self._new(part.move_to))

    def _patched(self, file: _File, part: FilePart) -> bytes:
        text = text_file.text_of(file.after or b"", file.name)
        try:
            return replace(text, text=patched(text, part, file.name)).encode()
        except ToolError as error:
            stale = text_file.stale_note(file.path, file.name)
            raise ToolError("\n".join(filter(None, (str(error), stale)))) from error

    def _move(self, file: _File, target: _File) -> None:
        if target.before is not None:  # a move is shown as one change, without the text that it would replace
            raise ToolError(
                f"{target.name} is deleted in this patch, so nothing can be moved there. Nothing was written."
            )
        target.source = file.source or (file if file.before is not None else None)
        target.after, target.mode, target.is_new_text = file.after, file.mode, file.is_new_text
        file.after, file.moved, file.source = None, True, None

    def _new(self, given: str) -> _File:
        """A path without a file, so far. Raises ToolError if there is one."""
        file = self._file(given)
        if file.after is not None:
            raise ToolError(
                f"{file.name} exists already. Nothing was written.\n"
                "Change it with `*** Update File:`, or put `*** Delete File:` for it before, to replace all of it."
            )
        return file

    def _existing(self, given: str, *, whole: bool) -> _File:
        """A file that exists. `whole`: it is to be moved or deleted, so it must not be a link. Raises ToolError."""
        path = self._workspace.resolve_for_use(given)
        if path not in self._files:
            resolve_existing(self._workspace, given)  # raises with similar names
        file = self._file(given)
        if file.after is None:
            raise ToolError(f"{file.name} is deleted or moved earlier in this patch. Nothing was written.")
        written = self._workspace.root / Path(given).expanduser()
        if whole and written.is_symlink():
            raise ToolError(
                f"{given} is a symbolic link to {file.name}. Nothing was written.\nMove or delete it with bash."
            )
        return file

    def _file(self, given: str) -> _File:
        path = self._workspace.resolve_for_use(given)
        if path not in self._files:
            name = self._workspace.relative(path)
            mode = check_writable(path, name)
            before = read_bytes(path, LARGEST, name) if os.path.lexists(path) else None
            self._files[path] = _File(path, name, before, before, mode)
        return self._files[path]
