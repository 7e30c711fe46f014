"""A repository of the copy's own, at the recorded commit: git works in it, and nothing that it does reaches the original.

It is made empty, with no hooks, no template and settings of ours, and borrows the original's objects (objects/info/alternates),
which git only reads; of those that it would write again it sets the time. Branches, tags, remote branches and harmless
settings are copied as text. Remotes keep their names and lead nowhere, so that `git status` says what it said
and neither push nor fetch reaches anybody. No file is shared by a hard link. What git runs here is what the person's own
settings say (~/.gitconfig), as in every repository of theirs; nothing that the original, or the commit, names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kin_nb.core.paths import real_path
from kin_nb.core.text import last_line
from kin_nb.core.workspace_commit import GitPlace, git_head, is_ref
from kin_nb.render.text import one_line, reveal_hidden
from kin_nb.replay.errors import ReplayError
from kin_nb.replay.rerun.virtual_environments import relative_target

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


class OriginalRepository:
    """The original repository at `place`. Invalid contents of its files raise nothing."""

    def __init__(self, place: GitPlace) -> None:
        self._place = place
        self.branch = git_head(place.top).branch
        """Which is checked out now, None for none."""

    @property
    def objects(self) -> Path:
        return (self._place.shared / "objects").resolve()

    @property
    def shallow(self) -> list[str]:
        """Return the commits of a shallow clone whose parents are missing."""
        return [line for line in self._lines("shallow") if _COMMIT.fullmatch(line)]

    @property
    def excludes(self) -> str:
        """Return the content of info/exclude."""
        return "".join(f"{line}\n" for line in self._lines("info/exclude"))

    def refs(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return branches and tags: (object id by name, target name by name for symbolic references)."""
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
        """Return the harmless settings of its config (no program, no path) and what its branches follow, without included files."""
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
        """Yield (name, content) of each loose reference."""
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
    """Return this process's environment without variables that tell git where a repository is or what to run."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _follows(key: str, value: str) -> bool:
    """Whether the setting is branch.NAME.remote or .merge, which `git status` compares with."""
    if key.startswith("branch.") and key.endswith(".remote"):
        return re.fullmatch(r"\w[\w.-]*", value) is not None
    return key.startswith("branch.") and key.endswith(".merge") and is_ref(value)


def _regular(path: Path, most: int = _LARGEST) -> str | None:
    """Return the content of a file, following links; None when it is not a file, is larger, or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > most:
            return None
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, ValueError):
        return None


NO_REMOTE_URL = "/dev/null"
"""The address of every remote."""
_OURS = {
    "core.repositoryformatversion": "0",
    "core.bare": "false",
    "core.logallrefupdates": "true",
    "core.fsmonitor": "false",
    "gc.auto": "0",  # nothing may run in the background while the copy is removed
    "maintenance.auto": "false",
}
_QUIET = ("core.hooksPath=/dev/null", "protocol.allow=never", "submodule.recurse=false", "advice.detachedHead=false")
"""While the copy is made."""
_QUIETLY = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_DEFAULT_REF_FORMAT": "files",
}
_NOBODY = {"user.name": "kin_nb", "user.email": "kin_nb@localhost"}
"""Who commits where git knows no name, or no address."""
_LINK = "120000"


class NoGitError(ReplayError):
    """git is not installed here."""


class MissingCommitError(ReplayError):
    """The recorded commit is not in the repository."""


@dataclass(frozen=True)
class CommitContents:
    """What to unpack of the commit: `files` files of `size` bytes in the folder `below`, "" for all."""

    files: int
    size: int
    below: str = ""


