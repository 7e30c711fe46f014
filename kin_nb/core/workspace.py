"""The workspace: resolve paths, tell which of them are sensitive, and open files safely."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import BinaryIO

from kin_nb.core.paths import kin_home
from kin_nb.core.safe_fs import PathChangedError, folder_of
from kin_nb.core.sensitive_names import AGENTS_SETTINGS, Access, sensitive_reason
from kin_nb.core.tool_types import ToolError

_NO_PATHS: Mapping[str, Path] = {}
decided_paths: ContextVar[Mapping[str, Path]] = ContextVar("decided_paths", default=_NO_PATHS)
"""For the call that runs or is shown: each path as written, and what it resolved to when the safety chain decided."""


class Workspace:
    """The folder that the agent works in. `root` is resolved once; every other path is resolved at each use, with symlinks.

    Paths outside are not refused here: the safety chain decides about them, with `contains` and `is_sensitive`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()

    @property
    def too_wide(self) -> str:
        """Describe the root if it is or contains the user's home folder, and so is not one project's folder; else ""."""
        home = Path.home().resolve()
        if self.root == home:
            return "your home folder"
        return f"{self.root}, which holds your home folder" if home.is_relative_to(self.root) else ""

    @property
    def warning(self) -> str:
        """Return a warning for the user when the root is too wide, else ""."""
        if not self.too_wide:
            return ""
        what = f"The workspace is {self.too_wide}, so reading files asks too."
        return f"{what} To work in a project: start in its folder, or set KIN_WORKDIR."

    def resolve(self, path: str) -> Path:
        """Return the absolute path, with symlinks resolved and `~` expanded. `path` is relative to the root; it need not exist.

        Raises ToolError for an empty path, control characters, symlink loops and names that no file can have.
        """
        if not path.strip():
            raise ToolError("The path is empty.")
        if any(ord(character) < ord(" ") or character == "\x7f" for character in path):
            raise ToolError(f"{path!r} is not a usable path: it contains a control character.")
        resolved = None
        try:
            resolved = (self.root / Path(path).expanduser()).resolve()
            resolved.lstat()
        except FileNotFoundError:
            if resolved is None:
                raise ToolError(f"{path!r} changed while its symbolic links were read. Try again.") from None
            return resolved
        except (OSError, RuntimeError, ValueError) as error:  # symlink loop, unknown ~user, name too long, bad encoding
            raise ToolError(f"{path!r} is not a usable path: {error_text(error)}.") from error
        if resolved.is_symlink():  # Python 3.13 leaves a loop as it is
            raise ToolError(f"{path!r} is not a usable path: its symbolic links go in circles.")
        return resolved

    def resolve_for_use(self, path: str) -> Path:
        """Return what `path` resolved to when the running call was decided; else the same as `resolve`.

        Open it without following links (`open_regular`, safe_fs), so that a link that was created since is an error.
        """
        decided = decided_paths.get().get(path)
        return self.resolve(path) if decided is None else decided

    def contains(self, path: Path) -> bool:
        """Whether `path` is in the workspace after its symlinks are resolved."""
        return (self.root / path).resolve().is_relative_to(self.root)

    def relative(self, path: Path) -> str:
        """Return `path` for display: relative to the root with `/`, or the whole path when it is outside."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def is_sensitive(self, path: Path, access: Access = "read") -> str | None:
        """Return why this access to `path` needs the user's approval each time, or None. Checks the link and its target.

        "write" includes the creation of a new file.
        """
        named = self.root / path
        resolved, own = named.resolve(), kin_home().resolve()
        if resolved.parent == own / "memory":
            return "kept in memory: every later session reads it"
        if resolved.is_relative_to(own):
            return "kin_nb's own settings and sessions"
        if access == "write" and not os.path.lexists(resolved):
            access = "create"
        return self._reason(resolved, access) or self._reason(PurePath(os.path.normpath(named)), access)

    def _reason(self, path: PurePath, access: Access) -> str | None:
        """A workspace may be inside an agent's own folder (`~/.cursor/worktrees`): its files are not that agent's settings."""
        reason = sensitive_reason(path, access)
        if reason == AGENTS_SETTINGS and path.is_relative_to(self.root):
            return sensitive_reason(path.relative_to(self.root), access)
        return reason


def open_regular(path: Path, shown: str | None = None) -> BinaryIO:
    """Open a regular file for reading. `path` must be resolved: links in it are not followed. `shown`: its name in errors.

    Raises ToolError at once for anything else, because reading a FIFO or a device could block or never end.
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
    """Read a whole regular file. Raises ToolError as `open_regular` does, and for a file over `limit` bytes."""
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
    """Describe the error, without the path that Python adds."""
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
