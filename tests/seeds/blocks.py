"""The code blocks of the seed documents, numbered as they stand there."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

HERE = Path(__file__).parent


def blocks(seed: str) -> dict[int, str]:
    """The Python blocks of a seed by number, `kin_code` read as `kin_nb`."""
    text = (HERE / f"seed-{seed}.md").read_text(encoding="utf-8").replace("kin_code", "kin_nb")
    return dict(enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), 1))


def parsed(code: str) -> ast.Module | None:
    """The block as a module, None when it is no Python: a sketch with `...` for arguments, or a loose `case`."""
    try:
        return ast.parse(textwrap.dedent(code))
    except SyntaxError:
        return None


def classes(seed: str) -> dict[str, ast.ClassDef]:
    """Every class that a block defines: the first definition of each name."""
    found: dict[str, ast.ClassDef] = {}
    for code in blocks(seed).values():
        module = parsed(code)
        for node in module.body if module else ():
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, node)
    return found
