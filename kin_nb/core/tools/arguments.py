"""A tool's arguments: their JSON Schema, the description of errors in them, and validated ones as JSON values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, RootModel, ValidationError
from pydantic.fields import FieldInfo

_DEFINITION = "#/$defs/"
_VALUES = frozenset({"default", "const", "enum", "examples"})
"""Keywords whose content is data: nothing in it is a schema."""


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of the arguments, as small as possible.

    It has no titles, no `null` for optional arguments and no references, which not every provider follows; only recursive
    definitions stay in `$defs`. Raises pydantic's errors for arguments without a JSON Schema.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    smaller = _Smaller(definitions)
    result: dict[str, Any] = smaller.schema(definitions.get(_referred(schema), schema))
    return result | ({"$defs": smaller.kept} if smaller.kept else {})


class _Smaller:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._recursive = {name for name in definitions if name in _reached(definitions[name], definitions)}
        self.kept: dict[str, Any] = {}

    def schema(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.schema(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        schema = _without_null(schema)
        name = _referred(schema)
        if name in self._recursive:
            self._keep(name)
        elif name in self._definitions:
            own = {key: value for key, value in schema.items() if key != "$ref"}
            return self.schema(self._definitions[name] | own)
        return {key: self._keyword(key, value) for key, value in schema.items() if not _is_noise(key, value)}

    def _keyword(self, key: str, value: Any) -> Any:
        if key in _VALUES:
            return value
        if key in ("properties", "patternProperties") and isinstance(value, dict):
            return {name: self.schema(sub) for name, sub in value.items()}
        return self.schema(value)

    def _keep(self, name: str) -> None:
        if name not in self.kept:
            self.kept[name] = {}  # reserved first: the definition may refer to itself
            self.kept[name] = self.schema(self._definitions[name])


def _is_noise(key: str, value: Any) -> bool:
    """Titles repeat the property's name and take half of a schema's bytes. JSON Schema has no keyword `discriminator`."""
    return (key == "title" and isinstance(value, str)) or key == "discriminator"


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Turn `X | None = None` into an optional X."""
    options = schema.get("anyOf")
    if "default" not in schema or schema["default"] is not None or not isinstance(options, list):
        return schema
    others = [option for option in options if option != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**others[0], **rest} if len(others) == 1 else {**rest, "anyOf": others}


def _referred(schema: Any) -> str:
    """The name of the definition that a schema refers to, "" without a reference."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    return reference.removeprefix(_DEFINITION) if isinstance(reference, str) else ""


def _reached(schema: Any, definitions: dict[str, Any]) -> set[str]:
    """The names of all definitions that a schema leads to."""
    found: set[str] = set()
    open_ends = [schema]
    while open_ends:
        part = open_ends.pop()
        open_ends += part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
        name = _referred(part)
        if name in definitions and name not in found:
            found.add(name)
            open_ends.append(definitions[name])
    return found


_LONGEST_NAME = 60
_SHOWN = 5
_PART = 3
"""Shortest part of a name (in characters) that counts as the name."""


def describe_argument_errors(model: type[BaseModel], raw: dict[str, Any], error: ValidationError) -> str:
    """Describe each wrong argument on one line. Only names are repeated, never values."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    missing = [str(p["loc"][0]) for p in problems if p["type"] == "missing" and len(p["loc"]) == 1]
    unknown = [_short(name) for name in raw if name not in set(_taken(model))][:_SHOWN]
    meant = _meant(missing, unknown)
    lines = []
    for problem in problems:
        where = ".".join(map(str, problem["loc"])) or "arguments"
        if where in meant:
            lines.append(f"{where}: required (you gave `{meant[where]}`; use `{where}`)")
        else:
            lines.append(f"{where}: {'required' if problem['type'] == 'missing' else problem['msg']}")
    others = [f"`{name}`" for name in unknown if name not in meant.values()]
    if missing and others:
        lines.append(f"unknown: {', '.join(others)}. Arguments of this tool: {', '.join(model.model_fields)}")
    return "\n".join(lines)


def _meant(missing: list[str], unknown: list[str]) -> dict[str, str]:
    """Match missing arguments with unknown ones: the only one, or one with a similar name."""
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


def raw_arguments(args: BaseModel) -> dict[str, Any]:
    """Return validated arguments as JSON values that can be validated again, by their input names.

    Static defaults are left out, since they need not be valid. A default from a factory is kept, since the next one would differ.
    """
    if isinstance(args, RootModel):
        found: dict[str, Any] = args.model_dump(mode="json")
        return found
    fields = type(args).model_fields
    made = {name for name, field in fields.items() if field.default_factory is not None}
    values = args.model_dump(mode="json", by_alias=True, include={*args.model_fields_set, *made})
    for name, field in fields.items():
        dumped, names = field.serialization_alias or name, _names(name, field)
        if dumped in values and names and dumped not in names:
            values[names[0]] = values.pop(dumped)
    return values


def _taken(model: type[BaseModel]) -> Iterator[str]:
    """Every input name of the arguments."""
    for name, field in model.model_fields.items():
        yield from _names(name, field)


def _names(name: str, field: FieldInfo) -> list[str]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [alias if isinstance(alias, str) else name]


def _short(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name[:_LONGEST_NAME])
