"""Memories: texts that the agent keeps across sessions, as Markdown files that the user may edit.

`~/.kin-code/memory/NAME.md` (scope user: every session) and `.kin-code/memory/NAME.md` in the workspace (scope project).
The first line describes the memory in a sentence; the rest is read when it is needed. Symbolic links are not followed.
Trust is not checked here: the caller decides whether the model sees a project's memories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeAlias

from kin_nb.core.config.trusted_folders import is_project
from kin_nb.core.paths import kin_home, private_folder, real_path, shown
from kin_nb.core.redaction import Redactor
from kin_nb.core.safe_fs import folder_of, replace_file
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import error_text, read_bytes

Scope: TypeAlias = Literal["user", "project"]
SCOPES: tuple[Scope, ...] = ("user", "project")

LARGEST = 16_384
"""Most bytes of one memory."""
MOST = 200
"""Most memories of one scope."""
LONGEST_DESCRIPTION = 200
"""Most characters of a description."""

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_NAMES = "a name has a-z, 0-9 and -, at most 64 of them"


@dataclass(frozen=True)
class MemoryFile:
    """A file in a memory folder. `problem`: why it cannot be used; `description` is then "". `modified`: ns since the epoch."""

    name: str
    scope: Scope
    description: str = ""
    problem: str = ""
    modified: int = 0


def list_memories(workdir: Path, scopes: Sequence[Scope] = SCOPES) -> list[MemoryFile]:
    """List every memory, newest first, and every file that cannot be used, with its problem. Raises nothing."""
    found = [memory for scope in scopes for memory in _in_scope(scope, workdir)]
    return sorted(found, key=lambda memory: (-memory.modified, memory.name, memory.scope))


def memory_path(name: str, scope: Scope, workdir: Path) -> Path:
    """Return where this memory is, or would be. Raises ToolError for an invalid name and a folder that is a link."""
    if not _NAME.fullmatch(name):
        raise ToolError(f"{name[:80]!r} names no memory: {_NAMES}.")
    return _folder(scope, workdir) / f"{name}.md"


def scope_of(name: str, workdir: Path) -> Scope:
    """Find the scope of a memory. Raises ToolError if it does not exist (and names similar ones) or is in both scopes."""
    found = [scope for scope in SCOPES if _is_there(name, scope, workdir)]
    if len(found) > 1:
        raise ToolError(f"There are two memories {name}: set scope to user or project.")
    if not found:
        raise ToolError(_no_such(name, workdir))
    return found[0]


def read_memory(name: str, scope: Scope, workdir: Path) -> str:
    """Return the whole text, with the description first. Raises ToolError if it does not exist or cannot be read."""
    return _decoded(_existing(name, scope, workdir))


def memory_text(description: str, text: str) -> str:
    """Return the contents of a memory's file. Raises ToolError if the description is not one line, or the text too long."""
    description = description.strip()
    if not description or len(description) > LONGEST_DESCRIPTION or len(description.splitlines()) > 1:
        raise ToolError(f"A memory's description is one line of 1 to {LONGEST_DESCRIPTION} characters.")
    content = "\n\n".join(part for part in (description, text.strip()) if part) + "\n"
    size = len(content.encode(errors="replace"))
    if size > LARGEST:
        raise ToolError(f"The memory has {size:,} bytes and may have {LARGEST:,}. Keep what matters, or make it two.")
    return content


def write_memory(name: str, content: str, scope: Scope, workdir: Path, *, known_secrets: Iterable[str] = ()) -> Path:
    """Create or replace a memory atomically, and return its file. `content`: see `memory_text`.

    Files of scope user have mode 0600. Raises ToolError and changes nothing if there are MOST memories already, if the
    text contains one of `known_secrets` or what looks like a secret, or if the file cannot be written.
    """
    path = memory_path(name, scope, workdir)
    if Redactor(known_secrets, Path("/"), Path("/")).text(content) != content:
        raise ToolError("There is a key or a password in it, or what looks like one. Leave it out: memories keep none.")
    if not os.path.lexists(path) and len(list(path.parent.glob("*.md"))) >= MOST:
        raise ToolError(f"There are {MOST} {scope} memories already. Delete one that is of no use any more.")
    try:
        if scope == "user":
            private_folder(path.parent)
        _replace(path, content, 0o600 if scope == "user" else 0o666)
    except (OSError, UnicodeEncodeError) as error:
        raise ToolError(f"{shown(path)} could not be written: {error_text(error)}.") from error
    return path


