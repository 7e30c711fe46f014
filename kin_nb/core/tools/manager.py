"""ToolManager: the tools that a session has, and one instance of each."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path

from pydantic import ValidationError

from kin_nb.core.config import KinConfig
from kin_nb.core.config.secrets import key_names
from kin_nb.core.config.values import chosen
from kin_nb.core.messages import AvailableFunction, AvailableTool
from kin_nb.core.tool_types import BaseToolConfig, ToolError
from kin_nb.core.tools.base import AnyTool
from kin_nb.core.tools.discovery import discover_tools, usable_name

ALIASES = {"shell": "bash", "todos": "todo"}
"""What models that know another agent's tools call ours (seed 004): understood when no tool has that name, never offered."""


class ToolManager:
    """Instances are made on first use and kept, with their state, until `reset_all`.

    `without` names tools that this session has no use for, whatever the config says. `python`: see
    HostFacts.interpreter. `warnings`: what discovery found wrong, a line each. Tool files are read here and not again: a
    changed file needs a new manager.
    """

    def __init__(self, config: KinConfig, *, without: Collection[str] = (), python: Path | None = None) -> None:
        discovered = discover_tools(config)
        self._config, self._without, self._python = config, frozenset(without), python
        self._classes = discovered.classes
        self.warnings = [*discovered.warnings, *self._mistaken()]
        self._registered: set[str] = set()
        self._added: dict[str, type[AnyTool]] = {}
        self._gone: set[str] = set()
        """Names of MCP tools that were removed."""
        self._instances: dict[str, AnyTool] = {}
        self._schemas: list[AvailableTool] | None = None

    def available_tools(self) -> dict[str, type[AnyTool]]:
        """The tools by name, in the order for the model: built-in tools, then the others by name, then later additions."""
        return {name: tool for name, tool in self._classes.items() if self._is_available(name)}

    def schemas(self) -> list[AvailableTool]:
        """The tool schemas for the model: the same list object, in the same order, until the tools change."""
        if self._schemas is None:
            self._schemas = [_schema(name, tool) for name, tool in self.available_tools().items()]
        return self._schemas

    def get(self, tool_name: str) -> AnyTool:
        """The tool's instance. Raises ToolError if it is unknown (with the nearest name), disabled, or has invalid settings."""
        tool_name = self.known_name(tool_name)
        if tool_name in self._gone:
            raise ToolError(
                f"The tool '{tool_name}' was removed: its MCP server does not offer it any more, or is not configured any more.\n"
                "Use another tool."
            )
        if tool_name not in self._classes:
            near = difflib.get_close_matches(tool_name, self.available_tools(), n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Tools: {', '.join(self.available_tools())}."
            raise ToolError(f"Unknown tool '{tool_name}'. {hint}")
        if not self._is_available(tool_name):
            raise ToolError(f"The tool '{tool_name}' is disabled in this session.")
        if tool_name not in self._instances:
            self._instances[tool_name] = self._classes[tool_name].from_config(self.get_tool_config(tool_name))
        return self._instances[tool_name]

    def known_name(self, tool_name: str) -> str:
        """The tool's real name, with aliases resolved. Every decision about a call must use this name."""
        meant = ALIASES.get(tool_name)
        return meant if meant in self._classes and tool_name not in self._classes else tool_name

    def get_tool_config(self, tool_name: str) -> BaseToolConfig:
        """The tool's defaults, overridden by `[tools.NAME]` and the session's values. Raises ToolError with the invalid keys."""
        config_class = self._classes[tool_name]._get_tool_config_class()  # noqa: SLF001  (seed 003's name)
        given = self._config.tools.get(tool_name)
        settings = given.model_dump(exclude_unset=True) if given else {}
        try:
            config = config_class.model_validate({**settings, **self._of_the_session()})
        except ValidationError as error:
            wrong = [f"tools.{tool_name}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            raise ToolError(f"The settings of {tool_name} are invalid.\n" + "\n".join(wrong)) from error
        config.denylist = list(dict.fromkeys([*config.denylist, *config.denylist_of_project]))
        return config

    def register(self, classes: Mapping[str, type[AnyTool]], *, replacing: Collection[str] = ()) -> list[str]:
        """Add tools from other sources (MCP servers) and return warnings. A tool whose name is taken is not added.

        `replacing`: names of tools that were registered before. Those in `classes` keep their place in the order, and their
        state if the class is the same; the others are removed.
        """
        warnings = []
        before = self.available_tools()
        known, ours = list(self._classes), self._registered.intersection(replacing)
        for name in ours:
            if self._classes[name] is not classes.get(name):
                self._remove(name)
        for name, tool in classes.items():
            if name in ours and self._classes.get(name) is tool:
                continue
            try:
                if name in self._classes:
                    raise ValueError("another tool has this name")  # noqa: TRY301
                if usable_name(tool) != name:
                    raise ValueError(f"its own name is {tool.get_name()}")  # noqa: TRY301
            except ValueError as error:
                warnings.append(f"{name} is not added: {error}.")
            else:
                self._classes[name] = tool
                self._registered.add(name)
                self._gone.discard(name)
        self._sort(known)
        self._keep_schemas_of(before)
        return warnings

    def add(self, tool: type[AnyTool]) -> str:
        """Add a tool of a program and return its name. It is kept when tools are discovered again.

        Raises ToolError if the name is taken, or if models cannot call the class.
        """
        try:
            name = usable_name(tool)
        except ValueError as error:
            raise ToolError(f"{tool.__name__} is not added: {error}.") from error
        for warning in self.register({name: tool}):
            raise ToolError(warning)
        self._added[name] = tool
        return name

    def _remove(self, name: str) -> None:
        self._registered.remove(name)
        del self._classes[name]
        self._instances.pop(name, None)
        self._gone.add(name)

    def reconfigure(self, config: KinConfig) -> None:
        """Apply new settings, such as another mode or model. Tools keep their state."""
        before = self.available_tools()
        self._config = config
        for name, tool in list(self._instances.items()):
            try:
                settings = self.get_tool_config(name)
            except ToolError:  # raised again at the next use of the tool
                del self._instances[name]
                continue
            if settings != tool.config:
                self._instances[name] = type(tool)(settings, tool.state)
        self._keep_schemas_of(before)

    def take_state_from(self, other: ToolManager) -> None:
        """Take over from `other` the state of the tools that exist here too, and the tools that a program added to it."""
        for added in other._added.values():
            try:
                self.add(added)
            except ToolError as error:
                self.warnings.append(str(error))
        same = {name: tool for name, tool in other._instances.items() if self._classes.get(name) is type(tool)}
        self._instances.update(same)
        self.reconfigure(self._config)

    def with_only(self, classes: Mapping[str, type[AnyTool]]) -> ToolManager:
        """A new manager with the same settings and only the tools `classes`, without state."""
        other: ToolManager = copy(self)
        other._classes, other._instances, other._schemas = dict(classes), {}, None
        other._registered, other._added, other.warnings = set(), {}, []
        return other

    def reset_all(self) -> None:
        """Forget every instance and its state."""
        self._instances.clear()

    def _of_the_session(self) -> dict[str, object]:
        names = key_names(self._config)
        return {"workdir": self._config.effective_workdir, "key_names": names, "python": self._python}

    def _mistaken(self) -> Iterator[str]:
        """A warning for each `[tools.NAME]` that looks like a misspelled tool, and for each unknown key of a tool."""
        for name, given in self._config.tools.items():
            if name not in self._classes:  # it may belong to an MCP server that is not connected yet
                near = difflib.get_close_matches(name, self._classes, n=1, cutoff=0.8)
                if near:
                    yield f"{self._place(name)}tools.{name}: unknown tool; did you mean {near[0]}?"
                continue
            known = self._classes[name]._get_tool_config_class().model_fields  # noqa: SLF001  (seed 003's name)
            for key in given.model_fields_set - set(known):
                near = difflib.get_close_matches(key, known, n=1)
                advice = f"did you mean {near[0]}?" if near else "it is ignored."
                yield f"{self._place(name, key)}tools.{name}.{key}: unknown setting; {advice}"

    def _place(self, *keys: str) -> str:
        return self._config.layers.place(("tools", *keys))

    def _is_available(self, name: str) -> bool:
        enabled = chosen(name, self._config.enabled_tools, self._config.disabled_tools)
        return enabled and name not in self._without

    def _sort(self, known: Iterable[str]) -> None:
        """Put new tools after the `known` ones: a provider's prompt cache stays valid up to the first change."""
        order = dict.fromkeys([*known, *sorted(self._classes)])
        self._classes = {name: self._classes[name] for name in order if name in self._classes}

    def _keep_schemas_of(self, before: Mapping[str, type[AnyTool]]) -> None:
        """Keep the list of schemas if the tools are the same: a new list would miss the provider's prompt cache."""
        if list(before.items()) != list(self.available_tools().items()):
            self._schemas = None


def _schema(name: str, tool: type[AnyTool]) -> AvailableTool:
    info = tool.get_info()
    return AvailableTool(
        function=AvailableFunction(name=name, description=info.description, parameters=info.parameters)
    )
