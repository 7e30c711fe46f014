"""What git shows of files that it is not told by name: those that it tracks, and those that it once did."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from kin_nb.core.paths import read_settings
from kin_nb.core.safety.shell.judgement import UnprovenError
from kin_nb.core.safety.shell.place import SECONDS, WorkingDir, Search, is_secret
from kin_nb.core.safety.shell.program import Invocation
from kin_nb.core.safety.shell.programs.git_hidden import check_objects, is_hidden
from kin_nb.core.safety.shell.programs.git_index import tracked
from kin_nb.core.safety.shell.programs.git_settings import git_folder, settings_folder

_NAMED = 3
"""Tracked secrets that are named; one is enough to ask."""
_FIGURES = frozenset(("--stat", "--shortstat", "--numstat", "--name-only", "--name-status", "--summary"))
_NAMES = frozenset(("-l", "-L", "-c", "-q", "--files-with-matches", "--files-without-match", "--count", "--quiet"))
_OF_A_FILE = re.compile(r"[\w./~^-]+:[\w.][\w./-]*")
"""`HEAD:src/x`, which is read by its name."""
_OF_HEAD = re.compile(r"(HEAD|@)[~^\d]*")
_PLAIN_PATH = re.compile(r"[\w./-]+")
_NO_SECRETS_IN = (".git", "node_modules", ".venv", "venv")
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


def secrets_shown(call: Invocation) -> Iterator[str]:
    """Of a call that shows content: some of the files that git tracks or may have tracked, and that may hold secrets.

    Raises UnprovenError when git tracks too many files to be sure.
    """
    if is_hidden(call):
        return
    check_objects(call)
    yield from islice(_tracked_secrets(call.place.cwd), _NAMED)
    if _shows_past(call):
        yield from islice(_kept_out(call.place), _NAMED)


def _shows_past(call: Invocation) -> bool:
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


def _kept_out(place: WorkingDir) -> Iterator[str]:
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
