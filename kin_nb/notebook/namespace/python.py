"""python: code in the notebook's namespace; and all the tools of one notebook, classes that know its shell."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, Field

from kin_nb.core.messages import ImageContent
from kin_nb.core.records import MOST_NAMES
from kin_nb.core.text import listed, shorten
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import AnyTool, BaseTool
from kin_nb.notebook.namespace.captured_output import CapturedOutput
from kin_nb.notebook.namespace.changed_modules import ChangedModules, ChangedPackages, ToolImports
from kin_nb.notebook.namespace.code_runner import CodeResult, run_code
from kin_nb.notebook.namespace.notebook_cells import NotebookCells
from kin_nb.notebook.namespace.pictures import shrink_to_fit
from kin_nb.notebook.namespace.time_limit import on_main_thread
from kin_nb.notebook.namespace.variables import Variables
from kin_nb.render.tool_parts import changed_note, pictures_note

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent

_WHY = "it runs in your notebook's kernel, where it can also change what kin_nb allows"
_LONGEST_SUMMARY = 100
_TIME_UP = 124
"""The exit code of the bash tool."""


class PythonArgs(BaseModel):
    code: str = Field(min_length=1, description="Python code")
    timeout: int | None = Field(None, ge=1, le=600, description="Seconds; no limit when absent")


class PythonResult(BaseModel):
    """`printed`: stdout, stderr and what was displayed, in order. `value`: the last expression. `error`: a traceback.

    `changed`: variables that were assigned or changed in place; `left_out`: a line for each picture that is not sent.
    """

    printed: str = ""
    value: str = ""
    error: str = ""
    changed: list[str] = Field(default_factory=list)
    deleted: list[str] = Field(default_factory=list)
    pictures: list[ImageContent] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)
    timed_out: bool = False
    """It was interrupted at its time limit; it may have finished all the same."""


class Python(BaseTool[PythonArgs, PythonResult, BaseToolConfig, BaseToolState]):
    """Undo restores files, not variables: the record lists the changed variables."""

    editable: ClassVar[str] = "code"
    description: ClassVar[str] = "Run Python code in the notebook's namespace"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    shell: ClassVar[InteractiveShell]
    imports: ClassVar[ToolImports]

    def accesses(self, args: PythonArgs) -> Accesses:  # noqa: ARG002
        return Accesses(everything=True, reason=_WHY, in_process=True)

    def preview(self, args: PythonArgs) -> Preview:
        first, *more = args.code.strip().split("\n")
        summary = shorten(first, _LONGEST_SUMMARY)
        return Preview(summary=f"{summary} …" if more and summary == first else summary, body=args.code, kind="code")

    async def run(self, args: PythonArgs) -> PythonResult:
        """An exception in the code is a result. Raises ToolError, nothing run, for magics and top-level await."""
        printed = CapturedOutput(asyncio.get_running_loop(), self.emit)
        try:
            ran = await on_main_thread(partial(self._run, args, printed))
        finally:
            printed.flush()
        fitting = [shrink_to_fit(picture) for picture in printed.pictures]
        return PythonResult(
            printed=printed.text(),
            value=ran.value,
            error=ran.error,
            changed=list(ran.changed),
            deleted=list(ran.deleted),
            pictures=[picture for picture, _ in fitting if picture is not None],
            timed_out=ran.timed_out,
            left_out=[f"[a picture is left out: {why}]" for picture, why in fitting if picture is None],
        )

    def _run(self, args: PythonArgs, printed: CapturedOutput) -> CodeResult:
        with self.imports.noted():
            return run_code(self.shell, args.code, printed, args.timeout)

    def to_model(self, result: PythonResult) -> str:
        texts = [text.rstrip("\n") for text in (result.printed, result.value, result.error) if text.strip()]
        texts += filter(None, [pictures_note(len(result.pictures))])
        said = ["[its timeout was up: it was interrupted]"] if result.timed_out else []
        said += filter(None, [changed_note(result.changed)])
        said += [f"[deleted: {listed(result.deleted, MOST_NAMES)}]"] if result.deleted else []
        return "\n".join([*(texts or ["[no output]"]), *result.left_out, *said])

    def images(self, result: PythonResult) -> list[ImageContent]:
        return result.pictures

    def exit_code(self, result: PythonResult) -> int | None:
        return _TIME_UP if result.timed_out else 1 if result.error else 0

    def uncovered(self, result: PythonResult | None) -> str:
        return "variables that it had changed when it was stopped" if result is None else ""

    def bound(self, result: PythonResult) -> list[str]:
        return [*result.changed, *result.deleted]


def namespace_tools(shell: InteractiveShell, imports: ToolImports | None = None) -> dict[str, type[AnyTool]]:
    """By name. They work in turns that a cell of `shell` waits for. `imports`: where `python` notes what it imports."""
    bases: tuple[type[AnyTool], ...] = (Variables, Python, NotebookCells)
    own = {"shell": shell, "imports": imports or ToolImports()}
    return {base.get_name(): type(base.__name__, (base,), own) for base in bases}


def add_namespace_tools(agent: Agent, shell: InteractiveShell, imports: ToolImports | None = None) -> None:
    """A name that one of the person's own tools has stays theirs; a warning says so, in the next turn."""
    for tool in namespace_tools(shell, imports).values():
        try:
            agent.tool_manager.add(tool)
        except ToolError as error:
            agent.journal.warn(str(error))


def install_tools(agent: Agent, shell: InteractiveShell) -> None:
    """Add the tools, and the warning in the summary line when the kernel still runs code that a turn has changed."""
    imports = ToolImports()
    add_namespace_tools(agent, shell, imports)
    agent.turn_hooks.extend([ChangedModules(agent, shell, imports), ChangedPackages()])
