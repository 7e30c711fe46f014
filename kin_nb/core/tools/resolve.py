"""From a call as the model wrote it to a call that can be decided and run (seed 003: resolve_tool_calls)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kin_nb.core.safety.decision import ToolRequest
from kin_nb.core.safety.workspace import Workspace
from kin_nb.core.tools.base import AnyTool, ToolError
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.types import ToolCall


@dataclass(frozen=True)
class ResolvedToolCall:
    tool_name: str
    call_id: str
    tool: AnyTool
    args: BaseModel
    request: ToolRequest


@dataclass(frozen=True)
class FailedToolCall:
    tool_name: str
    call_id: str
    error: str


def resolve(call: ToolCall, manager: ToolManager, workspace: Workspace) -> ResolvedToolCall | FailedToolCall:
    """Unknown tool, arguments that are not JSON or do not fit, impossible paths: a FailedToolCall that tells the model."""
    name, call_id = call.function.name or "", call.id or ""
    try:
        tool = manager.get(name)
        return resolve_args(name, call_id, tool, _arguments(call.function.arguments), workspace)
    except ToolError as error:
        return FailedToolCall(name, call_id, str(error))


def resolve_args(name: str, call_id: str, tool: AnyTool, raw: dict[str, Any], workspace: Workspace) -> ResolvedToolCall:
    """Raises ToolError when the arguments do not fit the tool."""
    args = tool.parse_args(raw)
    accesses = tool.accesses(args)
    request = ToolRequest(
        tool_name=name,
        args=args,
        tool_call_id=call_id,
        accesses=accesses,
        read_paths=tuple(workspace.resolve(path) for path in accesses.reads),
        write_paths=tuple(workspace.resolve(path) for path in accesses.writes),
    )
    return ResolvedToolCall(name, call_id, tool, args, request)


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        raw = json.loads(text or "{}")
    except ValueError as error:
        raise ToolError(f"The arguments are not valid JSON: {error}. Nothing was run; send the call again.") from error
    if not isinstance(raw, dict):
        raise ToolError("The arguments must be a JSON object. Nothing was run; send the call again.")
    return raw
