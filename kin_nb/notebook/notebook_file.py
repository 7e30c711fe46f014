"""The notebook that this kernel serves, as far as a kernel can know: its file and folder, and what ran since it was written.

A kernel sees that file, never the page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kin_nb.notebook.cell_io import CELL_ID, cell_io
from kin_nb.notebook.options import KinError
from kin_nb.replay.playback.process_context import ProcessContext

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent
    from kin_nb.core.records import SessionRecord


_MOST_FILES = 200


@dataclass(frozen=True)
class CellRun:
    """The last run of a cell: its text and its execution count (None: it has none)."""

    source: str
    count: int | None


def surroundings(shell: InteractiveShell) -> ProcessContext:
    """Return the process context, with the notebook's name that VS Code puts into the namespace."""
    return ProcessContext.current(_vscode_file(shell))


def notebook_file(shell: InteractiveShell) -> Path | None:
    """Return the notebook's file if it is known and exists."""
    try:
        here = ProcessContext(Path.cwd(), os.environ, vscode_file=_vscode_file(shell))
        return next(here.own_files(), None)
    except OSError:  # the folder that this process works in is gone
        return None


def notebook_folder(shell: InteractiveShell) -> Path:
    """Return the folder of the notebook's file, or else the working directory; absolute."""
    here = surroundings(shell)
    own = next(here.own_files(), None)
    return (own.parent if own is not None else here.cwd).resolve()


def record_metadata(shell: InteractiveShell, agent: Agent, record: SessionRecord) -> dict[str, Any]:
    """Return the metadata for the last output of a turn, or of a command that moved the conversation: its record.

    It lets a notebook play that only its front end ever saved.
    """
    from kin_nb.replay.format.output_records import output_metadata  # noqa: PLC0415  (pydantic: not at %load_ext)
    from kin_nb.replay.recording import SessionMeta  # noqa: PLC0415

    return output_metadata(record, SessionMeta.from_header(agent.header, notebook_folder(shell)))


def renamed_file(shell: InteractiveShell, ran: Mapping[str, CellRun]) -> Path | None:
    """Find the renamed notebook: the file in the same folder that holds the cells that ran here (`ran`: by cell id).

    Of copies, the one that holds most of them as they ran last. Session notebooks are exports, and never meant. Raises
    KinError where two hold equally many of them and differ.
    """
    if not ran:
        return None
    try:
        files = islice(surroundings(shell).siblings(), _MOST_FILES)
        found = [(_held(nb, ran), path, nb) for path in files if (nb := _with_one_of(path, ran)) is not None]
    except OSError:  # the folder is gone
        return None
    if not found:
        return None
    most = max(held for held, _, _ in found)
    best = [(path, nb) for held, path, nb in found if held == most]
    if any(nb["cells"] != best[0][1]["cells"] for _, nb in best):
        names = " and ".join(path.name for path, _ in best)
        raise KinError(
            f"Not saved: {names} both hold the cells that ran here, so it is unclear which is this notebook.\n"
            f"Save it (Ctrl-S) and run this again, or name it: kin-nb save {best[0][0].name} OUT.ipynb"
        )
    return max((path for path, _ in best), key=lambda path: path.stat().st_mtime_ns)


def _with_one_of(path: Path, ran: Mapping[str, CellRun]) -> Any:
    """Return the notebook at `path` if it holds one of those cells and is not a session notebook; else None."""
    from kin_nb.replay.errors import UnreadableNotebookError  # noqa: PLC0415  (%load_ext reads no notebooks)
    from kin_nb.replay.format.notebook_codec import claimed_identity  # noqa: PLC0415
    from kin_nb.replay.format.notebook_reader import load_notebook, read_text  # noqa: PLC0415

    try:
        text = read_text(path)
        if not any(cell_id in text for cell_id in ran):
            return None
        nb = load_notebook(path)
    except UnreadableNotebookError:
        return None
    return nb if not claimed_identity(nb)[0] and any(cell.get("id") in ran for cell in nb["cells"]) else None


def _held(nb: Any, ran: Mapping[str, CellRun]) -> tuple[int, int, int]:
    """Count the cells of `ran` in `nb`: with their last execution count, with their last text, and in any form."""
    cells = [(cell, ran[cell["id"]]) for cell in nb["cells"] if cell.get("id") in ran]
    numbered = sum(how.count is not None and cell.get("execution_count") == how.count for cell, how in cells)
    return numbered, sum(cell["source"] == how.source for cell, how in cells), len(cells)


def _vscode_file(shell: InteractiveShell) -> str | None:
    name = shell.user_ns.get("__vsc_ipynb_file__")
    return name if isinstance(name, str) else None


_Stamp = tuple[str, int, int, int]


