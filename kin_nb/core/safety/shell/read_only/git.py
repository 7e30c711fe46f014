"""git's commands that only show: their flags are known by their whole names, for git takes shortened ones."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kin_nb.core.paths import read_settings
from kin_nb.core.safety.shell.classification import UnprovenError
from kin_nb.core.safety.shell.read_only.command_spec import Check, CommandSpec, Invocation, ParsedArgs, section, specs
from kin_nb.core.safety.shell.read_only.git_config import (
    check_repository_config,
    common_git_dir,
    external_sources,
    find_repository,
    user_config_files,
)
from kin_nb.core.safety.shell.read_only.git_content import exposed_secrets, shows_content
from kin_nb.core.safety.shell.read_only.working_dir import holds_credentials

_RUNS_GPG = re.compile(r"%[-+ ]?G|signature")
_SHOWS_OBJECTS = re.compile(r"%\(\*?raw")
"""In a format: what a tag names may be any file's content."""


@dataclass(frozen=True)
class _GitCommand(CommandSpec):
    """One of git's commands: its words are revisions and paths, separated by _paths."""

    operands: Literal["files", "names", "text", "pattern", "none"] = "text"
    why: Mapping[str, str] = field(default_factory=lambda: section("git_why"))


def _format(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    for text in found.values("--format", "--pretty", "--group", "--sort"):
        if _RUNS_GPG.search(text):
            raise UnprovenError(f"`{call.name}` with {text!r} runs gpg")
        if _SHOWS_OBJECTS.search(text):
            raise UnprovenError(f"`{call.name}` with {text!r} may show any file")
    return ()


def _lists_only(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    """branch and tag create each name in their arguments, unless an option makes them list."""
    listing = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
    if found.operands and not found.has(*listing, *(("-l",) if call.name == "git tag" else ())):
        raise UnprovenError(f"`{call.name} {found.operands[0]}` makes one")
    return _format(call, found)


def _first(*allowed: str) -> Check:
    """For a command whose first word says what it does: to git, options before it may make it another command."""

    def check(call: Invocation, found: ParsedArgs) -> Iterable[str]:
        said = call.words[0] if found.operands else ""
        if said not in allowed:
            raise UnprovenError(f"`{call.name} {said}`".replace(" `", "`") + " is not a known read-only command")
        return _format(call, found)

    return check


def _remote(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if found.operands and (found.operands[0] != "get-url" or len(found.operands) > 2):  # noqa: PLR2004  (get-url NAME)
        raise UnprovenError(f"`git remote {found.operands[0]}` is not a known read-only command")
    return [*_addresses(call), *_rewriting(call)]


def _rewriting(call: Invocation) -> Iterator[str]:
    """The person's own settings, where they may put credentials into the addresses that are shown (url.*.insteadOf)."""
    environment = call.working_dir.environment
    if any(
        name.startswith("GIT_CONFIG_KEY_") and "insteadof" in value.casefold() for name, value in environment.items()
    ):
        raise UnprovenError("a variable makes git show other addresses, which may hold credentials")
    for file in user_config_files(environment):
        text = (read_settings(file) or "").casefold()
        if "[include" in text or ("insteadof" in text and "@" in text):
            yield str(file)


def _config(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    """The name comes last: git takes what follows it for a value to set, whatever it looks like."""
    if (
        len(found.operands) != 1
        or call.words[-1] != found.operands[0]
        or not re.fullmatch(
            r"user\.(name|email)|remote\.[\w./-]+\.url|branch\.[\w./-]+\.(remote|merge)|core\.(?!(?i:fsmonitor|hookspath)$)\w+|init\.\w+",
            found.operands[0],
        )
    ):
        raise UnprovenError("`git config` may show credentials, or set something")
    return _addresses(call)


def _addresses(call: Invocation) -> Iterator[str]:
    """The settings, where they hold credentials: an address shows them."""
    settings = common_git_dir(call.working_dir.cwd)
    if settings is not None and holds_credentials(settings):
        yield str(settings / "config")


def _symbolic_ref(_call: Invocation, found: ParsedArgs) -> Iterable[str]:
    if len(found.operands) != 1:
        raise UnprovenError("`git symbolic-ref` with two names sets one")
    return ()


def _within_worktree(call: Invocation, found: ParsedArgs) -> Iterable[str]:
    """With no repository, or with a path outside it, `git diff` compares any two files or folders."""
    repository = find_repository(call.working_dir.cwd)
    for word in found.operands:
        path = Path(posixpath.normpath(posixpath.join(call.working_dir.cwd, word)))
        if repository is None or not path.is_relative_to(repository[0]):
            raise UnprovenError(f"`git diff` with {word!r} compares files that are in no repository")
    if len(found.operands) == 2 and repository is not None and not all(map(_is_own, repository)):  # noqa: PLR2004
        raise UnprovenError(
            "`git diff` of two may compare any files: the repository belongs to another user, and git may skip it"
        )
    return ()


def _is_own(folder: Path) -> bool:
    return folder.lstat().st_uid == os.geteuid()


_CHECKS: dict[str, Check] = {
    "format": _format,
    "shows_first": _first("", "show"),
    "lists_first": _first("list"),
    "lists_only": _lists_only,
    "within_worktree": _within_worktree,
    "symbolic_ref": _symbolic_ref,
    "remote": _remote,
    "config": _config,
}
_COMMANDS = specs("git", kind=_GitCommand, checks=_CHECKS)
_LOOK_INTO_SUBMODULES = frozenset(("status", "diff"))


class _Git(CommandSpec):
    """`git`, its options before the subcommand, and the subcommand."""

    def prove(self, call: Invocation) -> list[str]:
        words = list(call.words)
        while words[:1] and words[0].startswith("-"):
            word = words.pop(0)
            if word == "--version" and not words:
                return []
            if word == "-C" and words:
                call = replace(call, working_dir=call.working_dir.moved(words.pop(0)))
            elif word not in ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"):
                raise UnprovenError(f"`git {word}` is not a known read-only flag")
        command = words.pop(0) if words else ""
        known = _COMMANDS.get(command)
        if known is None:
            raise UnprovenError(f"`git {command}` is not a known read-only command".replace(" `", "`"))
        if any(name in call.working_dir.environment for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")):
            raise UnprovenError("a variable makes git use another repository")
        own = replace(call, name=f"git {command}", words=words)
        before_paths = words[: words.index("--")] if "--" in words else words
        ignoring = [word for word in before_paths if word.startswith("--ignore-submodules")]
        skips = bool(ignoring) and not set(ignoring) & _ENTERING
        check_repository_config(call.working_dir.cwd, enters_submodules=command in _LOOK_INTO_SUBMODULES and not skips)
        shown = exposed_secrets(own) if shows_content(command, words) else ()
        return [
            str(call.working_dir.cwd),
            *external_sources(own.working_dir.cwd, own.working_dir.root),
            *known.prove(own),
            *_paths(own),
            *shown,
        ]


_ENTERING = {"--ignore-submodules=none", "--ignore-submodules=untracked"}


def _paths(call: Invocation) -> Iterator[str]:
    """The words that name files: those after `--`, those that are there, and what follows `:` in `HEAD:x` and `:!x`."""
    only_paths = False
    for word in call.words:
        if word == "--" and not only_paths:
            only_paths = True
        elif only_paths or not word.startswith("-") or word.startswith("-L"):
            if only_paths or call.name == "git blame" or os.path.lexists(call.working_dir.path(word)):
                yield posixpath.join(call.working_dir.cwd, word)
            yield from (
                posixpath.join(call.working_dir.cwd, name)
                for colon in re.finditer(":", word)
                if (name := word[colon.end() :].lstrip("!^/"))
            )


GIT: dict[str, CommandSpec] = {"git": _Git()}
