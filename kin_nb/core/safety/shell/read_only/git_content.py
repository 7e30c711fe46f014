"""What git shows of files that the command does not name: tracked files, and files in past commits.

Files that may hold secrets are marked as binary for git (hiding.gitattributes), so it shows nothing of them. This works only for
content that git has a path for, and only while no other attributes define how files are shown. Unknown options and words,
and an old git, do not count as hidden: then the command asks.
"""

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
from kin_nb.core.safety.shell.classification import UnprovenError, shown_word
from kin_nb.core.safety.shell.read_only.command_spec import Invocation
from kin_nb.core.safety.shell.read_only.git_config import (
    common_git_dir,
    find_repository,
    tracked_paths,
    user_config_matches,
)
from kin_nb.core.safety.shell.read_only.working_dir import SECONDS, Search, WorkingDir, is_secret, read_only_environment

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
    """Whether it shows the content of files that the command does not name."""
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
    found = find_repository(cwd)
    if found is None:
        return
    worktree, folder = found
    deadline = time.monotonic() + SECONDS
    for name in tracked_paths(folder, common_git_dir(cwd) or folder):
        if time.monotonic() > deadline:
            raise UnprovenError("git tracks too many files to be sure that none is secret")
        folders, _, own_name = name.rpartition("/")
        parent = folders.rpartition("/")[2]
        if is_secret(own_name) or (parent.startswith(".") and is_secret(f"{parent}/{own_name}")):
            yield str(worktree / name)


def exposed_secrets(call: Invocation) -> Iterator[str]:
    """Of a call that shows content: some of the files that git tracks or may have tracked, and that may hold secrets.

    Raises UnprovenError when git tracks too many files to be sure.
    """
    if hides_secrets(call):
        return
    check_object_names(call)
    yield from islice(_tracked_secrets(call.working_dir.cwd), _NAMED)
    if _shows_history(call):
        yield from islice(_untracked_secrets(call.working_dir), _NAMED)


def _shows_history(call: Invocation) -> bool:
    """Whether it shows content of commits, and not only of files that its words name."""
    command = call.name.removeprefix("git ")
    words = call.words[: call.words.index("--") if "--" in call.words else None]
    options = [word for word in words if word.startswith("-")]
    others = [word for word in words if not word.startswith("-")]
    if command == "show":
        figures = _FIGURES & set(options) and not any(map(_PATCH.fullmatch, options))
        return not others or not all(map((_OF_HEAD if figures else _OF_A_FILE).fullmatch, others))
    paths = [
        path
        for path in call.words[len(words) + 1 :]
        if _PLAIN_PATH.fullmatch(path) and call.working_dir.path(path).is_file()
    ]
    if command in ("log", "diff") and paths and len(paths) == len(call.words) - len(words) - 1:
        return False
    if command in ("log", "reflog", "stash"):
        return any(map(_PATCH.fullmatch, options))
    if command == "grep" and not any(option.startswith("-e") for option in options):
        others = others[1:]
    if command in ("diff", "grep"):
        staged = {"--cached", "--staged"}.intersection(options) and command == "diff"
        return bool(staged) or any(not os.path.lexists(call.working_dir.path(word)) for word in others)
    if command == "status":
        return True
    return command == "cat-file" and not all(map(_OF_A_FILE.fullmatch, others[-1:] or [""]))


def _untracked_secrets(working_dir: WorkingDir) -> Iterator[str]:
    """Secrets that are kept out of the repository now: commits from before may hold them.

    Raises UnprovenError when there are too many files to be sure.
    """
    found = find_repository(working_dir.cwd)
    if found is None:
        return
    worktree = found[0]
    for line in (read_settings(worktree / ".gitignore") or "").splitlines():
        name = line.strip().strip("/").rpartition("/")[2]
        if is_secret(name) or is_secret(name.rstrip("*.")):
            yield str(worktree / name)
    yield from working_dir.secrets_below(str(worktree), Search(without=_NO_SECRETS_IN))


_COMMANDS = frozenset(("diff", "grep", "log", "reflog", "show", "stash", "status"))
_OPTION = re.compile(
    r"""(?x)
    -\d+ | -[pu] | -[nU]\d* | -[bwsiEFvhW] | -sb | -vv | --cached | --staged | --patch | --no-patch | --stat(=.*)?
    | --shortstat | --numstat | --name-only | --name-status | --summary | --oneline | --graph | --all | --decorate(=\w+)?
    | --unified=\d+ | --word-diff(=\w+)? | --color(=\w+)? | --no-color | --follow | --reverse | --merges | --no-merges
    | --first-parent | --abbrev-commit | --function-context | --verbose | --short | --branch | --ignore-case
    | --(?:max-count|since|until|after|before|author|grep|format|pretty|date|skip)=.* | --line-number | -m | --cc
    """
)
_COMMIT = re.compile(r"(?:HEAD|@|[A-Za-z][\w./-]*?[~^]\d*)(?:[~^]\d*)*")
"""git takes `x~1` and `x^` only where x leads to a commit."""
_BRANCH = re.compile(r"(?![0-9a-fA-F]{40})[A-Za-z][\w./-]*")
"""No id, which git takes for that first."""
_NAME = re.compile(r"[A-Za-z0-9_][\w./+@{}~^-]{0,200}")
_SHOWS = re.compile(r"diff|text|binary|\[attr\]|merge")
"""In attributes: what may change how a file is shown, or a name for several of them."""
_ATTRIBUTES = ".gitattributes"
_MOST_FOLDERS = 5_000
_EXTERNAL = re.compile(r"(?i)\bexternal\b|\[include|include(if)?\.")
"""In settings: a program that is given both files of a diff; or settings elsewhere."""
_SECONDS = 10


