"""Skills as values (seed 002)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kin_nb.core.tool_types import ToolError


class SkillError(ToolError):
    """A skill can't be used. The text says which, why, and what to do."""


class SkillMetadata(BaseModel):
    """The frontmatter of a SKILL.md. Unknown keys are no error. `allowed_tools` is shown, and approves nothing."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = Field(max_length=64, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    description: str = Field(min_length=1, max_length=1024)
    license: str | None = None
    compatibility: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    allowed_tools: list[str] = Field(default_factory=list, alias="allowed-tools")
    type: Literal["standard", "flow"] = "standard"
    """A flow has a diagram, and is started by a person alone (seed 001)."""

    @property
    def is_flow(self) -> bool:
        return self.type == "flow"

    @field_validator("description")
    @classmethod
    def _not_blank(cls, description: str) -> str:
        if not description.strip():
            raise ValueError("it is empty")
        return description.strip()

    @field_validator("type", mode="before")
    @classmethod
    def _standard_else(cls, kind: Any) -> Any:
        """Other programs have types of their own; to us they are skills."""
        return "flow" if kind == "flow" else "standard"

    @field_validator("metadata", mode="before")
    @classmethod
    def _nothing_said(cls, metadata: Any) -> Any:
        return {} if metadata in (None, "") else metadata

    @field_validator("allowed_tools", mode="before")
    @classmethod
    def _one_line_or_a_list(cls, tools: Any) -> Any:
        """`Read, Bash(git add:*)`: separated by blanks or commas, but for those in parentheses."""
        if tools is None:
            return []
        return re.findall(r"[^\s,(]+(?:\([^)]*\))?", tools) if isinstance(tools, str) else tools


class SkillInfo(SkillMetadata):
    """A skill that was found. `skill_path`: its SKILL.md, absolute."""

    skill_path: Path

    @property
    def skill_dir(self) -> Path:
        return self.skill_path.parent
