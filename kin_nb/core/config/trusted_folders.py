"""Which project folders the person trusts: `~/.kin-code/trusted_folders.toml`.

To trust a folder is to let what lies in it act for you: the modules in its `.kin-code/tools` are imported, so their code
runs; its `.kin-code/config.toml` and `agents/` may name the programs that are started as MCP servers; its AGENTS.md, prompts
and skills speak to the model. Nothing of that is read from a folder that is not trusted. Trust is given by a person, by name
of the folder, never by a file in it, and for the files that act as they were then (project_snapshot.py, kept in
`~/.kin-code/trusted`): when those differ, nothing is read until the person has trusted the folder again.
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
"""What of a project folder is read only when it is trusted."""

_ABOUT = "# The folders that kin-nb may read settings, tools and instructions from, and those that it may not.\n"


@dataclass(frozen=True)
class Trust:
    """Whether a folder's files may act. `answer`: None when the person has not decided, or something has changed since.

    `seen`: what acts in the folder now, when that was compared with what the person trusted. `changes`: what differs, `since`
    they decided about that folder. `problem`: why it cannot be compared, a sentence.
    """

    answer: bool | None = None
    seen: ProjectSnapshot | None = None
    changes: Changes | None = None
    since: Path | None = None
    problem: str = ""

    @property
    def project(self) -> ProjectSnapshot | None:
        """What acts in the folder, when it is trusted."""
        return self.seen if self.answer else None

    @property
    def of_itself(self) -> bool:
        """Whether the folder was trusted by its own name, and not only with one around it."""
        return self.project is not None and self.since == self.project.folder


class TrustedFolders:
    """The person's decisions. The file is read at each question: another program's answer counts at once.

    A decision holds for the folders inside, until a closer one says otherwise; but a folder inside that has files of its own
    that act is trusted by itself only. Symlinks are followed before asking; paths in the file are taken literally, so that a
    folder replaced by a link to elsewhere is not trusted. `warnings`: what was wrong with the file when it was last read; a
    file that cannot be read trusts nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or kin_home() / "trusted_folders.toml"
        self.warnings: tuple[str, ...] = ()
        self._session: dict[Path, ProjectSnapshot] = {}

    def is_trusted(self, path: Path) -> bool | None:
        """The answer of `look`."""
        return self.look(path).answer

    def look(self, path: Path) -> Trust:
        """What the person said about this folder or the closest one around it, if what acts in it is as it was then."""
        try:
            trusted, untrusted = self._read()
            self.warnings = ()
        except ConfigError as error:
            trusted, untrusted = set(), set()
            self.warnings = (f"{error} No folder is trusted because of it.",)
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
        """Trust a folder from now on, with the files that act as they are, or as they were `seen`; returns it, resolved.

        Raises ConfigError: no folder, too broad, too much in it, or not saved.
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
        """Trust a folder as long as this object lives; nothing is saved."""
        folder = _trustable(path)
        self._session[folder] = ProjectSnapshot.take(folder)
        return folder

    def _record_path(self, folder: Path) -> Path:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        return self.path.with_name("trusted") / f"{name}.json"

    def _recorded(self, folder: Path) -> ProjectSnapshot | None:
        """What acted in the folder when it was trusted; None without a usable record of it."""
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
    """What `folder` holds that is read only from trusted folders, as names relative to it."""
    return [name for name in PROJECT_FILES if os.access(folder / name, os.F_OK)]


def is_project(folder: Path) -> bool:
    """Whether `folder` has settings of its own: the folder around `~/.kin-code` holds the person's."""
    return real_path(folder / ".kin-code") != real_path(kin_home())


def is_too_broad(folder: Path) -> bool:
    """The home folder, what is around it, and the whole file system: everything downloaded would be trusted with it."""
    return Path.home().resolve().is_relative_to(folder) or folder.parent == folder


def left_out(folder: Path, trust: Trust) -> str | None:
    """The warning about a project's files that were not read; None when there are none, or when the person said no."""
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
        raise ConfigError(f"{str(path)!r} is no usable path: {error}.") from error


def _trustable(path: Path) -> Path:
    folder = _resolved(path)
    if not folder.is_dir():
        raise ConfigError(f"{shown(folder)} cannot be trusted: there is no such folder.")
    if is_too_broad(folder):
        raise ConfigError(f"{shown(folder)} cannot be trusted: too much lies in it. Trust the project's own folder.")
    return folder


def _line(key: str, folders: set[Path]) -> str:
    try:
        entries = "".join(f"    {_quoted(folder)},\n" for folder in sorted(folders))
    except UnicodeEncodeError:
        raise ConfigError("This folder's name is not valid text and cannot be saved. Rename it.") from None
    return f"{key} = [\n{entries}]\n"


def _quoted(folder: Path) -> str:
    """As a TOML string: JSON's escapes, and one for the DEL character."""
    str(folder).encode()
    return json.dumps(str(folder), ensure_ascii=False).replace("\x7f", "\\u007f")
