"""bash: run a shell command. Every process that it starts is killed when the call ends.

A pattern of the allowlist or the denylist is compared word by word with the beginning of the command. A pattern with `*`, `?`
or `[` is a glob for the whole command.

An allowlist pattern covers one simple command of plain words, or a line of such commands that the allowlist covers, with proven
filters (safety/shell/command_parts.py). It does not cover a word that names a program to run, a place
outside the workspace or a sensitive file (also through a link), nor a git option before the subcommand (`-C`, `-c`), unless the
pattern spells that word. For the programs in safety/shell/command_prefix.py it covers read-only commands, the options that are
listed there or that the pattern spells, and the command that equals the pattern. A subcommand that is not listed there
(`git push`) and make's second target must be spelled in full.

A denylist pattern matches anywhere in the line, also `git push` in `git -C x push`. It prevents accidents, not attacks: a line
can build a command in ways that no parser finds.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from kin_nb.core.config.keys import environment_with
from kin_nb.core.environment import child_environment
from kin_nb.core.processes.supervised import Ended, run_process
from kin_nb.core.python_environment import command_environment
from kin_nb.core.redaction import Redactor, is_secret_name
from kin_nb.core.safety.shell import Classification, classify
from kin_nb.core.safety.shell.classify import sensitive_writes
from kin_nb.core.safety.shell.command_parts import command_parts
from kin_nb.core.safety.shell.command_prefix import (
    find_prefix,
    is_known_program,
    leaves_workspace,
    links_outside,
    plain_words,
    reaches_outside,
    split_git_options,
)
from kin_nb.core.safety.shell.named_scripts import named_scripts
from kin_nb.core.safety.shell.read_only.working_dir import read_only_environment
from kin_nb.core.safety.shell.reader.nested_commands import simple_commands
from kin_nb.core.safety.shell.reader.simple_command import SimpleCommand
from kin_nb.core.text import listed
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, CommandPart, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import sandbox
from kin_nb.core.tools.truncation import OUTPUT_LIMIT, CappedOutput
from kin_nb.core.workspace import Workspace

_LONGEST_SUMMARY = 100
_LISTED_PROCESSES = 5

_NOT_INTERACTIVE = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "NO_COLOR": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",  # otherwise Python's output comes after its traceback
}
# ipykernel sets these for code in cells: they would color the output, and matplotlib would draw to a front end that is not there
_SET_BY_KERNEL = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "CLICOLOR": "1"}
_INLINE_BACKENDS = "module://"

INTERACTIVE = (
    *("vim", "vi", "emacs", "nano", "gdb", "pdb", "passwd", "screen", "tmux"),
    *("bash -i", "sh -i", "zsh -i", "fish -i", "dash -i"),
)
INTERACTIVE_ALONE = ("python", "python3", "ipython", "bash", "sh", "zsh", "fish", "dash", "su")


LONGEST = 3_600
"""Seconds that a command may run."""


class BashArgs(BaseModel):
    command: str = Field(min_length=1, description="The command line")
    timeout: int | None = Field(None, ge=1, description=f"Seconds until it is stopped (default 120, at most {LONGEST})")


class BashResult(BaseModel):
    """`output`: stdout and stderr in the order of arrival. `exit_code`: 124 after a timeout, 128 + n for signal n."""

    output: str
    exit_code: int
    timed_out: bool = False
    swept: list[str] = Field(default_factory=list)
    """Command lines of the processes that were still running at the end and were killed."""
    remains: list[str] = Field(default_factory=list)
    """Command lines of the processes that could not be killed."""
    seconds: int = 0
    """The timeout that applied."""
    asked_seconds: int = 0
    """The timeout that the call asked for, when it is longer than that."""
    note: str = ""
    """A line for the model above the output."""


class BashConfig(BaseToolConfig):
    """Settings of `[tools.bash]`.

    `env` overrides all other variables. `keep_env`: variables with secret-looking names that commands may see. Patterns: see
    the module's docstring. `denylist_standalone` forbids its commands only without arguments. `sandbox`: whether commands are
    confined (sandbox.py); "auto" runs them unconfined on a machine that cannot confine them, and tells the model.
    """

    denylist: list[str] = Field(default_factory=lambda: list(INTERACTIVE))
    denylist_standalone: list[str] = Field(default_factory=lambda: list(INTERACTIVE_ALONE))
    default_timeout: int = Field(120, ge=1, le=LONGEST)
    env: dict[str, str] = Field(default_factory=dict)
    keep_env: list[str] = Field(default_factory=list)
    sandbox: Literal["off", "auto", "on"] = "off"
    sandbox_network: bool = False


class BashState(BaseToolState):
    """`unconfined`: why commands cannot be confined here, "" if they can; None before the first command."""

    unconfined: str | None = None
    proven: set[str] = Field(default_factory=set)
    """Commands that were approved as read-only and have not run yet."""


class Bash(BaseTool[BashArgs, BashResult, BashConfig, BashState]):
    description: ClassVar[str] = "Run a bash command in the workspace"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    editable: ClassVar[str] = "command"

    def accesses(self, args: BashArgs) -> Accesses:
        """The files that a read-only command reads, at least its working directory; otherwise everything, with the reason.

        Sensitive files that the command certainly writes are listed too: no grant and no rule covers those.
        """
        found = self._classify(args.command)
        if self._is_proven(args.command, found):
            return Accesses(reads=found.reads or (".",))
        writes = sensitive_writes(args.command, Workspace(self.config.effective_workdir))
        parts = () if found.kind == "dangerous" else self._parts(args.command)
        return Accesses(everything=True, writes=writes, reason=found.reason, parts=parts)

    def _parts(self, command: str, *, states: bool = True) -> tuple[CommandPart, ...]:
        return command_parts(command, self.config.effective_workdir, self.environment(), states=states)

    def preview(self, args: BashArgs) -> Preview:
        return Preview(summary=self._summary(args.command.strip()), body=args.command, kind="command")

    def scripts(self, args: BashArgs) -> dict[str, str]:
        return named_scripts(args.command, self.config.effective_workdir)

    def _summary(self, command: str) -> str:
        """Return the first line, shortened between words after redaction: a piece of a secret would not be recognized later."""
        names = set(self.config.key_names)
        hidden = [value for name, value in os.environ.items() if name in names or is_secret_name(name)]
        first, *more = Redactor(hidden, Path("/"), Path("/")).text(command).split("\n")  # without places
        begin = first if len(first) <= _LONGEST_SUMMARY else first[: _LONGEST_SUMMARY + 1].rpartition(" ")[0]
        return begin if begin == first and not more else f"{begin} …".strip()

    def allows(self, pattern: str, args: BashArgs) -> bool:
        return pattern_allows(
            pattern,
            args.command,
            self.config.effective_workdir,
            lambda: self._is_proven(args.command, self._classify(args.command)),
        ) or allows_parts(pattern, self.config.allowlist, self._parts(args.command, states=False))

    def why_denied(self, args: BashArgs) -> str:
        waits = "waits for input at a terminal, and there is no terminal here"
        for command in (found for found in simple_commands(args.command) if found.words):
            pattern = next((p for p in self.config.denylist if pattern_denies(p, command)), None)
            if pattern is not None:
                own = f'"{pattern}" is in the denylist of [tools.bash]'
                return f"`{pattern}` {waits}. Use a command that ends by itself." if pattern in INTERACTIVE else own
            for alone in self.config.denylist_standalone:
                if pattern_denies_alone(alone, command):
                    return f"`{alone}` without arguments {waits}. Give it a script or a command."
        return ""

    async def run(self, args: BashArgs) -> BashResult:
        """Run the command; any exit code is a result. Raises ToolError without a shell or without the workspace folder."""
        cwd = self.config.effective_workdir
        if not cwd.is_dir():
            raise ToolError(f"The workspace folder {cwd} does not exist any more.")
        if "\0" in args.command:
            raise ToolError("The command contains a NUL character. Remove it.")
        asked = args.timeout or self.config.default_timeout
        seconds = min(asked, LONGEST)
        output = CappedOutput(OUTPUT_LIMIT, self.emit)
        environment = self._environment_for(args.command)
        run = partial(run_process, cwd=cwd, environment=environment, seconds=seconds, sink=output.add)
        argv = [shutil.which("bash") or "/bin/sh", "-c", args.command]
        confined, note = await self._may_be_confined(cwd)
        if confined:
            ended, note = await self._run_confined(run, argv, cwd)
        else:
            ended = await run(argv)
        shown = output.text()
        output.keep_whole()
        return BashResult(
            output=shown,
            exit_code=ended.exit_code,
            timed_out=ended.timed_out,
            swept=list(ended.swept),
            remains=list(ended.remains),
            seconds=seconds,
            asked_seconds=asked if asked > seconds else 0,
            note=note,
        )

    async def _may_be_confined(self, workspace: Path) -> tuple[bool, str]:
        """Whether the command is confined, and a note for the model, once. Raises ToolError if "on" is impossible here."""
        config, first = self.config, self.state.unconfined is None
        if config.sandbox == "off":
            return False, ""
        if self.state.unconfined is None:
            self.state.unconfined = await asyncio.to_thread(sandbox.problem, workspace, network=config.sandbox_network)
        if not self.state.unconfined:
            return True, ""
        if config.sandbox == "on":
            raise ToolError(
                f'Not run: [tools.bash] sandbox = "on", and commands cannot be confined here: {self.state.unconfined}.\n'
                'The user can set sandbox = "auto" or "off".'
            )
        return False, f"[not confined: commands cannot be confined here: {self.state.unconfined}]" if first else ""

    async def _run_confined(
        self, run: Callable[[Sequence[str]], Awaitable[Ended]], argv: list[str], workspace: Path
    ) -> tuple[Ended, str]:
        """Run it confined. Returns how it ended, and the report of the quarantine, which runs in every case."""
        before = await asyncio.to_thread(sandbox.scan_workspace, workspace)
        try:
            ended = await run(sandbox.confined(argv, workspace, before, network=self.config.sandbox_network))
        except BaseException:
            sandbox.quarantine(workspace, before)  # at once: a cancelled call may not be awaited
            raise
        return ended, await asyncio.shield(asyncio.to_thread(sandbox.quarantine, workspace, before))

    def _classify(self, command: str) -> Classification:
        return classify(command, self.config.effective_workdir, self.environment())

    def _is_proven(self, command: str, found: Classification) -> bool:
        """Whether it is read-only. If so, it is remembered, and checked again before it runs."""
        if found.kind == "read-only":
            self.state.proven.add(command)
        return found.kind == "read-only"

    def _environment_for(self, command: str) -> dict[str, str]:
        """Raises ToolError if the command was approved as read-only and is not read-only any more."""
        environment, proven = self.environment(), command in self.state.proven
        self.state.proven.discard(command)
        if self._classify(command).kind == "read-only":
            return read_only_environment(environment, self.config.env)
        if proven:
            raise ToolError(
                "Not run: the command was approved as read-only, and a file or a setting that changed meanwhile makes it "
                "unsafe.\nMake the call again: it will ask for approval."
            )
        return environment

    def environment(self) -> dict[str, str]:
        """This process's variables without secrets, with the right Python first, the variables that make programs

        non-interactive, and the config's `env`."""
        keep = self.config.keep_env
        environment = child_environment(environment_with(keep), keep, also=self.config.key_names)
        for name, value in _SET_BY_KERNEL.items():
            if environment.get(name) == value:
                del environment[name]
        if environment.get("MPLBACKEND", "").startswith(_INLINE_BACKENDS):
            del environment["MPLBACKEND"]
        environment = command_environment(environment, self.config.python)
        return {"PATH": os.defpath, **environment, **_NOT_INTERACTIVE, **self.config.env}

    def to_model(self, result: BashResult) -> str:
        lines = [result.output.rstrip("\n")] if result.output.strip() else []
        if result.timed_out:
            lines.append(_time_up(result))
        elif result.exit_code:
            lines.append(f"[exit code {result.exit_code}]")
        if result.swept:
            lines.append(f"[processes left running were killed: {_listed(result.swept)}]")
        if result.remains:
            lines.append(f"[processes still running that could not be killed: {_listed(result.remains)}]")
        return "\n".join([*([result.note] if result.note else []), *(lines or ["[no output]"])])

    def exit_code(self, result: BashResult) -> int | None:
        return result.exit_code

    def uncovered(self, result: BashResult | None) -> str:
        return "what its remaining processes change from now on" if result is not None and result.remains else ""


