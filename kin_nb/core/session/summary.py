"""SessionSummary: one row of the list of sessions, read from both ends of the log."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from kin_nb.core.records import Record
from kin_nb.core.session.encryption import LineCipher, SessionKeys, cipher_of, is_encrypted
from kin_nb.core.session.errors import EncryptedSessionError
from kin_nb.core.session.log import LOG_NAME, parse_line
from kin_nb.core.session.state import Totals, local_time
from kin_nb.core.text import one_line

ENCRYPTED = "(encrypted)"
"""The title of a session that no key opens."""
TITLE = 50
"""Maximum length of a title, in characters."""
_LONGEST_LINE = 1_000_000
"""Most bytes of a line at the start: the header holds the system prompt, the first prompt may hold a picture."""
_TAILS = (16_000, 1_000_000)
"""Bytes at the end: usually the last line is enough; a long turn without an end needs more."""


class SessionSummary(Record):
    """`turns` and `tokens` are None when only reading a long log completely would give them. Times have a UTC offset."""

    id: str
    folder: Path
    started: datetime
    last_activity: datetime
    workdir: str
    title: str
    turns: int | None
    model: str
    tokens: int | None
    locked: bool = False


def summarize(folder: Path, workdir: Path | None = None, keys: SessionKeys | None = None) -> SessionSummary | None:
    """Summarize the session in `folder`: None when it is unreadable, has no turn, or belongs to another workspace.

    A session that `keys` do not open is `locked`, whatever its workspace; None when its first record is incomplete.
    """
    try:
        with (folder / LOG_NAME).open("rb") as file:
            log = _Log(file, keys)
            header = log.next() or {}
            if log.sealed and not header:
                return _locked(folder, file) if log.whole else None
            if header.get("type") != "session" or (workdir is not None and header.get("workspace") != str(workdir)):
                return None
            prompt = _first_prompt(log)
            return None if prompt is None else _summary(folder, header, prompt, log)
    except (OSError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError):
        return None


class _Log:
    """A log's lines, plain or encrypted. `cut`: the last one is too long to be read here. `whole`: it has its line end."""

    def __init__(self, file: BinaryIO, keys: SessionKeys | None) -> None:
        self.file = file
        self.cut = self.whole = False
        self._cipher: LineCipher | None = None
        first = file.readline(_LONGEST_LINE)
        self.sealed = is_encrypted(first)
        if not self.sealed:
            file.seek(0)
            return
        with suppress(EncryptedSessionError):
            self._cipher = cipher_of(first, keys)

    def next(self) -> dict[str, Any] | None:
        """Return the record of the next line; None for an invalid line."""
        offset = self.file.tell()
        line = self.file.readline(_LONGEST_LINE)
        self.cut = len(line) == _LONGEST_LINE
        self.whole = self.cut or line.endswith(b"\n")
        return self.record(line, offset)

    def record(self, line: bytes, offset: int) -> dict[str, Any] | None:
        if not self.sealed:
            return parse_line(line)
        record = self._cipher.open(line, offset) if self._cipher else None
        return None if record is None else parse_line(record)


def _locked(folder: Path, file: BinaryIO) -> SessionSummary:
    changed = local_time(os.fstat(file.fileno()).st_mtime * 1000)
    return SessionSummary(
        id=folder.name,
        folder=folder,
        started=changed,
        last_activity=changed,
        workdir="",
        title=ENCRYPTED,
        turns=None,
        model="",
        tokens=None,
        locked=True,
    )


def _first_prompt(log: _Log) -> str | None:
    """Return the first prompt: "" when its line is too long to be read here; None when there is none."""
    for _ in range(3):  # lines about the session may come first
        record = log.next()
        if record is None:
            return "" if log.cut else None
        if record.get("type") == "continued" and record["records"]:
            return str(record["records"][0].get("prompt", ""))
        if record.get("type") == "turn":
            return str(record["record"]["prompt"])
    return None


def _summary(folder: Path, header: dict[str, Any], prompt: str, log: _Log) -> SessionSummary:
    totals, last = _end_of(log)
    stat = os.fstat(log.file.fileno())
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


def _end_of(log: _Log) -> tuple[Totals | None, dict[str, Any]]:
    """Return the totals (None when they are too far from the end) and the last record."""
    file = log.file
    size = file.seek(0, os.SEEK_END)
    last: dict[str, Any] = {}
    for length in _TAILS:
        start = max(0, size - length)
        file.seek(start)
        offset, records = start, []
        for line in BytesIO(file.read(length)):
            if record := log.record(line, offset):  # None for half a line
                records.append(record)
            offset += len(line)
        last = records[-1] if records else last
        totals, known = Totals(), not start
        for record in records:
            known = known or "totals" in record
            totals = totals.after(record)
        if known:
            return totals, last
    return None, last
