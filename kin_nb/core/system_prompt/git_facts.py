"""Facts from git about the workspace: branch, changes, recent commits.

A repository's own configuration names programs (file system monitors, filters, hooks, signature checkers, transports).
None of them runs here: the user may have opened the folder only to look at it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from kin_nb.core.environment import child_environment
from kin_nb.core.text import escaped_line

NO_GIT = "Git: not a repository, or git is not there."
TIMED_OUT = "Git: no answer in time; ask it yourself when you need to know."
NOT_ASKED = "Git: a repository. Its changes are not known: asking would run programs that it configures, or failed."
MOST_CHANGES = 10
_NAME = 80
_SUBJECT = 72
_GIT = (
    *("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "log.showSignature=false", "-c", "status.showUntrackedFiles=normal"),
)
_QUESTIONS = {
    "prefix": ("rev-parse", "--show-prefix", "--symbolic", "--branches=[m]ain", "--branches=[m]aster"),
    "main": ("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"),
    "worktree": ("config", "--includes", "--get", "core.worktree"),
    "filters": ("config", "--includes", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\."),
}
_STATUS = ("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--ignore-submodules=dirty", "-z", "--", ".")


def git_facts(workdir: Path, *, commits: int, timeout: float) -> str:
    """A few lines; NO_GIT outside a repository, TIMED_OUT when git takes longer than `timeout` seconds in all."""
    if not any(os.path.lexists(folder / ".git") for folder in (workdir, *workdir.parents)):
        return NO_GIT  # without starting git five times
    deadline = time.monotonic() + timeout
    log = ("log", f"--max-count={max(0, commits)}", "-z", f"--format=%h %<({_SUBJECT},trunc)%s")
    try:
        answers = _ask(workdir, {**_QUESTIONS, "log": log}, deadline)
        if answers["prefix"] is None:
            return NO_GIT
        if answers["worktree"] or not _is_its_own(repository_root(workdir) / ".git"):
            return NOT_ASKED  # the data may belong to another repository, which the user did not open
        prefix, *branches = answers["prefix"].split("\n")
        safe = answers["filters"] is not None and not {"local", "worktree"} & set(answers["filters"].split("\0"))
        status = _ask(workdir, {"status": _STATUS}, deadline)["status"] if safe else None
    except OSError:
        return NO_GIT
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    main = answers["main"] or (branches[0] if branches else "")
    subjects = [line.rstrip() for line in (answers["log"] or "").split("\0") if line]
    return "\n".join([*_status_lines(status, prefix), *_main_line(main), *_commit_lines(subjects)])


def repository_root(workdir: Path) -> Path:
    """The nearest folder above that has `.git`; `workdir` itself without one. No process is started.

    Only folders of the same owner count: anyone may put a `.git` into a shared folder above.
    """
    workdir = workdir.resolve()
    try:
        owner = workdir.stat().st_uid
        for folder in (workdir, *workdir.parents):
            if folder.stat().st_uid != owner:
                break
            if os.path.lexists(folder / ".git"):
                return folder
    except OSError:
        pass
    return workdir


def _is_its_own(git: Path) -> bool:
    """Whether the repository's data lies in it, or is a worktree's that names this very folder in return."""
    if git.is_symlink() or not git.is_file():
        return git.is_dir() and not git.is_symlink()
    try:
        kept = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        return Path((kept / "gitdir").read_text(encoding="utf-8").strip()).resolve() == git.resolve()
    except (OSError, ValueError):
        return False


def _ask(workdir: Path, questions: dict[str, tuple[str, ...]], deadline: float) -> dict[str, str | None]:
    """The answers of processes that run at the same time; None where git failed. Raises TimeoutExpired."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, question in questions.items():
            running[name] = _start(workdir, question)
        return {name: _answer(process, deadline, name) for name, process in running.items()}
    finally:
        for process in running.values():
            _end(process)


def _start(workdir: Path, question: tuple[str, ...]) -> subprocess.Popen[bytes]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or "CONFIG" in name}
    quiet = {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",  # a partial clone fetches what is missing, with programs that it names
        "GIT_NO_LAZY_FETCH": "1",
    }
    return subprocess.Popen(
        [*_GIT, *question],
        cwd=workdir,
        env=child_environment(own) | quiet,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _answer(process: subprocess.Popen[bytes], deadline: float, name: str) -> str | None:
    output, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    nothing_found = name == "filters" and process.returncode == 1
    return os.fsdecode(output).removesuffix("\n") if process.returncode == 0 or nothing_found else None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout:
        process.stdout.close()


def _status_lines(status: str | None, prefix: str) -> list[str]:
    """`status`: git's porcelain version 2 with NUL; None when it was not asked (filters would run), or failed."""
    if status is None:
        return [NOT_ASKED]
    branch, changes, fields = "", [], iter(status.split("\0"))
    for field in fields:
        kind, _, rest = field.partition(" ")
        if kind == "#" and rest.startswith("branch.head "):
            branch = rest.removeprefix("branch.head ")
        elif kind in _FIELDS_BEFORE_PATH:
            changes.append(_change(kind, rest, prefix))
            if kind == "2":
                next(fields, None)  # where the file came from
    where = "no branch (detached HEAD)" if branch == "(detached)" else f"branch {escaped_line(branch, _NAME)}"
    if not changes:
        return [f"Git: {where}, clean."]
    more = [f"  … {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    count = f"{len(changes)} change{'s' if len(changes) > 1 else ''}"
    return [f"Git: {where}, {count}:", *changes[:MOST_CHANGES], *more]


_FIELDS_BEFORE_PATH = {"1": 7, "2": 8, "u": 9, "?": 0}


def _change(kind: str, rest: str, prefix: str) -> str:
    *fields, path = rest.split(" ", _FIELDS_BEFORE_PATH[kind])
    letters = fields[0].replace(".", "") if fields else "?"
    return f"  {letters} {escaped_line(path.removeprefix(prefix) or './', _NAME)}"


def _main_line(main: str) -> list[str]:
    return [f"Main branch: {escaped_line(main, _NAME)}"] if main else []


def _commit_lines(subjects: list[str]) -> list[str]:
    return (
        ["Recent commits:", *(f"  {escaped_line(subject, _SUBJECT + 20)}" for subject in subjects)] if subjects else []
    )
