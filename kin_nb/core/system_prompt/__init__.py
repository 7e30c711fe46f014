"""The system prompt: what the model is told before the conversation begins.

Owns its order, and what it says of the workspace: git, the files, AGENTS.md. Byte-identical for the same state: no date,
nothing that changes by itself. Reads files and asks git, changes nothing, and starts nothing that a repository
configures. May import: core.config, core.skills' models, core.workspace, core.ignore_rules.
"""

from kin_nb.core.system_prompt.builder import agents_md_present, build_system_prompt, system_prompt

__all__ = ["agents_md_present", "build_system_prompt", "system_prompt"]
