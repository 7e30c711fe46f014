"""The one function that a plain export brings along: its source goes into a cell, so it needs nothing from here."""

from __future__ import annotations


def apply_change(path: str, patch: str) -> None:
    """Change the text file at `path` as a unified diff says; ValueError when the lines to change are not there."""
    import re  # noqa: PLC0415  (it travels alone)
    from pathlib import Path  # noqa: PLC0415

    file = Path(path)
    text = file.read_bytes().decode() if file.exists() else ""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    hunks = re.split(r"(?m)^@@ -(\d+)(?:,(\d+))? .*\n", patch)
    moved = 0
    for start, length, body in zip(hunks[1::3], hunks[2::3], hunks[3::3], strict=True):
        rows = re.findall(r"(?m)^([ +-]|(?=\n))(.*\n)(\\.*\n)?", body)
        old, new = ([row[: -1 if end else None] for mark, row, end in rows if mark in side] for side in (" -", " +"))
        at = int(start) - (length != "0") + moved
        if lines[at : at + len(old)] != old or (not old and lines):
            places = [n for n in range(len(lines)) if old and lines[n : n + len(old)] == old]
            if len(places) != 1:
                raise ValueError(f"{path}: not once in the file, so not changed:\n{''.join(old) or '(an empty file)'}")
            moved, at = moved + places[0] - at, places[0]
        lines[at : at + len(old)] = new
        moved += len(new) - len(old)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes("".join(lines).encode())
