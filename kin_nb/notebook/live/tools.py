"""The tools of one notebook: classes that know its shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kin_nb.core.tools.base import AnyTool, ToolError
from kin_nb.notebook.live.cells import Notebook
from kin_nb.notebook.live.changed_modules import ChangedModules, Imports
from kin_nb.notebook.live.changed_packages import ChangedPackages
from kin_nb.notebook.live.python import Python
from kin_nb.notebook.live.variables import Variables

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kin_nb.core.agent import Agent


def live_tools(shell: InteractiveShell, imports: Imports | None = None) -> dict[str, type[AnyTool]]:
    """By name. They work in turns that a cell of `shell` waits for. `imports`: where `python` notes what it imports."""
    bases: tuple[type[AnyTool], ...] = (Variables, Python, Notebook)
    own = {"shell": shell, "imports": imports or Imports()}
    return {base.get_name(): type(base.__name__, (base,), own) for base in bases}


def add_live_tools(agent: Agent, shell: InteractiveShell, imports: Imports | None = None) -> None:
    """A name that one of the person's own tools has stays theirs; a warning says so, in the next turn."""
    for tool in live_tools(shell, imports).values():
        try:
            agent.tool_manager.add(tool)
        except ToolError as error:
            agent.journal.warnings.append(str(error))


def move_in(agent: Agent, shell: InteractiveShell) -> None:
    """The tools, and a hint in the receipt when this kernel goes on with code that a turn has changed."""
    imports = Imports()
    add_live_tools(agent, shell, imports)
    agent.onlookers += [ChangedModules(agent, shell, imports), ChangedPackages()]
