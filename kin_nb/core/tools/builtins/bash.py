"""bash: a shell command. Nothing that it starts outlives the call.

A pattern of the allowlist or the denylist is compared by words: equal, or followed by more words; with `*`, `?` or `[` in it, as
a glob over the whole command.

An allowlist is for commands that can be read at a glance: one simple command of plain words, none of which names a program to
run, a place outside the workspace or a sensitive file, also through a link, unless the pattern spells it; nor does git have an
option before its subcommand (`-C`, `-c`), unless spelled. For the programs in safety/shell/command_prefix.py it covers what is
proven to only read, the options that are listed there or that the pattern spells, and the line that it spells whole: of a
subcommand that is not listed there (`git push`), of make's second target, only that.

A denylist looks for the command anywhere in the line, and sees `git push` in `git -C x push` too. That is a fence for good
intentions, not for bad ones: the line may still build a command that no reading finds.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from kin_nb.core.config.keys import environment_with
from kin_nb.core.environment import child_environment
from kin_nb.core.processes.supervised import Ended, run_process
from kin_nb.core.redaction import Redactor, is_secret_name
from kin_nb.core.safety.shell import Judgement, judge
from kin_nb.core.safety.shell.command_prefix import (
    find_prefix,
    is_known_program,
    leaves_workspace,
    links_outside,
    plain_words,
    reaches_outside,
    split_git_options,
)
from kin_nb.core.safety.shell.judge import sensitive_writes
from kin_nb.core.safety.shell.named_scripts import named_scripts
from kin_nb.core.safety.shell.read_only.working_dir import read_only_environment
from kin_nb.core.safety.shell.reader.nested_commands import simple_commands
from kin_nb.core.safety.shell.reader.simple_command import SimpleCommand
from kin_nb.core.tool_types import Accesses, BaseToolConfig, BaseToolState, Preview, ToolError
from kin_nb.core.tools.base import BaseTool
from kin_nb.core.tools.builtins import sandbox
from kin_nb.core.tools.truncation import OUTPUT_LIMIT, CappedOutput
from kin_nb.core.workspace import Workspace

_LONGEST_SUMMARY = 100
_MOST_NAMES = 5
"""Of processes, in a result."""

_NOT_INTERACTIVE = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "NO_COLOR": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",  # else what Python prints comes after its traceback
}
# ipykernel sets these for code in cells; they would colour the output, and draw plots nowhere
_THE_KERNELS_OWN = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "CLICOLOR": "1"}
_INLINE_BACKENDS = "module://"

INTERACTIVE = (
    *("vim", "vi", "emacs", "nano", "gdb", "pdb", "passwd", "screen", "tmux"),
    *("bash -i", "sh -i", "zsh -i", "fish -i", "dash -i"),
)
INTERACTIVE_ALONE = ("python", "python3", "ipython", "bash", "sh", "zsh", "fish", "dash", "su")


class BashArgs(BaseModel):
    command: str = Field(min_length=1, description="The command")
    timeout: int | None = Field(None, ge=1, le=600, description="Seconds; 30 when absent")


class BashResult(BaseModel):
    """`output`: stdout and stderr in the order they came. `exit_code`: 124 when the time was up, 128 + n for signal n."""

    output: str
    exit_code: int
    timed_out: bool = False
    swept: list[str] = Field(default_factory=list)
    """Command lines of what it left running, which was ended."""
    remains: list[str] = Field(default_factory=list)
    """Of what could not be ended."""
    seconds: int = 0
    """The time that it was given."""
    note: str = ""
    """What the model is told besides."""


class BashConfig(BaseToolConfig):
    """`env` is added last; `keep_env` names secret-looking variables that commands may see all the same.

    Patterns: see the module's docstring. `denylist_standalone` forbids its commands only without arguments. `sandbox`: whether
    commands are confined (sandbox.py); "auto" runs them unconfined where that cannot be done, and says so.
    """

    denylist: list[str] = Field(default_factory=lambda: list(INTERACTIVE))
    denylist_standalone: list[str] = Field(default_factory=lambda: list(INTERACTIVE_ALONE))
    default_timeout: int = Field(30, ge=1, le=600)
    env: dict[str, str] = Field(default_factory=dict)
    keep_env: list[str] = Field(default_factory=list)
    sandbox: Literal["off", "auto", "on"] = "off"
    sandbox_network: bool = False


class BashState(BaseToolState):
    """`unconfined`: why commands cannot be confined here, "" when they can; None before the first one."""

    unconfined: str | None = None
    proven: set[str] = Field(default_factory=set)
    """Commands that were let run because they only read, until they do."""


class Bash(BaseTool[BashArgs, BashResult, BashConfig, BashState]):
    description: ClassVar[str] = "Run a bash command in the workspace"
    prompt_path: ClassVar[Path | None] = Path(__file__).with_suffix(".md")
    editable: ClassVar[str] = "command"

    def accesses(self, args: BashArgs) -> Accesses:
        """What it reads, at the least the folder that it runs in, when it is proven to only read; else everything, and why.

        Of everything, the sensitive files that it surely writes are named: no grant and no rule covers those.
        """
        judged = self._judged(args.command)
        if self._is_proven(args.command, judged):
            return Accesses(reads=judged.reads or (".",))
        writes = sensitive_writes(args.command, Workspace(self.config.effective_workdir))
        return Accesses(everything=True, writes=writes, reason=judged.reason)

    def preview(self, args: BashArgs) -> Preview:
        return Preview(summary=self._summary(args.command.strip()), body=args.command, kind="command")

    def scripts(self, args: BashArgs) -> dict[str, str]:
        return named_scripts(args.command, self.config.effective_workdir)

    def _summary(self, command: str) -> str:
        """Its first line, cut. Secrets are out before, and no word is cut: a piece of one would not be recognized later."""
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
            lambda: self._is_proven(args.command, self._judged(args.command)),
        )

    def why_denied(self, args: BashArgs) -> str:
        waits = "waits for a person at a terminal, and there is none here"
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
        """Any exit code is a result. Raises ToolError when there is no shell or no workspace to run in."""
        cwd = self.config.effective_workdir
        if not cwd.is_dir():
            raise ToolError(f"The workspace {cwd} is not there any more.")
        if "\0" in args.command:
            raise ToolError("The command holds a NUL character.")
        seconds = args.timeout or self.config.default_timeout
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
            note=note,
        )

    async def _may_be_confined(self, workspace: Path) -> tuple[bool, str]:
        """Whether it is confined, and what is to be said of that once. Raises ToolError where "on" cannot be had."""
        config, first = self.config, self.state.unconfined is None
        if config.sandbox == "off":
            return False, ""
        if self.state.unconfined is None:
            self.state.unconfined = await asyncio.to_thread(sandbox.problem, workspace, network=config.sandbox_network)
        if not self.state.unconfined:
            return True, ""
        if config.sandbox == "on":
            raise ToolError(
                f'[tools.bash] sandbox = "on", and commands cannot be confined here: {self.state.unconfined}. '
                'Nothing was run. The person may set sandbox = "auto" or "off".'
            )
        return False, f"[not confined, as commands cannot be here: {self.state.unconfined}]" if first else ""

    async def _run_confined(
        self, run: Callable[[Sequence[str]], Awaitable[Ended]], argv: list[str], workspace: Path
    ) -> tuple[Ended, str]:
        """Run it confined. Returns how it ended, and the report of the quarantine, which runs in every case."""
        before = await asyncio.to_thread(sandbox.scan_workspace, workspace)
        try:
            ended = await run(sandbox.confined(argv, workspace, before, network=self.config.sandbox_network))
        except BaseException:
            sandbox.quarantine(workspace, before)  # at once: who is cancelled may not be waited for
            raise
        return ended, await asyncio.shield(asyncio.to_thread(sandbox.quarantine, workspace, before))

    def _judged(self, command: str) -> Judgement:
        return judge(command, self.config.effective_workdir, self.environment())

    def _is_proven(self, command: str, judged: Judgement) -> bool:
        """Whether it is harmless; then it runs only while it still is."""
        if judged.kind == "harmless":
            self.state.proven.add(command)
        return judged.kind == "harmless"

    def _environment_for(self, command: str) -> dict[str, str]:
        """Raises ToolError where the proof that let it run does not hold any more."""
        environment, proven = self.environment(), command in self.state.proven
        self.state.proven.discard(command)
        if self._judged(command).kind == "harmless":
            return read_only_environment(environment, self.config.env)
        if proven:
            raise ToolError("What it does has changed since it was looked at, by a file or a setting. Nothing was run.")
        return environment

    def environment(self) -> dict[str, str]:
        """This process's variables without secrets, then what keeps programs from asking, then the config's `env`."""
        keep = self.config.keep_env
        environment = child_environment(environment_with(keep), keep, also=self.config.key_names)
        for name, value in _THE_KERNELS_OWN.items():
            if environment.get(name) == value:
                del environment[name]
        if environment.get("MPLBACKEND", "").startswith(_INLINE_BACKENDS):
            del environment["MPLBACKEND"]
        programs = str(Path(sys.executable).parent) if sys.executable else ""
        path = os.pathsep.join(filter(None, (programs, environment.get("PATH", os.defpath))))
        return {**environment, **_NOT_INTERACTIVE, "PATH": path, **self.config.env}

    def to_model(self, result: BashResult) -> str:
        lines = [result.output.rstrip("\n")] if result.output.strip() else []
        if result.timed_out:
            lines.append(f"[stopped: it did not end within {result.seconds} s]")
        elif result.exit_code:
            lines.append(f"[exit code {result.exit_code}]")
        if result.swept:
            lines.append(f"[still running at its end, and was stopped: {_listed(result.swept)}]")
        if result.remains:
            lines.append(f"[still running, and could not be stopped: {_listed(result.remains)}]")
        return "\n".join([*([result.note] if result.note else []), *(lines or ["[no output]"])])

    def exit_code(self, result: BashResult) -> int | None:
        return result.exit_code

    def uncovered(self, result: BashResult | None) -> str:
        return "what it left running changes from now on" if result is not None and result.remains else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


_HARMLESS_GIT_OPTIONS = ("--no-pager", "-P")
"""Before a subcommand: they change nothing but how the output comes."""


def pattern_allows(pattern: str, command: str, root: Path, is_harmless: Callable[[], bool]) -> bool:
    """`root`: where it runs. `is_harmless`: whether the command is proven to only read; asked only where that decides."""
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


def pattern_denies(pattern: str, command: SimpleCommand) -> bool:
    words = command.words
    named = [program_name(words), *words[1:]]
    parted = named[0].split("-", 1) if named[0].startswith("git-") else named[:1]  # `git-push` is `git push`
    return any(_pattern_fits(pattern, each) for each in (words, named, *_of_git([*parted, *words[1:]])))


def program_name(words: list[str]) -> str:
    """Without its folder."""
    return words[0].rpartition("/")[2]


def _of_git(words: list[str]) -> Iterator[list[str]]:
    """What a git command does, without the options before its subcommand; and what an alias stands for that these make."""
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
    """Whether it is the pattern's command without arguments, and without input of its own."""
    return len(command.words) == 1 and not command.has_input and pattern_denies(pattern, command)


def _pattern_fits(pattern: str, words: list[str]) -> bool:
    if any(mark in pattern for mark in "*?["):
        return any(fnmatchcase(text, pattern) for text in (shlex.join(words), " ".join(words)))
    wanted = pattern.split()
    return bool(wanted) and words[: len(wanted)] == wanted
