"""Where a command that only reads runs: its folder, what it may name and reads there, and the variables that it runs with."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from pathlib import Path, PurePath

from kin_nb.core.paths import read_settings
from kin_nb.core.safety.shell.classification import UnprovenError, shown_word
from kin_nb.core.sensitive_names import SECRET_NAMES, sensitive_reason
from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace

_SECRET = sensitive_reason(PurePath(".env"))
_SEARCHED = 20_000
"""Files below a searched folder that are looked at for names of secrets, in at most SECONDS."""
SECONDS = 0.2
_CREDENTIALS = re.compile(r"(?i)https?://[^/\s]+@|extraheader|token|password")
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_SHOWS_AGAIN = re.compile(r"^!", re.MULTILINE)
_NOTHING = frozenset(("/dev/null", "/dev/stdin"))


@dataclass(frozen=True)
class WorkingDir:
    """`cwd`: the real folder that a part of the line runs in; inside `root`."""

    root: Path
    cwd: Path
    environment: Mapping[str, str]

    def moved(self, folder: str) -> WorkingDir:
        """After `cd folder`. Raises UnprovenError unless that surely leads to a folder of the workspace.

        No step may be a symbolic link: bash's `cd ..` goes back to where the link is, and everything else does not.
        """
        at = Path("/") if folder.startswith("/") else self.cwd
        for step in folder.split("/"):
            at = at.parent if step == ".." else at / step
            if at.is_symlink():
                raise UnprovenError(f"`cd` goes through the symbolic link {shown_word(step)}")
            if not at.is_dir() or not os.access(at, os.X_OK):
                raise UnprovenError(f"there is no folder {shown_word(folder)} to `cd` to")
        if not at.is_relative_to(self.root):
            raise UnprovenError(f"`cd` leaves the workspace for {shown_word(folder)}")
        return replace(self, cwd=at)

    def path(self, word: str) -> Path:
        return self.cwd / word

    def read(self, word: str) -> str | None:
        """The path as `Classification.reads` has it; None for what is nothing, like /dev/null.

        Raises UnprovenError for pipes, devices and names that no file can have.
        """
        path = self.path(word)
        if str(path) in _NOTHING:
            return None
        try:
            real = Workspace(self.root).resolve(str(path))
        except ToolError as error:
            raise UnprovenError(str(error).rstrip(".")) from error
        mode = real.stat().st_mode if real.exists() else stat.S_IFREG
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UnprovenError(f"{shown_word(word)} is a pipe or a device, and may never end")
        inside = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else ""
        return str(path) if not inside or inside.startswith("~") else inside

    def named(self, word: str) -> str:
        """What a command reads that only shows names and figures of `word`: the folder itself, or the one that it is in."""
        path = self.path(word)
        return word if path.is_dir() else str(path.parent)

    def secrets_below(self, word: str, search: Search) -> Iterator[str]:
        """The files that may hold secrets and that a search of the folder `word` would print from.

        Raises UnprovenError when there are too many files to be sure.
        """
        top = self.path(word)
        if not top.is_dir():
            return
        deadline, looked = time.monotonic() + SECONDS, 0
        folders = [top.resolve()]
        above: Sequence[Path] = folders[0].parents
        while folders:
            folder = folders.pop()
            if search.obeys_ignore_files and not search.hidden and any(map(_shows_hidden, (folder, *above))):
                yield from self.secrets_below(word, replace(search, hidden=True))
                return
            above = ()
            for entry in _entries(folder):
                looked += 1
                if looked > _SEARCHED or time.monotonic() > deadline:
                    raise UnprovenError(f"{shown_word(word)} holds too many files to be sure that none is secret")
                is_folder = entry.is_dir(follow_symlinks=False)
                if not search.covers(entry.name, is_folder=is_folder):
                    continue
                if search.follows and entry.is_symlink():
                    raise UnprovenError(f"it follows the symbolic link {shown_word(entry.name)}")
                if _may_hold_secrets(entry, folder):
                    yield entry.path
                elif is_folder and entry.name != ".git":
                    folders.append(Path(entry.path))


@dataclass(frozen=True)
class Search:
    """What of a folder a command searches. `without`: names of folders that it leaves out; `only`: globs of file names.

    `obeys_ignore_files`: also hidden files that one of those shows again.
    """

    hidden: bool = True
    obeys_ignore_files: bool = False
    follows: bool = False
    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def covers(self, name: str, *, is_folder: bool) -> bool:
        if name.startswith(".") and not self.hidden:
            return False
        if is_folder:
            return name not in self.without
        return not self.only or any(fnmatchcase(name, glob) for glob in self.only)


def _shows_hidden(folder: Path) -> bool:
    """Whether an ignore file there has a line `!.env`, which may make a search look into hidden files."""
    try:
        texts = [read_settings(folder / name) or "" for name in _IGNORE_FILES]
    except (OSError, ValueError):
        return True
    return any(_SHOWS_AGAIN.search(text) for text in texts)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, PermissionError):  # nor can the command read it
        return []


def _may_hold_secrets(entry: os.DirEntry[str], folder: Path) -> bool:
    if is_secret(entry.name) or (folder.name.startswith(".") and is_secret(f"{folder.name}/{entry.name}")):
        return True  # `.docker/config.json`
    return entry.name == ".git" and holds_credentials(Path(entry.path))


@cache
def _secret_names() -> re.Pattern[str]:
    return re.compile("|".join(translate(glob) for glob in SECRET_NAMES))


@lru_cache(maxsize=100_000)
def is_secret(name: str) -> bool:
    """Whether a file or folder of that name may hold secrets; the name may have its folder's before it."""
    if not name.startswith(".") and "/" not in name and not _secret_names().match(name.casefold()):
        return False  # most names; this is ten times as fast
    return sensitive_reason(PurePath(name)) == _SECRET


