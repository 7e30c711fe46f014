"""Tools that a rerun has not, an MCP server's or a tool file's: their calls are answered from the recording, and run nothing.

A notebook starts no server of its own accord. The person who re-executes it may say which run again: KIN_REPLAY_SERVERS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from kin_nb.core.config import KinConfig, MCPServer
from kin_nb.core.session.records import RecordedCall
from kin_nb.core.tools.base import BaseTool, BaseToolConfig, ToolError
from kin_nb.core.tools.builtins.task import TaskState
from kin_nb.core.tools.mcp import MCPArgs
from kin_nb.core.tools.running import running_call
from kin_nb.replay.errors import ReplayError

if TYPE_CHECKING:
    from kin_nb.core.agent import Agent

SERVERS = "KIN_REPLAY_SERVERS"
NOT_HERE = f"not re-run: no such tool here, so the recording answers. A server's runs again when {SERVERS} has it"


class Played(BaseModel):
    """What the model was told."""

    text: str


class StandIn(BaseTool[MCPArgs, Played, BaseToolConfig, TaskState]):
    """`state.played`: the recorded calls, by id. Asks as every tool does: a recorded refusal stays one."""

    description: ClassVar[str] = "Answered from the recording"
    name: ClassVar[str]

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    async def run(self, args: MCPArgs) -> Played:  # noqa: ARG002  (they were another tool's)
        call = running_call.get()
        play = self.state.played.get(call.call_id) if call is not None else None
        recorded = play() if play is not None else None
        if recorded is None or recorded.status != "ok":
            raise ToolError(recorded.output if recorded is not None else "This call is in no recording.")
        return Played(text=recorded.output)

    def to_model(self, result: Played) -> str:
        return result.text


def stand_ins(agent: Agent, calls: Iterable[RecordedCall]) -> frozenset[str]:
    """Give `agent` one for each tool among `calls` that it has not, and that none of its servers may have; all their names.

    A call that nobody decided on was of no tool when it was recorded either.
    """
    manager = agent.tool_manager
    known = manager.available_tools()
    served = tuple(f"{server.name}_" for server in agent.config.mcp_servers if not server.disabled)
    names = {call.name for call in calls if call.decision is not None} - known.keys()
    wanted = sorted(name for name in names if not name.startswith(served))
    manager.register({name: type("StandIn", (StandIn,), {"__module__": __name__, "name": name}) for name in wanted})
    return frozenset(name for name, tool in manager.available_tools().items() if issubclass(tool, StandIn))


def servers(environ: Mapping[str, str]) -> list[MCPServer]:
    """Those that the person who re-executes lets run again, written as JSON. Raises ReplayError for what is none."""
    text = environ.get(SERVERS, "").strip()
    if not text:
        return []
    try:
        named = TypeAdapter(list[dict[str, object]]).validate_json(text)
        return KinConfig.model_validate({"mcp_servers": named}).mcp_servers
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ReplayError(
            f"{SERVERS} lists no MCP servers: {where + ': ' if where else ''}{first['msg']}.\n"
            'Write them as the setting mcp_servers, in JSON: [{"name": "git", "command": "mcp-server-git"}]'
        ) from None
