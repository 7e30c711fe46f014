"""Why arguments do not fit a tool, for the model that wrote them: also which name it may have mistaken for another."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError

_LONGEST_NAME = 60
_SHOWN = 5
_PART = 3
"""Characters from which a part of a name is taken for the name."""


def what_is_wrong(model: type[BaseModel], raw: dict[str, Any], error: ValidationError) -> str:
    """One line for each wrong argument. Names only: no value that was given is repeated."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    missing = [str(p["loc"][0]) for p in problems if p["type"] == "missing" and len(p["loc"]) == 1]
    unknown = [_short(name) for name in raw if name not in set(_taken(model))][:_SHOWN]
    meant = _meant(missing, unknown)
    lines = []
    for problem in problems:
        where = ".".join(map(str, problem["loc"])) or "arguments"
        if where in meant:
            lines.append(f"{where}: required (you gave `{meant[where]}`; this tool calls it `{where}`)")
        else:
            lines.append(f"{where}: {'required' if problem['type'] == 'missing' else problem['msg']}")
    others = [f"`{name}`" for name in unknown if name not in meant.values()]
    if missing and others:
        lines.append(f"unknown: {', '.join(others)}; this tool takes {', '.join(model.model_fields)}")
    return "\n".join(lines)


def _meant(missing: list[str], unknown: list[str]) -> dict[str, str]:
    """For arguments that are missing, the unknown one that stands for it: the only one there is, or one much like it."""
    if len(missing) == len(unknown) == 1:
        return {missing[0]: unknown[0]}
    left = list(unknown)
    found = {}
    for name in missing:
        alike = [other for other in left if name in other or (len(other) >= _PART and other in name)]
        alike = alike or difflib.get_close_matches(name, left, n=1)
        if alike:
            found[name] = alike[0]
            left.remove(alike[0])
    return found


def _taken(model: type[BaseModel]) -> Iterator[str]:
    """Every name that an argument may be given by."""
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            yield from (choice for choice in alias.choices if isinstance(choice, str))
        else:
            yield alias if isinstance(alias, str) else name


def _short(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name[:_LONGEST_NAME])