def delete_memory(name: str, scope: Scope, workdir: Path) -> Path:
    """Delete a memory, and return its path. Raises ToolError if it does not exist or cannot be deleted."""
    path = _existing(name, scope, workdir)
    try:
        with folder_of(path) as (folder, own):
            os.unlink(own, dir_fd=folder)
    except OSError as error:
        raise ToolError(f"{shown(path)} could not be deleted: {error_text(error)}.") from error
    return path


def _in_scope(scope: Scope, workdir: Path) -> list[MemoryFile]:
    if scope == "project" and not is_project(workdir):
        return []
    try:
        with os.scandir(_folder(scope, workdir)) as scan:
            files = [(e.stat(follow_symlinks=False).st_mtime_ns, e.name) for e in scan if e.name.endswith(".md")]
    except FileNotFoundError:
        return []
    except (OSError, ToolError) as error:
        return [MemoryFile("", scope, problem=error_text(error))]
    files = sorted((file for file in files if not file[1].startswith(".")), key=lambda file: (-file[0], file[1]))
    found = [_memory(name, modified, scope, workdir) for modified, name in files[:MOST]]
    if len(files) > MOST:
        found.append(MemoryFile("", scope, problem=f"and {len(files) - MOST:,} more, older ones: only {MOST} are read"))
    return found


def _memory(file: str, modified: int, scope: Scope, workdir: Path) -> MemoryFile:
    name = file.removesuffix(".md")
    if not _NAME.fullmatch(name):
        return MemoryFile(file, scope, problem=f"not a memory: {_NAMES}", modified=modified)
    try:
        lines = _decoded(memory_path(name, scope, workdir)).splitlines()
    except ToolError as error:
        return MemoryFile(name, scope, problem=str(error), modified=modified)
    description = next((line for line in (line.lstrip("# ").strip() for line in lines) if line), "")
    return MemoryFile(name, scope, description[:LONGEST_DESCRIPTION], "" if description else "it is empty", modified)


def _folder(scope: Scope, workdir: Path) -> Path:
    """Return the folder of a scope. Raises ToolError if a link is in its path; only `~/.kin-code` itself may be a link."""
    if scope == "project" and not is_project(workdir):
        raise ToolError("This workspace's .kin-code is your own, not a project's: use scope user.")
    folder = (real_path(kin_home()) if scope == "user" else real_path(workdir) / ".kin-code") / "memory"
    if real_path(folder) != folder:
        raise ToolError(f"{shown(folder)} is a symbolic link, or lies in one: no memory is read or kept there.")
    return folder


def _is_there(name: str, scope: Scope, workdir: Path) -> bool:
    try:
        return os.path.lexists(memory_path(name, scope, workdir))
    except ToolError:
        if not _NAME.fullmatch(name):
            raise
        return False


def _existing(name: str, scope: Scope, workdir: Path) -> Path:
    path = memory_path(name, scope, workdir)
    if not os.path.lexists(path):
        raise ToolError(_no_such(name, workdir, scope))
    return path


def _no_such(name: str, workdir: Path, scope: Scope | None = None) -> str:
    names = sorted({m.name for m in list_memories(workdir) if _NAME.fullmatch(m.name)})
    near = get_close_matches(name, names, 3)
    known = f" Did you mean {' or '.join(near)}?" if near else f" There are: {', '.join(names[:20])}." if names else ""
    return f"There is no {f'{scope} ' if scope else ''}memory {name}.{known}"


def _decoded(path: Path) -> str:
    """Read a file, and replace invalid UTF-8. Raises ToolError unless it is a regular file of at most LARGEST bytes."""
    return read_bytes(path, LARGEST, shown(path)).decode("utf-8-sig", errors="replace")


def _replace(path: Path, content: str, mode: int) -> None:
    """Write the file atomically. A link at `path` is replaced, not followed. The umask applies to `mode`."""
    with folder_of(path, make=True) as (folder, name):
        replace_file(folder, name, content.encode(), None, mode)
