"""The workspace: where paths lead, which of them are sensitive, and how to open a file that may be a trap."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from pathlib import Path, PurePath
from typing import BinaryIO

from kin_nb.core.paths import kin_home
from kin_nb.core.safe_fs import PathChangedError, folder_of
from kin_nb.core.tools.base import ToolError

_RUNS_LATER = "runs later, when other programs start"
_SECRET = "may hold secrets"  # noqa: S105  (a reason, not a secret)

_FOLDERS = {
    ".git": "git's own folder: its hooks and settings run later",
    ".hg": "Mercurial's own folder: its hooks run later",
    ".husky": "git hooks run later",
    ".githooks": "git hooks run later",
    ".kin-code": "kin_nb's own settings",
    ".ssh": _SECRET,
    ".gnupg": _SECRET,
    ".aws": _SECRET,
    ".azure": _SECRET,
    ".kube": _SECRET,
    ".password-store": _SECRET,
    ".ipython": _RUNS_LATER,
    ".jupyter": _RUNS_LATER,
    ".vscode": "the editor runs tasks from here",
    ".idea": "the editor runs tasks from here",
}
_FOLDER_PAIRS = {
    (".docker", "config.json"): _SECRET,
    (".config", "autostart"): _RUNS_LATER,
    (".config", "fish"): _RUNS_LATER,
    (".config", "gcloud"): _SECRET,
    (".config", "gh"): _SECRET,
    (".config", "git"): _RUNS_LATER,
    (".config", "systemd"): _RUNS_LATER,
    ("jupyter", "kernels"): _RUNS_LATER,
    ("library", "launchagents"): _RUNS_LATER,
}
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")
_FILES = {
    _SECRET: (
        *(".env*", "*.env", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".npmrc", ".yarnrc*", ".htpasswd"),
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx"),
        *("*.keystore", "credentials", "service-account*.json", ".vault-token", ".git-credentials"),
        *("credentials.json", "credentials.toml", "credentials.y*ml", "secrets.json", "secrets.toml", "secrets.y*ml"),
    ),
    _RUNS_LATER: (
        *(".bash*", ".zsh*", ".zlog*", ".profile", ".login", ".logout", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc"),
        *(".xinitrc", ".xprofile", ".xsession*", ".inputrc", ".tmux.conf", ".screenrc", ".vimrc", ".exrc", ".emacs"),
        *("sitecustomize.py", "usercustomize.py", "*.pth", ".pythonrc*", ".pdbrc*", ".gdbinit", ".lldbinit"),
        *("ipython_config.py", "ipython_kernel_config.py", "jupyter_*config.py", "jupyter_*config.json", ".rprofile"),
        *(".gitconfig", ".gitmodules", ".hgrc", ".curlrc", ".wgetrc", "authorized_keys", "crontab"),
    ),
}
SECRET_NAMES = _FILES[_SECRET]
"""Globs of the names, in lower case, of files that hold secrets."""


_NO_PATHS: Mapping[str, Path] = {}
decided_paths: ContextVar[Mapping[str, Path]] = ContextVar("decided_paths", default=_NO_PATHS)
"""Of the call that runs, or is shown: where its paths, as written, led when the safety chain decided about it."""


class Workspace:
    """The folder that the agent works in. `root` is resolved once; every other path at each use, symlinks and all.

    Nothing is refused for lying outside: the safety chain decides that, with `contains` and `is_sensitive`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()

    def resolve(self, path: str) -> Path:
        """Where `path` leads: absolute, no symlink left; relative to the root, `~` expanded. It need not exist.

        Raises ToolError for an empty path, control characters, symlink loops and names that no file can have.
        """
        if not path.strip():
            raise ToolError("The path is empty.")
        if any(ord(character) < ord(" ") or character == "\x7f" for character in path):
            raise ToolError(f"{path!r} is no usable path: it holds a control character.")
        resolved = None
        try:
            resolved = (self.root / Path(path).expanduser()).resolve()
            resolved.lstat()
        except FileNotFoundError:
            if resolved is None:
                raise ToolError(f"{path!r} changed while its symbolic links were read. Try again.") from None
            return resolved
        except (OSError, RuntimeError, ValueError) as error:  # symlink loop, unknown ~user, name too long, bad encoding
            raise ToolError(f"{path!r} is no usable path: {error_text(error)}.") from error
        if resolved.is_symlink():  # Python 3.13 leaves a loop as it is
            raise ToolError(f"{path!r} is no usable path: its symbolic links go in circles.")
        return resolved

    def resolve_for_use(self, path: str) -> Path:
        """Where `path` led when the running call was decided, whatever has changed since; else as `resolve`.

        To be opened without following links (`open_regular`, safe_fs): a link that was put there since is an error.
        """
        decided = decided_paths.get().get(path)
        return self.resolve(path) if decided is None else decided

    def contains(self, path: Path) -> bool:
        """Whether `path` really lies in the workspace, wherever its symlinks say it does."""
        return (self.root / path).resolve().is_relative_to(self.root)

    def relative(self, path: Path) -> str:
        """For display: relative to the root with `/`, or the whole path when it lies outside."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def is_sensitive(self, path: Path) -> str | None:
        """Why reading or changing `path` needs a person's word each time, or None. Looks at the link and its target."""
        named = self.root / path
        resolved, own = named.resolve(), kin_home().resolve()
        if resolved.parent == own / "memory":
            return "kept in memory: every later session is told of it"
        if resolved.is_relative_to(own):
            return "kin_nb's own settings and sessions"
        return sensitive_reason(resolved) or sensitive_reason(PurePath(os.path.normpath(named)))


