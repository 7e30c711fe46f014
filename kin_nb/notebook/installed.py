"""Importing what is installed, not what lies in the folder that a notebook happens to be in.

IPython puts the current folder first on the path. A first prompt must not run an `httpx.py` of a folder that the person
has just opened: kin_nb's late imports are made here once, before the first prompt, with that folder left out.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_LATE = (
    "httpx",
    "httpx_sse",
    "httpcore",
    "anyio",
    "h11",
    "sniffio",
    "yaml",
    "dotenv",
    "nh3",
    "markdown_it",
    "ipywidgets",
    "pygments",
    "pygments.lexers.python",
    "tree_sitter",
    "tree_sitter_bash",
)
_WITH_SERVERS = ("mcp", "httpx2")


def import_installed(*, servers: bool = False) -> None:
    """The modules that a turn imports late; `servers`: also those that MCP servers need. A missing one fails where it is used."""
    here = {"", ".", str(Path.cwd())}
    before = sys.path[:]
    sys.path[:] = [entry for entry in before if entry not in here]
    try:
        for name in (*_LATE, *(_WITH_SERVERS if servers else ())):
            try:
                importlib.import_module(name)
            except ImportError:
                continue
    finally:
        sys.path[:] = before
