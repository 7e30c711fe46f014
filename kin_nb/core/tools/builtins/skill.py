"""skill: load the text of a skill for the model to follow."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from kin_nb.core.skills.manager import SkillManager
from kin_nb.core.skills.models import SkillError
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolPermission
from kin_nb.core.tools.base import BaseTool


class SkillArgs(BaseModel):
    name: str = Field(description="Name of the skill, as listed in the system prompt")


class SkillResult(BaseModel):
    name: str
    text: str


class SkillConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ALWAYS


class SkillState(BaseToolState):
    """`skills`: set by the agent, who knows whether the project is trusted."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    skills: SkillManager | None = None


class Skill(BaseTool[SkillArgs, SkillResult, SkillConfig, SkillState]):
    description: ClassVar[str] = "Load a skill: instructions for one kind of task"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")

    def accesses(self, args: SkillArgs) -> Accesses:  # noqa: ARG002  (it reads only the skills found at the start of the session)
        return Accesses()

    def preview(self, args: SkillArgs) -> Preview:
        return Preview(summary=f"load skill {args.name}", body=args.model_dump_json(indent=2))

    async def run(self, args: SkillArgs) -> SkillResult:
        """Raises SkillError, with similar names, for an unknown skill."""
        if self.state.skills is None:
            raise SkillError("This session has no skills.")
        return SkillResult(name=args.name, text=self.state.skills.load(args.name))

    def to_model(self, result: SkillResult) -> str:
        return result.text
