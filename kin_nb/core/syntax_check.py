"""Check whether the text of a file parses: Python, JSON, TOML, YAML and notebooks. Nothing of the text is executed.

Never raises: a text that cannot be checked counts as one that parses. Messages are one line, for the model and for cards.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePath

from kin_nb.core.text import one_line

LARGEST = 1_000_000
"""Characters of the longest text that is checked."""
_SLOWLY = 100_000
"""The same for YAML without libyaml, whose Python parser takes a minute for a megabyte."""
_LONGEST_MESSAGE = 200
_WITH_COMMENTS = ("tsconfig*.json", "jsconfig*.json", "devcontainer.json", ".devcontainer.json", ".eslintrc.json")
"""JSON files whose programs accept comments and trailing commas; so do all in _FOLDERS_WITH_COMMENTS."""
_FOLDERS_WITH_COMMENTS = frozenset({".vscode", ".devcontainer"})
_TEMPLATE = re.compile(r"(?<!\$)\{\{|\{%")
"""A YAML file with these is the input of a template engine; `${{ }}` of GitHub is plain YAML."""
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")


class _NotParsedError(Exception):
    """The text does not parse: `line`, counted from 1, or None, and what is wrong."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


def syntax_note(name: str, before: str | None, after: str) -> str:
    """One line if `after`, the new text of the file `name`, does not parse; "" if it does, and for other kinds of files.

    `before`: the old text, None for a new file. The line says whether that did not parse either.
    """
    wrong = syntax_error(name, after)
    if not wrong:
        return ""
    either = before is not None and bool(before.strip()) and bool(syntax_error(name, before))
    return f"{wrong} It did not parse before either." if either else wrong


@lru_cache(maxsize=4)  # a change is checked for its preview, for the answer to it, and for its result
def syntax_error(name: str, text: str) -> str:
    """Say why the text of the file `name` does not parse; "" if it does, or if it is not checked."""
    path = PurePath(name)
    kind, check = _CHECKS.get(path.suffix.lower(), ("", None))
    if check is None or len(text) > LARGEST or _allows_comments(path):
        return ""
    with suppress(Exception):  # too deep, too large for the parser: not known to be wrong
        try:
            check(text)
        except _NotParsedError as error:
            place = f" at line {error.line:,}" if error.line is not None else ""
            return f"{name} does not parse as {kind}{place}: {one_line(str(error), _LONGEST_MESSAGE).rstrip('.')}."
    return ""


def _allows_comments(path: PurePath) -> bool:
    if path.suffix.lower() != ".json":
        return False
    named = any(fnmatchcase(path.name.lower(), pattern) for pattern in _WITH_COMMENTS)
    return named or not _FOLDERS_WITH_COMMENTS.isdisjoint(path.parts)


def _python(text: str) -> None:
    try:
        with warnings.catch_warnings():  # about escapes such as "\d": they are not errors
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        raise _NotParsedError(error.lineno, error.msg) from error


def _json(text: str) -> None:
    _parsed_json(text)


def _notebook(text: str) -> None:
    value = _parsed_json(text)
    if not isinstance(value, dict) or not isinstance(value.get("cells"), list):
        raise _NotParsedError(None, 'it has no list "cells"')


def _parsed_json(text: str) -> object:
    try:
        value: object = json.loads(
            text, parse_int=str, parse_float=str
        )  # numbers may have more digits than int() takes
    except json.JSONDecodeError as error:
        raise _NotParsedError(error.lineno, error.msg) from error
    return value


def _toml(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1 if place else None
        raise _NotParsedError(line, _TOML_PLACE.sub("", str(error))) from error


def _yaml(text: str) -> None:
    try:
        import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  (on first use)
    except ImportError:
        return
    loader = getattr(yaml, "CSafeLoader", None)
    if loader is None and len(text) > _SLOWLY:
        return
    try:
        for _ in yaml.parse(text, Loader=loader or yaml.SafeLoader):  # events only: no value is made
            pass
    except yaml.YAMLError as error:
        if _TEMPLATE.search(text):
            return
        mark = getattr(error, "problem_mark", None)
        message = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise _NotParsedError(mark.line + 1 if mark is not None else None, message) from error


_CHECKS: Mapping[str, tuple[str, Callable[[str], None]]] = {
    ".py": (f"Python {sys.version_info.major}.{sys.version_info.minor}", _python),
    ".json": ("JSON", _json),
    ".ipynb": ("a notebook", _notebook),
    ".toml": ("TOML", _toml),
    ".yaml": ("YAML", _yaml),
    ".yml": ("YAML", _yaml),
}
