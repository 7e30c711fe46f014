"""The prefix of a command that one approval may cover, and the options that a covered command may have.

The rule: a user who approves a prefix has read one command. So a later one is covered only where it is proven to only
read, or where its program is listed here and each of its options is listed with it: none that runs or loads something
else, names a file to write or another host, sends, or deletes. Every other command is approved verbatim, one by one: also
of programs that nothing is known about. Only a command of plain words has a beginning (`plain_words`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePath

from kin_nb.core.sensitive_names import sensitive_reason

_SPECIAL = frozenset(";|&<>()$`\\*?[]{}~!#")
_SPECIAL_IN_DOUBLE_QUOTES = frozenset("$`\\!")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESERVED = _set("if then elif else fi for while until do done case esac select function in time coproc [[ ]]")

_RUNNING_OPTIONS = _set(
    # these run a program, load code or settings, write a file, or name another host
    "exec execdir eval command to-command use-compress-program compress-program checkpoint-action rsh upload-pack "
    "receive-pack ext-diff textconv open-files-in-pager pre hostname-bin shell script-shell toolexec vettool wrapper "
    "init-script output output-file plugin config config-file rcfile install-types "
    "init-hook load-plugins python host server registry index index-url extra-index-url"
)
_GIT_OPTIONS_WITH_VALUE = _set("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source")
_LEAVES_THE_WORKSPACE = re.compile(r"(^|[=:,@]|^-\w)/|(^|[/=:,@]|^-\w)\.\.(/|$)|@[\w.-]+:")

_JOINS_PATHS = re.compile("[=:,]")
_EVALUATED_INDEX = re.compile(r"\w\[.*[$`]", re.DOTALL)
"""As in `printf -v 'a[$(x)]'`: bash runs x, quoted as it is."""


def plain_words(command: str) -> list[str] | None:
    """The words of `command` when it is one simple command of plain words, else None.

    Plain: no operator, redirection, expansion, glob, comment, escape, assignment prefix or reserved word; quotes may
    hold blanks and operators, but double quotes no expansion. Any character that is not printable makes it None.
    """
    command = command.strip(" \t")
    if not command or not command.replace("\t", " ").isprintable():
        return None
    words: list[str] = []
    position = 0
    while position < len(command):
        if command[position] in " \t":
            position += 1
            continue
        word, position = _word(command, position)
        if word is None:
            return None
        words.append(word)
    return None if "=" in words[0] or words[0] in _RESERVED or not words[0] else words


def _word(command: str, position: int) -> tuple[str | None, int]:
    """One word from `position`, with its quotes taken off, and where it ends; None when it is not plain."""
    word = ""
    while position < len(command) and command[position] not in " \t":
        character = command[position]
        if character in "'\"":
            end = command.find(character, position + 1)
            quoted = command[position + 1 : end]
            if end < 0 or (character == '"' and not _SPECIAL_IN_DOUBLE_QUOTES.isdisjoint(quoted)):
                return None, position
            word, position = word + quoted, end + 1
        elif character in _SPECIAL:
            return None, position
        else:
            word, position = word + character, position + 1
    return word, position


def reaches_outside(word: str) -> bool:
    """Whether an argument names a program to run, a place outside the workspace, or a sensitive file."""
    return _runs_something(word) or leaves_workspace(word)


def leaves_workspace(word: str) -> bool:
    """Whether an argument names a place outside the workspace, or a sensitive file."""
    if _LEAVES_THE_WORKSPACE.search(word) or _EVALUATED_INDEX.search(word):
        return True
    return any(
        sensitive_reason(PurePath(part), "write") for part in {word, word.rpartition("=")[2], word.rpartition(":")[2]}
    )


def links_outside(word: str, root: Path, folder: Path | None = None) -> bool:
    """Whether a symbolic link in an argument leads out of the workspace, or to a sensitive file. It need not exist.

    `folder`: where the command runs; by default in `root`.
    """
    top = os.path.realpath(root)
    place = os.path.realpath(folder or root)
    option_value = word[2:] if word.startswith("-") else ""
    for part in {word, option_value, *_JOINS_PATHS.split(word)} - {""}:
        named = str(PurePath(place) / part)
        real = os.path.realpath(named)
        if real == os.path.normpath(named):
            continue
        inside = PurePath(real)
        if not inside.is_relative_to(top) or sensitive_reason(inside.relative_to(top), "write"):
            return True
    return False


def _runs_something(word: str) -> bool:
    """Whether it is such an option, or one shortened as git and argparse allow."""
    name = word.lstrip("-").partition("=")[0]
    return word.startswith("-") and len(name) > 1 and any(option.startswith(name) for option in _RUNNING_OPTIONS)


def split_git_options(words: list[str]) -> tuple[list[str], list[str]]:
    """A git command without the options before its subcommand, and these: `git -C x push` is (`git push`, `-C x`)."""
    position = 1
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in _GIT_OPTIONS_WITH_VALUE else 1
    return [*words[:1], *words[position:]], words[1:position]


def _each(program: str, subcommands: str, options: str = "") -> dict[str, frozenset[str]]:
    return {f"{program} {subcommand}": _set(options) for subcommand in subcommands.split()}


_LOOKING = (
    _set(
        "ls cat head tail wc cut tr nl tac rev fold paste comm join column grep egrep fgrep rg diff cmp stat du df sort uniq "
        "file tree xxd jq basename dirname realpath readlink md5sum sha1sum sha256sum od hexdump strings echo true false seq "
        "sleep date pwd whoami id uname hostname uptime free ps which"
    )
    | _each("git", "blame cat-file diff grep show whatchanged").keys()
)
"""What only looks: no options are listed, for commands.toml has them. Any other may show a sensitive file or one outside."""

_PYTEST = _set(
    "-q -v -x -s -l -k= -m= -n= -r= --quiet --verbose --exitfirst --maxfail --lf --last-failed --ff --failed-first --nf --sw "
    "--stepwise --co --collect-only --tb --durations --durations-min --no-header --no-summary --show-capture --capture "
    "--showlocals --deselect --ignore --disable-warnings --strict-markers --strict-config --color --cov --no-cov "
    "--cov-branch --cov-report=term --cov-report=term-missing --cov-fail-under --dist --timeout --setup-show --fixtures --markers"
)
_PIP = "-v -q -o -u -l --verbose --quiet --outdated --uptodate --local --user --not-required --format --files --all --exclude"
_CARGO = (
    "-p= -q -v -j= -r -D= -W= -A= --package --quiet --verbose --jobs --release --profile --workspace --all --exclude "
    "--lib --bins --bin --examples --example --tests --test --benches --bench --all-targets --features --all-features "
    "--no-default-features --locked --offline --frozen --no-run --no-fail-fast --doc --no-deps --check "
    "--message-format --nocapture --exact --ignored --include-ignored --test-threads --show-output --depth --invert "
    "--duplicates"
)
_GO = (
    "-v -race -run -skip -count -short -timeout -cover -bench -benchmem -benchtime -failfast -shuffle -json -parallel -cpu "
    "-tags -trimpath -all -deps -src"
)
_SCRIPT = (
    "-s -t= --silent --if-present --json --watch --watchAll --ci --bail --verbose --coverage --testNamePattern --runInBand "
    "--passWithNoTests"
)
_PACKAGES = "--all --depth --json --long --omit --silent"
_CONTAINERS = (
    "-a -q -t -n= --all --quiet --no-trunc --filter --last --latest --size --timestamps --tail --since --until --format "
    "--type"
)
_TESTS_OF_JS = (
    "-t= --testNamePattern --run --watch --bail --silent --verbose --ci --passWithNoTests --coverage --runInBand"
)

_OPTIONS: dict[str, frozenset[str]] = {
    # make folders and empty files
    "mkdir": _set("-p -v --parents --verbose"),
    "touch": _set("-a -c -m --no-create"),
    # run tests, check types, format: they run and change what is in the workspace, which is what they are for
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "mypy": _set(
        "-v -p= -m= --strict --package --module --verbose --pretty --ignore-missing-imports --follow-imports --exclude "
        "--namespace-packages --explicit-package-bases --check-untyped-defs --disallow-untyped-defs --no-implicit-optional "
        "--warn-unused-ignores --warn-return-any --warn-unused-configs --warn-unreachable --show-error-codes "
        "--show-error-context --show-column-numbers --hide-error-context --no-error-summary --no-color-output "
        "--no-incremental --python-version --platform --disable-error-code --enable-error-code"
    ),
    "pyright": _set(
        "--outputjson --warnings --stats --verbose --level --pythonversion --pythonplatform --skipunannotated"
    ),
    "black": _set(
        "-q -v -l= -t= -S --quiet --verbose --check --diff --color --line-length --target-version --fast --safe --preview "
        "--skip-string-normalization"
    ),
    "isort": _set("-q -v -c --quiet --verbose --check --check-only --diff --atomic --color"),
    "flake8": _set(
        "-q -v -j= --quiet --verbose --jobs --select --ignore --extend-select --extend-ignore --exclude --extend-exclude "
        "--max-line-length --max-complexity --per-file-ignores --count --statistics --show-source --color"
    ),
    "pylint": _set(
        "-E -d= -e= -j= -r= -s= --errors-only --disable --enable --jobs --reports --score --fail-under --recursive "
        "--max-line-length"
    ),
    "ruff": _set(
        "-q -v -n -s --quiet --verbose --silent --fix --unsafe-fixes --diff --check --select --ignore --extend-select "
        "--extend-ignore --exclude --extend-exclude --no-fix --show-fixes --statistics --output-format --no-cache "
        "--exit-zero --preview --line-length --target-version"
    ),
    "codespell": _set("-q= -c -L= -S= --quiet-level --count --ignore-words-list --skip --check-filenames"),
    "yamllint": _set("-s -f= --strict --format --no-warnings"),
    "shellcheck": _set("-s= -S= -e= -f= -o= --shell --severity --exclude --format --enable --color"),
    "tsc": _set("--noEmit --pretty --strict --skipLibCheck --listFiles"),
    "eslint": _set(
        "--fix --fix-dry-run --ext --quiet --max-warnings --cache --no-cache --color --no-color --format=json "
        "--format=stylish"
    ),
    "prettier": _set("-c -w -l -u --check --write --list-different --ignore-unknown --no-color"),
    "jest": _set(_TESTS_OF_JS),
    "vitest": _set(f"{_TESTS_OF_JS} --reporter=verbose --reporter=default --changed"),
    "mocha": _set("-b -g= -f= -t= --bail --grep --fgrep --timeout --recursive --exit --parallel --forbid-only"),
    "gofmt": _set("-l -w -s -e"),
    "rustfmt": _set("-l -v -q --check --edition --verbose --quiet"),
    "clang-format": _set("-i -n --dry-run --Werror --verbose"),
    # git, except what shows files: that is proven
    "git add": _set("-A -u -v -n -N --all --update --verbose --dry-run --intent-to-add"),
    "git commit": _set(
        "-a -q -s -m= --all --quiet --signoff --message --amend --no-edit --allow-empty --dry-run --author --date"
    ),
    "git fetch": _set("-a -p -t -q -v --all --prune --tags --no-tags --quiet --verbose --depth --unshallow --dry-run"),
    "git pull": _set(
        "-r -q -v -p -t --rebase --no-rebase --ff --no-ff --ff-only --quiet --verbose --prune --tags --autostash"
    ),
    "git merge": _set(
        "-q -v -m= --ff --no-ff --ff-only --no-commit --squash --quiet --verbose --stat --no-edit --abort --continue --quit"
    ),
    "git mv": _set("-v -n -k --verbose --dry-run"),
    "git status": _set(
        "-s -b -u= --short --branch --porcelain --untracked-files --ignored --ignore-submodules --long -z"
    ),
    "git log": _set(
        "-# -n= --oneline --graph --decorate --no-decorate --stat --shortstat --name-only --name-status --all --merges "
        "--no-merges --first-parent --reverse --author --since --until --after --before --grep --abbrev-commit --date "
        "--max-count --follow --pretty=oneline --pretty=short --format=oneline"
    ),
    **_each("git", "describe name-rev", "--all --tags --always --dirty --long --abbrev --name-only"),
    **_each(
        "git", "ls-files ls-tree", "-r -d -t -z -m -o -c --modified --others --cached --exclude-standard --name-only"
    ),
    **_each("git", "merge-base rev-list show-ref", "-# -n= --all --count --heads --tags --is-ancestor --max-count"),
    "git rev-parse": _set("--short --abbrev-ref --verify --show-toplevel --is-inside-work-tree --git-dir"),
    "git shortlog": _set("-s -n -e --summary --numbered --email --all --since --until"),
    # packages and builds
    **_each("npm", "run run-script test start", _SCRIPT),
    **_each("npm", "ls list outdated", _PACKAGES),
    **_each("pnpm", "run test start", _SCRIPT),
    **_each("pnpm", "list outdated", _PACKAGES),
    **_each("yarn", "run test start", _SCRIPT),
    **_each("yarn", "list outdated", _PACKAGES),
    **_each("pip", "list show freeze check", _PIP),
    **_each("pip3", "list show freeze check", _PIP),
    **_each("uv", "tree", "--depth --package --invert --no-dedupe --outdated --frozen --locked --no-dev --all-groups"),
    **_each(
        "poetry",
        "show check",
        "-t -l -o -a -T -v -q --tree --latest --outdated --all --top-level --only --with --without --strict",
    ),
    **_each("pdm", "list", "--tree --graph --json --freeze"),
    **_each("hatch", "test fmt", "-a -q -v -l -f --all --cover --check --linter --formatter --parallel --preview"),
    **_each("pre-commit", "run", "-a -v --all-files --files --verbose --color"),
    **_each("cargo", "build check test clippy fmt bench doc tree", _CARGO),
    **_each("go", "build test vet fmt list doc version", _GO),
    **_each("docker", "ps images logs inspect", _CONTAINERS),
    **_each("podman", "ps images logs inspect", _CONTAINERS),
    **_each(
        "kubectl",
        "describe logs top",
        "-n= -l= -c= -A -p --namespace --selector --container --all-namespaces --all-containers --previous --since --tail "
        "--timestamps --containers --sort-by",
    ),
    **_each(
        "coverage",
        "report html xml json combine",
        "-m -i -q -a --show-missing --skip-covered --skip-empty --fail-under --sort --include --omit --precision "
        "--ignore-errors --pretty-print --append --keep",
    ),
    **_each("conda", "list info", "-e -n= --json --export --envs --explicit --name"),
    **_each("mamba", "list info", "-e -n= --json --export --envs --explicit --name"),
    **_each("terraform", "fmt validate", "-check -diff -recursive -json -no-color -list"),
    **_each(
        "dotnet", "build test", "-c -f -nologo --configuration --framework --no-restore --no-build --nologo --filter"
    ),
}
"""By program, or program and subcommand: the options that a beginning covers.

