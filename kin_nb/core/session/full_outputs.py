"""Full outputs: the complete text of a tool result that was shortened for the model, in a file next to the log.

The file is `outputs/NAME` in the session's folder, written before the log line that names it; NAME is its sha256. The text
is redacted as records are, and encrypted when the log is. Only the log names it: notebooks and documents, which leave this
machine, do not refer to it.
"""

from __future__ import annotations

import re
from pathlib import Path

from kin_nb.core.paths import private_folder
from kin_nb.core.records import sha256
from kin_nb.core.safe_fs import replace_path
from kin_nb.core.session.encryption import LineCipher, SessionKeys, cipher_of, is_encrypted
from kin_nb.core.session.errors import EncryptedSessionError, UnreadableSessionError

FULL_OUTPUT_LIMIT = 10_000_000
"""Most bytes of one output that are saved."""
FOLDER = "outputs"
_NAME = re.compile(r"[0-9a-f]{64}")
_PLACE = 2**64 - 1
"""Offset under which an output is encrypted: no log line has it."""


def note(session_id: str, call_id: str) -> str:
    """Return the last line of a shortened result: the command that shows all of it. The record stores it as `hint`."""
    return f"[cut; all of it: kin-nb sessions show {session_id[:8]} --output {call_id}]"


def limited(text: str, more: int) -> bytes:
    """Return the file's content: at most FULL_OUTPUT_LIMIT bytes of whole characters, then a line that counts the rest."""
    data = text.encode("utf-8", "surrogatepass")
    end = min(len(data), FULL_OUTPUT_LIMIT)
    while end < len(data) and data[end] & 0xC0 == 0x80:  # noqa: PLR2004  (inside a character)
        end -= 1
    more += len(data) - end
    return data[:end] + (f"\n[… {more:,} more bytes were not kept]\n".encode() if more else b"")


def write_output(folder: Path, data: bytes, cipher: LineCipher | None) -> str:
    """Write `data` atomically, readable by its owner only. Return the file's name. Raises OSError.

    Not synced: the name is a hash, so that a file damaged by a power cut is noticed.
    """
    stored = cipher.seal(data, _PLACE) if cipher else data
    name = sha256(stored)
    replace_path(private_folder(folder / FOLDER) / name, stored, 0o600)
    return name


def read_output(log: Path, name: str, keys: SessionKeys | None) -> str:
    """Read the output `name` of the session with that `log`. Raises UnreadableSessionError, EncryptedSessionError."""
    path = log.parent / FOLDER / name
    try:
        data = path.read_bytes() if _NAME.fullmatch(name) else b""
        with log.open("rb") as file:
            first = file.readline()
    except OSError as error:
        raise UnreadableSessionError(path, f"cannot be read ({error.strerror})") from error
    if sha256(data) != name:
        raise UnreadableSessionError(path, "the file is missing or was changed after it was written")
    if is_encrypted(first):
        opened = cipher_of(first, keys).open(data, _PLACE)
        if opened is None:
            raise EncryptedSessionError(f"{path}: the session's key does not open this output.")
        data = opened
    return data.decode("utf-8", "surrogatepass")
