"""The values of a judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Judgement:
    """`reason`: for a person; names the very part that decides. `reads`: paths, relative to the workspace or absolute.

    `reads` is for harmless commands only: every file whose content they print, every folder that they list or search,
    and the sensitive files below a folder that they search.
    """

    kind: Literal["harmless", "unknown", "dangerous"]
    reason: str
    reads: tuple[str, ...] = ()


class UnprovenError(Exception):
    """Something in the line is not proven harmless. The text is the judgement's reason."""
