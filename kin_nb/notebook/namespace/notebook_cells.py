"""notebook: the cells above the one that runs, and one new cell below it.

They are from the notebook's file where that can be known, else as this kernel ran them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError, ToolPermission
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins.read_file import cell_text
from kin_nb.notebook.cell_io import cell_io
from kin_nb.notebook.namespace.time_limit import on_main_thread
from kin_nb.notebook.notebook_file import surroundings
from kin_nb.replay.errors import UnreadableNotebookError
from kin_nb.replay.format.notebook_reader import load_notebook

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


@dataclass(frozen=True)
class CellsAbove:
    """`cells`: as in an .ipynb, first to last. `origin`: where they are from, in words."""

    cells: list[dict[str, Any]]
    origin: str


def cells_above(shell: InteractiveShell) -> CellsAbove:
    """Return the cells above the running one. For the main thread. A file that lacks this cell is not used."""
    cell_id = cell_io(shell).cell_id
    for path in surroundings(shell).own_files() if cell_id else ():
        try:
            cells: list[dict[str, Any]] = load_notebook(path)["cells"]
        except UnreadableNotebookError:  # it may be being written
            continue
        position = next((n for n, cell in enumerate(cells) if cell.get("id") == cell_id), None)
        if position is not None:
            return CellsAbove(cells[:position], f"from {path.name} as it was last saved")
    sources = shell.history_manager.input_hist_raw[1:-1]  # the last is the one that runs; the first is empty
    return CellsAbove(
        [{"cell_type": "code", "source": source} for source in sources if source.strip()],
        "as this kernel ran them, in that order, without outputs",
    )


MOST = 100
LONGEST_OUTPUT = 500
"""Characters of each output."""


class NotebookArgs(BaseModel):
    action: Literal["read", "insert"]
    last: int = Field(10, ge=1, le=MOST, description="For read: the last cells above this one")
    cell: str | int | None = Field(None, description="For read: only this one, by its number or id")
    code: str | None = Field(
        None, description="For insert: code for the one new cell of this turn, after what is in it"
    )


class NotebookResult(BaseModel):
    text: str


class NotebookConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class NotebookState(BaseToolState):
    """`inserted_at`: the execution count of the cell that last put a cell below itself, with `code`."""

    inserted_at: int | None = None
    code: str = ""


class NotebookCells(BaseTool[NotebookArgs, NotebookResult, NotebookConfig, NotebookState]):
    """Runs without approval: it reads what the user sees, and its inserted cell is a proposal.

    A cell that is put below this one is neither run nor saved: the user reads it, and runs or deletes it. Kernels and
    front ends keep one such cell for each cell that runs, so the code of all inserts of a turn goes into that one.
    """

    description: ClassVar[str] = "Read the cells above this one, or put a new code cell below it"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    shell: ClassVar[InteractiveShell]

    @classmethod
    def get_name(cls) -> str:
        return "notebook"

    def accesses(self, args: NotebookArgs) -> Accesses:  # noqa: ARG002
        return Accesses()

    def preview(self, args: NotebookArgs) -> Preview:
        summary = f"read the last {args.last} cells" if args.cell is None else f"read cell {args.cell}"
        if args.action == "insert":
            return Preview(summary="put code into the new cell below this one", body=args.code or "", kind="code")
        return Preview(summary=summary, body=args.model_dump_json(indent=2))

    async def run(self, args: NotebookArgs) -> NotebookResult:
        """Raises ToolError for a cell that is not there, for nothing to insert, and for code that cannot be added."""
        if args.action == "read":
            return NotebookResult(text=_told(await on_main_thread(partial(cells_above, self.shell)), args))
        if not args.code or not args.code.strip():
            raise ToolError("insert needs code: the text of the new cell.")
        return NotebookResult(text=await on_main_thread(partial(self._insert, args.code)))

    def to_model(self, result: NotebookResult) -> str:
        return result.text

    def _insert(self, code: str) -> str:
        shell, state = self.shell, self.state
        again = state.inserted_at == shell.execution_count
        if again and any(text.lstrip().startswith("%%") for text in (state.code, code)):
            raise ToolError(
                "Nothing was added: a turn has one new cell, it already has code, and a cell magic (%%) must be alone in a cell. "
                "Give this code in your reply, or insert it in the next turn."
            )
        state.code = f"{state.code.rstrip()}\n\n{code}" if again else code
        state.inserted_at = shell.execution_count
        shell.set_next_input(_as_typed(state.code, shell), replace=False)
        if again:
            return "There is one new cell a turn: this code was added at the end of it. It has not run."
        return "When this turn has ended without an error, a new cell with this code is below this one. It has not run."


def _as_typed(code: str, shell: Any) -> str:
    """In the Kin kernel a cell is a prompt, unless it says otherwise."""
    is_kin = getattr(getattr(shell, "kernel", None), "implementation", "") == "kin"
    return f"%%python\n{code}" if is_kin and not code.lstrip().startswith("%") else code


def _told(found: CellsAbove, args: NotebookArgs) -> str:
    numbered = list(enumerate(found.cells, 1))
    if args.cell is not None:
        numbered = [(n, cell) for n, cell in numbered if args.cell in (n, str(n), cell.get("id"))]
        if not numbered:
            raise ToolError(f"There is no cell {args.cell!r} above this one; they are 1 to {len(found.cells)}.")
    shown = [cell_text(number, cell, LONGEST_OUTPUT) for number, cell in numbered[-args.last :]]
    left_out = len(numbered) - len(shown)
    before = [f"[{left_out:,} cell{'' if left_out == 1 else 's'} before these]"] if left_out else []
    return "\n".join([f"[{found.origin}]", *before, *(shown or ["There is no cell above this one."])])
