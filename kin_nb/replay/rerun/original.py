"""What a clone takes over from a repository besides its objects: branches, tags, and settings that run nothing.

A repository is a stranger's as much as a notebook is: its settings name programs that git runs (core.fsmonitor, filters,
core.sshCommand, hooks, partial clones), and its files may be anything. So no git runs in it: what is needed is read here,
from regular files of bounded size, and only what is understood is taken. A repository with reftable has no branches for us.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kin_nb.core.workspace_commit import GitPlace, git_head, is_ref

_MOST_REFS = 50_000
_LARGEST = 32 * 1024**2
"""Bytes of a file that is read: the references of a large repository."""
_KINDS = ("refs/heads/", "refs/remotes/", "refs/tags/")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_INERT = re.compile(
    r"""(?x)
    user\.(?:name|email)
    | core\.(?:abbrev|autocrlf|commentchar|eol|filemode|ignorecase|precomposeunicode|quotepath|safecrlf|symlinks|whitespace)
    | branch\.sort | tag\.sort | commit\.(?:cleanup|status|verbose) | init\.defaultbranch | merge\.conflictstyle
    | diff\.(?:algorithm|context|indentheuristic|interhunkcontext|mnemonicprefix|noprefix|renamelimit|renames|statgraphwidth)
    | log\.(?:abbrevcommit|date|decorate|follow)
    | status\.(?:aheadbehind|branch|displaycommentprefix|relativepaths|renames|short|showstash|showuntrackedfiles)
    """
)
"""Settings that change what git prints or how it reads lines, and name no program, file or place."""


class Original:
    """The repository at `place`. Nothing here raises for what its files hold."""

    def __init__(self, place: GitPlace) -> None:
        self._place = place
        self.branch = git_head(place.top).branch
        """Which is checked out now, None for none."""

    @property
    def objects(self) -> Path:
        return (self._place.shared / "objects").resolve()

    @property
    def shallow(self) -> list[str]:
        """The commits of a shallow clone whose parents are not there."""
        return [line for line in self._lines("shallow") if _COMMIT.fullmatch(line)]

    @property
    def excludes(self) -> str:
        """Its info/exclude."""
        return "".join(f"{line}\n" for line in self._lines("info/exclude"))

    def refs(self) -> tuple[dict[str, str], dict[str, str]]:
        """(commit or tag object by name, name by name for symbolic ones), of branches and tags."""
        found: dict[str, str] = {}
        named: dict[str, str] = {}
        for line in self._lines("packed-refs"):
            value, _, name = line.partition(" ")
            if _COMMIT.fullmatch(value) and is_ref(name):
                found[name] = value
        for name, value in self._loose():
            if _COMMIT.fullmatch(value):
                found[name] = value
            elif value.startswith("ref: ") and is_ref(value[5:].strip()):
                named[name] = value[5:].strip()
        return dict(list(found.items())[:_MOST_REFS]), named

    def settings(self) -> dict[str, str]:
        """Those of its config that run nothing and lead nowhere, and what its branches follow. No file that it includes."""
        path = self._place.shared / "config"
        if _regular(path) is None:
            return {}
        argv = ["git", "config", "--file", str(path.absolute()), "--no-includes", "--null", "--list"]
        try:
            done = subprocess.run(
                argv, cwd="/", env=without_git(), stdin=subprocess.DEVNULL, capture_output=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return {}
        entries = (entry.partition("\n") for entry in done.stdout.decode("utf-8", "replace").split("\0"))
        return {key: value for key, _, value in entries if _INERT.fullmatch(key) or _follows(key, value)}

    def _loose(self) -> Iterator[tuple[str, str]]:
        """(name, content) of each reference in a file of its own."""
        seen = 0
        for kind in _KINDS:
            for folder, _, names in os.walk(self._place.shared / kind):
                for name in names:
                    seen += 1
                    path = Path(folder) / name
                    ref = path.relative_to(self._place.shared).as_posix()
                    if seen <= _MOST_REFS and is_ref(ref) and (text := _regular(path, 1024)) is not None:
                        yield ref, text.strip()

    def _lines(self, name: str) -> list[str]:
        return (_regular(self._place.shared / name) or "").splitlines()


def without_git() -> dict[str, str]:
    """This process's environment without what tells git where it is or what to run."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _follows(key: str, value: str) -> bool:
    """branch.NAME.remote and .merge: what `git status` compares with."""
    if key.startswith("branch.") and key.endswith(".remote"):
        return re.fullmatch(r"\w[\w.-]*", value) is not None
    return key.startswith("branch.") and key.endswith(".merge") and is_ref(value)


def _regular(path: Path, most: int = _LARGEST) -> str | None:
    """Of a file that a link may lead to; None for what is no file, is larger, or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > most:
            return None
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, ValueError):
        return None
