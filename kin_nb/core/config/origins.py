"""The reports of `kin-nb config`: the settings that are set, and where each comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from kin_nb.core.config.layers import NAMED, as_lists, entry_name
from kin_nb.core.config.secrets import masker
from kin_nb.core.config.toml_file import KeyPath
from kin_nb.core.config.values import ConfigValues
from kin_nb.core.text import shorten

DEFAULT = "default"
WIDEST = 60
"""Characters of a value in the report."""


@dataclass(frozen=True)
class Origin:
    """The source of one setting.

    `key`: "models.devstral-2.temperature". `value`: secrets are masked. `source`: FILE:LINE, a variable, or "default".
    """

    key: str
    value: Any
    source: str


def config_origins(config: ConfigValues) -> list[Origin]:
    """Return one Origin for each value, in the order of the fields; a list is one value."""
    mask = masker(config)
    origins = []
    for path, value in _leaves((), _values(config)):
        layer = config.layers.layer_of(path)
        source = DEFAULT if layer is None else layer.source(path)
        origins.append(Origin(".".join(map(_toml_key, path)), mask(path, value), source))
    return origins


def origin_report(config: ConfigValues, *, all: bool = False) -> str:  # noqa: A002  (what the option is called)
    """Return a table with the columns key, value and source; defaults only with `all`."""
    origins = [origin for origin in config_origins(config) if all or origin.source != DEFAULT]
    if not origins:
        return "Nothing is set: all settings have their defaults."
    rows = [(origin.key, _short(origin.value), origin.source) for origin in origins]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {source}" for key, value, source in rows)


def config_report(config: ConfigValues) -> str:
    """Return the settings that differ from the defaults, as TOML, with secrets masked."""
    import tomlkit  # noqa: PLC0415  (only for a report)

    mask = masker(config)
    own = _differences(config)
    shown = {key: mask((key,), value) for key, value in own.items()}
    if not shown:
        return "# Nothing is set: all settings have their defaults.\n"
    in_order = sorted(shown.items(), key=lambda item: (isinstance(item[1], Mapping), item[0] in NAMED))
    return tomlkit.dumps(as_lists(dict(in_order)))


def _values(config: ConfigValues) -> dict[str, Any]:
    """Return all settings in TOML types: lists of NAMED by name, and of `[tools.NAME]` only the keys that are set."""
    values = config.model_dump(mode="json", exclude={"tools"})
    tools = {name: tool.model_dump(mode="json", exclude_unset=True) for name, tool in config.tools.items()}
    by_name = {key: {str(entry_name(key, entry)): entry for entry in values[key]} for key in NAMED}
    return {**values, **by_name, "tools": tools}


def _differences(config: ConfigValues) -> dict[str, Any]:
    """Return what differs from the defaults; an entry is compared with the built-in one of its name, if it exists."""
    values, defaults = _values(config), _values(ConfigValues())
    for key in NAMED:
        for name, model in zip(values[key], getattr(config, key), strict=True):
            defaults[key].setdefault(name, _field_defaults(type(model)))
    found = _difference(values, defaults)
    for key, (identity, _) in NAMED.items():
        if key in found:
            found[key] = {name: {identity: name, **entry} for name, entry in found[key].items()}
    return found


def _difference(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    different: dict[str, Any] = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, Mapping):
            value = _difference(value, default if isinstance(default, Mapping) else {})  # noqa: PLW2901
            if value:
                different[key] = value
        elif value != default and value is not None:
            different[key] = value
    return different


def _field_defaults(model: type[BaseModel]) -> dict[str, Any]:
    fields = model.model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}


def _leaves(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, item in value.items():
        yield from _leaves((*path, key), item)


def _toml_key(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part, ensure_ascii=False)


def _short(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), WIDEST)