`-k=` takes a value, also in the same word; other letters may be combined, but not where options of one dash have names (`-run`).
`-#` means a number (`-20`). `--name` may have any value, `--name=value` that one.
"""
_MODULES = {
    "unittest": _set("-v -q -f -b -c -k= -s= -p= -t= --verbose --quiet --failfast --buffer --locals --durations"),
    "doctest": _set("-v -f --verbose --fail-fast"),
    "compileall": _set("-q -f -l -j="),
}
"""For `python -m`, in addition to those above."""

_PRINTS_NO_FILE = {
    "prettier": _set("-c -w -l --check --write --list-different"),
    "clang-format": _set("-i -n --dry-run"),
    "gofmt": _set("-l -w"),
}
"""What these need before their first file: without it they print their files."""

_ONE_TARGET = _set("make just")
_RUNNERS = frozenset([("uv", "run"), ("poetry", "run"), ("pdm", "run")])
_SCRIPT_RUNNERS = frozenset([("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run")])
_PROGRAMS = frozenset(name.split()[0] for name in (*_OPTIONS, *_LOOKING, *(pair[0] for pair in _RUNNERS))) | _ONE_TARGET
_PYTHON = re.compile(r"python(\d(\.\d+)?)?$")
_PLAIN_SUBCOMMAND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*$")
_REACHING_GIT = _set("fetch pull")


@dataclass(frozen=True)
class CommandPrefix:
    """The words of a command that an approval may name, and the options that those after them may be.

    `read_only`: it covers only commands that are proven read-only. `required`: one of these options must come before all
    arguments.
    """

    words: list[str]
    options: frozenset[str] = frozenset()
    read_only: bool = False
    required: frozenset[str] = frozenset()

    def covers(self, words: list[str], listed_words: Collection[str] = ()) -> bool:
        """Whether it covers a command that is not proven read-only. `listed_words`: words that a rule spells out."""
        if self.read_only:
            return False
        rest = self.arguments(words, listed_words)
        if self.required and not self._has_what_it_needs(words[len(self.words) :]):
            return False
        if self.words[:1] == ["git"] and self.words[-1] in _REACHING_GIT and any(":" in word for word in rest):
            return False  # another host
        if "go" in self.words and any("@" in word for word in rest):
            return False  # a module of another host
        return all(self._is_listed(word) for word in rest)

    def arguments(self, words: list[str], listed_words: Collection[str] = ()) -> list[str]:
        return [word for word in words[len(self.words) :] if word not in listed_words]

    def _has_what_it_needs(self, words: list[str]) -> bool:
        """`-l=false` takes it back."""
        options = list(takewhile(lambda word: word.startswith("-") and word != "--", words))
        taken_back = any("=" in word for word in words if word.startswith("-"))
        return not self.required.isdisjoint(options) and not taken_back

    def _is_listed(self, word: str) -> bool:
        """`@file` holds options that are not visible here."""
        if not word.startswith("-") or word in ("-", "--"):
            return not word.startswith("@")
        if word in self.options or word.partition("=")[0] in self.options:
            return True
        if word[1:].isdecimal():
            return "-#" in self.options
        has_names = any(re.match(r"-[^-]\w", option) for option in self.options)
        return not word.startswith("--") and not has_names and self._are_listed(word[1:])

    def _are_listed(self, letters: str) -> bool:
        for letter in letters:
            if f"-{letter}=" in self.options:
                return True
            if f"-{letter}" not in self.options:
                return False
        return True


def command_prefix(command: str, *, read_only: bool = False, root: Path | None = None) -> str | None:
    """What "approve for this session" covers, or None: then only the very same text.

    The program, or program and subcommand where there are such (`git diff`, `npm run build`, `make test`), or
    `python -m module`. A later command is covered when its own prefix is the same: compare prefixes, not text.
    `read_only`: it is proven read-only. `root`: where its links are followed; without, only its spelling counts.
    """
    words = plain_words(command)
    if words is None or any(leaves_workspace(word) for word in words[1:]):
        return None
    found = find_prefix(words)
    if found is None or not (read_only or found.covers(words)):
        return None
    if root is not None and not read_only and any(links_outside(word, root) for word in found.arguments(words)):
        return None
    return " ".join(found.words)


def is_known_program(program: str) -> bool:
    """Whether something is known about it. What has no beginning all the same is then more than what is known."""
    return program in _PROGRAMS


def find_prefix(words: list[str], modules: bool = False) -> CommandPrefix | None:
    """The longest one that is known; None where the program is not. `modules`: also those of `python -m`."""
    program, arguments = words[0], words[1:]
    if " " in program:  # `'git log'` is one program of that name
        return None
    if program.startswith(("python", "pypy")):
        is_module = _PYTHON.match(program) and arguments[:1] == ["-m"]
        return _after(words[:2], arguments[1:], modules=True) if is_module else None
    if modules and program in _MODULES:
        return CommandPrefix([program], _MODULES[program])
    if program in _LOOKING or program in _OPTIONS:
        return _known(program, words[:1])
    if not arguments or not _PLAIN_SUBCOMMAND.match(arguments[0]):
        return None
    if program in _ONE_TARGET:
        return CommandPrefix(words) if len(words) == 2 else None  # noqa: PLR2004  (a second target is another command)
    if (program, arguments[0]) in _RUNNERS:
        return _after(words[:2], arguments[1:])
    name = f"{program} {arguments[0]}"
    if name not in _OPTIONS and name not in _LOOKING:
        return None
    length = 3 if (program, arguments[0]) in _SCRIPT_RUNNERS else 2
    return (
        _known(name, words[:length])
        if len(words) >= length and all(map(_PLAIN_SUBCOMMAND.match, words[:length]))
        else None
    )


def _known(name: str, words: list[str]) -> CommandPrefix:
    return CommandPrefix(
        words, _OPTIONS.get(name, frozenset()), name in _LOOKING, _PRINTS_NO_FILE.get(name, frozenset())
    )


def _after(start: list[str], rest: list[str], *, modules: bool = False) -> CommandPrefix | None:
    """That of a command that follows `uv run` or `python -m`."""
    found = find_prefix(rest, modules) if rest else None
    return None if found is None else replace(found, words=start + found.words)
