"""Skills: folders with a SKILL.md that tell the model how to do one kind of task (seed 002, the Agent Skills format).

Owns finding and reading skills, and their text for the model. Runs no code of a skill, and gives no permissions: a
project's skills are read only when it is trusted, and `allowed-tools` approves nothing. May import: core.config,
core.paths, core.project_snapshot, core.tool_types, core.workspace.
"""

from kin_nb.core.skills.manager import SkillManager, expand_skill
from kin_nb.core.skills.models import SkillError, SkillInfo, SkillMetadata

__all__ = ["SkillError", "SkillInfo", "SkillManager", "SkillMetadata", "expand_skill"]