def _time_up(result: BashResult) -> str:
    limit = f"its time limit of {result.seconds:,} s"
    if result.asked_seconds:
        limit = f"the longest time limit, {result.seconds:,} s; {result.asked_seconds:,} s were asked for"
    more = "" if result.seconds >= LONGEST else f" If it needs more time, pass a longer timeout, at most {LONGEST:,} s."
    return f"[stopped at {limit}.{more}]"


def _listed(commands: list[str]) -> str:
    return listed([f"`{command}`" for command in commands], _LISTED_PROCESSES)


_HARMLESS_GIT_OPTIONS = ("--no-pager", "-P")
"""Options before a subcommand that only change how the output is shown."""


def pattern_allows(pattern: str, command: str, root: Path, is_harmless: Callable[[], bool]) -> bool:
    """Whether an allowlist pattern covers a command (see the module's docstring).

    `root`: its working directory. `is_harmless`: whether the command is read-only; called only if the answer depends on it.
    """
    words = plain_words(command)
    if words is None:
        return False
    spelled, named = pattern.split(), [program_name(words), *words[1:]]
    if words == spelled:
        return True
    if named[0] == "git":
        named, options = split_git_options(named)
        if any(option not in (*_HARMLESS_GIT_OPTIONS, *spelled) for option in options):
            return False
        if not "".join(spelled[1:2]).startswith("-"):
            words = [*words[:1], *named[1:]]
    known = find_prefix(named)
    reaches = reaches_outside if known is None else leaves_workspace  # the options of those are listed
    if not _pattern_fits(pattern, words) or any(reaches(word) and word not in spelled for word in words[1:]):
        return False
    covered = not is_known_program(named[0]) if known is None else known.covers(named, spelled)
    links = (word for word in words[1:] if word not in spelled and links_outside(word, root))
    return (covered and not any(links)) or is_harmless()


