"""The modes of seed 000, as settings of the one safety chain: a mode names a policy, and PLAN adds the plan guard."""

from __future__ import annotations

from enum import StrEnum, auto


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
            raise ValueError(f'no mode "{text}". Modes: {", ".join(m.replace("_", "-") for m in cls)}.') from None

    def policy(self, configured: Policy) -> Policy:
        """The policy in force: the configured one unless the mode is about exactly that."""
        return {AgentMode.ACCEPT_EDITS: Policy.AUTO_EDIT, AgentMode.AUTO_APPROVE: Policy.YOLO}.get(self, configured)

    @property
    def safety(self) -> ModeSafety:
        return {
            AgentMode.DEFAULT: ModeSafety.NEUTRAL,
            AgentMode.PLAN: ModeSafety.SAFE,
            AgentMode.ACCEPT_EDITS: ModeSafety.DESTRUCTIVE,
            AgentMode.AUTO_APPROVE: ModeSafety.YOLO,
        }[self]
