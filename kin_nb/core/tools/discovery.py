"""Discover custom tools: find tool files, load them, and adapt tools of the short form.

Of tools with the same name the first wins: the project's `.kin-code/tools`, then `tool_paths`, then the user's
`~/.kin-code/tools`, then the built-in tools. Files of the project are loaded only if its folder is trusted. Each file runs as its
own module. `adapt_tool` turns a `Tool`, which has only a name, a description and `async def execute`, into a BaseTool. Such a
tool may touch anything, so each call asks unless the configuration allows it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from kin_nb.core.config import KinConfig
from kin_nb.core.paths import kin_home
from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.text import first_line
from kin_nb.core.tool_types import BaseToolConfig, BaseToolState, ToolError
from kin_nb.core.tools.base import AnyTool, BaseTool, Parameters, Tool
from kin_nb.core.workspace import error_text, read_bytes

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Function names that providers accept."""


@dataclass(frozen=True)
class Discovered:
    """`classes`: the built-in tools in their fixed order, then the others by name. `warnings`: one line each."""

    classes: dict[str, type[AnyTool]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def discover_tools(config: KinConfig) -> Discovered:
    """Load all tool files, again at each call. A file or class that cannot be used gives a warning; the others are loaded."""
    from kin_nb.core.tools.builtins import builtin_tools  # noqa: PLC0415  (tools are read on first use)

    built_in = builtin_tools()
    found: dict[str, type[AnyTool]] = {}
    places: dict[str, str] = {}
    warnings: list[str] = []
    for file in _files(config, warnings):
        try:
            loaded = load_tool_file(file, config.is_as_trusted)
        except ToolFileError as error:
            warnings.append(str(error))
            continue
        for defined, line in loaded.items():
            place = f"{file}:{line}"
            try:
                tool = adapt_tool(defined) if issubclass(defined, Tool) else defined
                name = usable_name(tool)
            except ValueError as error:
                warnings.append(f"{place}: {defined.__name__} is not loaded: {error}.")
                continue
            if name in found:
                warnings.append(
                    f"{place}: {name} is not loaded: {places[name]} has a tool of this name and takes precedence."
                )
                continue
            if name in built_in:
                warnings.append(f"{place}: {name} replaces the built-in tool.")
            found[name], places[name] = tool, place
    ordered = [*built_in, *sorted(found.keys() - built_in.keys())]
    return Discovered({name: found.get(name) or built_in[name] for name in ordered}, warnings)


def usable_name(tool: type[AnyTool]) -> str:
    """Return the tool's name. Raises ValueError, with the reason, for a class that models cannot call."""
    try:
        name = tool.get_name()
        tool._get_tool_config_class()  # noqa: SLF001  (seed 003's name)
        tool.get_info()
        awaited: dict[str, Callable[..., Any]] = {"run": tool.run, "invoke": tool.invoke}
        wrong = [own for own, method in awaited.items() if not inspect.iscoroutinefunction(inspect.unwrap(method))]
    except Exception as error:  # a custom class may raise anything
        raise ValueError(error_line(error)) from error
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"a tool's name must be 1 to 64 letters, digits, _ and -, got {name!r}")
    if wrong:
        raise ValueError(f"its {wrong[0]} is not `async def`")
    return name


def error_line(error: BaseException) -> str:
    """The first line of an exception's message without the final full stop; its type if it has no message."""
    line = first_line(str(error))
    return line.rstrip(".") if line else type(error).__name__


def _files(config: KinConfig, warnings: list[str]) -> list[Path]:
    """The tool files in order of precedence, each once, with the paths from the settings (links are not resolved)."""
    project = config.effective_workdir / ".kin-code" / "tools"
    places = [project] if config.project_trusted else []
    for path in config.tool_paths:
        place = config.effective_workdir / path
        if not place.is_dir():
            warnings.append(f"tool_paths: {path} is not a folder.")
        places.append(place)
    folders: dict[str, Path] = {}
    for place in (*places, kin_home() / "tools"):
        folders.setdefault(os.path.realpath(place), place)
    return [file for folder in folders.values() for file in _files_in(folder, warnings)]


def _files_in(folder: Path, warnings: list[str]) -> list[Path]:
    try:
        return sorted(
            path for path in folder.iterdir() if path.suffix == ".py" and not path.name.startswith(("_", "."))
        )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        warnings.append(f"{folder}: its tools are not loaded: {error_text(error)}.")
        return []


LARGEST_TOOL_FILE = 1_000_000
"""Bytes of the largest file that is loaded as a tool."""


class ToolFileError(Exception):
    """A tool file cannot be used; the message has the place and the reason."""


