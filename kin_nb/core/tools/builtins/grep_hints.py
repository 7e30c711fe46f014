"""What a model may have meant by a pattern that is wrong, or that no line matches."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

from kin_nb.core.tools.builtins.grep_matches import COUNTED
from kin_nb.core.tools.builtins.grep_python import files, glob_rule

Count = Callable[[str], Awaitable[int]]
"""How many lines match another pattern; 0 when that can't be told in a short time."""
_SPECIAL = "()[]{}*+?"
_MENDED = 5
"""Characters that are escaped in a suggestion, at most."""
_BASIC = re.compile(r"\\([|+?])")
"""What grep without -E takes for an operator, and a regular expression of Python for the character itself."""
_WALK_SECONDS = 1.0


def escaped(text: str) -> str:
    """A pattern of just this text, for Python and ripgrep alike."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def error_in(pattern: str) -> str | None:
    """What is wrong with a pattern and what to write; None for one that can be used."""
    error = _error(pattern)
    if error is None:
        return None
    mended = pattern
    for _ in range(_MENDED):
        problem = _error(mended)
        if not isinstance(problem, re.error) or problem.pos is None or mended[problem.pos :][:1] not in _SPECIAL:
            break
        mended = f"{mended[: problem.pos]}\\{mended[problem.pos :]}"
    cure = f"To search for it as it is, escape it: {mended}" if _error(mended) is None else "Mend it"
    return f"regex parse error: {error}\n{cure}, or set literal."


def _error(pattern: str) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets in sets, whose meaning may change
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return error
    return None


def _tells_lines_apart(pattern: str) -> bool:
    """Whether it is an expression, and not one that every line matches."""
    return _error(pattern) is None and re.search(pattern, "") is None


async def why_nothing(pattern: str, count: Count, *, literal: bool) -> str:
    """Why no line matches, when that can be seen; "" otherwise."""
    said = []
    if not literal and re.search(r"(?<!\\)(?:\\\\)*\\n", pattern):
        said.append(r"The search goes line by line: \n matches nothing.")
    other = pattern if literal else _BASIC.sub(r"\1", pattern)
    if other != pattern and _tells_lines_apart(other) and (lines := await count(other)):
        marks = " and ".join(sorted({match[0] for match in _BASIC.finditer(pattern)}))
        said.append(f"{marks} is the character itself here; {_many(lines)} {other}")
    elif re.search(r"[A-Z]", re.sub(r"\\.", "", pattern)):
        lines = await count(f"(?i){escaped(pattern) if literal else pattern}")
        if lines:
            how = "write it in small letters" if literal else "begin it with (?i)"
            said.append(f"Its capitals make it heed case; {_many(lines)} it without: {how}.")
    return " ".join(said)


def no_such_files(root: Path, place: str, excludes: list[str], glob: str) -> str:
    """That the glob names no file below `place`, in a sentence; "" when it does, or there are too many to look at."""
    rule, end = glob_rule(glob), time.monotonic() + _WALK_SECONDS
    for file in files(str(root), place, excludes):
        name = file.removeprefix("./")
        below = name.removeprefix(f"{place.removeprefix('./')}/")
        if rule.search(name) or rule.search(below) or time.monotonic() > end:
            return ""
    tip = (
        " A glob with a / counts from the workspace or from path, and ** stands for any folders." if "/" in glob else ""
    )
    return f"No file was searched: none there matches the glob {glob}.{tip}"


def _many(lines: int) -> str:
    return "1 line matches" if lines == 1 else f"{'at least ' if lines >= COUNTED else ''}{lines:,} lines match"
