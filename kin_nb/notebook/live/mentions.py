"""What a prompt mentions with @: variables, files and folders, the last error. All else with @ is text."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kin_nb.core.autocompletion.path_prompt import START, path_mentions

ERROR = "error"
# `@app.route(...)` and `@cache` above a function are pasted code; `@data/raw.csv` is a path, if it is anything
_NAME = re.compile(START + r"(?P<name>[^\W\d]\w*)(?![\w(@/\\]|\.\w)")


@dataclass(frozen=True)
class Mention:
    kind: Literal["variable", "path", "error"]
    name: str


def mentions(prompt: str, variables: Container[str], root: Path, *, has_failed: bool) -> list[Mention]:
    """Each once, in order. Where a variable and a path begin at one @, the longer name is meant, and of equals the variable.

    `has_failed`: there is a last error, so that `@error` means that and no variable of this name.
    """
    found: dict[int, tuple[int, Mention]] = {}
    for path in path_mentions(prompt, root):
        found[path.start] = (path.end, Mention("path", path.path))
    for match in _NAME.finditer(prompt):
        name, start, end = match["name"], match.start(), match.end()
        is_error = name == ERROR and has_failed
        if (is_error or name in variables) and end >= found.get(start, (0, None))[0]:
            found[start] = (end, Mention("error" if is_error else "variable", name))
    return list(dict.fromkeys(mention for _, (_, mention) in sorted(found.items(), key=lambda item: item[0])))
