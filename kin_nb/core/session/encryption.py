"""Stored sessions, encrypted: every line of a log is one sealed record. Still append-only, still whole after a kill -9.

Format 1. The first line says, in clear, the format, where its key comes from and a salt; nothing else. Each further line is
base64 of a random nonce and AES-256-GCM of the record, whose associated data is the line's offset in the file: lines that
were changed, moved, or taken out do not open. A log that was cut at its end is shorter, as after a kill.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kin_nb.core.session.errors import EncryptedSessionError, UnreadableSessionError
from kin_nb.core.session.session_keys import SessionKeys

_BEGINNING = b'{"type":"encrypted"'
_LONGEST_HEADER = 1_000
_NONCE = 12


class LineCipher:
    """Seals and opens the lines of one log."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  (an extra)

        self._aead = AESGCM(key)

    def seal(self, record: bytes, offset: int) -> bytes:
        """The line, with its end, that stands for `record` at `offset` of the file."""
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._aead.encrypt(nonce, record, _place(offset))) + b"\n"

    def open(self, line: bytes, offset: int) -> bytes | None:
        """The record; None for a line of another key or another place, and for one that is damaged or cut."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (an extra)

        if not line.endswith(b"\n"):
            return None
        try:
            sealed = base64.b64decode(line.removesuffix(b"\n"), validate=True)
            return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], _place(offset))
        except (ValueError, InvalidTag):
            return None


def is_encrypted(first_line: bytes) -> bool:
    return first_line.startswith(_BEGINNING) and first_line.endswith(b"\n")


def cipher_of(first_line: bytes, keys: SessionKeys | None) -> LineCipher:
    """Of an encrypted log; without `keys`, with the user's own. Raises EncryptedSessionError."""
    return LineCipher((keys or SessionKeys.configured()).key(first_line))


def ready_to_append(file: int, keys: SessionKeys | None) -> LineCipher | None:
    """What seals the lines of an open, locked log; None for a plain one, which stays plain.

    Begins a new log as `keys` want it, and takes away the line that a kill cut. Raises EncryptedSessionError, OSError.
    """
    head = os.pread(file, _LONGEST_HEADER, 0)
    end = head.find(b"\n") + 1
    if is_encrypted(head[:end]):
        cipher = cipher_of(head[:end], keys)
        _cut_torn_line(file)
        return cipher
    begun = end or len(head) == _LONGEST_HEADER
    if begun or keys is None or not keys.wanted:
        return None
    header, key = keys.begin()
    os.ftruncate(file, 0)
    write_all(file, header)
    return LineCipher(key)


def sealed_records(file: BinaryIO, first_line: bytes, path: Path, keys: SessionKeys | None) -> Iterator[bytes]:
    """The records of an encrypted log, from behind its first line; a cut line at its end is none.

    Raises EncryptedSessionError for a wrong key, UnreadableSessionError for a line that was changed or moved.
    """
    cipher = cipher_of(first_line, keys)
    offset = len(first_line)
    for number, line in enumerate(file, 2):
        if not line.endswith(b"\n"):
            return
        record = cipher.open(line, offset)
        if record is None and number == 2:  # noqa: PLR2004  (the first record)
            raise EncryptedSessionError(
                f"{path}: the key does not open this session: it was encrypted with another one."
            )
        if record is None:
            raise UnreadableSessionError(path, f"line {number} was changed, moved or damaged, or one before it is gone")
        yield record
        offset += len(line)


def _cut_torn_line(file: int) -> None:
    """Half a sealed line is nothing: no record ends in it, and what comes next must not stand behind it."""
    size = end = os.fstat(file).st_size
    while end:
        start = max(0, end - 65_536)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            if start + newline + 1 < size:
                os.ftruncate(file, start + newline + 1)
            return
        end = start


def write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _place(offset: int) -> bytes:
    return offset.to_bytes(8, "big")
