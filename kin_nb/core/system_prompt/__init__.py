"""The system prompt: the text that the model gets before the conversation.

Owns its sections and their order: base prompt, skills, memories, git, files, AGENTS.md. The same state gives the same bytes, so it
has no date. Reads files and runs git; changes nothing, and never starts a program that a repository configures. May import:
core.config, core.skills' models, core.workspace, core.ignore_rules.
"""

from kin_nb.core.system_prompt.builder import agents_md_present, build_system_prompt, system_prompt

__all__ = ["agents_md_present", "build_system_prompt", "system_prompt"]
