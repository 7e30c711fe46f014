"""API keys: where they are found and saved. A key is never put into os.environ, stored in a value, or logged.

Searched in this order: the environment, `~/.kin-code/.env`, a file of that name in KIN_SECRETS_DIR, the operating system's keyring.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.paths import kin_home, read_settings, shown, sole_writer, write_private

if TYPE_CHECKING:
    from dotenv.parser import Binding

KEYRING_SERVICE = "kin-code"
ASK_AGAIN_SECONDS = 30
"""Seconds after which the keyring is asked again for a key that it did not have."""

_taken: dict[str, str] = {}
"""Variable -> the value that was removed from the environment."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def env_path() -> Path:
    return kin_home() / ".env"


def find_key(variable: str) -> str | None:
    """Return the key, None if it is not set or `variable` is empty. Cheap: called for each request."""
    if not variable:
        return None
    if value := os.environ.get(variable) or _taken.get(variable):
        return value
    if not _VARIABLE.fullmatch(variable):
        return None
    return _env_file().get(variable) or _secret_file(variable) or _from_keyring(variable)


def take_from_environment(variables: Iterable[str]) -> None:
    """Move variables from os.environ into this module, so that other code in the process does not find them there."""
    for variable in variables:
        if value := os.environ.pop(variable, None):
            _taken[variable] = value


def environment_with(names: Iterable[str]) -> dict[str, str]:
    """Return os.environ with the removed variables of `names`: those that the user passes to a program."""
    return {**{name: _taken[name] for name in names if name in _taken}, **os.environ}


def save_key(variable: str, value: str) -> Path:
    """Write `VARIABLE=value` into `~/.kin-code/.env`, mode 0600, and keep its other lines; return the file.

    Raises ConfigError if the name or the value is invalid or the file cannot be written.
    """
    from dotenv.parser import parse_stream  # noqa: PLC0415  (only when a key is saved)

    value = value.strip()
    if not _VARIABLE.fullmatch(variable):
        raise ConfigError("The name of a variable may contain letters, digits and _ only, e.g. MISTRAL_API_KEY.")
    if not value or not value.isprintable():
        raise ConfigError(f"The key for {variable} was not saved: it is empty or has more than one line.")
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    path = env_path()
    try:
        with sole_writer(path):
            bindings = list(parse_stream(StringIO(read_settings(path) or "")))
            kept = "".join(binding.original.string for binding in bindings if binding.key != variable)
            end = "" if not kept or kept.endswith("\n") else "\n"
            write_private(path, f"{kept}{end}{variable}='{quoted}'\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: the key was not saved: {reason}.") from error
    _keyring_answers().pop(variable, None)
    return path


def known_keys() -> list[str]:
    """Return the secrets that are not in the environment; records must not show these either."""
    secret_files = [path for path in secret_files_in(secrets_folder()) if not path.name.upper().startswith("KIN_")]
    values = [*_taken.values(), *_env_file().values(), *map(read_secret, secret_files), *_keyring_answers().values()]
    return list(dict.fromkeys(value for value in values if value))


def env_file_warnings() -> tuple[str, ...]:
    """Return why `.env`, or a line of it, is not used."""
    return _parsed(*_stamp())[1]


def secrets_folder() -> Path | None:
    """The folder KIN_SECRETS_DIR: one file per variable, as containers mount them."""
    folder = os.environ.get("KIN_SECRETS_DIR")
    return Path(folder).expanduser() if folder else None


def secret_files_in(folder: Path | None) -> list[Path]:
    """Return the files, sorted by name; an empty list if the folder does not exist."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file()) if folder else []
    except OSError:
        return []


def read_secret(path: Path) -> str | None:
    """Return the stripped text of a secrets file; None if it is empty or cannot be read."""
    try:
        return (read_settings(path) or "").strip() or None
    except (OSError, ValueError):
        return None


def _env_file() -> dict[str, str]:
    return _parsed(*_stamp())[0]


def _stamp() -> tuple[Path, int, int, int, int]:
    """Return what changes with `.env`, so that a change is noticed without a restart."""
    path = env_path()
    try:
        status = path.stat()
    except OSError:
        return path, 0, 0, 0, 0
    return path, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


@lru_cache(maxsize=1)
def _parsed(path: Path, inode: int, modified: int, size: int, mode: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return (values, warnings) of `.env`."""
    del modified, size, mode
    if not inode:
        return {}, ()
    try:
        text = read_settings(path, private=True)
    except PermissionError as error:
        why = str(error.strerror).lower()
        return {}, (f"{path}: not read: {why}. To use the keys in it: chmod 600 {shown(path)}",)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return {}, (f"{path}: cannot be read: {reason}.",)
    return _read_bindings(path, text or "")


def _read_bindings(path: Path, text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    from dotenv.parser import parse_stream  # noqa: PLC0415  (only when there is a file)

    # The parser rather than dotenv_values: that expands ${...} inside keys, and reports bad lines to the log only.
    bindings: list[Binding] = list(parse_stream(StringIO(text)))
    values = {binding.key: binding.value for binding in bindings if binding.key and binding.value}
    bad = [binding for binding in bindings if binding.error]
    return values, tuple(f"{path}:{_line(each)}: invalid line; write NAME=value." for each in bad)


def _line(binding: Binding) -> int:
    """Return the line of a binding; the parser's number is that of the empty lines before it."""
    string = binding.original.string
    return binding.original.line + string[: len(string) - len(string.lstrip())].count("\n")


def _secret_file(name: str) -> str | None:
    folder = secrets_folder()
    if folder is None:
        return None
    return read_secret(folder / name) or read_secret(folder / name.lower())


def _from_keyring(variable: str) -> str | None:
    found = _keyring_answers()
    if variable not in found and (value := _ask_keyring(variable, int(time.monotonic() // ASK_AGAIN_SECONDS))):
        found[variable] = value
    return found.get(variable)


@cache
def _keyring_answers() -> dict[str, str]:
    """Keys from the keyring. Each is asked for once, because the keyring may prompt the user."""
    return {}


@lru_cache(maxsize=64)
def _ask_keyring(variable: str, period: int) -> str | None:
    del period
    try:
        value = import_module("keyring").get_password(KEYRING_SERVICE, variable)  # an extra, and slow to import
    except Exception:  # noqa: BLE001  (not installed, locked, no desktop session: each backend has its own errors)
        return None
    return value if isinstance(value, str) and value else None
