"""What git shows of files that it is not told by name: those that it tracks, and those that it once did."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from kin_nb.core.paths import read_settings
from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.place import SECONDS, Place, Search, is_secret
from kin_nb.core.safety.shell.program import Call
from kin_nb.core.safety.shell.programs.git_index import tracked
from kin_nb.core.safety.shell.programs.git_settings import git_folder, own_settings_say, settings_folder

_NAMED = 3
"""Tracked secrets that are named; one is enough to ask."""
_FIGURES = frozenset(("--stat", "--shortstat", "--numstat", "--name-only", "--name-status", "--summary"))
_NAMES = frozenset(("-l", "-L", "-c", "-q", "--files-with-matches", "--files-without-match", "--count", "--quiet"))
_OF_A_FILE = re.compile(r"[\w./~^-]+:[\w.][\w./-]*")
"""`HEAD:src/x`, which is read by its name."""
_OF_HEAD = re.compile(r"(HEAD|@)[~^\d]*")
_PLAIN_PATH = re.compile(r"[\w./-]+")
_NO_SECRETS_IN = (".git", "node_modules", ".venv", "venv")
_OBEYS_ATTRIBUTES = frozenset(("diff", "grep", "log", "reflog", "show", "stash", "status"))
_MAY_BE_AN_ID = re.compile(r"[0-9a-fA-F]{4,64}([~^@].*)?|[^-].*:.*|.*\^\{.*|-L.*")
"""Of a file's content, which git shows under no name; and what it shows without a look at attributes."""
_SHOWS = re.compile(r"diff|text|binary|\[attr\]|merge")
"""In attributes: what may change how a file is shown, or a name for several of them."""
_ATTRIBUTES = ".gitattributes"
_MOST_FOLDERS = 5_000
_EXTERNAL = re.compile(r"(?i)\bexternal\b|\[include")
"""In settings: a program that is given both files of a diff; or settings elsewhere."""
_SECONDS = 10
_OF_AN_OBJECT = frozenset(("-t", "-s", "-e"))
_STAGED_PATCH = re.compile(r"-[a-z]*v[a-z]*|--verbose")
_PATCH = re.compile(r"-[a-zA-Z0-9]*[puUcmWL].*|--(patch|patch-with-stat|unified=.*|cc|function-context|binary|check)")


def shows_content(command: str, words: Sequence[str]) -> bool:
    """Whether it shows what is in files that it is not told by name."""
    options = {word for word in words[: words.index("--") if "--" in words else None] if word.startswith("-")}
    patch = any(_PATCH.fullmatch(option) for option in options)
    if command == "show":  # which prints a file that is given by its id, whatever the options
        return True
    if command == "cat-file":
        return not options or not options <= _OF_AN_OBJECT
    if command == "status":
        return any(_STAGED_PATCH.fullmatch(option) for option in options)
    if command == "diff":
        return patch or not options & _FIGURES
    if command == "grep":
        return not options & (_NAMES | {"--name-only"})
    return command in ("log", "reflog", "stash") and patch


def _tracked_secrets(cwd: Path) -> Iterator[str]:
    """Files that git tracks, wherever in the repository, and that may hold secrets.

    Raises UnprovenError when there are too many files to be sure.
    """
    found = git_folder(cwd)
    if found is None:
        return
    worktree, folder = found
    deadline = time.monotonic() + SECONDS
    for name in tracked(folder, settings_folder(cwd) or folder):
        if time.monotonic() > deadline:
            raise UnprovenError("git tracks too many files to be sure that none is secret")
        folders, _, own_name = name.rpartition("/")
        beside = folders.rpartition("/")[2]
        if is_secret(own_name) or (beside.startswith(".") and is_secret(f"{beside}/{own_name}")):
            yield str(worktree / name)


