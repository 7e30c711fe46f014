"""MCP servers as tools of the agent (seed 003): processes spoken to over pipes, and streamable HTTP.

Owns connections, their restarts, and a tool class per remote tool. Never trusts what a server says of itself: every call
may touch everything. Starts nothing before `connect`, and imports `mcp` (a second) only then. May import: core.config's
MCP values, core.tools.base, core.tools.truncation, core.processes, core.redaction, core.urls.
"""

from kin_nb.core.tools.mcp.answers import MCPResult
from kin_nb.core.tools.mcp.proxy import MCPArgs, MCPHttpProxyTool, MCPProxyTool, MCPStdioProxyTool
from kin_nb.core.tools.mcp.servers import MCPServers

__all__ = ["MCPArgs", "MCPHttpProxyTool", "MCPProxyTool", "MCPResult", "MCPServers", "MCPStdioProxyTool"]
