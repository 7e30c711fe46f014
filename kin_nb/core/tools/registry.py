"""ToolRegistry (seed 004): a session's tools for a program that adds, lists or runs some itself."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from kin_nb.core.callback_errors import describe_error, must_propagate
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import AnyTool, BaseTool, Tool
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.simple import adapted


class ToolRegistry:
    """A face over a ToolManager: `ToolRegistry(agent.tool_manager)`. What is registered here the agent's model is offered.

    `execute` is for programs, which decide for themselves: it asks nobody and records nothing. The agent's own calls never
    come this way; each goes through the safety chain.
    """

    def __init__(self, manager: ToolManager) -> None:
        self._manager = manager

    def register(self, tool: type[AnyTool | Tool] | Tool) -> None:
        """Add a tool: a class in either form, or an instance in seed 004's.

        Raises ToolError for a name that is taken, and for a tool that models cannot be offered.
        """
        if isinstance(tool, type) and issubclass(tool, BaseTool):
            self._manager.add(tool)
            return
        if not isinstance(tool, Tool) and not (isinstance(tool, type) and issubclass(tool, Tool)):
            raise ToolError(
                f"{tool!r} is no tool: a subclass of BaseTool or Tool, or an instance of Tool, was expected."
            )
        try:
            self._manager.add(adapted(tool))
        except ValueError as error:
            name = tool.__name__ if isinstance(tool, type) else type(tool).__name__
            raise ToolError(f"{name} is not added: {error}.") from error

    def get_tool(self, name: str) -> AnyTool:
        """Raises ToolError for a name that no tool has, and for a tool that is disabled."""
        return self._manager.get(name)

    def get_schemas(self) -> list[dict[str, Any]]:
        """`{"type": "function", "function": {"name", "description", "parameters"}}` for each tool on offer."""
        return [schema.model_dump() for schema in self._manager.schemas()]

    async def execute(self, name: str, args: dict[str, Any]) -> str:
        """Run a tool and return what a model would read; pictures are left out. Raises ToolError for whatever goes wrong."""
        tool = self._manager.get(name)
        try:
            result: object = await tool.run(tool.parse_args(args))
            if not isinstance(result, BaseModel):
                raise ToolError(f"{name} returned what is no result.")  # noqa: TRY301
            return tool.to_model(result)
        except ToolError:
            raise
        except BaseException as error:  # a tool's own code
            if must_propagate(error):
                raise
            raise ToolError(f"{name} failed: {describe_error(error)}") from error
