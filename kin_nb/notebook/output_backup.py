"""OutputBackup: one output with a copy of the records in all other outputs, for a Run All that stops above them.

Run All clears all outputs first. When a cell then fails, the cells below it stay empty, and the front end saves them so. The
first cell that plays, or else the cell that failed, therefore holds a copy in its output. When all cells have their records
again, the copy is removed, so that a notebook is not larger after playing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.cell_io import CellOutput, cell_io
from kin_nb.notebook.notebook_file import notebook_file

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.notebook.streaming.display import Display
    from kin_nb.render import Output

_MARKS = (b"kin_recording", b"kin_kept")
"""What a file holds whose outputs carry records, or a copy of them (KEY and KEPT of replay/format/output_records.py)."""
_MOST_BYTES = 64 * 1024 * 1024
"""Of a file that is read, as in replay/format/notebook_reader.py."""

Kept = dict[str, Any]
"""`cell`: its id; `carried`: what an output of it carries."""


class OutputBackup:
    """Backup of the records in outputs. Created at `%load_ext`: a front end may overwrite the file before the first prompt.

    `known`: what this kernel knows in addition to the file.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.known: Callable[[], Iterable[Kept]] = tuple
        self.shown_records: Callable[[], Iterable[tuple[str, str]]] = tuple
        """What the notebook's cells show when they play: (the cell's id, the record's)."""
        self._kept: tuple[Kept, ...] = ()
        self._at_first = self._file_with_records()
        """The file when the kernel began, until it is parsed; None where it held no records."""
        self._cells: list[str] = []
        """The ids of the file's cells, in their order."""
        self._seen: set[str] = set()
        self._holder: str | None = None
        """The id of the cell whose output holds the copy."""
        self._lost = False
        """Whether that cell ran again since, and its output is another one."""
        self._shown = False
        """Whether the cell that runs now shows the copy."""
        self._copy: tuple[Display, Output] | None = None
        """The output that holds the copy, while it is still needed."""
        self._waiting: set[tuple[str, str]] = set()
        """What is copied and its cell still has to show: (the cell's id, the record's)."""
        self._again: set[tuple[str, str]] = set()
        """What cells have shown since."""

    def is_due(self, cell_id: str | None) -> bool:
        """Whether a cell that plays must show the backup again: that cell, or one that ran again without it, had it."""
        return self._lost or (cell_id is not None and cell_id == self._holder)

    def show(self, notice: Output, io: CellOutput, nb: Any = None, *, only_with_copy: bool = False) -> None:
        """Show `notice`, with the backup in its metadata. `nb`: the notebook, if another file than its own is played."""
        copied = self._metadata(nb) if io.cell_id is not None else {}
        if not copied:
            if not only_with_copy:
                io.display(notice.data, notice.metadata)
            return
        from kin_nb.notebook.streaming.display import Display  # noqa: PLC0415  (not at %load_ext)
        from kin_nb.replay.format.output_records import record_id  # noqa: PLC0415

        self._again = set()
        self._holder, self._lost, self._shown = io.cell_id, False, True
        copies = {(each["cell"], record_id(each["carried"])) for each in self._kept}
        self._waiting = copies.intersection(self.shown_records())
        display = Display(io)
        self._copy = (display, notice)
        display.put(notice.data, {**notice.metadata, **copied})

    def carries_again(self, cell_id: str, ids: Iterable[str]) -> None:
        """Note that the outputs of that cell hold these records again. The backup then needs only the records of no output."""
        if self._copy is None or not self._waiting:
            return
        from kin_nb.replay.format.output_records import BACKUP_KEY, record_id  # noqa: PLC0415  (pydantic: not at %load_ext)

        self._again.update((cell_id, each) for each in ids)
        self._waiting.difference_update(self._again)
        if not self._waiting:
            (display, notice), self._copy = self._copy, None
            left = [each for each in self._kept if (each["cell"], record_id(each["carried"])) not in self._again]
            display.put(notice.data, {**notice.metadata, **({BACKUP_KEY: left} if left else {})})

    def cell_ran(self, result: Any) -> None:
        """Show the backup below a failed cell, which stops Run All, for the cells below it (IPython's `post_run_cell`)."""
        if result.execution_count is None:  # code that a cell hands to IPython
            return
        io = cell_io(self._shell)
        if io.cell_id is not None and not self._shown:
            self._ran_without_copy(io, success=result.success)
        self._shown = False

    def _ran_without_copy(self, io: CellOutput, *, success: bool) -> None:
        if success:
            if io.cell_id == self._holder:
                self._holder, self._lost = None, True
        elif io.parent.get("content", {}).get("stop_on_error", True) and self._is_needed(io.cell_id):
            from kin_nb.render import render_notice  # noqa: PLC0415  (%load_ext draws nothing)

            lines = ["They are shown when those cells run again."]
            self.show(render_notice("This output keeps the answers of the cells below", lines), io, only_with_copy=True)

    def _is_needed(self, failed: str | None) -> bool:
        """Whether a Run All that stops at the cell `failed` loses records that no output above it holds."""
        if not (self._at_first or self._kept or any(self.known()) or self._file_with_records()):
            return False
        self._metadata()
        position = {cell_id: n for n, cell_id in enumerate(self._cells)}
        if failed not in position:
            return self._holder is None
        at, last = position[failed], len(position)
        below = any(position.get(each["cell"], last) > at for each in self._kept)
        return below and (self._holder is None or position.get(self._holder, last) >= at)

    def _metadata(self, nb: Any = None) -> Kept:
        """Return the metadata with the backup; empty if there is nothing to back up, or too much.

        Of the file as it was and is, and of what this kernel knows; not of cells that were deleted.
        """
        from kin_nb.replay.format.output_records import BACKUP_KEY, backup_metadata  # noqa: PLC0415  (pydantic: not at %load_ext)

        before = [*self._as_at_first(), *self._kept, *self.known()]
        nb = nb if nb is not None else self._own_notebook()
        if nb is not None:
            self._cells = [cell["id"] for cell in nb["cells"] if isinstance(cell.get("id"), str)]
            before = [each for each in before if each["cell"] in self._cells or each["cell"] not in self._seen]
            self._seen.update(self._cells)
        found = backup_metadata(nb if nb is not None else {"cells": []}, before)
        self._kept = tuple(found.get(BACKUP_KEY, ()))
        return found

    def _as_at_first(self) -> list[Kept]:
        from kin_nb.replay.errors import UnreadableNotebookError  # noqa: PLC0415  (as above)
        from kin_nb.replay.format.notebook_reader import parse_notebook  # noqa: PLC0415
        from kin_nb.replay.format.output_records import BACKUP_KEY, backup_metadata  # noqa: PLC0415

        data, self._at_first = self._at_first, None
        with suppress(UnreadableNotebookError, UnicodeDecodeError):
            if data is not None:
                nb = parse_notebook(data.decode("utf-8-sig"), "")
                self._seen.update(cell["id"] for cell in nb["cells"] if isinstance(cell.get("id"), str))
                return list(backup_metadata(nb).get(BACKUP_KEY, ()))
        return []

    def _own_notebook(self) -> Any:
        from kin_nb.replay.errors import UnreadableNotebookError  # noqa: PLC0415  (as above)
        from kin_nb.replay.format.notebook_reader import load_notebook  # noqa: PLC0415

        own = notebook_file(self._shell)
        with suppress(UnreadableNotebookError):  # it may be being written
            return load_notebook(own) if own is not None else None
        return None

    def _file_with_records(self) -> bytes | None:
        """Read the file as it is now; None if it holds no records or is not known."""
        own: Path | None = notebook_file(self._shell)
        try:
            data = own.read_bytes() if own is not None and own.stat().st_size <= _MOST_BYTES else b""
        except OSError:
            return None
        return data if any(mark in data for mark in _MARKS) else None
