"""Divide a line into its commands, and say of each what a grant may name: `cd sub && CI=1 timeout 60 pytest -q 2>&1 | tail`.

A grant names a program, or program and subcommand. Neutral are: a `cd` at the beginning into a folder of the workspace,
`timeout N`, variables of a short list, redirections to nowhere or of errors into the output, and filters that are proven to
only read. Everything else is a part that is proven, granted, or asked about; where the line cannot be divided for certain, only
the whole line can be approved. The line is read by the strict readers of read_only/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kin_nb.core.safety.shell.classification import UnprovenError
from kin_nb.core.safety.shell.command_prefix import (
    CommandPrefix,
    find_prefix,
    is_known_program,
    leaves_workspace,
    links_outside,
    plain_words,
)
from kin_nb.core.safety.shell.environment_programs import environment_program, environment_states
from kin_nb.core.safety.shell.read_only.plain_line import Pipeline, PlainCommand, Token, agreed_tokens, lists, tokens
from kin_nb.core.safety.shell.read_only.words import WordReader
from kin_nb.core.safety.shell.read_only.working_dir import WorkingDir
from kin_nb.core.tool_types import CommandPart, ToolError
from kin_nb.core.workspace import Workspace


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HARMLESS_VARIABLES = (
    "CI|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|PY_COLORS|COLUMNS|LINES|LANG|LC_ALL|TZ|RUST_BACKTRACE"
)
"""They change how output looks. Their values may not be paths."""
_ASSIGNMENT = re.compile(rf"(?:{_HARMLESS_VARIABLES})=[\w.+-]*", re.ASCII)
_ASSIGNED = re.compile(rf"(?:(?<=[|&;\n])|^)([ \t]*)((?:{_ASSIGNMENT.pattern}[ \t]+)+)(?=[\w./])", re.ASCII)

_FILTERS = _set("cat head tail grep egrep fgrep wc sort uniq cut tr nl tac rev fold sed ls echo pwd true false date")
"""Next to granted commands only these count as proven: they do the same whatever variables the other commands need."""

_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_TEST_MODULES = ("pytest", "unittest")
_RUNNERS = (("uv", "run"), ("poetry", "run"), ("pdm", "run"))
_TEST_PROGRAMS = _set("pytest py.test unittest jest vitest mocha tox nox")
_TEST_SUBCOMMANDS = re.compile(
    r"(?:make|just) (?:test|tests|check)(?:[-_.:]\S*)?|(?:npm|pnpm|yarn) (?:run(?:-script)? )?test(?:[-_.:]\S*)?"
    r"|(?:cargo|go|hatch|dotnet) test"
)
_CHECKS = _set(
    "mypy pyright black isort flake8 pylint ruff codespell yamllint shellcheck tsc eslint prettier gofmt rustfmt clang-format"
)
_CHECK_SUBCOMMANDS = re.compile(r"cargo (?:check|clippy|fmt)|go (?:vet|fmt)|hatch fmt|coverage report|terraform \w+")
_INFORMATION = ("--version", "--help")
_ENVIRONMENT_NAME = r"[A-Za-z0-9][\w.,-]*"
_WHOLE_LINES = {
    "tox": re.compile(rf"tox(?: (?:run|r))?(?: (?:-q+|-v+|-p|-p auto|--parallel|-e {_ENVIRONMENT_NAME}))*"),
    "nox": re.compile(rf"nox(?: (?:-R|-r|-v|-s {_ENVIRONMENT_NAME}|-e {_ENVIRONMENT_NAME}))*"),
}
"""Programs that run what follows `--`, or have subcommands that do: the lines that a grant of their name covers."""
_MOVE_FILES = ("git merge", "git pull", "git mv")
_HARMLESS_PYTEST = re.compile(r"-p ?no:\w+|-W ?(?:ignore|error|default|always|once)(?:::[A-Za-z]+)?")
"""Switching a plugin off, and what becomes of warnings of a built-in category."""


def command_parts(
    command: str, root: Path, environment: Mapping[str, str], *, states: bool = True
) -> tuple[CommandPart, ...]:
    """Return the commands of a line that is not proven read-only as a whole, or () where it cannot be divided. Never fails.

    `environment`: the variables of the command. `states`: look at the project's environments, for grants.
    """
    try:
        line = _Line(command, root.resolve(), environment)
        found = tuple(line.parts())
        return tuple(map(line.with_states, found)) if states else found
    except (UnprovenError, ToolError, ImportError, OSError, ValueError, RecursionError):
        return ()


def kind_of(prefix: Sequence[str]) -> str:
    """What a command's beginning is for: tests, checks, folders, or "" for all others."""
    words = list(prefix[2:] if tuple(prefix[:2]) in _RUNNERS else prefix)
    words = words[2:] if words[1:2] == ["-m"] else words
    text = " ".join(words)
    if text in _TEST_PROGRAMS or _TEST_SUBCOMMANDS.fullmatch(text):
        return "tests"
    if text in _CHECKS or _CHECK_SUBCOMMANDS.fullmatch(text):
        return "checks"
    return "folders" if text == "mkdir" else ""


