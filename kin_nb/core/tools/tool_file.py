"""One file of somebody's tools: run as a module of its own, beside everything else in this process."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kin_nb.core.project_snapshot import MayUse, anything
from kin_nb.core.tool_types import ToolError
from kin_nb.core.tools.base import AnyTool, BaseTool, Tool
from kin_nb.core.workspace import read_bytes

LARGEST = 1_000_000
"""Bytes of the largest file that is taken for a tool."""


class ToolFileError(Exception):
    """A tool file is no good: where, and why."""


def load(path: Path, may_run: MayUse = anything) -> dict[type[AnyTool | Tool], int]:
    """The tools that a file defines, in its order, each with its line.

    A tool is a class that subclasses BaseTool and has `run`, or subclasses Tool and has `execute`, and whose name does
    not begin with `_`. The module gets a private name; sys.path stays as it is and no bytecode is written. Raises
    ToolFileError for a file that cannot be read or run, also when it exits, for one without a tool, and for one whose content
    `may_run` refuses.
    """
    try:
        source = read_bytes(Path(os.path.realpath(path)), LARGEST, str(path))
    except ToolError as error:
        raise ToolFileError(str(error)) from error
    if not may_run(path, source):
        raise ToolFileError(f"{path} has changed since its folder was trusted, and is not loaded.")
    name = f"_kin_tools_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module  # pydantic and dataclasses look their annotations' names up there
    try:
        tree = ast.parse(source, str(path))
        exec(compile(tree, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102  (that is what a tool file is for)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise ToolFileError(f"{_place(path, error)}: not loaded: {_reason(error)}.") from error
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


def _place(path: Path, error: BaseException) -> str:
    """`FILE:LINE`, the last line of the file itself that was reached."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno or 1}"
    frames = traceback.extract_tb(error.__traceback__, limit=-50)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _reason(error: BaseException) -> str:
    """One line. What a SyntaxError says of the place is said already."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in {"tools", "tools.base"}:  # as seed 004 has it
        text += "; write `from kin_nb.core.tools.base import Tool`"
    return f"{type(error).__name__}: {text}".strip(": ").split("\n")[0].rstrip(".")
