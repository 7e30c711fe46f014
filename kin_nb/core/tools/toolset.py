"""Toolset: the tools of one conversation, an agent's or a subagent's, as a turn needs them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kin_nb.core.config import KinConfig
from kin_nb.core.messages import AvailableTool, ToolCall
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import APIToolFormatHandler, FailedToolCall, ResolvedToolCall, resolve_calls


class Toolset(ABC):
    """The tools of a conversation. `ready` and `refresh` return warnings: what could not be used."""

    manager: ToolManager
    format_handler: APIToolFormatHandler

    def schemas(self, config: KinConfig) -> list[AvailableTool]:
        """Return the tools as the model is offered them."""
        return self.format_handler.get_available_tools(self.manager, config)

    def resolve(self, calls: list[ToolCall], config: KinConfig) -> list[ResolvedToolCall | FailedToolCall]:
        """Return what the calls of a reply mean, in their order."""
        return resolve_calls(self.format_handler, calls, self.manager, config)

    @abstractmethod
    def expand(self, prompt: str) -> str:
        """Return the prompt with what it names, such as a skill, in its place. Raises SkillError."""

    @abstractmethod
    async def ready(self) -> list[str]:
        """Start and connect what a turn needs."""

    @abstractmethod
    async def refresh(self) -> list[str]:
        """Take up tools that have come, changed or gone since the last step."""

    @abstractmethod
    def give_skills(self, manager: ToolManager) -> None:
        """Let the tools of a subagent find the same skills."""