def load_tool_file(path: Path, may_run: MayUse = anything) -> dict[type[AnyTool | Tool], int]:
    """Run a file and return the tools that it defines, in order, each with its line number.

    A tool is a subclass of BaseTool with `run`, or of Tool with `execute`, whose name does not begin with `_`. The module gets a
    private name; sys.path is not changed and no bytecode is written. Raises ToolFileError if the file cannot be read or run
    (or exits), defines no tool, or has a content that `may_run` refuses.
    """
    try:
        source = read_bytes(Path(os.path.realpath(path)), LARGEST_TOOL_FILE, str(path))
    except ToolError as error:
        raise ToolFileError(str(error)) from error
    if not may_run(path, source):
        raise ToolFileError(f"{path} has changed since its folder was trusted, and is not loaded.")
    name = f"_kin_tools_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module  # pydantic and dataclasses resolve annotations there
    try:
        tree = ast.parse(source, str(path))
        exec(compile(tree, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102  (that is what a tool file is for)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise ToolFileError(f"{_error_place(path, error)}: not loaded: {_reason(error)}.") from error
    lines = {node.name: node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    tools = {tool: lines.get(tool.__name__, 1) for tool in vars(module).values() if _is_tool(tool, name)}
    if not tools:
        raise ToolFileError(
            f"{path}: defines no tool. A tool is a class with an `async def run`, "
            "subclass of BaseTool[Args, Result, Config, State], or with an `async def execute`, subclass of Tool."
        )
    return tools


def _is_tool(value: object, module: str) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, BaseTool | Tool)
        and value.__module__ == module
        and not inspect.isabstract(value)
        and not value.__name__.startswith("_")
    )


def _error_place(path: Path, error: BaseException) -> str:
    """`FILE:LINE`, the last line of the file that was reached."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno or 1}"
    frames = traceback.extract_tb(error.__traceback__, limit=-50)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _reason(error: BaseException) -> str:
    """The reason on one line; the place of a SyntaxError is left out, because the message has it already."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in {
        "tools",
        "tools.base",
    }:  # the module name of another agent
        text += "; write `from kin_nb.core.tools.base import Tool`"
    return f"{type(error).__name__}: {text}".strip(": ").split("\n")[0].rstrip(".")


class TextResult(BaseModel):
    text: str


class SimpleState(BaseToolState):
    """Holds the session's instance, so that its attributes live as long as the session."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    tool: Tool | None = None


class AnyArguments(BaseModel):
    model_config = ConfigDict(extra="allow")


class SimpleTool(BaseTool[BaseModel, TextResult, BaseToolConfig, SimpleState]):
    """Base of the classes that `adapt_tool` creates. `source`: the Tool class, or an instance from a program."""

    name: ClassVar[str]
    source: ClassVar[type[Tool] | Tool]
    arguments: ClassVar[type[BaseModel]]
    schema: ClassVar[dict[str, Any] | None]

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_parameters(cls) -> dict[str, Any]:
        return cls.schema or super().get_parameters()

    @classmethod
    def _types(cls) -> tuple[type[BaseModel], type[BaseModel], type[BaseToolConfig], type[BaseToolState]]:
        return cls.arguments, TextResult, BaseToolConfig, SimpleState

    async def run(self, args: BaseModel) -> TextResult:
        """Raises ToolError if the tool does not return text."""
        if self.state.tool is None:
            self.state.tool = self.source() if isinstance(self.source, type) else self.source
        own = {name: vars(args)[name] for name in type(args).model_fields}
        text: object = await self.state.tool.execute(**own, **(args.model_extra or {}))
        if not isinstance(text, str):
            raise ToolError(f"{self.name} returned {type(text).__name__}, not text.")
        return TextResult(text=text)

    def to_model(self, result: TextResult) -> str:
        return result.text


def adapt_tool(tool: type[Tool] | Tool) -> type[AnyTool]:
    """Create a BaseTool class that runs `tool`. Raises ValueError, with the reason, for one that models cannot call."""
    kind = tool if isinstance(tool, type) else type(tool)
    if not inspect.iscoroutinefunction(inspect.unwrap(kind.execute)):
        raise ValueError("its execute is not `async def`")
    if not isinstance(tool.description, str):
        raise ValueError("its description must be text")  # noqa: TRY004  (callers catch one type of error)
    arguments, schema = _arguments(kind, tool.parameters)
    members = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "description": tool.description,
        "name": tool.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower(),
        "source": tool,
        "arguments": arguments,
        "schema": schema,
    }
    return type(kind.__name__, (SimpleTool,), members)


def _arguments(kind: type[Tool], parameters: Parameters) -> tuple[type[BaseModel], dict[str, Any] | None]:
    """The model that validates the arguments, and the schema for the LLM if it cannot be derived from that model."""
    if parameters is None:
        return _from_signature(kind), None
    if isinstance(parameters, type) and issubclass(parameters, BaseModel):
        return parameters, None
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ValueError("its parameters are neither a pydantic model nor a JSON Schema of an object")
    try:
        schema: dict[str, Any] = json.loads(json.dumps({"type": "object", **parameters}, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"its parameters are not valid JSON: {error}") from error
    return AnyArguments, schema


def _from_signature(kind: type[Tool]) -> type[BaseModel]:
    own = list(inspect.signature(kind.execute).parameters.values())[1:]
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in own):
        raise ValueError("its execute has positional-only arguments; models pass arguments by name")
    named = [p for p in own if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}]
    try:
        hints = get_type_hints(kind.execute, include_extras=True)
    except Exception as error:  # an undefined name, or any error in an annotation
        raise ValueError(f"the annotations of its execute cannot be read: {error}") from error
    fields: dict[str, Any] = {
        p.name: (hints.get(p.name, Any), ... if p.default is p.empty else p.default) for p in named
    }
    more = any(p.kind is p.VAR_KEYWORD for p in own)
    return _model(f"{kind.__name__}Args", fields, ConfigDict(extra="allow" if more else "ignore"))


def _model(name: str, fields: dict[str, Any], config: ConfigDict) -> type[BaseModel]:
    import warnings  # noqa: PLC0415  (only for tools of this form)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an argument may be called `json` or `copy`, as methods of models are
        try:
            model: type[BaseModel] = create_model(name, __config__=config, **fields)
        except Exception as error:  # a type without a schema, a reserved name: pydantic raises many types
            raise ValueError(f"its arguments cannot be described: {str(error).splitlines()[0]}") from error
    lost = fields.keys() - model.model_fields.keys()
    if lost:  # `_x`, `model_config`
        raise ValueError(f"its execute has arguments with reserved names: {', '.join(sorted(lost))}")
    return model
