"""grep without ripgrep. As a program of its own, so that a slow pattern can be ended:

    python -I grep_fallback.py '{"pattern": …, "path": …, "excludes": […]}'

Prints what `rg --null --line-number --sort path` prints for the same question: `path NUL line:text`. Exits with 2 and a
line on stderr when the pattern is no regular expression, with TOO_SLOW and the name of the file on stderr when it takes more
than LINE_SECONDS for one line; ends by SIGXCPU after CPU_SECONDS. As a program it imports no more than the standard
library, how ignore files are read and how files are opened safely.
"""

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

from kin_nb.core.ignore.gitignore import BrokenRuleError, name_regex, path_regex
from kin_nb.core.safe_fs import folder_of

HEAD = 65_536
"""Bytes in which a NUL makes a file a binary one."""
TOO_SLOW = 3
LINE_SECONDS = 2
"""Of processor time. Python's engine backtracks: some expressions try a number of ways that is exponential in the line."""
CPU_SECONDS = 60
_LONGEST = 4_000
_IGNORE_FILE = 262_144
"""Bytes of a .gitignore that are read."""
_LONGEST_GLOB = 4_096
_OPTIONS = 64
"""Ways to read the `{a,b}` of one glob."""
_TOKEN = re.compile(
    r"(?P<escaped>\\.)|(?P<stars>\*+)|(?P<any>\?)|(?P<set>\[[!^]?\]?(?:\\.|[^\]\\])*\])|(?P<options>\{[^{}]*\})|.",
    re.DOTALL,
)
Rule = tuple[re.Pattern[str], bool, bool]
"""A pattern of paths below its folder, whether it takes them back in, and whether it means folders only."""


class BrokenGlobError(ValueError):
    """A glob that can match nothing, or that would take long to read."""


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
    """An expression whose searches end: `re` looks at signals while it matches. In the main thread of a program only."""

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
    """Without following a link that was put in its path meanwhile. Raises OSError."""
    with folder_of(Path.cwd() / file) as (folder, name):
        return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb")


def smart_case(pattern: str) -> re.Pattern[str]:
    """A pattern without capitals ignores case. Raises re.error."""
    return re.compile(pattern, 0 if re.search(r"[A-Z]", re.sub(r"\\.", "", pattern)) else re.IGNORECASE)


def matching(file: BinaryIO, regex: re.Pattern[str] | _Timed) -> Iterator[tuple[int, bytes]]:
    """The matching lines of a text file, counted from 1; a binary file (a NUL in its head) has none."""
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
    """Every regular file below `path`, in the order of the paths; hidden, excluded and ignored ones left out.

    `path` and what is found are relative to `root`, with `./` before them; or absolute.
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
    """The rules of a regular file; a line that is broken is passed over, as git does."""
    rules = []
    for line in _ignore_lines(os.path.join(root, folder, ".gitignore")):  # noqa: PTH118
        if line.strip() and not line.startswith("#"):
            try:
                rules.append(gitignore_rule(line))
            except BrokenGlobError:
                continue
    return rules


def _ignore_lines(path: str) -> list[str]:
    """Never waits for a pipe, never follows a link; a line that the limit cuts is left out."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            raw = file.read(_IGNORE_FILE + 1)
    except OSError:
        return []
    if len(raw) > _IGNORE_FILE:
        raw = raw[: raw.rfind(b"\n") + 1]
    return raw.decode("utf-8", "surrogateescape").split("\n")


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def gitignore_rule(line: str) -> Rule:
    """Raises BrokenGlobError."""
    line = line.strip()
    negated = line.startswith("!")
    line = line.removeprefix("!")
    return _pattern(line.rstrip("/")), negated, line.endswith("/")


def glob_rule(glob: str) -> re.Pattern[str]:
    """The glob that a model asks for. Raises ToolError."""
    try:
        return _pattern(glob)
    except BrokenGlobError as error:
        from kin_nb.core.tool_types import ToolError  # noqa: PLC0415  (the program has no such glob)

        raise ToolError(f"The glob {glob[:100]} cannot be read: {error}.") from None


def _pattern(glob: str) -> re.Pattern[str]:
    """A gitignore glob as a pattern of relative paths: without an inner `/` it matches in any folder."""
    if len(glob) > _LONGEST_GLOB:
        raise BrokenGlobError(f"it has more than {_LONGEST_GLOB} characters")
    translate = path_regex if "/" in glob else name_regex
    _check_sets(glob)
    try:
        body = "|".join(translate(option) for option in _spelled_out(glob.lstrip("/")))
        return re.compile(("^" if "/" in glob else "(?:^|/)") + f"(?:{body})\\Z")
    except (BrokenRuleError, re.error) as error:
        raise BrokenGlobError(str(error)) from None


def _spelled_out(glob: str) -> list[str]:
    """`{a,b}c` as `ac` and `bc`: alternatives inside a pattern could make the matcher try for ever."""
    found = _TOKEN.finditer(glob)
    parts = [token[0][1:-1].split(",") if token.lastgroup == "options" else [token[0]] for token in found]
    if math.prod(map(len, parts)) > _OPTIONS:
        raise BrokenGlobError(f"its {{}} stand for more than {_OPTIONS} globs")
    return ["".join(choice) for choice in itertools.product(*parts)]


def _check_sets(glob: str) -> None:
    """Raises BrokenGlobError for `[z-a]` and the like: git reads them in its own way, a model has made a mistake."""
    for token in _TOKEN.finditer(glob):
        if token.lastgroup != "set":
            continue
        text = token[0]
        members = re.findall(r"\\?.", text[1 + (text[1] in "!^") : -1], re.DOTALL)
        ranges = zip(members, members[1:], members[2:], strict=False)
        if not members or "[:" in text or any(dash == "-" and high[-1] < low[-1] for low, dash, high in ranges):
            raise BrokenGlobError(f"{text} is no set of characters")


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
