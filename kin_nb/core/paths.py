"""Where things live: `~/.kin-code`, moved by KIN_HOME."""

from __future__ import annotations

import os
from pathlib import Path


def kin_home() -> Path:
    """The user's folder. Not created here: only whoever writes into it does that, with mode 0700."""
    return Path(os.environ.get("KIN_HOME") or Path.home() / ".kin-code").expanduser()


def private_folder(path: Path) -> Path:
    """`path`, made with its parents; each folder made is readable by its owner only."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path