def secrets_shown(call: Call) -> Iterator[str]:
    """Of a call that shows content: some of the files that git tracks or may have tracked, and that may hold secrets.

    Raises UnprovenError when git tracks too many files to be sure.
    """
    if _is_hidden(call):
        return
    yield from islice(_tracked_secrets(call.place.cwd), _NAMED)
    if _shows_past(call):
        yield from islice(_kept_out(call.place), _NAMED)


def _is_hidden(call: Call) -> bool:
    """Whether git, run with the attributes in HIDING, shows nothing of files that may hold secrets, past ones neither.

    The repository's own attributes win over those; and what is given by its id has no name.
    """
    command = call.name.removeprefix("git ")
    if command not in _OBEYS_ATTRIBUTES or any(map(_MAY_BE_AN_ID.fullmatch, call.words)):
        return False
    if (command == "grep" and _shows_past(call)) or own_settings_say(call.place.environment, _EXTERNAL):
        return False
    found = git_folder(call.place.cwd)
    git = shutil.which("git", path=call.place.environment.get("PATH"))
    return found is not None and git is not None and _obeys_variables(git) and not _has_attributes(*found)


@cache
def _obeys_variables(git: str) -> bool:
    """Settings in variables came with git 2.31."""
    said = subprocess.run([git, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", said)
    return version is not None and (int(version[1]), int(version[2])) >= (2, 31)


def _has_attributes(worktree: Path, folder: Path) -> bool:
    """Whether the repository may say itself how files are shown."""
    shared, folders = settings_folder(worktree) or folder, {""}
    for name in tracked(folder, shared):
        above = posixpath.dirname(name)
        while above not in folders:
            folders.add(above)
            above = posixpath.dirname(above)
        if posixpath.basename(name) == _ATTRIBUTES and not os.path.lexists(worktree / name):
            return True  # git takes it from the index
    if len(folders) > _MOST_FOLDERS:
        return True
    files = [shared / "info" / "attributes", *(worktree / name / _ATTRIBUTES for name in folders)]
    return any(_SHOWS.search(read_settings(file) or "") for file in files)


def _shows_past(call: Call) -> bool:
    """Whether it shows content of commits, and not only of files that its words name."""
    command = call.name.removeprefix("git ")
    words = call.words[: call.words.index("--") if "--" in call.words else None]
    options = [word for word in words if word.startswith("-")]
    others = [word for word in words if not word.startswith("-")]
    if command == "show":
        figures = _FIGURES & set(options) and not any(map(_PATCH.fullmatch, options))
        return not others or not all(map((_OF_HEAD if figures else _OF_A_FILE).fullmatch, others))
    paths = [
        path for path in call.words[len(words) + 1 :] if _PLAIN_PATH.fullmatch(path) and call.place.path(path).is_file()
    ]
    if command in ("log", "diff") and paths and len(paths) == len(call.words) - len(words) - 1:
        return False
    if command in ("log", "reflog", "stash"):
        return any(map(_PATCH.fullmatch, options))
    if command == "grep" and not any(option.startswith("-e") for option in options):
        others = others[1:]
    if command in ("diff", "grep"):
        staged = {"--cached", "--staged"}.intersection(options) and command == "diff"
        return bool(staged) or any(not os.path.lexists(call.place.path(word)) for word in others)
    if command == "status":
        return True
    return command == "cat-file" and not all(map(_OF_A_FILE.fullmatch, others[-1:] or [""]))


def _kept_out(place: Place) -> Iterator[str]:
    """Secrets that are kept out of the repository now: commits from before may hold them.

    Raises UnprovenError when there are too many files to be sure.
    """
    found = git_folder(place.cwd)
    if found is None:
        return
    worktree = found[0]
    for line in (read_settings(worktree / ".gitignore") or "").splitlines():
        name = line.strip().strip("/").rpartition("/")[2]
        if is_secret(name) or is_secret(name.rstrip("*.")):
            yield str(worktree / name)
    yield from place.secrets_below(str(worktree), Search(without=_NO_SECRETS_IN))