class _Line:
    """The reader of one line. Each method raises UnprovenError for what cannot be divided or known."""

    def __init__(self, command: str, root: Path, environment: Mapping[str, str]) -> None:
        self._command, self._root, self._environment = command, root, environment
        self._workspace = Workspace(root)
        self._working_dir = WorkingDir(root, root, environment)
        self._only_proven = True
        """Whether all commands so far are proven. After others a file may be another one than it is now."""
        self._changes_project = False
        """Whether a command before may change more than tests, checks and `mkdir` do: then an environment may be another one."""
        self._moves_files = False
        """Whether one before may put a link in the place of a file that a later command names."""

    def parts(self) -> Iterator[CommandPart]:
        from kin_nb.core.safety.shell.read_only.prover import check_shell  # noqa: PLC0415  (loads tree-sitter)

        check_shell(self._command, self._working_dir)
        leads, after_cd = True, False
        for pipelines in lists(_agreed(self._command)):
            for pipeline in pipelines:
                if after_cd and pipeline.operator == "||":
                    raise UnprovenError("it runs elsewhere than the `cd` before it leads")
                after_cd = pipeline.commands[0].words[0] == "cd"
                if after_cd:
                    self._move(pipeline, leads=leads)
                    continue
                leads = False
                for number, each in enumerate(pipeline.commands):
                    yield self._part(each, is_first=number == 0)

    def with_states(self, part: CommandPart) -> CommandPart:
        """With the state of the environments that may run it: `pytest`, and what is named by its path."""
        if not (part.environment or part.prefix in _IN_ANY_FOLDER):
            return part
        return replace(part, environments=environment_states(self._root))

    def _move(self, pipeline: Pipeline, *, leads: bool) -> None:
        """Follow a `cd`, where it surely runs and surely leads there."""
        command = pipeline.commands[0]
        words = plain_words(" ".join(command.words)) or []
        certain = leads and len(pipeline.commands) == 1 and pipeline.operator != "||" and not command.redirections
        if not certain or len(words) != 2 or words[1].startswith("-"):  # noqa: PLR2004  (`cd` and a folder)
            raise UnprovenError("a `cd` may run, or not, or elsewhere")
        search = self._environment.get("PATH", os.defpath).split(os.pathsep)
        if "CDPATH" in self._environment or not all(map(os.path.isabs, search)):
            raise UnprovenError("a variable says where `cd` or the programs after it lead")
        self._working_dir = self._working_dir.moved(words[1])
        if self._workspace.is_sensitive(self._working_dir.cwd):
            raise UnprovenError("`cd` leads to a sensitive folder")

    def _part(self, command: PlainCommand, *, is_first: bool) -> CommandPart:
        command = self._undecorated(command)
        if command.words[0] in _FILTERS:
            return self._filter(command)
        words = plain_words(" ".join(command.words))
        self._only_proven = False
        if words is None:
            return CommandPart(command.shown)
        part = self._judged(words)
        # what reads another command's output may be told by it what to do
        judged = part if is_first and not self._is_stale(part) else CommandPart(part.text, part.words)
        self._changes_project |= not part.kind
        self._moves_files |= part.prefix in _MOVE_FILES
        return judged

    def _is_stale(self, part: CommandPart) -> bool:
        """Whether what was looked at for its judgement may be another thing by the time it runs."""
        if part.environment and self._changes_project:
            return True
        return self._moves_files and not all(re.fullmatch(r"-[\w-]+|\.", word) for word in part.words[1:])

    def _undecorated(self, command: PlainCommand) -> PlainCommand:
        """Without `timeout N` and the redirections that write no file."""
        from kin_nb.core.safety.shell.read_only.prover import check_origin, wrapped  # noqa: PLC0415  (as above)

        for operator, target in command.redirections:
            into_nothing = target == "/dev/null" and re.fullmatch(r"[12]?>>?|&>|[0]?<", operator)
            if not into_nothing and (operator, target) not in {("2>&", "1"), ("1>&", "2"), (">&", "2")}:
                raise UnprovenError("its output goes to a file, or its input comes from one")
        if command.words[0] != "timeout":
            return PlainCommand(command.words)
        inner = wrapped("timeout", command.words[1:])
        for program in ("timeout", *({inner[0]} & _FILTERS)):  # not the shell's own, even where it has one
            check_origin(program, self._working_dir)
        return PlainCommand(inner)

    def _filter(self, command: PlainCommand) -> CommandPart:
        from kin_nb.core.safety.shell.read_only.prover import prove_command  # noqa: PLC0415  (as above)

        if any(WordReader(word).read().pattern for word in command.words) or "GREP_OPTIONS" in self._environment:
            return CommandPart(command.shown)  # the order of files, and options, are other ones than with few variables
        reads = prove_command(command, self._working_dir)
        if reads and not (self._only_proven and not self._workspace.too_wide and all(map(self._is_open, reads))):
            return CommandPart(command.shown)
        return CommandPart(command.shown, proven=True, reads=bool(reads))

    def _is_open(self, read: str) -> bool:
        """Whether it is a file or folder of the workspace that is read without a question."""
        path = self._workspace.resolve(read)
        return self._workspace.contains(path) and not self._workspace.is_sensitive(self._root / read)

    def _judged(self, words: list[str]) -> CommandPart:
        """What a grant may name of a command of plain words."""
        folder = self._working_dir.cwd
        unknown = CommandPart(" ".join(words), tuple(words))
        found = environment_program(words[0], folder, self._root) if "/" in words[0] else (words[0], "")
        if found is None:
            return unknown
        program, environment = found
        normal = _as_one_program([program, *words[1:]], folder)
        judged = _without_harmless(normal)
        if _asks_for_information(normal):
            unknown, judged = replace(unknown, kind="information"), normal[:1]
        known = _whole_line(normal) or find_prefix(judged)
        if known is None:
            return unknown
        count = len(known.words)
        judged[count:] = (_relative(word, folder) for word in judged[count:])
        if self._reaches_outside(judged[1:]) or not known.covers(judged):
            return unknown
        prefix = " ".join(known.words)
        in_any_folder = prefix in _IN_ANY_FOLDER
        return CommandPart(
            " ".join(normal),
            tuple(words),
            prefix=prefix if in_any_folder or not environment else f"{environment}/bin/{prefix}",
            kind=kind_of(known.words),
            folder="" if in_any_folder or folder == self._root else folder.relative_to(self._root).as_posix(),
            environment=environment,
        )

    def _reaches_outside(self, words: Sequence[str]) -> bool:
        folder = self._working_dir.cwd
        return any(leaves_workspace(word) or links_outside(word, self._root, folder) for word in words)


