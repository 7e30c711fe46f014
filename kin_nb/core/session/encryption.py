"""Encrypted sessions: every line of a log is one encrypted record. The log stays append-only and survives a kill -9.

Format 1. The first line has, in plain text, the format, the source of the key and a salt; nothing else. Each further line
is base64 of a random nonce and AES-256-GCM of the record, whose associated data is the line's offset in the file: lines
that were changed, moved or removed do not decrypt. A log that was cut at its end is only shorter, as after a kill.

Keys come from the user's key file, or from a passphrase that is not stored with the sessions (`SessionKeys`). A session's
key is HKDF-SHA256 of the key file's, or of scrypt of the passphrase. The first half of the salt is scrypt's, and the same
for all sessions of one home folder, so that a list of sessions computes scrypt once.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kin_nb.core.paths import kin_home, read_settings, shown, sole_writer, write_private
from kin_nb.core.session.errors import EncryptedSessionError, UnreadableSessionError

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig


PASSPHRASE = "KIN_SESSION_PASSPHRASE"  # noqa: S105  (the name of a variable)
FORMAT = 1
_KEY, _SALT = 32, 32
"""Bytes. A salt is 16 bytes for scrypt, then 16 of the session."""
_KINDS = {"key-file": "hkdf", "passphrase": "scrypt"}
_UNLOCKED = f"Set {PASSPHRASE}, or store it in the keyring (service kin-code)"
_BEGINNING = b'{"type":"encrypted"'
_LONGEST_HEADER = 1_000
_NONCE = 12


class SessionKeys:
    """Keys from the key file or the passphrase, by `[session_logging]`. `notice` is called when a key file is created."""

    def __init__(self, settings: SessionLoggingConfig, notice: Callable[[str], None] | None = None) -> None:
        self._settings, self._notice = settings, notice or (lambda _: None)

    @classmethod
    def from_user_config(cls) -> SessionKeys:
        """Return the keys of the user's own settings. Raises EncryptedSessionError for settings that do not load."""
        from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (only for an encrypted session)

        try:
            return cls(KinConfig.load().session_logging)
        except ConfigError as error:
            raise EncryptedSessionError(str(error)) from error

    @property
    def wanted(self) -> bool:
        """Whether new sessions are encrypted."""
        return self._settings.encrypt != "off"

    @property
    def key_file(self) -> Path:
        return Path(self._settings.key_file).expanduser() if self._settings.key_file else kin_home() / "session.key"

    def begin(self) -> tuple[bytes, bytes]:
        """Return the first line of a new log, and the key of its other lines. Creates the key file if needed.

        Raises EncryptedSessionError.
        """
        kind = _KINDS[self._settings.encrypt]
        salt = (_home_salt() if kind == "scrypt" else os.urandom(_SALT // 2)) + os.urandom(_SALT // 2)
        if kind == "hkdf":
            self._make_key_file()
        header = {"type": "encrypted", "format": FORMAT, "kdf": kind, "salt": base64.b64encode(salt).decode()}
        return json.dumps(header, separators=(",", ":")).encode() + b"\n", self._key(kind, salt)

    def key(self, first_line: bytes) -> bytes:
        """Return the key of a stored log. Raises EncryptedSessionError: no key, no library, or an unknown format."""
        try:
            header = json.loads(first_line)
            salt = base64.b64decode(header["salt"], validate=True)
            kind = header["kdf"]
            known = header["format"] == FORMAT and kind in _KINDS.values() and len(salt) == _SALT
        except (LookupError, TypeError, ValueError):
            known = False
        if not known:
            raise EncryptedSessionError(
                "The session is encrypted in a format that this version does not know.\n  Update kin_nb to open it."
            )
        return self._key(kind, salt)

    def _key(self, kind: str, salt: bytes) -> bytes:
        _require_library()
        master = self._from_file() if kind == "hkdf" else _stretched(_passphrase(), salt[: _SALT // 2])
        return _derived(master, salt)

    def _from_file(self) -> bytes:
        path = self.key_file
        try:
            text = read_settings(path, private=True)
        except PermissionError as error:
            advice = f" chmod 600 {shown(path)}" if error.strerror == "other users may read it" else ""
            raise EncryptedSessionError(f"The key file {shown(path)} is not read: {error.strerror}.{advice}") from error
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise EncryptedSessionError(f"The key file {shown(path)} cannot be read: {why}.") from error
        if text is None:
            raise EncryptedSessionError(
                f"The session is encrypted, and its key file {shown(path)} does not exist.\n"
                "  Restore it from a copy, or set its path: key_file in [session_logging]."
            )
        return _decoded(text, _KEY) or _no_key(path)

    def _make_key_file(self) -> None:
        path = self.key_file
        try:
            if not path.exists():
                with sole_writer(path):
                    if not path.exists():
                        write_private(path, _encoded(os.urandom(_KEY)))
                        self._notice(
                            f"Sessions are encrypted with a new key, {shown(path)}.\n"
                            "Keep a copy elsewhere: without the key, the sessions cannot be read."
                        )
        except OSError as error:
            raise EncryptedSessionError(f"The key file {shown(path)} cannot be created: {error.strerror}.") from error


def _home_salt() -> bytes:
    """Return scrypt's salt of this home folder, created once. Each log has a copy, so the file may be deleted."""
    path = kin_home() / "session.salt"
    try:
        with sole_writer(path):
            salt = _decoded(read_settings(path) or "", _SALT // 2)
            if salt is None:
                salt = os.urandom(_SALT // 2)
                write_private(path, _encoded(salt))
    except (OSError, ValueError):
        return os.urandom(_SALT // 2)
    return salt


def _passphrase() -> str:
    from kin_nb.core.config.keys import find_key  # noqa: PLC0415  (only for an encrypted session)

    passphrase = find_key(PASSPHRASE)
    if not passphrase:
        raise EncryptedSessionError(f"The session is encrypted, and the passphrase is missing.\n  {_UNLOCKED}.")
    return passphrase


@lru_cache(maxsize=16)
def _stretched(passphrase: str, salt: bytes) -> bytes:
    """Derive the master key: takes a third of a second and 32 MB, once per process and salt."""
    from unicodedata import normalize  # noqa: PLC0415  (as below)

    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415  (an extra)

    return Scrypt(salt=salt, length=_KEY, n=2**15, r=8, p=3).derive(normalize("NFC", passphrase).encode())


def _derived(master: bytes, salt: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415  (an extra)
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(algorithm=SHA256(), length=_KEY, salt=salt, info=b"kin_nb session log 1").derive(master)


def _require_library() -> None:
    try:
        import cryptography  # noqa: F401, PLC0415  (an extra)
    except ImportError:
        raise EncryptedSessionError(
            "Encrypted sessions need the library cryptography: pip install 'kin-nb[encryption]'.\n"
            '  To store new sessions unencrypted: encrypt = "off" in [session_logging].'
        ) from None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode() + "\n"


def _decoded(text: str, length: int) -> bytes | None:
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        return None
    return data if len(data) == length else None


def _no_key(path: Path) -> bytes:
    raise EncryptedSessionError(
        f"The key file {shown(path)} is not valid: it must hold {_KEY} bytes in base64, on one line.\n"
        "  Restore it from a copy."
    )


class LineCipher:
    """Encrypt and decrypt the lines of one log."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  (an extra)

        self._aead = AESGCM(key)

    def seal(self, record: bytes, offset: int) -> bytes:
        """Return the encrypted line, with its line end, for `record` at `offset` in the file."""
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._aead.encrypt(nonce, record, _offset_bytes(offset))) + b"\n"

    def open(self, line: bytes, offset: int) -> bytes | None:
        """Return the record; None for a line of another key or offset, and for a damaged or incomplete line."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (an extra)

        if not line.endswith(b"\n"):
            return None
        try:
            sealed = base64.b64decode(line.removesuffix(b"\n"), validate=True)
            return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], _offset_bytes(offset))
        except (ValueError, InvalidTag):
            return None


def is_encrypted(first_line: bytes) -> bool:
    return first_line.startswith(_BEGINNING) and first_line.endswith(b"\n")


def cipher_of(first_line: bytes, keys: SessionKeys | None) -> LineCipher:
    """Return the cipher of an encrypted log; without `keys`, with the user's own. Raises EncryptedSessionError."""
    return LineCipher((keys or SessionKeys.from_user_config()).key(first_line))


def prepare_append(file: int, keys: SessionKeys | None) -> LineCipher | None:
    """Return the cipher for new lines of an open, locked log; None for a plain log, which stays plain.

    Writes the first line of a new encrypted log, and removes an incomplete last line. Raises EncryptedSessionError, OSError.
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


def decrypt_records(file: BinaryIO, first_line: bytes, path: Path, keys: SessionKeys | None) -> Iterator[bytes]:
    """Yield the records of an encrypted log after its first line; an incomplete last line is skipped.

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
                f"{path}: the key does not open this session, which was encrypted with another key."
            )
        if record is None:
            raise UnreadableSessionError(
                path, f"line {number} was changed, moved or damaged, or a line before it is missing"
            )
        yield record
        offset += len(line)


def _cut_torn_line(file: int) -> None:
    """Remove an incomplete last line: it cannot be decrypted, and the next line needs the correct offset."""
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


def _offset_bytes(offset: int) -> bytes:
    return offset.to_bytes(8, "big")
