"""Finding tools: the built-in ones, and those that people keep as *.py files in three places (seed 000).

The nearer place wins where names collide: the project's `.kin-code/tools`, then `tool_paths`, then the user's own
`~/.kin-code/tools`, then the built-in tools. Whatever lies in the project is loaded only when its folder is trusted.
"""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from kin_nb.core.config import KinConfig
from kin_nb.core.paths import kin_home
from kin_nb.core.tools.base import AnyTool, Tool
from kin_nb.core.tools.simple import adapted
from kin_nb.core.tools.tool_file import ToolFileError, load
from kin_nb.core.workspace import error_text

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What providers take as a function's name."""


@dataclass(frozen=True)
class Discovered:
    """`classes`: the built-in tools in their own order, then the others by name. `warnings`: a line each."""

    classes: dict[str, type[AnyTool]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def discover_tools(config: KinConfig) -> Discovered:
    """Reads and runs the files anew each time. A file or class that is no good is a warning and stops nothing else."""
    from kin_nb.core.tools.builtins import builtin_tools  # noqa: PLC0415  (tools are read on first use)

    built_in = builtin_tools()
    found: dict[str, type[AnyTool]] = {}
    places: dict[str, str] = {}
    warnings: list[str] = []
    for file in _files(config, warnings):
        try:
            loaded = load(file, config.is_as_trusted)
        except ToolFileError as error:
            warnings.append(str(error))
            continue
        for defined, line in loaded.items():
            place = f"{file}:{line}"
            try:
                tool = adapted(defined) if issubclass(defined, Tool) else defined
                name = usable_name(tool)
            except ValueError as error:
                warnings.append(f"{place}: {defined.__name__} is not loaded: {error}.")
                continue
            if name in found:
                warnings.append(
                    f"{place}: {name} is not loaded: {places[name]} has a tool of that name and comes first."
                )
                continue
            if name in built_in:
                warnings.append(f"{place}: {name} takes the place of the built-in tool.")
            found[name], places[name] = tool, place
    ordered = [*built_in, *sorted(found.keys() - built_in.keys())]
    return Discovered({name: found.get(name) or built_in[name] for name in ordered}, warnings)


def usable_name(tool: type[AnyTool]) -> str:
    """The tool's name. Raises ValueError, with the reason, for a class that models cannot be offered."""
    try:
        name = tool.get_name()
        tool._get_tool_config_class()  # noqa: SLF001  (seed 003's name)
        tool.get_info()
        is_async = inspect.iscoroutinefunction(inspect.unwrap(tool.run))
    except Exception as error:  # the class is anybody's, and so is what goes wrong in it
        raise ValueError(first_line(error)) from error
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name that models can call (letters, digits, _ and -, at most 64)")
    if not is_async:
        raise ValueError("its run is not `async def`")
    return name


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, its type when it says nothing; without the final full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _files(config: KinConfig, warnings: list[str]) -> list[Path]:
    """The tool files, nearest place first, each once; under the names that the settings give them, links and all."""
    project = config.effective_workdir / ".kin-code" / "tools"
    places = [project] if config.project_trusted else []
    for path in config.tool_paths:
        place = config.effective_workdir / path
        if not place.is_dir():
            warnings.append(f"tool_paths: {path} is no folder.")
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