def holds_credentials(find_repository: Path) -> bool:
    """Whether git's settings there hold any; what else is in that folder the repository's files tell anyhow."""
    try:
        return _CREDENTIALS.search(read_settings(find_repository / "config") or "") is not None
    except (OSError, ValueError):
        return True


HIDING = Path(__file__).with_name("hiding.gitattributes")
"""For git: files that may hold secrets are binary, so that no diff, no log and no search shows what is in them."""

_KEPT_VARIABLES = re.compile(
    r"""(?x)
    PATH | HOME | USER | LOGNAME | SHELL | LANG | LANGUAGE | LC_\w+ | TZ | TERM | TMPDIR | COLUMNS | LINES | NO_COLOR
    | PAGER | GIT_PAGER | GIT_TERMINAL_PROMPT | DEBIAN_FRONTEND | PYTHONUNBUFFERED | PYTHONIOENCODING | PYTHONUTF8
    | XDG_(?:CONFIG|CACHE|DATA|STATE)_HOME | VIRTUAL_ENV | CONDA_PREFIX | CONDA_DEFAULT_ENV | JAVA_HOME | NIX_\w+
    | GIT_CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)
    """
)
_LOADED_VARIABLES = re.compile(
    r"(?:BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|(?:LD|DYLD)_.*|GCONV_PATH|LOCPATH)", re.DOTALL
)
"""Variables that make every shell or program run or load something at its start. No line is proven with them."""
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
_GIT = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "safe.bareRepository": "explicit",
    "diff.autoRefreshIndex": "false",  # `git diff` would write the index, whatever GIT_OPTIONAL_LOCKS says
    "diff.submodule": "short",  # else it runs what a submodule's settings name
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "core.attributesFile": str(HIDING),
}
"""A second protection, in case the proof misses a setting of the repository."""


def read_only_environment(environment: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Of `environment` what is kept, with what makes readers only read. `more`: what the person's settings add, all but _LOADED."""
    more = {name: value for name, value in more.items() if not _LOADED_VARIABLES.fullmatch(name)}
    kept = {name: value for name, value in environment.items() if _KEPT_VARIABLES.fullmatch(name)}
    return _sorting_by_code_point({**kept, **more}) | _SET | _git_settings(environment.get("GIT_CONFIG_COUNT") or "0")


def _sorting_by_code_point(environment: dict[str, str]) -> dict[str, str]:
    """Which file a glob names first is part of the proof, and bash sorts them by the locale."""
    every = environment.pop("LC_ALL", "")
    if every:
        environment["LC_CTYPE"] = every
    return {**environment, "LC_COLLATE": "C"}


def _git_settings(count: str) -> dict[str, str]:
    """git's settings, numbered after the `count` in the environment. None when `count` is not a number, which git refuses."""
    if not count.isascii() or not count.isdigit():
        return {}
    settings: dict[str, str] = {"GIT_CONFIG_COUNT": str(int(count) + len(_GIT))}
    for index, (key, value) in enumerate(_GIT.items(), int(count)):
        settings |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return settings
