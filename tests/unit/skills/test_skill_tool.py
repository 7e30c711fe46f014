"""The skill tool: it needs no approval, and gives the model a skill's text."""

from __future__ import annotations

import pytest

from kin_nb.core.modes import AgentMode, Policy
from kin_nb.core.safety.decision import ToolRequest, Verdict
from kin_nb.core.safety.policies import SafetyContext, decide
from kin_nb.core.skills import SkillError, SkillManager
from kin_nb.core.tool_types import BaseToolConfig
from kin_nb.core.tools.builtins.skill import Skill, SkillArgs, SkillConfig, SkillState
from kin_nb.core.workspace import Workspace


def tool_with(skills: SkillManager | None) -> Skill:
    return Skill(SkillConfig(), SkillState(skills=skills))


async def test_it_gives_the_text_of_a_skill(config, home):
    path = home / "skills" / "a" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: a\ndescription: d\n---\nDo it.\n")
    skills = SkillManager(config, trusted=False)
    tool = tool_with(skills)
    result = await tool.invoke(name="a")
    assert tool.to_model(result) == skills.load("a")
    with pytest.raises(SkillError, match="Did you mean a"):
        await tool.invoke(name="aa")


async def test_without_skills_it_says_so():
    with pytest.raises(SkillError, match="no skills"):
        await tool_with(None).invoke(name="a")


@pytest.mark.parametrize("mode", [AgentMode.DEFAULT, AgentMode.PLAN])
def test_no_policy_asks_before_it_runs(mode, tmp_path):
    tool, args = tool_with(None), SkillArgs(name="a")
    call = ToolRequest("skill", args, "c1", tool.accesses(args))
    context = SafetyContext(mode, Policy.STRICT, Workspace(tmp_path), rule=tool.config.permission)
    assert decide(call, context).verdict is Verdict.ALLOW


def test_its_name_and_what_the_model_is_offered():
    info = Skill.get_info()
    assert (info.name, list(info.parameters["properties"])) == ("skill", ["name"])
    assert isinstance(Skill.from_config(BaseToolConfig()), Skill)
    assert len(info.description) < 250
