"""Contents that nobody kept here, made from the patches of records; whether they are right is told by their hashes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kin_nb.core.file_history.file_changes import PATCH_LIMIT
from kin_nb.core.file_history.look import EMPTY
from kin_nb.core.records import FileChange, sha256

_HUNK = re.compile(r"@@ -(\d{1,9}(?:,\d{1,9})?) \+(\d{1,9}(?:,\d{1,9})?) @@")
_PLACE = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? ")
_OTHER_WAY = {"+": "-", "-": "+"}


def content_before(
    changes: Sequence[FileChange], sha: str, now: bytes, stored: Callable[[str], bytes | None]
) -> bytes | None:
    """The content `sha` of a file that holds `now`, back through its `changes`, oldest first; None: it does not come out.

    `stored`: gives a content by its hash, if it is kept.
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
    """`old` with a unified diff applied, taken at its word: whether it fits is told by the hash of what comes out."""
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
    """A unified diff that takes `patch` back."""
    rows = patch.split("\n")
    for number, row in enumerate(rows[2:], 2):
        if row[:1] == "@":
            rows[number] = _HUNK.sub(r"@@ -\2 +\1 @@", row)
        else:
            rows[number] = f"{_OTHER_WAY.get(row[:1], row[:1])}{row[1:]}"
    return "\n".join(rows)
