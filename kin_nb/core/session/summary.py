"""A session in one line: read from the beginning and the end of its log, however long that is."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from kin_nb.core.session.log import LOG_NAME, parse_line
from kin_nb.core.session.records import Record
from kin_nb.core.session.totals import Totals

TITLE = 50
"""Most characters of a title."""
_LONGEST_LINE = 1_000_000
"""Bytes of a line at the beginning: the header holds the system prompt, the first prompt may hold a picture."""
_TAILS = (16_000, 1_000_000)
"""Bytes at the end: usually the last line says it all; a long turn that was cut off needs more."""


class SessionSummary(Record):
    """`turns` and `tokens` are None when only the whole of a long log could tell. Times have their offset."""

    id: str
    folder: Path
    started: datetime
    last_activity: datetime
    workdir: str
    title: str
    turns: int | None
    model: str
    tokens: int | None


def summarise(folder: Path, workdir: Path | None = None) -> SessionSummary | None:
    """None for a log that is not readable, has no turn, or is of another workspace than `workdir`."""
    try:
        with (folder / LOG_NAME).open("rb") as file:
            header = parse_line(file.readline(_LONGEST_LINE)) or {}
            if header.get("type") != "session" or (workdir is not None and header.get("workspace") != str(workdir)):
                return None
            prompt = _first_prompt(file)
            return None if prompt is None else _summary(folder, header, prompt, file)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError):
        return None


def _first_prompt(file: BinaryIO) -> str | None:
    """ "" when its line is too long to be read here; None when nothing was asked."""
    for _ in range(3):  # lines about the session may come before
        line = file.readline(_LONGEST_LINE)
        record = parse_line(line)
        if record is None:
            return "" if len(line) == _LONGEST_LINE else None
        if record.get("type") == "continued" and record["turns"]:
            return str(record["turns"][0]["prompt"])
        if record.get("type") == "turn":
            return str(record["record"]["prompt"])
    return None


def _summary(folder: Path, header: dict[str, Any], prompt: str, file: BinaryIO) -> SessionSummary:
    totals, last = _end_of(file)
    stat = os.fstat(file.fileno())
    milliseconds = last.get("time", stat.st_mtime * 1000)
    return SessionSummary(
        id=folder.name,
        folder=folder,
        started=local_time(header["time"]),
        last_activity=local_time(milliseconds),
        workdir=header["workspace"],
        title=one_line(prompt, TITLE),
        turns=totals.turns if totals else None,
        model=totals.model if totals else header["model"],
        tokens=totals.tokens if totals else None,
    )


def _end_of(file: BinaryIO) -> tuple[Totals | None, dict[str, Any]]:
    """(the totals, None when they begin too far before the end; the last record)."""
    size = file.seek(0, os.SEEK_END)
    last: dict[str, Any] = {}
    for length in _TAILS:
        start = max(0, size - length)
        file.seek(start)
        lines = file.read(length).split(b"\n")  # half a line is no JSON
        records = [record for line in lines if (record := parse_line(line))]
        last = records[-1] if records else last
        totals, known = Totals(), not start
        for record in records:
            known = known or "totals" in record
            totals = totals.after(record)
        if known:
            return totals, last
    return None, last


def local_time(milliseconds: float) -> datetime:
    """Milliseconds since 1970 as a time of day here. Raises ValueError or OverflowError for no such time."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).astimezone()


def one_line(text: str, limit: int) -> str:
    """The text's words on one line of at most `limit` characters and an ellipsis, with nothing a terminal obeys."""
    words = "".join(c for c in " ".join(text[: 10 * limit].split()) if c.isprintable())
    return words if len(words) <= limit else f"{words[:limit].rstrip()}…"
