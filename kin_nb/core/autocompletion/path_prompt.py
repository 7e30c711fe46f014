"""`@path` in a prompt: `@src/main.py`, or `@"with blanks.txt"`.

What starts a mention is an `@` that no letter, digit or part of an address comes before. Whether it is one depends on
the disk alone: `@property` in pasted code and `name@host` name no file and stay plain text.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kin_nb.core.tool_types import ToolError
from kin_nb.core.workspace import Workspace

_LONGEST = 1_000  # letters of a path without quotes
START = r"(?<![A-Za-z0-9_@./%+\-])@"
_MENTION = re.compile(START + rf'(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]\S{{,{_LONGEST - 1}}}))')
_TYPED = re.compile(START + r'(?:"(?P<quoted>[^"\n]*)|(?P<plain>(?:[^\s"]\S*)?))\Z')
_ENDS = re.compile(r"""[,;:!?()\[\]{}<>'"`*|]|\.+(?![\w./\-])""")
"""Characters that may follow a path in a sentence. A path may contain them too: the longest existing path is used."""
_MOST_TRIES = 12


@dataclass(frozen=True)
class PathMention:
    """`text[start:end]` is the mention, `@` and quotes in it; `path` is as written, without them."""

    path: str
    start: int
    end: int


def path_mentions(text: str, root: Path) -> list[PathMention]:
    """The files and folders below `root` that a prompt mentions, in order; one mentioned twice comes twice.

    A mention says that a path is meant, not that it may be read: ask the safety chain as for any reading. What lies
    outside `root`, by name or by symbolic links, is not a mention, since pasted text must not attach such files.
    """
    workspace = Workspace(root)
    mentions = []
    at = 0
    while match := _MENTION.search(text, at):
        at = match.start() + 1
        for path, end in _candidates(match):
            if _exists(path, workspace):
                mentions.append(PathMention(path, match.start(), end))
                at = end
                break
    return mentions


def typed_mention(before_cursor: str) -> tuple[int, str] | None:
    """Where the mention that ends at the cursor has its `@`, and its path so far; None when the cursor is elsewhere."""
    match = _TYPED.search(before_cursor)
    return (match.start(), match["quoted"] or match["plain"] or "") if match else None


def written_mention(path: str) -> str | None:
    """A path as `path_mentions` reads it back, in quotes when it must be; None for the few that can't be written."""
    if not re.search(r"\s", path) and not path.startswith('"') and len(path) <= _LONGEST:
        return f"@{path}"
    return None if '"' in path or "\n" in path else f'@"{path}"'


def _candidates(match: re.Match[str]) -> list[tuple[str, int]]:
    """What a mention may be, and where it then ends: the longest first."""
    if match["quoted"]:
        return [(match["quoted"], match.end())]
    start, plain = match.start("plain"), match["plain"]
    cuts = [cut.start() for cut in islice(_ENDS.finditer(plain), _MOST_TRIES)]
    return [(plain[:cut], start + cut) for cut in (len(plain), *reversed(cuts)) if cut]


def _exists(path: str, workspace: Workspace) -> bool:
    named = os.path.join(workspace.root, path)  # noqa: PTH118  (a Path would expand, and lose a `/` at the end)
    if not os.path.lexists(named):
        return False
    try:
        resolved = workspace.resolve(named)
    except ToolError:
        return False
    return resolved != workspace.root and resolved.is_relative_to(workspace.root) and resolved.exists()
