"""What a call changed: the files that it said it would write, before and after."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from kin_nb.core.session.records import FileChange, sha256

PATCH_LIMIT = 256 * 1024
"""Contents over this many bytes are recorded by hash only."""


def read_files(paths: Iterable[Path]) -> dict[Path, bytes | None]:
    """Each path's content, None where there is no regular file. What cannot be read is left out: nothing is known of it."""
    found: dict[Path, bytes | None] = {}
    for path in paths:
        try:
            found[path] = path.read_bytes() if path.is_file() else None
        except OSError:
            continue
    return found


def changes_since(before: dict[Path, bytes | None], root: Path) -> tuple[FileChange, ...]:
    """The files whose content is no longer what `before` holds, with paths relative to `root` where they lie below it."""
    after = read_files(before)
    both = ((path, old, after[path]) for path, old in before.items() if path in after)
    return tuple(_change(path, old, new, root) for path, old, new in both if old != new)


def _change(path: Path, old: bytes | None, new: bytes | None, root: Path) -> FileChange:
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return FileChange(
        path=name,
        before=None if old is None else sha256(old),
        after=None if new is None else sha256(new),
        patch=_patch(name, old or b"", new or b""),
    )


def _patch(name: str, old: bytes, new: bytes) -> str | None:
    if max(len(old), len(new)) > PATCH_LIMIT:
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
