"""What the patterns of an allowlist or a denylist name: paths, or any other text."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace


def names_path(pattern: str, path: str, root: Path, *, as_written: bool) -> bool:
    """Whether a glob names `path`: relative to the workspace, or in full, symlinks resolved; `~` is the home folder.

    `as_written` compares the path as the model wrote it too. That may forbid, never allow: `docs/../x` is not in docs.
    """
    spellings = [path] if as_written else []
    try:
        workspace = Workspace(root)
        real = workspace.resolve(path)
        spellings += [workspace.relative(real), str(real)]
    except ToolError:  # no file can have this name
        pass
    wanted = str(Path(pattern).expanduser()) if pattern.startswith("~") else pattern.removeprefix("./")
    return any(fnmatchcase(spelling, wanted) for spelling in spellings)
