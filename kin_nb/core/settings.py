"""Settings: the configuration and the mode in force, and the values that follow from both."""

from __future__ import annotations

from typing import Any

from kin_nb.core.config import KinConfig, overlaid
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.modes import AgentMode
from kin_nb.core.redaction import WORKSPACE
from kin_nb.core.workspace import Workspace


class Settings:
    """An agent's current settings. Read a setting here each time it is needed, because it may change between turns.

    `base_config`: the settings from the files and the program. `config`: the same, overlaid with the mode's settings. Its
    workspace is that of the session, also when the process changes its current directory.
    """

    def __init__(self, config: KinConfig, mode: AgentMode | CustomMode) -> None:
        self.workspace = Workspace(config.effective_workdir)
        self.base_config, self.mode = config, mode
        self.config = self._in_force(config, mode)

    def change(self, config: KinConfig, mode: AgentMode | CustomMode) -> None:
        """Set another configuration and mode. Raises ConfigError; nothing is changed in that case."""
        new = self._in_force(config, mode)
        _ = new.system_prompt  # raises where its file cannot be read
        self.base_config, self.mode, self.config = config, mode, new

    def override(self, **values: Any) -> None:
        """Set single values until the next `change`. They take precedence over the files."""
        self.config = self.config.model_copy(update=values)

    def base_mode(self) -> AgentMode:
        """Return the current built-in mode, or the one that the current custom mode is based on."""
        return self.mode.base

    def prices(self) -> tuple[float, float]:
        """Return USD per million tokens of input and output of the active model."""
        return self.config.prices_of(self.config.active_model)

    def expand_paths(self, text: str) -> str:
        """Insert the path of the workspace into a recorded text."""
        return text.replace(WORKSPACE, str(self.workspace.root))

    def _in_force(self, config: KinConfig, mode: AgentMode | CustomMode) -> KinConfig:
        return overlaid(config, mode).model_copy(update={"workdir": self.workspace.root})