_IN_ANY_FOLDER = ("pytest", "python -m unittest")
"""They run the project's own code, wherever in the workspace and by whichever of its environments they do it."""


def _as_one_program(words: list[str], folder: Path) -> list[str]:
    """`python -m pytest` is `pytest`, `python3 -m unittest` is `python -m unittest`. Otherwise the same words."""
    if words[0] == "py.test":
        return ["pytest", *words[1:]]
    if not (_PYTHON.fullmatch(words[0]) and words[1:2] == ["-m"] and words[2:] and words[2] in _TEST_MODULES):
        return words
    own = folder / words[2]
    if own.is_dir() or any(own.with_suffix(suffix).exists() for suffix in (".py", ".pyc", ".so")):
        raise UnprovenError(f"a {words[2]} in the folder itself would run")
    return words[2:] if words[2] == "pytest" else ["python", *words[1:]]


def _relative(word: str, folder: Path) -> str:
    """An absolute path below the folder as a relative one."""
    rest = word.removeprefix(f"{folder}/")
    return word if rest.startswith(("-", "/", "@")) or not rest else rest


def _whole_line(words: list[str]) -> CommandPrefix | None:
    pattern = _WHOLE_LINES.get(words[0])
    return CommandPrefix(words[:1], frozenset(words[1:])) if pattern and pattern.fullmatch(" ".join(words)) else None


def _asks_for_information(words: list[str]) -> bool:
    """Whether it is only `--version` or `--help` of a program that is known."""
    options = (*_INFORMATION, *(["-V"] if _PYTHON.fullmatch(words[0]) else []))
    return len(words) == 2 and words[1] in options and _is_known(words[0])  # noqa: PLR2004  (program and option)


def _without_harmless(words: list[str]) -> list[str]:
    """A pytest command without the options in _HARMLESS_PYTEST."""
    if words[0] != "pytest":
        return words
    kept, rest = words[:1], words[1:]
    while rest:
        if _HARMLESS_PYTEST.fullmatch(rest[0]):
            rest = rest[1:]
        elif _HARMLESS_PYTEST.fullmatch(" ".join(rest[:2])):
            rest = rest[2:]
        else:
            kept, rest = [*kept, rest[0]], rest[1:]
    return kept


def _is_known(program: str) -> bool:
    from kin_nb.core.safety.shell.read_only.command_spec import section  # noqa: PLC0415  (reads a table)

    others = {name for entry, values in section("version").items() for name in (entry, *values.get("same", []))}
    return is_known_program(program) or program in others or _PYTHON.fullmatch(program) is not None


def _agreed(command: str) -> list[Token]:
    """The line's tokens without harmless assignments, as both readers see them. Comments are not read here."""
    if "#" in command:
        raise UnprovenError("it may hold a comment")
    without = _ASSIGNED.sub(lambda found: found[1], command)
    agreed = agreed_tokens(without)
    if without != command and list(_unassigned(tokens(command))) != agreed:
        raise UnprovenError("what it assigns can be read in two ways")
    return agreed


def _unassigned(found: Sequence[Token]) -> Iterator[Token]:
    begins = True
    for token in found:
        if begins and token.kind == "word" and _ASSIGNMENT.fullmatch(token.text):
            continue
        begins = token.kind == "operator"
        yield token