def allows_parts(pattern: str, patterns: Sequence[str], parts: Sequence[CommandPart]) -> bool:
    """Whether the allowlist `patterns` covers each command of a line, with `pattern` at least one of them.

    Only commands that a grant could name are covered, and none that is spelled by a path or runs in another folder.
    """
    needed = [part for part in parts if not part.proven]
    fits = [[_part_fits(each, part) for part in needed] for each in (pattern, *patterns)]
    return any(fits[0]) and all(map(any, zip(*fits, strict=True))) and not any(part.reads for part in parts)


def _part_fits(pattern: str, part: CommandPart) -> bool:
    if not part.prefix or part.folder or part.environment:
        return False
    return _pattern_fits(pattern, list(part.words)) or _pattern_fits(pattern, part.prefix.split())


def pattern_denies(pattern: str, command: SimpleCommand) -> bool:
    """Whether a denylist pattern matches a command (see the module's docstring)."""
    words = command.words
    named = [program_name(words), *words[1:]]
    parted = named[0].split("-", 1) if named[0].startswith("git-") else named[:1]  # `git-push` is `git push`
    return any(_pattern_fits(pattern, each) for each in (words, named, *_of_git([*parted, *words[1:]])))


def program_name(words: list[str]) -> str:
    """The program's name without its folder."""
    return words[0].rpartition("/")[2]


def _of_git(words: list[str]) -> Iterator[list[str]]:
    """A git command without the options before its subcommand, and the command of an alias that those options define."""
    if words[0] != "git":
        return
    plain, options = split_git_options(words)
    yield plain
    for setting in options:
        name, _, value = setting.removeprefix("-c").partition("=")
        if name.casefold() == f"alias.{''.join(plain[1:2])}".casefold():
            text = value.split()
            yield (
                [text[0].lstrip("!"), *text[1:]]
                if value.startswith("!")
                else split_git_options(["git", *text, *plain[2:]])[0]
            )


def pattern_denies_alone(pattern: str, command: SimpleCommand) -> bool:
    """Whether the command is the pattern's, without arguments and without redirected input."""
    return len(command.words) == 1 and not command.has_input and pattern_denies(pattern, command)


def _pattern_fits(pattern: str, words: list[str]) -> bool:
    if any(mark in pattern for mark in "*?["):
        return any(fnmatchcase(text, pattern) for text in (shlex.join(words), " ".join(words)))
    wanted = pattern.split()
    return bool(wanted) and words[: len(wanted)] == wanted
