"""Whether a repository lets a plain `git status` run nothing else, and which files it tracks: read from its files, never by git.

The settings that lie with a repository may come from anybody: a file system monitor, filters, external diffs, hooks, file
includes. The person's own (~/.gitconfig) are trusted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from kin_nb.core.paths import read_settings
from kin_nb.core.safety.shell.classification import UnprovenError

_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of a submodule in the index: git looks into it, and obeys its own settings there."""

_HEAD = re.compile(r"ref: refs/\S+\s*|[0-9a-f]{40}([0-9a-f]{24})?\s*")
_POINTER = re.compile(r"(\S(?:[^\r\n\0]*\S)?)[\r\n]*")
"""A path in a file of its own: git would keep blanks around it."""
_OF_A_BARE_ONE = ("objects", "refs", "commondir", "config")
_MOST_LINKS = 20_000
_PLAIN_PATH = re.compile(r"[\w./~-]+")

_SECTION = re.compile(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]\s*([#;].*)?')
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*(?:=\s*(.*))?")
_INERT = re.compile(
    r"""(?x)
    core\.(?: repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol
        |safecrlf|quotepath|abbrev|fscache|untrackedcache|preloadindex|compression|longpaths|commentchar|trustctime
        |checkstat|whitespace|bigfilethreshold|hidedotfiles|sparsecheckout|sparsecheckoutcone|hookspath )
    | user\.(?: name|email|signingkey )
    | remote\..*\.(?: url|pushurl|fetch|push|tagopt|prune|prunetags|gh-resolved|skipdefaultupdate|skipfetchall|mirror )
    | branch\..*\.(?: remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base )
    | branch\.(?: autosetupmerge|autosetuprebase|sort )
    | submodule\.(?: active|.*\.(?: url|active|path|branch ) )
    | init\.defaultbranch | pull\.(?: rebase|ff ) | push\.(?: default|autosetupremote|followtags )
    | fetch\.(?: prune|prunetags|parallel|writecommitgraph ) | merge\.(?: ff|conflictstyle|renamelimit|stat )
    | rebase\.(?: autostash|autosquash|updaterefs ) | rerere\.(?: enabled|autoupdate ) | color\.\w+ | advice\.\w+
    | gc\.\w+ | pack\.\w+ | maintenance\.\w+ | alias\.[\w-]+ | commit\.(?: gpgsign|verbose ) | tag\.(?: gpgsign|sort )
    | status\.(?: short|branch|relativepaths|showuntrackedfiles|aheadbehind )
    | diff\.(?: renames|renamelimit|algorithm|mnemonicprefix|noprefix|colormoved|indentheuristic|context|interhunkcontext )
    | log\.(?: date|decorate|abbrevcommit|follow ) | grep\.(?: linenumber|patterntype|extendedregexp|column )
    | extensions\.(?: worktreeconfig|objectformat|refstorage ) | index\.(?: version|threads ) | feature\.\w+
    | http\.(?:.*\.)?(?: postbuffer|extraheader|sslverify|version ) | lfs\.(?: repositoryformatversion|.*\.access )
    """
)


def check_repository_config(cwd: Path, *, enters_submodules: bool) -> None:
    """Raises UnprovenError when git, run in `cwd`, could run a program that the repository's files name.

    `enters_submodules`: the command looks into submodules, as status and diff do.
    """
    found = find_repository(cwd)
    if found is None:
        return
    worktree, folder = found
    shared = _shared_folder(folder)
    hooks = [folder / "hooks", shared / "hooks"]
    for file in (shared / "config", folder / "config.worktree"):
        for key, value in _settings(file):
            if not _INERT.fullmatch(key):
                raise UnprovenError(f"git's settings in {file.parent.name} set {key}, which may run a program")
            if key == "core.hookspath":
                if not _PLAIN_PATH.fullmatch(value):  # a comment, quotes: git would read another path
                    raise UnprovenError(f"git's settings in {file.parent.name} name a folder of hooks that is unclear")
                hooks.append(worktree / os.path.expanduser(value))  # noqa: PTH111  (of a text)
    if any(os.path.lexists(hook / "post-index-change") for hook in hooks):
        raise UnprovenError("the repository has a hook, post-index-change, that runs whenever git looks")
    if enters_submodules and _has_submodules(folder):
        raise UnprovenError(
            "it looks into submodules, which have settings of their own; give --ignore-submodules=dirty"
        )


def user_config_files(environment: Mapping[str, str]) -> Iterator[Path]:
    """The files of the person's settings and the machine's, which git trusts."""
    home = Path(environment.get("HOME") or "/")
    xdg = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    named = environment.get("GIT_CONFIG_GLOBAL")
    yield from [Path(named)] if named else [home / ".gitconfig", xdg / "git" / "config"]
    if not environment.get("GIT_CONFIG_NOSYSTEM"):
        yield Path(environment.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")


def user_config_matches(environment: Mapping[str, str], pattern: re.Pattern[str]) -> bool:
    given = (
        value for name, value in environment.items() if name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_PARAMETERS"))
    )
    texts = (read_settings(file) or "" for file in user_config_files(environment))
    return any(pattern.search(text) for text in chain(given, texts))


def common_git_dir(cwd: Path) -> Path | None:
    """Where the settings of the repository are that git would find from `cwd`."""
    found = find_repository(cwd)
    return None if found is None else _shared_folder(found[1])


def find_repository(cwd: Path) -> tuple[Path, Path] | None:
    """The worktree and the git folder that git would find from `cwd`; None when there is none.

    Raises UnprovenError for what only might be a git folder: git would skip it, or take it, by rules of its own.
    """
    for folder in (cwd, *cwd.parents):
        git = folder / ".git"
        if git.is_dir():
            if not _is_plainly_valid(git):
                raise UnprovenError(f"{git} is not a known kind of git folder")
            return folder, git
        if os.path.lexists(git):
            text = read_settings(git) or ""
            if not text.startswith("gitdir: "):
                raise UnprovenError(f"{git} is not a known kind of git folder")
            return folder, folder / _pointer(text.removeprefix("gitdir: "), git)
        if os.path.lexists(folder / "HEAD") and any(os.path.lexists(folder / name) for name in _OF_A_BARE_ONE):
            raise UnprovenError(f"{folder} is a bare repository, whose settings anybody may have put there")
    return None


def external_sources(cwd: Path, root: Path) -> Iterator[str]:
    """What git takes a repository's content from, in `cwd`, that is neither in its worktree nor in the workspace `root`.

    A linked worktree is as git makes one when its repository names it as well; that is its own. Raises UnprovenError
    for what is ambiguous.
    """
    found = find_repository(cwd)
    if found is None:
        return
    worktree, folder = found
    shared = _shared_folder(folder)
    linked = _names(folder, worktree / ".git") and shared.resolve() == folder.parent.parent.resolve()
    own = [worktree, root, *([shared.resolve()] if linked else [])]
    lent = [shared / "objects" / line for line in _alternates(shared)]
    for path in (folder, shared, *_links(shared), *lent):
        real = path.resolve()
        if not any(real.is_relative_to(working_dir) for working_dir in own):
            yield str(real)


def _names(folder: Path, pointer: Path) -> bool:
    """Whether the git folder of a linked worktree names the file that points to it."""
    text = read_settings(folder / "gitdir")
    return text is not None and (folder / _pointer(text, folder / "gitdir")).resolve() == pointer


def _alternates(shared: Path) -> list[str]:
    """Folders of objects that are taken for the repository's own."""
    text = read_settings(shared / "objects" / "info" / "alternates") or ""
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    if any(line.startswith('"') or line.strip() != line for line in lines):
        raise UnprovenError(f"git's objects in {shared.name} are borrowed from a folder that is unclear")
    return lines


def _links(shared: Path) -> Iterator[Path]:
    """What of a git folder's content is a symbolic link. Raises UnprovenError when there is too much to look at."""
    objects = shared / "objects"
    below = chain(shared.glob("*"), (shared / "refs").rglob("*"), objects.glob("*"), objects.glob("*/*"))
    for count, path in enumerate(below):
        if count > _MOST_LINKS:
            raise UnprovenError("git's folder holds too much to be sure that none of it is elsewhere")
        if path.is_symlink() and path.name != "hooks":
            yield path


def _is_plainly_valid(git: Path) -> bool:
    head = git / "HEAD"
    if head.is_symlink() or not _HEAD.fullmatch(read_settings(head) or ""):
        return False
    return all((git / name).is_dir() and os.access(git / name, os.X_OK) for name in ("objects", "refs"))


def _pointer(text: str, file: Path) -> str:
    found = _POINTER.fullmatch(text)
    if not found:
        raise UnprovenError(f"{file} names a folder that is unclear")
    return found[1]


def _shared_folder(folder: Path) -> Path:
    """Where a linked worktree's settings are."""
    common = read_settings(folder / "commondir")
    return folder if common is None else folder / _pointer(common, folder / "commondir")


def _settings(file: Path) -> Iterator[tuple[str, str]]:
    """`section.subsection.name`, in lower case except the subsection, and its value as it is written.

    Raises UnprovenError for a line that git may read otherwise.
    """
    section = ""
    for line in (read_settings(file) or "").split("\n"):
        text = line.strip(" \t\r")
        header = _SECTION.fullmatch(text)
        setting = _SETTING.fullmatch(text)
        if header:
            section = ".".join([header[1].lower(), *([header[2]] if header[2] is not None else [])])
        elif setting and section and not text.endswith("\\"):
            yield f"{section}.{setting[1].lower()}", setting[2] or ""
        elif text and not text.startswith(("#", ";")):
            raise UnprovenError(f"git's settings in {file.parent.name} hold a line that is ambiguous")


def _has_submodules(folder: Path) -> bool:
    """Whether the index may name one: by its bytes, so that it may err on the side of caution."""
    index = folder / "index"
    if any(folder.glob("sharedindex.*")) or (index.exists() and index.stat().st_size > LARGEST_INDEX):
        return True
    return index.is_file() and _GITLINK in index.read_bytes()


LARGEST_INDEX = 64_000_000
_BEFORE_HASH = 40
_EXTENDED = 0x4000
_LONGEST = 0xFFF


def tracked_paths(folder: Path, settings: Path) -> Iterator[str]:
    """The paths in the index of the git folder `folder`, whose settings are in `settings`.

    Raises UnprovenError for an index of another layout: versions 2 and 3 are read, in one file.
    """
    index = folder / "index"
    if not index.exists():
        return
    if any(folder.glob("sharedindex.*")) or not index.is_file() or index.stat().st_size > LARGEST_INDEX:
        raise _unknown()
    data = index.read_bytes()
    longer = re.search(r"(?i)objectformat\s*=\s*\"?sha256", read_settings(settings / "config") or "")
    yield from _index_paths(data, _BEFORE_HASH + (32 if longer else 20))


def _index_paths(data: bytes, flags_at: int) -> Iterator[str]:
    if data[:4] != b"DIRC" or data[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        raise _unknown()
    entry = 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = int.from_bytes(data[entry + flags_at : entry + flags_at + 2], "big")
        begin = entry + flags_at + (4 if flags & _EXTENDED else 2)
        end = data.find(b"\0", begin)
        if end < 0 or min(end - begin, _LONGEST) != flags & _LONGEST:
            raise _unknown()
        yield data[begin:end].decode(errors="surrogateescape")
        entry += (end - entry + 8) // 8 * 8


def _unknown() -> UnprovenError:
    return UnprovenError("git's index is of a kind that is not read, and may name files that hold secrets")