def hides_secrets(call: Invocation) -> bool:
    """Whether the call shows nothing of files that may hold secrets, past ones neither."""
    command = call.name.removeprefix("git ")
    found = find_repository(call.working_dir.cwd)
    if command not in _COMMANDS or found is None:
        return False
    worktree, folder = found
    if not _words_are_known(call, command, folder) or user_config_matches(call.working_dir.environment, _EXTERNAL):
        return False
    git = shutil.which("git", path=call.working_dir.environment.get("PATH"))
    return git is not None and _supports_config_variables(git) and not _overrides_attributes(worktree, folder)


def _words_are_known(call: Invocation, command: str, folder: Path) -> bool:
    """The words before `--`: options that are known to keep to attributes, and commits. A search is of files alone."""
    words = list(call.words[: call.words.index("--")] if "--" in call.words else call.words)
    if not all(map(_OPTION.fullmatch, (word for word in words if word.startswith("-")))):
        return False
    others = [word for word in words if not word.startswith("-")]
    if command == "grep":
        return all(os.path.lexists(call.working_dir.path(word)) for word in others[1:])
    if command in ("reflog", "stash"):
        others = others[1:]
    return all(_is_commit(word, call, folder) for word in others)


def _is_commit(word: str, call: Invocation, folder: Path) -> bool:
    """Or a range of commits, or a path in the workspace, which git would take for one of both."""
    ends = [end for end in re.split(r"\.{2,3}", word) if end]
    if all(_COMMIT.fullmatch(end) or _is_branch(end, call, folder) or _kind(end, call) == "commit" for end in ends):
        return bool(ends)
    return os.path.lexists(call.working_dir.path(word)) and not re.fullmatch(r"[0-9a-fA-F]{4,64}", word)


def _is_branch(name: str, call: Invocation, folder: Path) -> bool:
    """And no tag, nor another name of git's own: those may lead to the content of a file."""
    shared = common_git_dir(call.working_dir.cwd) or folder
    packed = (read_settings(shared / "packed-refs") or "").split("\n")

    def has(*kinds: str) -> bool:
        return any(
            (shared / kind / name).is_file() or any(line.endswith(f" {kind}/{name}") for line in packed)
            for kind in kinds
        )

    if not _BRANCH.fullmatch(name) or ".." in name or os.path.lexists(folder / name) or has("refs", "refs/tags"):
        return False
    return has("refs/heads", "refs/remotes")


def check_object_names(call: Invocation) -> None:
    """Raises UnprovenError where a word is the id, or another name, of a file's content, which git shows without its path."""
    command = call.name.removeprefix("git ")
    words = call.words[: call.words.index("--")] if "--" in call.words else call.words
    for word in (word for word in words if not word.startswith("-") and ":" not in word):
        ends = [end.lstrip("^") for end in re.split(r"\.{2,3}", word)]
        kinds = {_kind(f"{end}^{{}}", call) for end in ends if end and not _COMMIT.fullmatch(end)}
        if "blob" in kinds or (command == "grep" and "tree" in kinds):
            raise UnprovenError(f"{shown_word(word)} is a file's content without its name, which may be a secret's")


def _kind(name: str, call: Invocation) -> str:
    """What git has under a name: commit, tag, tree or blob; "" where it has nothing, or where the name is not plain."""
    if not _NAME.fullmatch(name):
        return ""
    environment = read_only_environment(call.working_dir.environment, {})
    git = shutil.which("git", path=environment.get("PATH"))
    if git is None:
        return ""
    # it runs nothing else: the repository's settings were looked at before
    asked = [git, "cat-file", "-t", name]
    done = subprocess.run(
        asked, cwd=call.working_dir.cwd, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return done.stdout.strip()


@cache
def _supports_config_variables(git: str) -> bool:
    """Settings in variables came with git 2.31."""
    said = subprocess.run([git, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", said)
    return version is not None and (int(version[1]), int(version[2])) >= (2, 31)


def _overrides_attributes(worktree: Path, folder: Path) -> bool:
    """Whether the repository may say itself how files are shown."""
    shared = common_git_dir(worktree) or folder
    folders: set[str] = {""}
    for name in tracked_paths(folder, shared):
        above = posixpath.dirname(name)
        while above not in folders:
            folders.add(above)
            above = posixpath.dirname(above)
        if posixpath.basename(name) == _ATTRIBUTES and not os.path.lexists(worktree / name):
            return True  # git takes it from the index
    files: Sequence[Path] = [shared / "info" / "attributes", *(worktree / name / _ATTRIBUTES for name in folders)]
    return len(folders) > _MOST_FOLDERS or any(_SHOWS.search(read_settings(file) or "") for file in files)