class NotebookFileWatch:
    """Checks the file after each cell. Times are not compared: the file may be on another machine, with another clock."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._stamp = self._begun = self._now()
        self._loaded = shell.execution_count
        self.failed: set[int] = set()
        """The execution counts of cells that ended in an error."""
        self._ran: dict[str, CellRun] = {}
        """The cells that ran, by their ids, where the front end calls them as the file does."""
        self._renamed: Path | None = None
        """The notebook's file, once it was found under another name."""
        self._first = 1
        """The first execution that the file does not hold as it ended. Unknown before `%load_ext`."""

    def cell_ran(self, result: Any) -> None:
        """Note a run (IPython's `post_run_cell`). Code that a cell passes to IPython has no count, and belongs to that cell."""
        now = self._now()
        self._begun = self._begun or now
        self._note(getattr(result.info, "cell_id", None), CellRun(result.info.raw_cell or "", result.execution_count))
        if result.execution_count is not None and not result.success:
            self.failed.add(result.execution_count)
        if result.execution_count is not None and now != self._stamp:
            self._stamp, self._first = now, result.execution_count

    def notebook_file(self) -> Path | None:
        """Return the notebook's file; after a rename, the file in the same folder that holds the cells that ran here.

        Raises KinError where two siblings may be it.
        """
        path, self._renamed = notebook_file(self._shell), None
        unchanged = path is not None and _stamp(path) == self._begun
        self._note(cell_io(self._shell).parent.get("metadata", {}).get("cellId"))
        if path is not None and self._is_own(path, by_text=not unchanged):
            return path
        self._renamed = renamed_file(self._shell, self._ran)
        return self._renamed or (path if unchanged else None)

    @property
    def renamed(self) -> bool:
        """Whether `notebook_file` found the file under another name."""
        return self._renamed is not None

    def _is_own(self, path: Path, *, by_text: bool) -> bool:
        """Whether the file with the notebook's name is this notebook: it holds the id of a cell that ran or runs here.

        Or all prompts that ran here, `by_text`, since tools write files with new ids; in a notebook without ids any cell that
        ran, commands apart.
        """
        from kin_nb.replay.cell_keys import prompt_key  # noqa: PLC0415  (as below)
        from kin_nb.replay.format.notebook_reader import load_notebook  # noqa: PLC0415  (%load_ext reads no notebooks)
        from kin_nb.replay.saving.build import is_generated  # noqa: PLC0415  (as above)
        from kin_nb.replay.saving.user_cells import is_command_cell  # noqa: PLC0415  (as above)

        nb = load_notebook(path)
        ids = {cell["id"] for cell in nb["cells"] if isinstance(cell.get("id"), str)}
        if not ids.isdisjoint(self._ran) or not by_text:
            return not ids.isdisjoint(self._ran)
        ran = {source.strip() for source in self._shell.history_manager.input_hist_raw} - {""}
        known = [cell for cell in nb["cells"] if cell["source"].strip() in ran]
        if ids and self._ran:
            since = self._shell.history_manager.input_hist_raw[self._loaded :]
            prompts = {source.strip() for source in since if prompt_key(nb, {"cell_type": "code", "source": source})}
            return bool(prompts) and prompts <= {cell["source"].strip() for cell in known}
        return any(not (is_command_cell(nb, cell) or is_generated(cell)) for cell in known)

    def sources(self) -> list[str]:
        """Return the texts of the cells that ran since, each once, without the running one; empty if no file is known."""
        if self._renamed is not None:
            return self._not_in(self._renamed)
        if self._stamp is None or self._now() != self._stamp:
            return []
        ran: list[str] = self._shell.history_manager.input_hist_raw[self._first : self._shell.execution_count]
        return list(dict.fromkeys(source for source in ran if source.strip()))

    def _not_in(self, path: Path) -> list[str]:
        """Return the cells that ran and are not in the file, or are there with an earlier execution count."""
        from kin_nb.replay.format.notebook_reader import load_notebook  # noqa: PLC0415  (as in `notebook_file`)

        numbers = {cell.get("id"): cell.get("execution_count") for cell in load_notebook(path)["cells"]}
        late = [how.source for name, how in self._ran.items() if how.count not in {None, numbers.get(name)}]
        return list(dict.fromkeys(source for source in late if source.strip()))

    def _note(self, cell_id: object, how: CellRun | None = None) -> None:
        if isinstance(cell_id, str) and CELL_ID.fullmatch(cell_id):
            self._ran[cell_id] = how or self._ran.get(cell_id, CellRun("", None))

    def _now(self) -> _Stamp | None:
        path = notebook_file(self._shell)
        return _stamp(path) if path is not None else None


def _stamp(path: Path) -> _Stamp | None:
    """Return a value that changes when the file is written; None if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino
