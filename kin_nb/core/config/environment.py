"""KIN_* variables as a layer of settings, and the same as files in KIN_SECRETS_DIR (seeds 000 and 003)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from kin_nb.core.config.errors import ConfigError
from kin_nb.core.config.keys import read_secret, secret_files_in, secrets_folder
from kin_nb.core.config.kin_config import KinConfig
from kin_nb.core.config.layers import VariableLayer, plain

PREFIX = "KIN_"
NO_SETTINGS = ("HOME", "RECORDING", "REPLAY", "APPROVAL", "SECRETS", "SCREENSHOTS")
"""KIN_ variables that begin with these mean something else."""

_CLOSE = 0.85


def environment_layer(environ: Mapping[str, str]) -> tuple[VariableLayer, list[str]]:
    """(the layer, warnings). KIN_<FIELD>, in upper or lower case; lists as JSON or separated by commas, tables as JSON.

    Raises ConfigError, naming the variable, for JSON that is none.
    """
    found = {name: value for name, value in environ.items() if name.upper().startswith(PREFIX) and value}
    return _layer({name: (value, name) for name, value in sorted(found.items(), reverse=True)})


def secrets_layer() -> tuple[VariableLayer, list[str]]:
    """The same from files named KIN_<FIELD>."""
    folder = secrets_folder()
    if folder is None:
        return VariableLayer({}, {}), []
    if not folder.is_dir():
        return VariableLayer({}, {}), [f"KIN_SECRETS_DIR: {folder} is no folder."]
    return _layer(dict(_secrets(folder)))


def _secrets(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    for path in reversed(secret_files_in(folder)):
        if path.name.upper().startswith(PREFIX) and (value := read_secret(path)):
            yield path.name, (value, str(path))


def _layer(found: Mapping[str, tuple[str, str]]) -> tuple[VariableLayer, list[str]]:
    """`found`: name -> (value, what errors call it), upper case last: it wins."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    warnings: list[str] = []
    for name, (value, where) in found.items():
        key = name[len(PREFIX) :].lower()
        if key in KinConfig.model_fields:
            values[key] = plain(_read(key, value, where))
            names[key] = where
        elif not key.upper().startswith(NO_SETTINGS):
            warnings += _nearly(key, where)
    return VariableLayer(values, names), warnings


def _nearly(key: str, where: str) -> Iterator[str]:
    """A warning when this looks like a setting: other programs have KIN_ variables too."""
    from difflib import get_close_matches  # noqa: PLC0415  (only for a mistake)

    for near in get_close_matches(key, KinConfig.model_fields, 1, _CLOSE):
        yield f"{where}: is no setting; did you mean {PREFIX}{near.upper()}?"


def _read(key: str, value: str, where: str) -> Any:
    kind = KinConfig.model_fields[key].annotation
    is_plain_list = get_origin(kind) is list and get_args(kind)[0] in {str, Path}
    if is_plain_list and not value.lstrip().startswith("["):
        return [item.strip() for item in value.split(",") if item.strip()]
    if not is_plain_list and get_origin(kind) not in {list, dict} and not hasattr(kind, "model_fields"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ConfigError(f"{where}: {key} must be JSON, and this is not valid JSON.") from None
