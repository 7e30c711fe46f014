"""A session in one line: read from the beginning and the end of its log, however long that is."""

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
    locked: bool = False


def summarise(folder: Path, workdir: Path | None = None, keys: SessionKeys | None = None) -> SessionSummary | None:
    """None for a log that is not readable, has no turn, or is of another workspace than `workdir`.

    An encrypted one that `keys` do not open is `locked`: it may be of any workspace. Not one that ended before its first
    record was whole: there is nothing in it.
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
    """A log's lines, in clear or sealed. `cut`: the last one is longer than is read here. `whole`: a kill did not cut it."""

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
        """The next line's record; None for a line that is none."""
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
    """ "" when its line is too long to be read here; None when nothing was asked."""
    for _ in range(3):  # lines about the session may come before
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
    """(the totals, None when they begin too far before the end; the last record)."""
    file = log.file
    size = file.seek(0, os.SEEK_END)
    last: dict[str, Any] = {}
    for length in _TAILS:
        start = max(0, size - length)
        file.seek(start)
        offset, records = start, []
        for line in BytesIO(file.read(length)):
            if record := log.record(line, offset):  # half a line is none
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
