"""The tools of one notebook: classes that know its shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.tools.base import AnyTool, ToolError
from kin_nb.notebook.live.cells import Notebook
from kin_nb.notebook.live.python import Python
from kin_nb.notebook.live.variables import Variables

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent


def live_tools(shell: InteractiveShell) -> dict[str, type[AnyTool]]:
    """By name. They work in turns that a cell of `shell` waits for."""
    bases: tuple[type[AnyTool], ...] = (Variables, Python, Notebook)
    return {base.get_name(): type(base.__name__, (base,), {"shell": shell}) for base in bases}


def add_live_tools(agent: Agent, shell: InteractiveShell) -> None:
    """A name that one of the person's own tools has stays theirs; a warning says so, in the next turn."""
    for tool in live_tools(shell).values():
        try:
            agent.tool_manager.add(tool)
        except ToolError as error:
            agent.journal.warnings.append(str(error))
