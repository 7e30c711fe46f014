"""The modes of seed 000, as settings of the one safety chain: a mode names a policy, and PLAN adds the plan guard."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Any


class Policy(StrEnum):
    """How much runs unasked. Hyphens on the command line and in config.toml."""

    STRICT = "strict"
    ON_REQUEST = "on-request"
    AUTO_EDIT = "auto-edit"
    YOLO = "yolo"


class ModeSafety(StrEnum):
    NEUTRAL = auto()
    SAFE = auto()
    DESTRUCTIVE = auto()
    YOLO = auto()


class AgentMode(StrEnum):
    DEFAULT = auto()
    PLAN = auto()
    ACCEPT_EDITS = auto()
    AUTO_APPROVE = auto()

    @classmethod
    def parse(cls, text: str) -> AgentMode:
        """`auto-approve` and `auto_approve` alike. Raises ValueError that lists the modes."""
        try:
            return cls(text.strip().lower().replace("-", "_"))
        except ValueError:
            raise ValueError(f'Unknown mode "{text}".\nModes: {", ".join(mode.shown for mode in cls)}.') from None

    @property
    def shown(self) -> str:
        """As it is written on command lines."""
        return self.value.replace("_", "-")

    @property
    def base(self) -> AgentMode:
        """The built-in mode: itself. A custom mode has another one beneath."""
        return self

    @property
    def config_overrides(self) -> dict[str, Any]:
        """Run-time settings for `KinConfig.load`. None for PLAN: the plan guard refuses, and the tools' schemas stay as
        they are, so that the prompt's prefix does not move."""
        return {
            AgentMode.ACCEPT_EDITS: {"policy": Policy.AUTO_EDIT.value},
            AgentMode.AUTO_APPROVE: {"policy": Policy.YOLO.value},
        }.get(self, {})

    @property
    def ignored(self) -> tuple[str, ...]:
        """What a custom mode's file sets in vain."""
        return ()

    @property
    def of_project(self) -> bool:
        """Whether it comes from a project's file."""
        return False

    @property
    def auto_approve(self) -> bool:
        """Whether nothing is asked at all."""
        return self.policy(Policy.ON_REQUEST) is Policy.YOLO

    def policy(self, configured: Policy) -> Policy:
        """The policy in force: `configured`, unless the mode sets one."""
        return Policy(self.config_overrides.get("policy", configured))

    @property
    def display_name(self) -> str:
        return self.value.replace("_", " ").capitalize()

    @property
    def description(self) -> str:
        return {
            AgentMode.DEFAULT: "Reads files and runs read-only commands (ls, git status) without asking; asks before all else",
            AgentMode.PLAN: "Reads and plans; changes nothing",
            AgentMode.ACCEPT_EDITS: "Also edits existing files without asking; asks before new files and other commands",
            AgentMode.AUTO_APPROVE: "Runs every tool without asking",
        }[self]

    @property
    def safety(self) -> ModeSafety:
        return {
            AgentMode.DEFAULT: ModeSafety.NEUTRAL,
            AgentMode.PLAN: ModeSafety.SAFE,
            AgentMode.ACCEPT_EDITS: ModeSafety.DESTRUCTIVE,
            AgentMode.AUTO_APPROVE: ModeSafety.YOLO,
        }[self]
