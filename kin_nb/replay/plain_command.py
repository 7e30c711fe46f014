"""`kin-nb save --plain`: what it writes and says."""

from __future__ import annotations

import sys
from pathlib import Path

from kin_nb.replay.errors import ReplayError
from kin_nb.replay.named_recording import named_recording
from kin_nb.replay.plain import plain_notebook
from kin_nb.replay.writing import write_notebook

DONE, FAILED = 0, 1


def save_plain(session: str, path: Path) -> int:
    """Write a logged session, or the one in a session notebook, to `path`, where nothing may be yet."""
    target = path.absolute()
    if target.exists():
        return _fail(f"{path.name} exists: nothing was written. Choose another name, or remove that file.")
    try:
        write_notebook(plain_notebook(*named_recording(session, target.parent)), target)
    except (ReplayError, OSError) as error:
        return _fail(f"{path} cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error))
    print(f"Saved {path}: it needs no kin_nb, and holds no recording.")  # noqa: T201
    return DONE


def _fail(message: str) -> int:
    print(message, file=sys.stderr)  # noqa: T201
    return FAILED
