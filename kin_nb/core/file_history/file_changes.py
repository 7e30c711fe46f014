"""Record the change of a file (hashes, modes, and a patch if it is text), and rebuild contents from patches.

A content that is not stored on this machine can be rebuilt from the patches in records. Its hash shows if it is right.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from kin_nb.core.file_history.file_state import EMPTY
from kin_nb.core.records import FileChange, sha256
from kin_nb.core.sensitive_names import sensitive_reason

PATCH_LIMIT = 256 * 1024
"""Contents over this many bytes are recorded by hash only."""
_SECRET = sensitive_reason(PurePath(".env"))


class Content(NamedTuple):
    """One side of a change. `data` None: the file does not exist or its content is unknown; the change then has no patch."""

    mode: str = ""
    sha: str | None = None
    data: bytes | None = None


def file_change(name: str, before: Content, after: Content) -> FileChange:
    """Return the record of a change. `name`: as in records. The patch of a link is that of its target; a folder's is empty.

    A file that may contain secrets has no patch, because records are written to logs, and to notebooks that are shared.
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
    """Whether a file with that name may contain secrets, in any folder."""
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
    """Split at newlines only, as `git apply` does: a form feed or U+2028 does not end a line."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


_HUNK = re.compile(r"@@ -(\d{1,9}(?:,\d{1,9})?) \+(\d{1,9}(?:,\d{1,9})?) @@")
_PLACE = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? ")
_OTHER_WAY = {"+": "-", "-": "+"}


def content_before(
    changes: Sequence[FileChange], sha: str, now: bytes, stored: Callable[[str], bytes | None]
) -> bytes | None:
    """Rebuild the content `sha` of a file from its content `now` and its `changes`, oldest first; None if that fails.

    `stored` returns a content by its hash, if it is stored.
    """
    known = {EMPTY: b"", sha256(now): now}
    for change in reversed(changes):
        if change.patch is None or change.before is None or change.before in known:
            continue
        after = known.get(change.after or EMPTY) or stored(change.after or EMPTY) or b""
        if len(after) > PATCH_LIMIT:
            continue
        text = patched(after.decode(errors="replace"), backwards(change.patch))
        made = text.encode(errors="replace")
        if sha256(made) == change.before:
            known[change.before] = made
    return known.get(sha)


def patched(old: str, patch: str) -> str:
    """Apply a unified diff to `old` without checks. The caller compares the hash of the result."""
    before: list[str] = re.findall(r"[^\n]*\n|[^\n]+", old)
    after: list[str] = []
    at, last = 0, ""
    for row in patch.split("\n")[2:-1]:
        mark, text = row[:1], f"{row[1:]}\n"
        if hunk := _PLACE.match(row):
            start = max(at, int(hunk[1]) - (hunk[2] != "0"))
            after += before[at:start]
            at = start
        elif mark == "+":
            after.append(text)
        elif mark == "\\" and last == "+":  # that line ends without a newline
            after[-1] = after[-1].removesuffix("\n")
        elif mark in {" ", "-"}:
            after += before[at : at + 1] if mark == " " else ()
            at += 1
        last = mark
    return "".join([*after, *before[at:]])


def backwards(patch: str) -> str:
    """Return the unified diff that reverts `patch`."""
    rows = patch.split("\n")
    for number, row in enumerate(rows[2:], 2):
        if row[:1] == "@":
            rows[number] = _HUNK.sub(r"@@ -\2 +\1 @@", row)
        else:
            rows[number] = f"{_OTHER_WAY.get(row[:1], row[:1])}{row[1:]}"
    return "\n".join(rows)
