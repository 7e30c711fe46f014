"""The project folders that the user trusts: `~/.kin-code/trusted_folders.toml`.

The files of a trusted folder act: the modules in its `.kin-code/tools` are imported, so their code runs; its
`.kin-code/config.toml` and `agents/` may start programs as MCP servers; its AGENTS.md, prompts and skills are sent to the model.
Nothing of this is read from a folder that is not trusted. Only the user can trust a folder, never a file in it; and only with its
files as they were then (project_snapshot.py, stored in `~/.kin-code/trusted`). After a change nothing is read until the user trusts
the folder again.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.toml_file import read_toml
from kin_nb.core.paths import kin_home, read_settings, real_path, shown, sole_writer, write_private
from kin_nb.core.project_snapshot import Changes, ProjectSnapshot

PROJECT_FILES = (
    *("AGENTS.md", ".kin-code/config.toml", ".kin-code/agents", ".kin-code/prompts", ".kin-code/skills"),
    *(".kin-code/tools", ".kin-code/memory", ".agents/skills"),
)
"""The files of a project folder that are read only if it is trusted."""

_ABOUT = "# The folders that kin-nb may read settings, tools and instructions from, and those that it may not.\n"


@dataclass(frozen=True)
class Trust:
    """The trust of a folder. `answer`: None if the user has not decided, or something has changed since.

    `seen`: the current state of its files, if it was compared with the trusted one. `changes`: the differences. `since`: the
    folder that the decision was made for. `problem`: why the states cannot be compared, a sentence.
    """

    answer: bool | None = None
    seen: ProjectSnapshot | None = None
    changes: Changes | None = None
    since: Path | None = None
    problem: str = ""

    @property
    def project(self) -> ProjectSnapshot | None:
        """The state of the files, if the folder is trusted."""
        return self.seen if self.answer else None

    @property
    def of_itself(self) -> bool:
        """Whether the folder itself was trusted, not only a folder around it."""
        return self.project is not None and self.since == self.project.folder


class TrustedFolders:
    """The decisions of the user. The file is read each time, so that a decision in another process counts at once.

    A decision also holds for the folders inside, until a closer decision; but a folder inside that has project files of its own
    must be trusted itself. The folder that is looked up has its symlinks resolved; paths in the file are compared literally, so
    that a folder that was replaced by a link is not trusted. `warnings`: problems of the file at the last read; with an
    unreadable file nothing is trusted.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or kin_home() / "trusted_folders.toml"
        self.warnings: tuple[str, ...] = ()
        self._session: dict[Path, ProjectSnapshot] = {}

    def is_trusted(self, path: Path) -> bool | None:
        """Return the answer of `look`."""
        return self.look(path).answer

    def look(self, path: Path) -> Trust:
        """Return the decision about this folder or the closest one around it, if its files have not changed since."""
        try:
            trusted, untrusted = self._read()
            self.warnings = ()
        except ConfigError as error:
            trusted, untrusted = set(), set()
            self.warnings = (f"{error} Therefore no folder is trusted.",)
        folder = _resolved(path)
        for ancestor in (folder, *folder.parents):
            if ancestor in self._session:
                return _compared(folder, ancestor, self._session[ancestor])
            if ancestor in untrusted:
                return Trust(False)
            if ancestor in trusted and not is_too_broad(ancestor):
                return _compared(folder, ancestor, self._recorded(ancestor))
        return Trust()

    def trust(self, path: Path, seen: ProjectSnapshot | None = None) -> Path:
        """Trust a folder with its files as they are now, or as they were `seen`; return its resolved path.

        Raises ConfigError: not a folder, too broad, too many files, or not saved.
        """
        folder = _trustable(path)
        self._move(folder, to="trusted", record=seen or ProjectSnapshot.take(folder))
        return folder

    def distrust(self, path: Path) -> Path:
        """Never read settings from this folder, and do not mention it again."""
        folder = _resolved(path)
        self._session.pop(folder, None)
        self._move(folder, to="untrusted")
        return folder

    def for_session(self, path: Path) -> Path:
        """Trust a folder for the lifetime of this object; nothing is saved."""
        folder = _trustable(path)
        self._session[folder] = ProjectSnapshot.take(folder)
        return folder

    def _record_path(self, folder: Path) -> Path:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        return self.path.with_name("trusted") / f"{name}.json"

    def _recorded(self, folder: Path) -> ProjectSnapshot | None:
        """Return the state of the folder when it was trusted; None without a valid record of it."""
        try:
            record = ProjectSnapshot.from_json(read_settings(self._record_path(folder)) or "")
        except (OSError, ValueError):
            return None
        return record if record.folder == folder else None

    def _move(self, folder: Path, *, to: str, record: ProjectSnapshot | None = None) -> None:
        try:
            with sole_writer(self.path):
                trusted, untrusted = self._read()
                _line("trusted", {folder})  # raises for a name that cannot be saved
                if record is None:
                    self._record_path(folder).unlink(missing_ok=True)
                else:
                    write_private(self._record_path(folder), record.to_json())
                for folders, name in ((trusted, "trusted"), (untrusted, "untrusted")):
                    (folders.add if name == to else folders.discard)(folder)
                write_private(self.path, f"{_ABOUT}{_line('trusted', trusted)}{_line('untrusted', untrusted)}")
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}.") from error

    def _read(self) -> tuple[set[Path], set[Path]]:
        """(trusted, untrusted). Raises ConfigError."""
        _, values = read_toml(self.path)
        return self._folders(values, "trusted"), self._folders(values, "untrusted")

    def _folders(self, values: dict[str, Any], key: str) -> set[Path]:
        folders = values.get(key, [])
        if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
            raise ConfigError(f"{self.path}: {key} must be a list of folders.")
        return {Path(folder) for folder in folders}


