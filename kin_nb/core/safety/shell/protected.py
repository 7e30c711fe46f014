"""The folders that nobody means to delete, and whether a word leads to one of them. By letters alone: no file is looked at."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from kin_nb.core.safety.shell.simple_command import SimpleCommand, program

_SYSTEM_FOLDERS = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run"),
        *("/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share", "/var"),
        *("/Applications", "/Library", "/System", "/Users", "/Volumes", "/private"),
    )
)
_EVERYTHING = re.compile(r"(?=.*[*?\[])(?:[*?.]|\[[^\]]*\])+")
"""Of a folder: `*`, `?*`, `.[!.]*`, `[a-z]*`."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_RANGE = re.compile(r"\{\w+\.\.\w+\}")
_MOST_WORDS = 100
_VARIABLE = re.compile(r"\$(\w+)")


class CwdTracker:
    """Where the line is, as its `cd`s say, and which folders are protected from there."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root, self._home = str(root), posixpath.normpath(environment.get("HOME") or "/root")
        self._environment = environment
        self._cwds = [(self._root, self._root)]
        """The folder and the one before it, by the parentheses around: those inside end with them."""

    def enter(self, level: int) -> None:
        """Where a command of that level is; to be called for each, in turn."""
        self._cwds = self._cwds[: level + 1]
        self._cwds += [self._cwds[-1]] * (level + 1 - len(self._cwds))

    def follow(self, command: SimpleCommand) -> None:
        cwd, before = self._cwds[-1]
        word = next((word for word in command.words[1:] if word == "-" or not word.startswith("-")), "~")
        if program(command) == "popd" or word == "-":
            self._cwds[-1] = (before, cwd)
        else:
            self._cwds[-1] = (self.path(word), cwd)

    def path(self, word: str) -> str:
        """Where a word leads."""
        if word.startswith("~"):
            user, slash, below = word[1:].partition("/")
            home = {"": self._home, posixpath.basename(self._home): self._home, "root": "/root"}.get(user)
            word = word if home is None else home + slash + below
        if "$" in word:
            word = _VARIABLE.sub(self._value, word)
        path = posixpath.normpath(posixpath.join(self._cwds[-1][0], word))
        return "/" if path == "//" else path

    def _value(self, name: re.Match[str]) -> str:
        cwd, before = self._cwds[-1]
        own = {"PWD": cwd, "OLDPWD": before, "HOME": self._home}.get(name[1])
        return own or self._environment.get(name[1]) or name[0]

    def is_protected(self, word: str, *, with_workspace: bool) -> bool:
        """Whether it is the root, a folder of the system, the home, or one that holds the workspace, or all in one.

        `with_workspace`: or the workspace's folder itself, but not as `.`, which rm refuses, nor as all that is in it.
        """
        return any(self._leads_to_protected(alternative, with_workspace) for alternative in _alternatives(word))

    def _leads_to_protected(self, word: str, with_workspace: bool) -> bool:
        path = whole = self.path(word)
        if with_workspace and path == self._root and posixpath.basename(word.rstrip("/")) != ".":
            return True
        while _EVERYTHING.fullmatch(posixpath.basename(path)):
            path = posixpath.dirname(path)
        if not any(mark in path for mark in "*?["):
            return path in _SYSTEM_FOLDERS or path == self._home or self._root.startswith(f"{path.rstrip('/')}/")
        workspace = [self._root] if with_workspace and path == whole else []
        above = (str(folder) for folder in Path(self._root).parents)
        return any(_fits(folder, path) for folder in (*_SYSTEM_FOLDERS, self._home, *workspace, *above))


def _fits(path: str, pattern: str) -> bool:
    """A glob's `*` does not go past a `/`."""
    return path.count("/") == pattern.count("/") and all(map(fnmatchcase, path.split("/"), pattern.split("/")))


def _alternatives(word: str) -> Iterator[str]:
    """The words that its braces stand for."""
    words = [_RANGE.sub("*", word)]
    for _ in range(_MOST_WORDS):
        braces = next((found for each in words if (found := _BRACES.search(each))), None)
        if braces is None or len(words) > _MOST_WORDS:
            break
        words.remove(braces.string)
        begin, end = braces.string[: braces.start()], braces.string[braces.end() :]
        words += [f"{begin}{part}{end}" for part in braces[1].split(",")]
    yield from words
