"""The system prompt: base prompt, then the facts of this workspace, in a fixed order.

Byte-identical for the same state (no date, no listing that changes by itself), so that providers' prompt caches hit.
"""

from __future__ import annotations

import platform
from pathlib import Path

from kin_nb.core.config import KinConfig

PROMPTS = Path(__file__).parent / "prompts"


def system_prompt(config: KinConfig) -> str:
    base = (PROMPTS / "default.md").read_text(encoding="utf-8").strip()
    facts = [
        f"Workspace: {config.effective_workdir}",
        f"System: {platform.system()}; shell: bash",
    ]
    return f"{base}\n\n" + "\n".join(facts)
