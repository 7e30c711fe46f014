"""The configuration: values (providers, models, tools, MCP servers) and the layers that they are read from (seed 000).

Owns config.toml, agents/*.toml, .env, KIN_* and where each value came from. Never decides what a tool may do (core.safety)
and never talks to a server. KinConfig is ConfigValues (values.py, which knows nothing of layers' sources) with `load` and
`save_updates`; validation, loading and the user's own settings work on ConfigValues. May import: core.tool_types, core.modes,
core.paths, core.workspace, core.project_snapshot, core.redaction.
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
