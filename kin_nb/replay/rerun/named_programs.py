"""Which programs a command line names: a rule about what one prints is for the lines that name it (rules.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from kin_nb.core.safety.shell.carried import simple_commands
from kin_nb.core.safety.shell.simple_command import SimpleCommand, program

UNSEEN = "unseen"
"""Stands for the programs that a script, a Makefile or a package's own commands run: the line does not say which."""

_PYTHON = re.compile(r"python(?:\d+(?:\.\d+)?)?")
_LAUNCHERS = frozenset(("npx", "bunx", "uv", "uvx", "poetry", "pdm", "pipenv", "hatch", "coverage", "pipx"))
_RUN_OTHERS = frozenset(
    (
        "make",
        "gmake",
        "just",
        "task",
        "tox",
        "nox",
        "ninja",
        "npm",
        "yarn",
        "pnpm",
        "bun",
        "pre-commit",
        "hatch",
        "pdm",
        "pipenv",
    )
)
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "source", "."))
_SYSTEM = ("/usr/", "/bin/", "/opt/")


def named_programs(command: str) -> frozenset[str]:
    """Names without folders, of every part of the line; `python3.12` is `python`, and `-m pytest` is `pytest` too."""
    return frozenset(name for found in simple_commands(command) if found.words for name in _names(found))


def _names(command: SimpleCommand) -> Iterator[str]:
    name, words = program(command), command.words[1:]
    path = command.words[0]
    operand = next((word for word in words if not word.startswith("-")), "")
    if _PYTHON.fullmatch(name):
        yield "python"
        yield from _run_by_python(words)
        return
    yield name
    if name in _LAUNCHERS:
        yield from _run_by_launcher(words)
    own = "/" in path and not path.startswith(_SYSTEM) and "/bin/" not in path  # venv/bin/x is a program like any
    if own or name in _RUN_OTHERS or (name in _SHELLS and operand):
        yield UNSEEN


def _run_by_launcher(words: list[str]) -> Iterator[str]:
    """All words that may be a program's name: which of them is one, each launcher has its own rules for."""
    for word in words:
        name = word.rpartition("/")[2]
        if not word.startswith("-"):
            yield "python" if _PYTHON.fullmatch(name) else name
        if name.endswith(".py") or name in _RUN_OTHERS:
            yield UNSEEN


def _run_by_python(words: list[str]) -> Iterator[str]:
    """The modules after `-m` (`-m coverage run -m pytest` names two), or that it runs a file."""
    modules = [after for word, after in pairwise(words) if word == "-m"]
    yield from modules
    if not modules and any(word.endswith(".py") for word in words):
        yield UNSEEN
