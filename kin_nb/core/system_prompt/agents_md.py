"""AGENTS.md: what the person and the project want every agent to know."""

from __future__ import annotations

from pathlib import Path

from kin_nb.core.config.trusted_folders import TrustedFolders
from kin_nb.core.paths import kin_home, shown
from kin_nb.core.sensitive_names import sensitive_reason
from kin_nb.core.system_prompt.one_line import one_line
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import open_regular

NAME = "AGENTS.md"
_INTRODUCTION = "Instructions from files, those nearest to the workspace last: where two disagree, the later one holds."


def agents_md(workdir: Path, *, trusted: bool, most_bytes: int) -> str:
    """The person's own file, then, in a trusted folder, those from the repository's root down to `workdir`; "" without any.

    Of each at most `most_bytes`. One that can't be read, or is a link to somewhere else, is said to be so.
    """
    own = kin_home() / NAME
    text = read_document(own, most_bytes)
    parts = [_part(shown(own), text)] if text else []
    root = repository_root(workdir)
    for path in agents_md_present(workdir) if trusted else ():
        name = path.relative_to(root).as_posix()
        parts.append(_part(name, _refusal(path, root) or read_document(path, most_bytes)))
    return "\n\n".join([_INTRODUCTION, *parts]) if parts else ""


def agents_md_present(workdir: Path) -> list[Path]:
    """The project's AGENTS.md files that a trusted `workdir` brings in, the root's first. Reads none of them.

    A folder above that the person refused brings in none.
    """
    root, workdir, trust = repository_root(workdir), workdir.resolve(), TrustedFolders()
    around = [folder for folder in workdir.parents if folder.is_relative_to(root)]
    folders = [workdir, *(folder for folder in around if trust.is_trusted(folder) is not False)]
    return [folder / NAME for folder in reversed(folders) if _is_there(folder / NAME)]


def repository_root(workdir: Path) -> Path:
    """The nearest folder above that has `.git`; `workdir` itself without one. No process is started.

    Only folders of the same owner count: anyone may put a `.git` into a shared folder above.
    """
    workdir = workdir.resolve()
    try:
        owner = workdir.stat().st_uid
        for folder in (workdir, *workdir.parents):
            if folder.stat().st_uid != owner:
                break
            if _is_there(folder / ".git"):
                return folder
    except OSError:
        pass
    return workdir


def read_document(path: Path, most_bytes: int) -> str:
    """The text of a file; "" when it is empty or not there. What is wrong with it is said in its place."""
    if not _is_there(path):
        return ""
    try:
        with open_regular(path.resolve(), path.name) as file:
            content = file.read(most_bytes + 1)
    except (ToolError, OSError, RuntimeError) as error:
        return f"[not read: {one_line(str(error), 300)}]"
    text = content[:most_bytes].removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace").strip()
    if len(content) <= most_bytes:
        return text
    return f"{text}\n[… cut here: the file is longer than max_doc_bytes, {most_bytes:,} …]"


def _refusal(path: Path, root: Path) -> str:
    """Why a project's file is not read, in its place; "" when it may be."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError):
        return ""  # a loop: reading it says so
    if target == path:
        return ""
    if not target.is_relative_to(root):
        return "[not read: it is a link that leads out of the repository]"
    reason = sensitive_reason(target.relative_to(root))
    return f"[not read: it is a link to {one_line(target.name, 80)}, which {reason}]" if reason else ""


def _part(name: str, text: str) -> str:
    return f'<instructions from="{one_line(name, 200)}">\n{text}\n</instructions>'


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True