class Clone:
    """A clone of the repository at `place` in `folder`, which exists and is empty.

    `branch`: which the session was on, "" for none (a detached HEAD), None where the recording does not say.
    """

    def __init__(self, place: GitPlace, commit: str, folder: Path, branch: str | None = None) -> None:
        self._original, self._top = OriginalRepository(place), place.top
        self._commit, self.folder, self._recorded_branch = commit, folder, branch

    def borrow(self) -> None:
        """Create the repository. Raises NoGitError, ReplayError, and MissingCommitError if the original lacks the commit."""
        self._git("init", "--quiet", "--template=", "--object-format=sha1", str(self.folder), made=False)
        git = self.folder / ".git"
        (git / "objects" / "info").mkdir(exist_ok=True)
        (git / "info").mkdir(exist_ok=True)
        (git / "objects" / "info" / "alternates").write_bytes(_as_alternate(self._original.objects))
        if self._original.shallow:
            (git / "shallow").write_text("".join(f"{commit}\n" for commit in self._original.shallow), encoding="ascii")
        try:
            self._git("cat-file", "-e", f"{self._commit}^{{commit}}")
        except ReplayError as error:
            raise MissingCommitError(str(error)) from error

    def measure(self, below: str = "") -> CommitContents:
        """Return the number and size of the commit's files in the folder `below`. Raises ReplayError."""
        within = ("--", f"{below}/") if below else ()
        listed = self._git("ls-tree", "-r", "--long", "--full-tree", "-z", self._commit, *within)
        sizes = [line.split(b"\t", 1)[0].split()[3] for line in listed.split(b"\0") if line]
        return CommitContents(len(sizes), sum(int(size) for size in sizes if size.isdigit()), below)

    def unpack(self, part: CommitContents) -> list[str]:
        """Check out branches and files. Return the links that are left out because they lead outside. Raises ReplayError."""
        settings = self._original.settings()
        refs, named = self._original.refs()
        refs = self._held(refs)
        self._write_settings(settings, {name.split("/")[2] for name in refs if name.startswith("refs/remotes/")})
        self._write_refs(refs, named, settings)
        self.exclude(self._original.excludes)
        if part.below:
            self._set("core.sparseCheckout", "true")
            only = "".join(f"\\{c}" if c in "\\*?[ !#" else c for c in part.below)
            (self.folder / ".git" / "info" / "sparse-checkout").write_text(
                f"/{only}/\n", encoding="utf-8", errors="surrogateescape"
            )
        self._git("read-tree", "-u", "--reset", "--no-recurse-submodules", "HEAD")
        return self._fix_links()

    def exclude(self, patterns: str) -> None:
        """Let git also ignore `patterns`."""
        with (self.folder / ".git" / "info" / "exclude").open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(patterns)

    def _write_refs(self, refs: dict[str, str], named: Mapping[str, str], settings: Mapping[str, str]) -> None:
        """Write the references as they are now, except that the session's branch, if known, is at the recorded commit.

        So is the remote branch that this one follows, where it has that commit: how far it was then is not known. Branches that
        its name leaves no room for, as `a/b` with `a`, came later, and are left out.
        """
        self._write_packed(refs)
        branch = self._branch(refs)
        if branch is None:
            why = f"checkout: moving from {self._commit} to {self._commit}"  # `git status` reads there what is checked out
            self._git("update-ref", "--no-deref", "-m", why, "HEAD", self._commit)
            return
        for name in [name for name in refs if _excludes(name, f"refs/heads/{branch}")]:
            del refs[name]
        refs[f"refs/heads/{branch}"] = self._commit
        remote, followed = (settings.get(f"branch.{branch}.{key}", "") for key in ("remote", "merge"))
        upstream = f"refs/remotes/{remote}/{followed.removeprefix('refs/heads/')}"
        if upstream in refs and self._is_ancestor(refs[upstream]):
            refs[upstream] = self._commit
        self._write_packed(refs)
        self._git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        for name, target in named.items():
            if target in refs and name not in refs:
                self._git("symbolic-ref", name, target)

    def _held(self, refs: dict[str, str]) -> dict[str, str]:
        """Return the references to existing objects: git refuses to work with others."""
        asked = "".join(f"{value}\n" for value in refs.values()).encode()
        listed = self._git("cat-file", "--batch-check", asked=asked).decode("ascii", "replace").splitlines()
        return {name: value for (name, value), line in zip(refs.items(), listed, strict=False) if "missing" not in line}

    def _write_packed(self, refs: Mapping[str, str]) -> None:
        lines = "".join(f"{value} {name}\n" for name, value in refs.items())
        path = self.folder / ".git" / "packed-refs"
        path.write_text(lines, encoding="utf-8", errors="surrogateescape")

    def _branch(self, refs: Mapping[str, str]) -> str | None:
        """Return the branch to check out: the recorded one; else one with the commit: the current one, main, master, or another."""
        if self._recorded_branch is not None:
            return self._recorded_branch or None
        now = self._original.branch
        if now is not None and f"refs/heads/{now}" in refs and self._is_ancestor(refs[f"refs/heads/{now}"]):
            return now
        argv = ("for-each-ref", "--contains", self._commit, "--format=%(refname)", "refs/heads", "refs/remotes")
        holding = self._git(*argv).decode("utf-8", "surrogateescape").splitlines()
        local = [name.removeprefix("refs/heads/") for name in holding if name.startswith("refs/heads/")]
        remote = [name.split("/", 3)[3] for name in holding if re.fullmatch(r"refs/remotes/[^/]+/(?!HEAD$).+", name)]
        for found in (local, remote):
            if found:
                return next((name for name in ("main", "master") if name in found), found[0])
        return now if now is not None and is_ref(f"refs/heads/{now}") else None

    def _is_ancestor(self, of: str) -> bool:
        try:
            self._git("merge-base", "--is-ancestor", self._commit, of)
        except ReplayError:
            return False
        return True

    def _write_settings(self, settings: Mapping[str, str], remotes: set[str]) -> None:
        """Write the settings in place of those that git created."""
        remotes = remotes | {
            value for key, value in settings.items() if key.startswith("branch.") and key.endswith(".remote")
        }
        ways: dict[str, str] = {}
        for remote in sorted(remotes):
            ways[f"remote.{remote}.url"] = NO_REMOTE_URL
            ways[f"remote.{remote}.fetch"] = f"+refs/heads/*:refs/remotes/{remote}/*"
        text = "".join(_as_setting(key, value) for key, value in {**settings, **ways, **_OURS}.items())
        path = self.folder / ".git" / "config"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        try:
            self._git("var", "GIT_COMMITTER_IDENT")
        except ReplayError:
            for key, value in _NOBODY.items():
                if not self._is_set(key):
                    self._set(key, value)

    def _is_set(self, key: str) -> bool:
        try:
            return bool(self._git("config", "--get", key).strip())
        except ReplayError:
            return False

    def _set(self, key: str, value: str) -> None:
        with (self.folder / ".git" / "config").open("a", encoding="utf-8") as file:
            file.write(_as_setting(key, value))

    def _fix_links(self) -> list[str]:
        """Redirect links into the original to the copy, and remove links that lead outside. git reports no change."""
        staged = self._git("ls-files", "--stage", "-z").split(b"\0")
        names = [line.split(b"\t", 1)[1] for line in staged if line.startswith(_LINK.encode())]
        links = [path for path in map(os.fsdecode, names) if (self.folder / path).is_symlink()]
        changed = []
        for name in links:
            path = self.folder / name
            target = str(path.readlink())
            new_target = relative_target(self._top, (self._top / name).parent, target)
            if new_target != target:
                path.unlink()
                path.symlink_to(new_target)
                changed.append(name)
        out = [name for name in links if self._leads_out(self.folder / name)]
        for name in out:
            (self.folder / name).unlink()
        self._hide_changes({*changed, *out})
        return [reveal_hidden(name) for name in out]

    def _leads_out(self, path: Path) -> bool:
        return path.readlink().is_absolute() or not real_path(path).is_relative_to(real_path(self.folder))

    def _hide_changes(self, names: Iterable[str]) -> None:
        asked = b"".join(os.fsencode(name) + b"\0" for name in sorted(names))
        if asked:
            self._git("update-index", "--skip-worktree", "-z", "--stdin", asked=asked)

    def _git(self, *argv: str, asked: bytes = b"", made: bool = True) -> bytes:
        """Run git and return its output. Raises ReplayError with git's message, NoGitError if git is not installed."""
        settings = [word for setting in _QUIET for word in ("-c", setting)]
        place = {"GIT_DIR": str(self.folder / ".git"), "GIT_WORK_TREE": str(self.folder)} if made else {}
        environment = (
            without_git() | place | {"GIT_NO_LAZY_FETCH": "1", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_TERMINAL_PROMPT": "0"}
        )
        try:
            done = subprocess.run(
                ["git", *settings, *argv],
                cwd=self.folder,
                env=environment,
                input=asked,
                capture_output=True,
                check=True,
            )
        except FileNotFoundError as error:
            raise NoGitError("git is not installed here") from error
        except OSError as error:
            raise ReplayError(f"git cannot be run: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            said = last_line(error.stderr.decode("utf-8", "replace"))
            raise ReplayError(f"git {argv[0]}: {one_line(said or f'exit code {error.returncode}', 300)}") from error
        return done.stdout


def _excludes(one: str, other: str) -> bool:
    """Whether two references exclude each other: the name of one is a folder in the other's."""
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _as_alternate(objects: Path) -> bytes:
    """Return the line for objects/info/alternates; a path with a newline is quoted."""
    path = os.fsencode(objects)
    if b"\n" in path:
        escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        path = b'"' + escaped + b'"'
    return path + b"\n"


def _as_setting(key: str, value: str) -> str:
    """Return a section of a config file; "" for an invalid section name."""
    section, _, rest = key.partition(".")
    between, _, name = rest.rpartition(".")
    if not re.fullmatch(r"[\w-]+", name) or "\n" in between or "\0" in value:
        return ""
    heading = f' "{_escaped(between)}"' if between else ""
    shown = _escaped(value).replace("\n", "\\n").replace("\t", "\\t")
    return f'[{section}{heading}]\n\t{name} = "{shown}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