def project_files(folder: Path) -> list[str]:
    """Return the files of `folder` that need trust, relative to it."""
    return [name for name in PROJECT_FILES if os.access(folder / name, os.F_OK)]


def is_project(folder: Path) -> bool:
    """Whether `folder` can be a project: the folder that contains `~/.kin-code` has the user's settings."""
    return real_path(folder / ".kin-code") != real_path(kin_home())


def is_too_broad(folder: Path) -> bool:
    """Whether `folder` is the home folder, one around it, or the root: all downloads would be trusted with it."""
    return Path.home().resolve().is_relative_to(folder) or folder.parent == folder


def left_out(folder: Path, trust: Trust) -> str | None:
    """Return the warning about project files that were not read; None without such files, or if the user refused trust."""
    asked = trust.answer is None and is_project(folder) and not is_too_broad(folder)
    names = project_files(folder) if asked else []
    if trust.problem and asked:
        return f"{trust.problem} Nothing of it was read."
    if trust.changes:
        return (
            f"{shown(folder)} has changed since you trusted {'it' if trust.since == folder else trust.since}, so nothing of "
            f"it was read: {trust.changes.summary()}. `kin-nb trust --show` shows the difference; `kin-nb trust`, or "
            "`%kin trust` in a notebook, trusts it again."
        )
    if not names:
        return None
    why = "was trusted without a record of its files" if trust.since else "is not trusted"
    return (
        f"{shown(folder)} {why}, so nothing was read of its {', '.join(names)}. "
        "If you know what is in there: `kin-nb trust`, or `%kin trust` in a notebook."
    )


def _compared(folder: Path, decided: Path, before: ProjectSnapshot | None) -> Trust:
    """Whether `folder` is as it was when its own folder, or `decided` around it, was trusted."""
    try:
        now = ProjectSnapshot.take(folder)
    except ConfigError as error:
        return Trust(since=decided, problem=str(error))
    if before is None:
        return Trust(since=decided)
    changes = now.changes_since(before if folder == decided else ProjectSnapshot(folder))
    return Trust(None if changes else True, seen=now, changes=changes, since=decided)


def _resolved(path: Path) -> Path:
    try:
        return real_path(path.expanduser())
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"{str(path)!r} is not a valid path: {error}.") from error


def _trustable(path: Path) -> Path:
    folder = _resolved(path)
    if not folder.is_dir():
        raise ConfigError(f"{shown(folder)} cannot be trusted: this folder does not exist.")
    if is_too_broad(folder):
        raise ConfigError(f"{shown(folder)} cannot be trusted: it contains your home folder. Trust the project folder.")
    return folder


def _line(key: str, folders: set[Path]) -> str:
    try:
        entries = "".join(f"    {_quoted(folder)},\n" for folder in sorted(folders))
    except UnicodeEncodeError:
        raise ConfigError("This folder's name is not valid text and cannot be saved. Rename it.") from None
    return f"{key} = [\n{entries}]\n"


def _quoted(folder: Path) -> str:
    """Return a TOML string: the escapes of JSON, and one for DEL."""
    str(folder).encode()
    return json.dumps(str(folder), ensure_ascii=False).replace("\x7f", "\\u007f")
