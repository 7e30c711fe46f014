"""The configuration: values (providers, models, tools, MCP servers) and the layers that they are read from (seed 000).

Owns config.toml, agents/*.toml, .env, KIN_* and where each value came from. Never decides what a tool may do (core.safety)
and never talks to a server. May import: core.tools.base, core.modes, core.paths, core.trusted_folders; on first use
core.redaction.
"""

from kin_nb.core.config.errors import ConfigError, LLMNotConfigured, MissingAPIKeyError
from kin_nb.core.config.kin_config import KinConfig, ObservabilityConfig, ProjectContextConfig, SessionLoggingConfig
from kin_nb.core.config.mcp_servers import MCPHttp, MCPServer, MCPStdio, MCPStreamableHttp
from kin_nb.core.config.overlay import overlaid
from kin_nb.core.config.providers import Backend, ModelConfig, PricingInfo, ProviderConfig, Thinking

__all__ = [
    "Backend",
    "ConfigError",
    "KinConfig",
    "LLMNotConfigured",
    "MCPHttp",
    "MCPServer",
    "MCPStdio",
    "MCPStreamableHttp",
    "MissingAPIKeyError",
    "ModelConfig",
    "ObservabilityConfig",
    "PricingInfo",
    "ProjectContextConfig",
    "ProviderConfig",
    "SessionLoggingConfig",
    "Thinking",
    "overlaid",
]
