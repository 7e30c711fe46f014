"""Skills: folders with a SKILL.md that tell the model how to do one kind of task (seed 002, the Agent Skills format).

Owns finding them, reading them, and their text for the model. Runs nothing of them and never raises trust: a project's
are read only when it is trusted, and `allowed-tools` approves nothing. May import: core.config,
core.paths, core.project_snapshot, core.tool_types, core.workspace.
"""

from kin_nb.core.skills.manager import SkillManager, expand_skill
from kin_nb.core.skills.models import SkillError, SkillInfo, SkillMetadata

__all__ = ["SkillError", "SkillInfo", "SkillManager", "SkillMetadata", "expand_skill"]
