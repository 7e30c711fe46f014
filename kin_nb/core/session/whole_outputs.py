"""Whole outputs: all of a result of which the model was given a part, in a file of its own beside the log.

`outputs/NAME` in the session's folder, written before the log's line that names it; NAME is the sha256 of the file. The
text is redacted as records are, and sealed as the log is. No record has it, so that notebooks and documents, which leave
this machine, do not point into it.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from kin_nb.core.paths import private_folder
from kin_nb.core.records import sha256
from kin_nb.core.session.encryption import LineCipher, SessionKeys, cipher_of, is_encrypted, write_all
from kin_nb.core.session.errors import EncryptedSessionError, UnreadableSessionError

WHOLE_LIMIT = 10_000_000
"""Bytes of one output that are kept."""
FOLDER = "outputs"
_NAME = re.compile(r"[0-9a-f]{64}")
_PLACE = 2**64 - 1
"""What a sealed output has for an offset: no line of a log stands there."""


def note(session_id: str, call_id: str) -> str:
    """The last line of a result that was cut: how to see all of it. It names a session: the record has it as `hint`."""
    return f"[cut; all of it: kin-nb sessions show {session_id[:8]} --output {call_id}]"


def limited(text: str, more: int) -> bytes:
    """What the file holds: at most WHOLE_LIMIT bytes, whole characters, and then how many more there were."""
    data = text.encode("utf-8", "surrogatepass")
    end = min(len(data), WHOLE_LIMIT)
    while end < len(data) and data[end] & 0xC0 == 0x80:  # noqa: PLR2004  (inside a character)
        end -= 1
    more += len(data) - end
    return data[:end] + (f"\n[… {more:,} more bytes were not kept]\n".encode() if more else b"")


def write_output(folder: Path, data: bytes, cipher: LineCipher | None) -> str:
    """Write it at once or not at all, for its owner only; the file's name. Raises OSError.

    Not synced: the log is, once a turn, and a file that a power cut emptied is noticed by its name.
    """
    stored = cipher.seal(data, _PLACE) if cipher else data
    name = sha256(stored)
    path = private_folder(folder / FOLDER) / name
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        try:
            write_all(descriptor, stored)
        finally:
            os.close(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return name


def read_output(log: Path, name: str, keys: SessionKeys | None) -> str:
    """The output in the file `name`, next to the session's `log`. Raises UnreadableSessionError, EncryptedSessionError."""
    path = log.parent / FOLDER / name
    try:
        data = path.read_bytes() if _NAME.fullmatch(name) else b""
        with log.open("rb") as file:
            first = file.readline()
    except OSError as error:
        raise UnreadableSessionError(path, f"cannot be read ({error.strerror})") from error
    if sha256(data) != name:
        raise UnreadableSessionError(path, "is not as it was written")
    if is_encrypted(first):
        opened = cipher_of(first, keys).open(data, _PLACE)
        if opened is None:
            raise EncryptedSessionError(f"{path}: the session's key does not open this output.")
        data = opened
    return data.decode("utf-8", "surrogatepass")
