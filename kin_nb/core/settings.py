"""Settings: the configuration and the mode in force, and what follows from both."""

from __future__ import annotations

from typing import Any

from kin_nb.core.config import KinConfig, overlaid
from kin_nb.core.config.custom_modes import CustomMode
from kin_nb.core.modes import AgentMode
from kin_nb.core.redaction import WORKSPACE
from kin_nb.core.workspace import Workspace


class Settings:
    """What an agent works with now. Parts that need a setting ask for it each time, because it may change between turns.

    `configured`: as the files and the program have it. `config`: that with the mode's own settings on top, in the session's
    workspace, which stays the same wherever the process goes.
    """

    def __init__(self, config: KinConfig, mode: AgentMode | CustomMode) -> None:
        self.workspace = Workspace(config.effective_workdir)
        self.configured, self.mode = config, mode
        self.config = self._in_force(config, mode)

    def change(self, config: KinConfig, mode: AgentMode | CustomMode) -> None:
        """Take another configuration and mode. Raises ConfigError; then nothing changed."""
        new = self._in_force(config, mode)
        _ = new.system_prompt  # raises where its file cannot be read
        self.configured, self.mode, self.config = config, mode, new

    def override(self, **values: Any) -> None:
        """Set single values until the next `change`, whatever the files say."""
        self.config = self.config.model_copy(update=values)

    def base_mode(self) -> AgentMode:
        """Return the built-in mode that the mode in force is, or is made of."""
        return self.mode.base

    def prices(self) -> tuple[float, float]:
        """Return USD per million tokens of input and output of the active model."""
        return self.config.prices_of(self.config.active_model)

    def expand_paths(self, text: str) -> str:
        """Return a recorded text with this machine's workspace in it."""
        return text.replace(WORKSPACE, str(self.workspace.root))

    def _in_force(self, config: KinConfig, mode: AgentMode | CustomMode) -> KinConfig:
        return overlaid(config, mode).model_copy(update={"workdir": self.workspace.root})
