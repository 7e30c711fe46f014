"""How a session notebook is to be re-executed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Way = Literal["playback", "tools", "live"]
FailOn = Literal["text", "effect"]
CELL_SECONDS = 600


@dataclass(frozen=True)
class ReplayOptions:
    """`tools`: run the tools again; `live`: ask the model again; else playback, with `scratch` in a copy with its files.

    `approve_recorded`: calls that were allowed when recorded run without asking (`--approve recorded`). `workspace`: where
    it is now. `timeout`: seconds per cell. `parameters`: (name, value as it was typed). `fail_on`: the least that counts
    as drift. `rules`: files of drift rules, besides the built-in ones.
    """

    tools: bool = False
    live: bool = False
    scratch: bool = False
    approve_recorded: bool = False
    output_dir: Path | None = None
    workspace: Path | None = None
    timeout: int = CELL_SECONDS
    parameters: tuple[tuple[str, str], ...] = ()
    fail_on: FailOn = "text"
    rules: tuple[Path, ...] = ()
    in_copy: bool = False
    """In playback: in a copy of the files as they are, the notebook's folder among them."""

    @property
    def way(self) -> Way:
        if self.live:
            return "live"
        return "tools" if self.tools else "playback"
