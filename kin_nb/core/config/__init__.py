"""The configuration of one agent: values (providers, models, tools, MCP servers) and the layers that they are read from (seed 000).

Owns config.toml, agents/*.toml, .env, KIN_* and the source of each value. Never decides what a tool may do (core.safety), never
connects to a server. KinConfig is ConfigValues with `load` and `save_updates`; loading, validation and user_only_settings work on
ConfigValues. May import: core.tool_types, core.modes, core.paths, core.workspace, core.project_snapshot, core.redaction.
"""

from kin_nb.core.config.custom_modes import overlaid
from kin_nb.core.config.entries import (
    Backend,
    MCPHttp,
    MCPServer,
    MCPStdio,
    MCPStreamableHttp,
    ModelConfig,
    PricingInfo,
    ProviderConfig,
    Thinking,
)
from kin_nb.core.config.errors import ConfigError, LLMNotConfigured, MissingAPIKeyError
from kin_nb.core.config.kin_config import KinConfig
from kin_nb.core.config.values import ObservabilityConfig, ProjectContextConfig, SessionLoggingConfig

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