@lru_cache(maxsize=4096)  # asked several times of each path that a call names
def sensitive_reason(path: PurePath) -> str | None:
    """Why this name is sensitive, or None. Looks at the name alone, in any case: file systems may ignore case."""
    parts = tuple(part.casefold() for part in path.parts)
    if parts[:1] == ("/",) and parts[1:2] in {("proc",), ("sys",), ("dev",)} and parts[1:3] != ("dev", "shm"):
        return "the system's own files"
    for part in parts:
        if part in _FOLDERS:
            return _FOLDERS[part]
    for pair in pairwise(parts):
        if pair in _FOLDER_PAIRS:
            return _FOLDER_PAIRS[pair]
    name = parts[-1] if parts else ""
    if any(fnmatchcase(name, pattern) for pattern in _HARMLESS):
        return None
    for reason, patterns in _FILES.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return reason
    return None


def open_regular(path: Path, shown: str | None = None) -> BinaryIO:
    """A regular file, opened for reading. `path` is resolved already: no link in it is followed. `shown`: its name in errors.

    Raises ToolError at once for whatever else it is: a FIFO or a device could block for ever, or never end.
    """
    name = shown or str(path)
    try:
        with folder_of(path.absolute()) as (folder, own):
            # before opening: opening some devices has effects
            _require_regular(os.stat(own, dir_fd=folder, follow_symlinks=False), name)
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY
            descriptor = os.open(own, flags, dir_fd=folder)
    except (OSError, ValueError) as error:
        raise ToolError(f"{name}: {error_text(error)}.") from error
    try:
        _require_regular(os.fstat(descriptor), name)  # it may have been swapped since
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, limit: int, shown: str | None = None) -> bytes:
    """The whole of a regular file. Raises ToolError as `open_regular` does, and for a file over `limit` bytes."""
    name = shown or str(path)
    with open_regular(path, shown) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise ToolError(f"{name}: {error_text(error)}.") from error
    if len(content) > limit:
        raise ToolError(f"{name} is larger than {limit:,} bytes; use bash to see or change parts of it.")
    return content


def error_text(error: Exception) -> str:
    """What went wrong, without the path that Python adds."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(error, PathChangedError):
        return str(error.strerror)
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "its symbolic links go in circles"
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _require_regular(status: os.stat_result, name: str) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise ToolError(f"{name} is a folder, not a file; list_dir shows what is in it.")
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFLNK: "a symbolic link", stat.S_IFSOCK: "a socket"}
    raise ToolError(f"{name} is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a regular file.")
