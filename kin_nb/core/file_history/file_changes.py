"""A file's change as it is recorded: hashes, modes, and a patch where there is text."""

from __future__ import annotations

import difflib
from pathlib import PurePath
from typing import NamedTuple

from kin_nb.core.records import FileChange
from kin_nb.core.sensitive_names import sensitive_reason

PATCH_LIMIT = 256 * 1024
"""Contents over this many bytes are recorded by hash only."""
_SECRET = sensitive_reason(PurePath(".env"))


class Content(NamedTuple):
    """One side of a change, as in records. `data` None: there is none, or it is not at hand; then there is no patch."""

    mode: str = ""
    sha: str | None = None
    data: bytes | None = None


def file_change(name: str, before: Content, after: Content) -> FileChange:
    """`name`: as records have it. A link's patch is one of where it leads; of folders there is an empty one.

    A file that may hold secrets shows none: records go into logs, and into notebooks that are passed on.
    """
    at_hand = all(side.sha is None or side.data is not None for side in (before, after)) and not is_secret_file(name)
    return FileChange(
        path=name,
        before=before.sha,
        after=after.sha,
        patch=_patch(name, before.data or b"", after.data or b"") if at_hand else None,
        before_mode=before.mode,
        after_mode=after.mode,
    )


def is_secret_file(name: str) -> bool:
    """Whether a file of that name may hold secrets, wherever it lies."""
    path = PurePath(name)
    reason = sensitive_reason(path)
    return _SECRET in {reason, reason and sensitive_reason(PurePath(path.name))}


def _patch(name: str, old: bytes, new: bytes) -> str | None:
    if max(len(old), len(new)) > PATCH_LIMIT or b"\0" in old or b"\0" in new:
        return None
    try:
        before, after = (_lines(content.decode("utf-8")) for content in (old, new))
    except UnicodeDecodeError:
        return None
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Split at newlines only: a form feed or U+2028 inside a line ends none, for git apply as for us."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
