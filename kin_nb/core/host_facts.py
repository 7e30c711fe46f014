"""HostFacts: what an agent must know of the program that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HostFacts:
    """Facts about the host, the same for a whole session.

    `in_notebook`: whether prompts are cells of a notebook. `interpreter`: the Python whose programs commands find first, such
    as that of the notebook's kernel; None: as in the user's shell. `has_user`: whether someone can answer questions.
    """

    in_notebook: bool = False
    interpreter: Path | None = None
    has_user: bool = True


A_PROGRAM = HostFacts()
"""A program that uses this package, and answers questions by its callbacks."""
COMMAND_LINE = HostFacts(has_user=False)
"""`kin-nb run`: no one is asked while it runs."""
