"""Toolset: the tools of one conversation, of an agent or a subagent, as a turn uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kin_nb.core.config import KinConfig
from kin_nb.core.messages import AvailableTool, ToolCall
from kin_nb.core.tools.manager import ToolManager
from kin_nb.core.tools.resolve import APIToolFormatHandler, FailedToolCall, ResolvedToolCall, resolve_calls


class Toolset(ABC):
    """The tools of a conversation. `connect` and `refresh` return warnings about tools that cannot be used."""

    manager: ToolManager
    format_handler: APIToolFormatHandler

    def schemas(self, config: KinConfig) -> list[AvailableTool]:
        """Return the tool schemas for the model."""
        return self.format_handler.get_available_tools(self.manager, config)

    def resolve(self, calls: list[ToolCall], config: KinConfig) -> list[ResolvedToolCall | FailedToolCall]:
        """Resolve the calls of a reply, in their order."""
        return resolve_calls(self.format_handler, calls, self.manager, config)

    @abstractmethod
    def expand(self, prompt: str) -> str:
        """Return the prompt with references, such as a skill's name, replaced by their text. Raises SkillError."""

    @abstractmethod
    async def connect(self) -> list[str]:
        """Start and connect the servers that a turn needs."""

    @abstractmethod
    async def refresh(self) -> list[str]:
        """Update tools that were added, changed or removed since the last step."""

    @abstractmethod
    def attach_skills(self, manager: ToolManager) -> None:
        """Give a subagent's tools access to the same skills."""
