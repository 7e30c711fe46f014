"""ToolManager: which tools there are, and one instance of each for the session (seed 000)."""

from __future__ import annotations

from kin_nb.core.config import KinConfig
from kin_nb.core.tools.base import AnyTool, BaseToolConfig, ToolError
from kin_nb.core.types import AvailableFunction, AvailableTool


class ToolManager:
    """Instances are made on first use and kept, with their state, until `reset_all`."""

    def __init__(self, config: KinConfig) -> None:
        from kin_nb.core.tools.builtins import builtin_tools  # noqa: PLC0415  (tools import base, which we are beside)

        self._config = config
        self._classes = builtin_tools()
        self._instances: dict[str, AnyTool] = {}
        self._schemas: list[AvailableTool] | None = None

    def available_tools(self) -> dict[str, type[AnyTool]]:
        return dict(self._classes)

    def schemas(self) -> list[AvailableTool]:
        """What the model is offered: the same list object every time, in a fixed order."""
        if self._schemas is None:
            infos = [tool.get_info() for tool in self._classes.values()]
            self._schemas = [
                AvailableTool(
                    function=AvailableFunction(name=i.name, description=i.description, parameters=i.parameters)
                )
                for i in infos
            ]
        return self._schemas

    def get(self, tool_name: str) -> AnyTool:
        """Raises ToolError that lists the tools when there is none of that name."""
        if tool_name not in self._classes:
            raise ToolError(f"Unknown tool '{tool_name}'. Tools: {', '.join(self._classes)}.")
        if tool_name not in self._instances:
            self._instances[tool_name] = self._classes[tool_name].from_config(self.get_tool_config(tool_name))
        return self._instances[tool_name]

    def get_tool_config(self, tool_name: str) -> BaseToolConfig:
        """The tool's defaults, then `[tools.NAME]`, then the workspace."""
        defaults = self._classes[tool_name]._get_tool_config_class()()  # noqa: SLF001  (seed 003's name)
        given = self._config.tools.get(tool_name)
        merged = {**defaults.model_dump(), **(given.model_dump(exclude_unset=True) if given else {})}
        merged["workdir"] = self._config.effective_workdir
        return type(defaults).model_validate(merged)

    def reset_all(self) -> None:
        """Forget every instance and its state."""
        self._instances.clear()
