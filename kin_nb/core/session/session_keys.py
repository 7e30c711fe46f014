"""The keys of encrypted sessions: from the user's key file, or from a passphrase that nobody stores beside them.

A session's key is HKDF-SHA256 of the key file's, or of scrypt of the passphrase. The first half of the salt is scrypt's, and
the same for all sessions of a home: a list of them stretches the passphrase once.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.paths import kin_home, read_settings, shown, sole_writer, write_private
from kin_nb.core.session.errors import EncryptedSessionError

if TYPE_CHECKING:
    from kin_nb.core.config import SessionLoggingConfig

PASSPHRASE = "KIN_SESSION_PASSPHRASE"  # noqa: S105  (the name of a variable)
FORMAT = 1
_KEY, _SALT = 32, 32
"""Bytes. A salt is scrypt's 16, then the session's own."""
_KINDS = {"key-file": "hkdf", "passphrase": "scrypt"}
_UNLOCKED = f"Set {PASSPHRASE}, or store it in the keyring (service kin-code)"


class SessionKeys:
    """Where keys come from: `[session_logging]`, the key file, the passphrase. `notice` hears when a key file is made."""

    def __init__(self, settings: SessionLoggingConfig, notice: Callable[[str], None] | None = None) -> None:
        self._settings, self._notice = settings, notice or (lambda _: None)

    @classmethod
    def configured(cls) -> SessionKeys:
        """The user's own, for readers that were given none. Raises EncryptedSessionError for settings that do not load."""
        from kin_nb.core.config import ConfigError, KinConfig  # noqa: PLC0415  (only for an encrypted session)

        try:
            return cls(KinConfig.load().session_logging)
        except ConfigError as error:
            raise EncryptedSessionError(str(error)) from error

    @property
    def wanted(self) -> bool:
        """Whether a session that begins now is to be encrypted."""
        return self._settings.encrypt != "off"

    @property
    def key_file(self) -> Path:
        return Path(self._settings.key_file).expanduser() if self._settings.key_file else kin_home() / "session.key"

    def begin(self) -> tuple[bytes, bytes]:
        """(first line of a new log, the key of its other lines). Makes the key file when there is none.

        Raises EncryptedSessionError.
        """
        kind = _KINDS[self._settings.encrypt]
        salt = (_home_salt() if kind == "scrypt" else os.urandom(_SALT // 2)) + os.urandom(_SALT // 2)
        if kind == "hkdf":
            self._make_key_file()
        header = {"type": "encrypted", "format": FORMAT, "kdf": kind, "salt": base64.b64encode(salt).decode()}
        return json.dumps(header, separators=(",", ":")).encode() + b"\n", self._key(kind, salt)

    def key(self, first_line: bytes) -> bytes:
        """The key of a stored log. Raises EncryptedSessionError: no key, no library, or another version's format."""
        try:
            header = json.loads(first_line)
            salt = base64.b64decode(header["salt"], validate=True)
            kind = header["kdf"]
            known = header["format"] == FORMAT and kind in _KINDS.values() and len(salt) == _SALT
        except (LookupError, TypeError, ValueError):
            known = False
        if not known:
            raise EncryptedSessionError("The session is encrypted in a way that this version does not know.")
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
                f"The session is encrypted, and its key file {shown(path)} is not there.\n"
                "  Put a copy of it back, or name it: key_file in [session_logging]."
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
                            f"Sessions are encrypted with a new key, {shown(path)}. Keep a copy elsewhere: without it "
                            "nobody can read them."
                        )
        except OSError as error:
            raise EncryptedSessionError(f"The key file {shown(path)} cannot be made: {error.strerror}.") from error


def _home_salt() -> bytes:
    """scrypt's salt for this home, made once. Each log has a copy, so that losing the file loses nothing."""
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
        raise EncryptedSessionError(f"The session is encrypted, and there is no passphrase.\n  {_UNLOCKED}.")
    return passphrase


@lru_cache(maxsize=16)
def _stretched(passphrase: str, salt: bytes) -> bytes:
    """A third of a second and 32 MB, once in a process for each salt."""
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
            '  To store new sessions in clear: encrypt = "off" in [session_logging].'
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
    raise EncryptedSessionError(f"The key file {shown(path)} holds no key: {_KEY} bytes in base64 on one line.")
