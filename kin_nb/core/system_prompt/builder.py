"""The system prompt put together, in a fixed order: what stays the same for longest comes first (seed 003)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from kin_nb.core.config import KinConfig
from kin_nb.core.config.values import SystemPrompt, load_prompt
from kin_nb.core.paths import kin_home
from kin_nb.core.skills.models import SkillInfo
from kin_nb.core.system_prompt.agents_md import agents_md, read_document
from kin_nb.core.system_prompt.memories import memories
from kin_nb.core.system_prompt.one_line import one_line
from kin_nb.core.system_prompt.project_context import project_context

COMMIT_SIGNATURE = "When you make a git commit, end its message with the line `Co-authored-by: kin_nb`."
_SKILLS = "Skills. When a task fits a description, load that skill with the skill tool before you begin:"
_SKILLS_ROOM = 6_000
"""Characters for all descriptions together; each has at least _SHORTEST of them."""
_SHORTEST = 100


def build_system_prompt(
    config: KinConfig, *, trusted: bool, skills: Sequence[SkillInfo] = (), model: str = "", memory: bool = True
) -> str:
    """What the model is told before the conversation; built once per session, and kept.

    Nothing of the project itself but git's facts and the names of its files unless `trusted`. `skills`: none when the
    skill tool is not on offer. `memory`: whether the memory tool is. Raises ConfigError when `system_prompt_id` names no
    usable prompt.
    """
    workdir, most_bytes = config.effective_workdir, config.project_context.max_doc_bytes
    sections = [
        load_prompt(config.system_prompt_id, workdir, trusted=trusted, may_use=config.is_as_trusted),
        config.instructions.strip(),
        read_document(kin_home() / "instructions.md", most_bytes),
        _facts(config, workdir, model),
        COMMIT_SIGNATURE if config.include_commit_signature else "",
        _skills(skills) if config.include_prompt_detail else "",
        memories(workdir, trusted=trusted) if memory else "",
        project_context(workdir, config.project_context) if config.include_project_context else "",
        agents_md(workdir, trusted=trusted, most_bytes=most_bytes),
    ]
    return "\n\n".join(section for section in sections if section)


def system_prompt(config: KinConfig) -> str:
    """The base prompt and the facts, without anything of the person or the project."""
    return f"{SystemPrompt.DEFAULT.read()}\n\n{_facts(config, config.effective_workdir, '')}"


def _facts(config: KinConfig, workdir: Path, model: str) -> str:
    facts = [f"Workspace: {one_line(str(workdir), 1_000)}"]
    if config.include_prompt_detail:
        facts.append(f"System: {platform.system()}; shell: bash")
    if config.include_model_info and model:
        facts.append(f"Model: {one_line(model, 200)}")
    return "\n".join(facts)


def _skills(skills: Sequence[SkillInfo]) -> str:
    room = max(_SHORTEST, _SKILLS_ROOM // max(1, len(skills)))
    lines = [f"- {s.name}: {one_line(' '.join(s.description.split()), room)}" for s in sorted(skills, key=_name)]
    return "\n".join([_SKILLS, *lines]) if lines else ""


def _name(skill: SkillInfo) -> str:
    return skill.name
