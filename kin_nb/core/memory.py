"""Memories: what the agent keeps across sessions, as Markdown files that a person may edit.

`~/.kin-code/memory/NAME.md` (scope user: every session) and `.kin-code/memory/NAME.md` in the workspace (scope project).
The first line describes the memory in a sentence; the rest is for whoever reads it. No symbolic link is followed.
Never raises trust: whether a project's memories are told to the model is the caller's to decide.
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
"""Bytes of one memory."""
MOST = 200
"""Memories of one scope."""
LONGEST_DESCRIPTION = 200
"""Characters."""

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_NAMES = "a name has a-z, 0-9 and -, at most 64 of them"


@dataclass(frozen=True)
class MemoryFile:
    """`problem`: why the file cannot be used, in words; then there is no description. `modified`: ns since the epoch."""

    name: str
    scope: Scope
    description: str = ""
    problem: str = ""
    modified: int = 0


def list_memories(workdir: Path, scopes: Sequence[Scope] = SCOPES) -> list[MemoryFile]:
    """Every memory, newest first; files that are none are among them, with what is wrong. Raises nothing."""
    found = [memory for scope in scopes for memory in _in_scope(scope, workdir)]
    return sorted(found, key=lambda memory: (-memory.modified, memory.name, memory.scope))


def memory_path(name: str, scope: Scope, workdir: Path) -> Path:
    """Where this memory is, or would be. Raises ToolError for a name that is none, and where links lead elsewhere."""
    if not _NAME.fullmatch(name):
        raise ToolError(f"{name[:80]!r} names no memory: {_NAMES}.")
    return _folder(scope, workdir) / f"{name}.md"


def scope_of(name: str, workdir: Path) -> Scope:
    """Where the memory of this name is. Raises ToolError: there is none (naming the nearest), or one in both scopes."""
    found = [scope for scope in SCOPES if _is_there(name, scope, workdir)]
    if len(found) > 1:
        raise ToolError(f"There are two memories {name}: set scope to user or project.")
    if not found:
        raise ToolError(_no_such(name, workdir))
    return found[0]


def read_memory(name: str, scope: Scope, workdir: Path) -> str:
    """The whole text, its description first. Raises ToolError when there is none, or it cannot be read."""
    return _decoded(_existing(name, scope, workdir))


def memory_text(description: str, text: str) -> str:
    """A memory as its file holds it. Raises ToolError for a description that is no single line, and for too much text."""
    description = description.strip()
    if not description or len(description) > LONGEST_DESCRIPTION or len(description.splitlines()) > 1:
        raise ToolError(f"A memory's description is one line of 1 to {LONGEST_DESCRIPTION} characters.")
    content = "\n\n".join(part for part in (description, text.strip()) if part) + "\n"
    size = len(content.encode(errors="replace"))
    if size > LARGEST:
        raise ToolError(f"The memory has {size:,} bytes and may have {LARGEST:,}. Keep what matters, or make it two.")
    return content


def write_memory(name: str, content: str, scope: Scope, workdir: Path, *, known_secrets: Iterable[str] = ()) -> Path:
    """Make or replace a memory in one step; returns its file. `content`: see `memory_text`.

    The user's files are for the user alone (0600). Raises ToolError, nothing changed: no room for another one, a secret
    in it (`known_secrets` to the letter, or what looks like one), or a file that cannot be written.
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
    """Returns the file that is gone. Raises ToolError when there is none, or it stays."""
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
    """Raises ToolError when a link leads elsewhere. `~/.kin-code` itself may be one: it is the person's own."""
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
    """Bytes that are no UTF-8 are replaced. Raises ToolError for whatever is no regular file of at most LARGEST bytes."""
    return read_bytes(path, LARGEST, shown(path)).decode("utf-8-sig", errors="replace")


def _replace(path: Path, content: str, mode: int) -> None:
    """In one step; a link in its place is replaced, not followed. The umask has its say on `mode`."""
    with folder_of(path, make=True) as (folder, name):
        replace_file(folder, name, content.encode(), None, mode)
