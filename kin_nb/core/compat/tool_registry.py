"""ToolRegistry: register, look up and run tools from a program."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from kin_nb.core.callback_errors import describe_error, must_propagate
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import AnyTool, BaseTool, Tool
from kin_nb.core.tools.discovery import adapt_tool
from kin_nb.core.tools.manager import ToolManager


class ToolRegistry:
    """A ToolManager for programs: `ToolRegistry(agent.tool_manager)`. The model is offered the tools that are registered.

    `execute` is for a program, which decides itself what to run: it asks no approval and records nothing. The agent's own
    calls do not use it; each of them goes through the safety chain.
    """

    def __init__(self, manager: ToolManager) -> None:
        self._manager = manager

    def register(self, tool: type[AnyTool | Tool] | Tool) -> None:
        """Add a tool: a subclass of BaseTool or Tool, or an instance of Tool.

        Raises ToolError when the name is taken, or when a model cannot call the tool.
        """
        if isinstance(tool, type) and issubclass(tool, BaseTool):
            self._manager.add(tool)
            return
        if not isinstance(tool, Tool) and not (isinstance(tool, type) and issubclass(tool, Tool)):
            raise ToolError(f"{tool!r} is not a tool. Pass a subclass of BaseTool or Tool, or an instance of Tool.")
        try:
            self._manager.add(adapt_tool(tool))
        except ValueError as error:
            name = tool.__name__ if isinstance(tool, type) else type(tool).__name__
            raise ToolError(f"{name} was not added: {error}.") from error

    def get_tool(self, name: str) -> AnyTool:
        """Return a tool. Raises ToolError for an unknown name and for a disabled tool."""
        return self._manager.get(name)

    def get_schemas(self) -> list[dict[str, Any]]:
        """`{"type": "function", "function": {"name", "description", "parameters"}}` for each tool that the model is offered."""
        return [schema.model_dump() for schema in self._manager.schemas()]

    async def execute(self, name: str, args: dict[str, Any]) -> str:
        """Run a tool and return the text for the model, without images. Raises ToolError for every failure."""
        tool = self._manager.get(name)
        try:
            result: object = await tool.invoke(**args)
            if not isinstance(result, BaseModel):
                raise ToolError(f"{name} did not return a result.")  # noqa: TRY301
            return tool.to_model(result)
        except ToolError:
            raise
        except BaseException as error:  # a tool's own code
            if must_propagate(error):
                raise
            raise ToolError(f"{name} failed: {describe_error(error)}") from error
